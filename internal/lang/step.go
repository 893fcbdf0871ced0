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

	// Print is Table for a step that is there, so that no list of kinds is needed; nil is
	// Table.
	Print func(Step) spec.Table
}

// stepKind returns a kind whose steps are read by a form.
func stepKind[T any, P interface {
	*T
	Step
}](name string, affects spec.Affects, form spec.Form[T], example, help string) StepKind {
	return StepKind{
		Name: name, Affects: affects, Example: example, Help: help,
		New: func() Step { return P(new(T)) }, Table: func(Kinds) spec.Table { return spec.TableBy(form) },
	}
}

// Steps are the kinds of steps, in the order of the reference page.
var Steps = []*StepKind{
	&letKind, &featuresKind, &lookupKind, &scoreKind, &callKind, &routeKind, &groupKind, &decideKind, &emitKind, &fetchKind,
}

// StepKind implements Step.
func (*Let) StepKind() *StepKind { return &letKind }

var letKind = stepKind("let", spec.Outputs, spec.Into(func(l *Let) *[]Binding { return &l.List }, readBindings),
	`{large: "amount > 100"}`, "names, each the value of an expression")

// StepKind implements Step.
func (*Decide) StepKind() *StepKind { return &decideKind }

var decideKind = stepKind("decide", spec.Outputs, spec.Into(func(d *Decide) *[]Binding { return &d.List }, readBindings),
	`{action: 'fraud.score > 0.9 ? "block" : "allow"'}`, "like `let`; the names are what `emit` writes where it does not say what")

// StepKind implements Step.
func (*Features) StepKind() *StepKind { return &featuresKind }

var featuresKind = stepKind("features", spec.State, spec.Into(func(f *Features) *[]Feature { return &f.List }, readFeatures),
	"{spend: {value: amount, windows: [60s, 24h], aggregates: [count, sum]}}", "names, each a feature of the event's key")

// StepKind implements Step.
func (*Score) StepKind() *StepKind { return &scoreKind }

var scoreKind = stepKind("score", spec.State, readScore, "{model: fraud, inputs: [spend.*, amount]}", "calls a model")

// StepKind implements Step.
func (*Call) StepKind() *StepKind { return &callKind }

var callKind = stepKind("call", spec.State, readCall, "{go: language, inputs: [text], outputs: {lang: string}}", "calls a function in Go")

// StepKind implements Step.
func (*Route) StepKind() *StepKind { return &routeKind }

var routeKind = stepKind("route", spec.State, spec.Into(func(r *Route) *[]Case { return &r.Cases }, readCases),
	"{small: {when: amount < 10, steps: drop}, default: dlq}",
	"cases: an event takes the first whose condition holds, and what no case takes goes to the last, `default`")

// StepKind implements Step.
func (*Group) StepKind() *StepKind { return &groupKind }

var groupKind = stepKind("group", spec.State, readGroup,
	"{name: parts, by: call, order: part, end: last, idle: 60s}", "events that are collected until they are whole, and go on as one")

// StepKind implements Step.
func (*Emit) StepKind() *StepKind { return &emitKind }

var emitKind = stepKind("emit", spec.Outputs, readEmit, "{topic: decisions, value: [tx, fraud.score, action]}", "writes an output record")

// StepKind implements Step.
func (*Fetch) StepKind() *StepKind { return &fetchKind }

var fetchKind = stepKind("fetch", spec.State, readFetch, "{name: shot, url: url, max: 10MB}", "brings the content that a URL names, of a file, of an object of S3 or by HTTPS, off the loop, and records its hash: content that is another when it is needed again makes a dead letter")

// StepKind implements Step.
func (*Lookup) StepKind() *StepKind { return &lookupKind }

var lookupKind = StepKind{
	Name: "lookup", Affects: spec.State, Example: "{name: profile, table: users, key: user, fields: {trusted: bool}, empty: {trusted: false}}", Help: "finds the row of a key, a JSON object: in a table of the log, or outside of it",
	New: func() Step { return new(Lookup) }, Table: func(k Kinds) spec.Table { return spec.TableBy(k.lookupForm()) },
	Print: func(s Step) spec.Table { return spec.Fields(s.(*Lookup).fields()) },
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
	for _, kind := range Steps {
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
