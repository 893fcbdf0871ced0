package lang

import (
	"errors"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/spec"
)

// StepKind describes a kind of step.
type StepKind struct {
	Name    string // the word of the file
	Affects spec.Affects
	Example string
	Help    string

	// New returns an empty step of the kind.
	New func() Step

	// Table returns the table that reads the value of the step's field into the result of New, and
	// that prints a step. It fails if kinds that such a step may name are invalid.
	Table func(Kinds) (spec.Table, error)

	// Print returns the table that prints an existing step, which needs no list of kinds. If Print
	// is nil, Table is used.
	Print func(Step) spec.Table
}

// KindOf returns a kind. The form reads its steps.
func KindOf[T any, P interface {
	*T
	Step
}](name string, affects spec.Affects, form spec.Form[T], example, help string) StepKind {
	return StepKind{
		Name: name, Affects: affects, Example: example, Help: help,
		New: func() Step { return P(new(T)) }, Table: func(Kinds) (spec.Table, error) { return spec.TableBy(form), nil },
	}
}

// field returns the field that chooses the kind and is read by a table.
func (kind *StepKind) field(table spec.Table) spec.Field[Step] {
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
	return spec.Field[Step]{Name: kind.Name, Affects: kind.Affects, Form: spec.Chosen(begin, written, table), Example: kind.Example, Help: kind.Help}
}

// printedStep prints a step of any kind.
var printedStep = spec.Form[Step]{Print: func(p *spec.Printer, path string, s *Step) {
	kind := (*s).StepKind()
	spec.MappingOf([]spec.Field[Step]{kind.field(kind.printed(*s))}).Print(p, path, s)
}}

// printed returns the table that prints a step.
func (kind *StepKind) printed(s Step) spec.Table {
	if kind.Print != nil {
		return kind.Print(s)
	}
	table, err := kind.Table(Kinds{})
	if err != nil {
		panic(err) // a step without Print names no kinds
	}
	return table
}

// stepForm returns the form of a step. The error lists the invalid kinds that steps name.
func (k Kinds) stepForm() (form spec.Form[Step], err error) {
	var fields []spec.Field[Step]
	var errs []error
	for _, kind := range k.Steps {
		table, err := kind.Table(k)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fields = append(fields, kind.field(table))
	}
	f := spec.MappingOf(fields)
	f.Shape.Kind = spec.AStep
	return spec.Form[Step]{Read: func(r *spec.Reader, n *spec.Node, path string, into *Step) {
		if n.Kind == spec.Mapping && len(n.Entries) > 1 {
			first, second := n.Entries[0], n.Entries[1]
			hint := fmt.Sprintf("indent %s below %s", spec.Shorten(second.Key), spec.Shorten(first.Key))
			if slices.ContainsFunc(fields, func(w spec.Field[Step]) bool { return w.Name == second.Key }) {
				hint = fmt.Sprintf("write `- %s: ...` as a separate step", second.Key)
			}
			r.Fail(second.Offset, path, fmt.Sprintf("a step is one word, and %s is its second", spec.Shorten(second.Key)), hint)
			return
		}
		f.Read(r, n, path, into)
	}, Print: printedStep.Print, Shape: f.Shape}, errors.Join(errs...)
}
