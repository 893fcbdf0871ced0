package lang

import (
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/spec"
)

// StepKind is a kind of steps.
type StepKind struct {
	Name    string // the word of the file
	Affects spec.Affects
	Example string
	Help    string

	// New returns a step of the kind that says nothing.
	New func() Step

	// Table reads what stands behind the word into what New returns, and prints a step.
	Table func(Kinds) spec.Table

	// Check returns what is wrong with kinds that steps of this one name; nil needs none.
	Check func(Kinds) error

	// Print is Table for a step that is there, so that no list of kinds is needed; nil is
	// Table.
	Print func(Step) spec.Table
}

// KindOf returns a kind whose steps are read by a form.
func KindOf[T any, P interface {
	*T
	Step
}](name string, affects spec.Affects, form spec.Form[T], example, help string) StepKind {
	return StepKind{
		Name: name, Affects: affects, Example: example, Help: help,
		New: func() Step { return P(new(T)) }, Table: func(Kinds) spec.Table { return spec.TableBy(form) },
	}
}

// field returns the field of a step that chooses the kind.
func (kind *StepKind) field(k Kinds) spec.Field[Step] {
	begin := func(s *Step) any {
		*s = kind.New()
		return *s
	}
	written := func(s *Step) any {
		if *s == nil || (*s).StepKind().Name != kind.Name {
			return nil
		}
		return *s
	}
	return spec.Field[Step]{Name: kind.Name, Affects: kind.Affects, Form: spec.Chosen(begin, written, kind.Table(k)), Example: kind.Example, Help: kind.Help}
}

// printedStep prints a step of any kind.
var printedStep = spec.Form[Step]{Print: func(p *spec.Printer, path string, s *Step) {
	kind := *(*s).StepKind()
	if kind.Print != nil {
		table := kind.Print(*s)
		kind.Table = func(Kinds) spec.Table { return table }
	}
	spec.MappingOf([]spec.Field[Step]{kind.field(Kinds{})}).Print(p, path, s)
}}

// StepForm reads one step: a mapping of one word. It prints a step of any kinds.
func (k Kinds) StepForm() spec.Form[Step] {
	var fields []spec.Field[Step]
	for _, kind := range k.Steps {
		fields = append(fields, kind.field(k))
	}
	f := spec.MappingOf(fields)
	f.Shape.Kind = spec.AStep
	return spec.Form[Step]{Read: func(r *spec.Reader, n *spec.Node, path string, into *Step) {
		if n.Kind == spec.Mapping && len(n.Entries) > 1 {
			first, second := n.Entries[0], n.Entries[1]
			hint := fmt.Sprintf("indent %s below %s", spec.Shorten(second.Key), spec.Shorten(first.Key))
			if slices.ContainsFunc(fields, func(w spec.Field[Step]) bool { return w.Name == second.Key }) {
				hint = fmt.Sprintf("write `- %s: ...` as a step of its own", second.Key)
			}
			r.Fail(second.Offset, path, fmt.Sprintf("a step is one word, and %s is its second", spec.Shorten(second.Key)), hint)
			return
		}
		f.Read(r, n, path, into)
	}, Print: printedStep.Print, Shape: f.Shape}
}
