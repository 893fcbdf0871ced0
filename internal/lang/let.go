package lang

import (
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Let introduces names, in order.
type Let struct{ List []Binding }

// Decide is Let whose names are what an emit without a value writes.
type Decide struct{ List []Binding }

// StepKind implements Step.
func (*Let) StepKind() *StepKind { return &letKind }

var letKind = KindOf("let", spec.Outputs, spec.Into(func(l *Let) *[]Binding { return &l.List }, ReadBindings),
	`{large: "amount > 100"}`, "names, each the value of an expression")

// StepKind implements Step.
func (*Decide) StepKind() *StepKind { return &decideKind }

var decideKind = KindOf("decide", spec.Outputs, spec.Into(func(d *Decide) *[]Binding { return &d.List }, ReadBindings),
	`{action: 'fraud.score > 0.9 ? "block" : "allow"'}`, "like `let`; the names are what `emit` writes where it does not say what")

// Declare implements Step.
func (l *Let) Declare(d *Declared) { d.AddBindings(l.List) }

// Effect implements Step.
func (*Let) Effect() Effects { return Effects{InFailure: true} }

// Bindings returns the names that it introduces, for what reads them.
func (l *Let) Bindings() []Binding { return l.List }

// Declare implements Step.
func (d *Decide) Declare(to *Declared) { to.AddBindings(d.List) }

// Effect implements Step.
func (*Decide) Effect() Effects { return Effects{InFailure: true} }

// Bindings returns the names that it introduces, for what reads them.
func (d *Decide) Bindings() []Binding { return d.List }

// Decided returns the names that an emit without a value writes.
func (d *Decide) Decided() []Binding { return d.List }

// Bind implements Step.
func (l *Let) Bind(s *Scope, path string) { bindLet(s, l, path, l.List) }

// Empty reports whether it says nothing.
func (l *Let) Empty() bool { return l.List == nil }

// Bind implements Step.
func (d *Decide) Bind(s *Scope, path string) { bindLet(s, d, path, d.List) }

// Empty reports whether it says nothing.
func (d *Decide) Empty() bool { return d.List == nil }

// bindLet resolves the expressions of a let or decide.
func bindLet(s *Scope, step Step, path string, list []Binding) {
	var assigns []operator.Assign
	for _, b := range list {
		at := path + "." + b.Name
		if !s.Identifier(at, b.Name) {
			continue
		}
		program := s.Expr(at, b.Expr)
		if program == nil {
			s.Names.Broken[b.Name] = true
			continue
		}
		slot, ok := s.Make(at, b.Name, program.Type())
		if ok {
			assigns = append(assigns, operator.Assign{Name: b.Name, Slot: slot, Program: program})
		}
	}
	programs := make([]*expression.Program, len(assigns))
	for i := range assigns {
		programs[i] = assigns[i].Program
	}
	s.Add(step, path, Ready(&operator.Let{Kind: step.StepKind().Name, List: assigns}, Place{Waves: s.Fed(programs...)}))
}
