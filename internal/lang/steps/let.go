package steps

import (
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Let computes expressions and gives each a name, in order.
type Let struct{ List []lang.Binding }

// Decide computes expressions and gives each a name, in order. An emit without a value writes these
// names.
type Decide struct{ List []lang.Binding }

// StepKind implements Step.
func (*Let) StepKind() *lang.StepKind { return &letKind }

var letKind = lang.KindOf("let", spec.Outputs, spec.Into(func(l *Let) *[]lang.Binding { return &l.List }, lang.ReadBindings),
	`{large: "amount > 100"}`, "names, each the value of an expression")

// StepKind implements Step.
func (*Decide) StepKind() *lang.StepKind { return &decideKind }

var decideKind = lang.KindOf("decide", spec.Outputs, spec.Into(func(d *Decide) *[]lang.Binding { return &d.List }, lang.ReadBindings),
	`{action: 'fraud.score > 0.9 ? "block" : "allow"'}`, "like `let`; an `emit` without `value` writes these names")

// Declare implements Step.
func (l *Let) Declare(d *lang.Declared) { d.AddBindings(l.List) }

// Effect implements Step.
func (*Let) Effect() lang.Effects { return lang.Effects{InFailure: true} }

// Bindings returns the names that the step introduces, with their expressions.
func (l *Let) Bindings() []lang.Binding { return l.List }

// Declare implements Step.
func (d *Decide) Declare(to *lang.Declared) { to.AddBindings(d.List) }

// Effect implements Step.
func (*Decide) Effect() lang.Effects { return lang.Effects{InFailure: true} }

// Bindings returns the names that the step introduces, with their expressions.
func (d *Decide) Bindings() []lang.Binding { return d.List }

// Decided returns the names that an emit without a value writes.
func (d *Decide) Decided() []lang.Binding { return d.List }

// Bind implements Step.
func (l *Let) Bind(s *lang.Scope, path string) { bindLet(s, l, path, l.List) }

// Empty reports whether the step has no names.
func (l *Let) Empty() bool { return l.List == nil }

// Bind implements Step.
func (d *Decide) Bind(s *lang.Scope, path string) { bindLet(s, d, path, d.List) }

// Empty reports whether the step has no names.
func (d *Decide) Empty() bool { return d.List == nil }

// bindLet resolves the expressions of a let or decide.
func bindLet(s *lang.Scope, step lang.Step, path string, list []lang.Binding) {
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
	s.Add(step, path, lang.Ready(&operator.Let{Kind: step.StepKind().Name, List: assigns}, lang.Place{Waves: s.Fed(programs...)}))
}
