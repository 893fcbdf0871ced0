package steps

import (
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Stage is the step of a stage of another key. It counts requests for features, and the delayed
// values of events. The compiler creates it; no file contains it.
type Stage struct {
	By      string
	List    []*Feature // features with By
	Columns []value.Slot
}

// StepKind implements Step.
func (*Stage) StepKind() *lang.StepKind { return &featuresKind }

// Declare implements Step.
func (*Stage) Declare(*lang.Declared) {}

// Effect implements Step.
func (*Stage) Effect() lang.Effects { return lang.Effects{} }

// Keeps implements Keeper.
func (g *Stage) Keeps(m *lang.Meaning) (parts []lang.Part) {
	for _, f := range g.List {
		parts = append(parts, lang.Part{Kind: generation.KindFeature, Name: f.Name, Text: lang.PartOf(m, g, featureFields, f)})
	}
	return parts
}

// Bind implements Step.
func (g *Stage) Bind(s *lang.Scope, path string) {
	b := &boundStage{}
	for _, f := range g.List {
		at := path + "." + f.Name
		spec, ok := f.bindShape(s, at)
		if !ok {
			return
		}
		m := &boundFeature{path: at, feature: f, spec: spec}
		if f.Delay != 0 {
			m.declared()
			slot, _ := s.Make(at, "said."+f.Name, value.Type{Kind: m.kind, Optional: true})
			m.value = s.Expr(at, slot.Name+" ?? "+anyOf[m.kind], m.kind)
			m.when = s.Expr(at, slot.Name+" != null", value.Bool)
			b.said = append(b.said, operator.Said{Feature: f.Name, Slot: slot})
		} else if !m.contribution(s) {
			return
		}
		if m.columns, ok = f.columns(s, at, m.spec, m.kind); !ok {
			return
		}
		b.list = append(b.list, m)
		g.Columns = append(g.Columns, m.columns...)
	}
	s.Add(g, path, b)
}

// anyOf holds a value of each kind that an event may send with a delay.
var anyOf = map[value.Kind]string{value.Number: "0.0", value.Int: "0", value.Bool: "false", value.String: `""`, value.Time: "meta.time"}

type boundStage struct {
	list []*boundFeature
	said []operator.Said
}

// Place implements Bound.
func (b *boundStage) Place() lang.Place {
	p := lang.Place{Adds: true, Rest: true}
	for _, m := range b.list {
		p.Keeps = append(p.Keeps, lang.Kept{Path: m.path})
	}
	return p
}

// Lower implements Bound.
func (b *boundStage) Lower(p *lang.Plan, _ lang.At) operator.Operator {
	var asks, turns []operator.Feature
	for _, m := range b.list {
		delayed := m.feature.Delay != 0
		asks = append(asks, m.lower(p, false, true, !delayed))
		if delayed {
			turns = append(turns, m.lower(p, false, false, true))
		}
	}
	op := &operator.Stage{Asks: operator.NewFeatures(asks), Said: b.said}
	if turns != nil {
		op.Turns = operator.NewFeatures(turns)
	}
	return op
}

// Projected returns the fields that features of a stage use, directly or through lets. It also
// returns these lets in the order of the file.
func Projected(p *lang.Pipeline, list []*Feature, field func(string) bool) (fields map[string]bool, lets []lang.Step) {
	fields, used := map[string]bool{}, map[string]bool{}
	var use func(source string)
	use = func(source string) {
		for _, name := range expression.NamesIn(source) {
			if field(name) {
				fields[name] = true
			} else if expr, ok := Bound(p, name); ok && !used[name] {
				used[name] = true
				use(expr)
			}
		}
	}
	for _, f := range list {
		fields[f.By] = true
		if f.Delay == 0 {
			use(f.Value)
			use(f.Per)
			use(f.When)
		}
	}
	for _, s := range p.Steps {
		names, ok := s.(interface{ Bindings() []lang.Binding })
		if !ok {
			continue
		}
		let := &Let{}
		for _, b := range names.Bindings() {
			if used[b.Name] {
				let.List = append(let.List, b)
			}
		}
		if let.List != nil {
			lets = append(lets, let)
		}
	}
	return fields, lets
}

// WithHome returns a pipeline with a repartition topic of the given number of partitions, if stages
// of other keys answer its events. The stages write their answers to that topic.
func WithHome(p lang.Pipeline, partitions int32) lang.Pipeline {
	if len(p.Inputs) > 0 || p.Input.Repartition != 0 {
		return p
	}
	for range Asked(&p) {
		p.Input.Repartition = partitions
	}
	return p
}
