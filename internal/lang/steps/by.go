package steps

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Asked yields the features of a pipeline that have By, with their paths. A stage of another key
// computes them. They stand outside routes.
func Asked(p *lang.Pipeline) iter.Seq2[string, *Feature] {
	return func(yield func(string, *Feature) bool) {
		for at, s := range p.Steps {
			f, ok := s.(*Features)
			for i := 0; ok && i < len(f.List); i++ {
				path := fmt.Sprintf("steps[%d].features.%s", at, f.List[i].Name)
				if f.List[i].By != "" && !yield(path, &f.List[i]) {
					return
				}
			}
		}
	}
}

// bindAsked binds the features of a step that have By.
func (f *Features) bindAsked(s *lang.Scope, path string) {
	var made []*boundAsked
	for i := range f.List {
		of := &f.List[i]
		if of.By == "" {
			continue
		}
		m := of.bindAsked(s, path+"."+of.Name)
		if m == nil {
			s.Names.Broken[of.Name], s.Names.Broken[of.Name+".*"] = true, true
			continue
		}
		made = append(made, m)
		switch {
		case m.waits != nil:
			s.Defer(f, m.path, m)
		case of.Delay != 0:
			s.Add(f, m.path, m.BindLate(s, nil))
		}
	}
	if len(made) > 0 {
		s.Add(f, path, boundAnswers(made))
	}
}

// boundAsked is a feature that a stage of another key computes. Its columns have names.
type boundAsked struct {
	boundFeature
	by value.Slot
}

// bindAsked introduces the columns of a feature with By. It returns nil if the feature is invalid.
func (f *Feature) bindAsked(s *lang.Scope, path string) *boundAsked {
	before := len(s.Errs)
	if !s.Identifier(path, f.Name) {
		return nil
	}
	spec, ok := f.bindShape(s, path)
	by := f.bindBy(s, path+".by")
	if !ok || !f.standsAbove(s, path) {
		return nil
	}
	m := &boundAsked{boundFeature{path: path, feature: f, spec: spec}, by}
	var names, words []string // words[i] is the field of the file that contains names[i]
	for _, of := range [][2]string{{"value", f.Value}, {"per", f.Per}, {"when", f.When}} {
		names = append(names, expression.NamesIn(of[1])...)
		words = append(words, slices.Repeat([]string{of[0]}, len(names)-len(words))...)
	}
	for _, name := range names {
		if _, known := s.Names.Lookup(name); !known && (s.Names.Later[name] || s.Names.IsBroken(name)) {
			m.waits = append(m.waits, name)
		}
	}
	at := slices.IndexFunc(names, func(name string) bool {
		return !OfFields(s.Pipeline, name, s.IsField) && (s.Names.Later[name] || known(s, name))
	})
	switch {
	case f.Delay == 0 && at >= 0:
		s.Fail(path+"."+words[at], "%q is not known to the stage by %s when it counts an event", names[at], f.By)
		s.Hint("use fields and lets of fields alone" + map[bool]string{true: ", or write delay: 1s: later events then see the value after that time"}[words[at] != "per"])
	case f.Delay == 0:
		m.contribution(s)
	case at < 0:
		s.Fail(path+".delay", "value and when use only fields, which are known at once")
		s.Hint("remove it")
	case f.Overflow == "dlq":
		s.Fail(path+".overflow", "with delay: the event has ended when it is counted, so it cannot be refused")
		s.Hint("remove it")
	case f.Per != "":
		s.Fail(path+".per", "with delay: an event has its value later, but its group must be known at once")
		s.Hint("write a feature for each group, with when")
	default:
		m.declared()
	}
	if len(s.Errs) > before {
		return nil
	}
	if m.columns, ok = f.columns(s, path, m.spec, m.kind); !ok {
		return nil
	}
	return m
}

// declared takes the kind of values from the file, because the value expression is bound later.
func (m *boundFeature) declared() {
	kind, _ := value.ParseType(cmp.Or(m.feature.Type, value.Number.String()))
	m.keep(kind.Kind)
}

// bindBy resolves and checks the field in By.
func (f *Feature) bindBy(s *lang.Scope, path string) value.Slot {
	slot, ok := s.FieldNamed(path, "input", f.By)
	if !ok {
		return slot
	}
	if slot.Type.Kind != value.String && slot.Type.Kind != value.Int {
		s.Fail(path, "field %q is of type %v: a feature is by a string or int", f.By, slot.Type)
		s.Mistyped(f.By, value.String)
	}
	keyed := true
	for _, in := range s.Pipeline.EachInput() {
		keyed = keyed && in.Key == f.By
	}
	if keyed {
		s.Fail(path, "%q is the key already", f.By)
		s.Hint("remove it")
	}
	return slot
}

// standsAbove reports a feature below a step that may end the event or make it wait. The stage
// counts an event when it is read, so the feature must stand above such steps.
func (f *Feature) standsAbove(s *lang.Scope, path string) bool {
	if len(s.Guards) > 0 {
		s.Fail(path, "in a case of a route: a feature by %s counts events when they are read", f.By)
		s.Hint("write it above the route, with the condition of the case as when")
		return false
	}
	for i := range s.Nodes {
		switch step := s.Nodes[i].Step.(type) {
		case *Let, *Decide, *Features, *Emit:
			continue
		case *Lookup:
			if step.Table != "" {
				continue
			}
		}
		s.Fail(path, "below %s: a feature by %s counts events when they are read", s.Nodes[i].Path, f.By)
		s.Hint("write it above")
		return false
	}
	return true
}

func known(s *lang.Scope, name string) bool {
	_, ok := s.Names.Lookup(name)
	return ok
}

// OfFields reports whether a name is known when an event is read: a field, a constant, or a let
// outside routes that uses only such names.
func OfFields(p *lang.Pipeline, name string, field func(string) bool) bool {
	if field(name) || slices.ContainsFunc(p.Constants, func(c spec.Constant) bool { return c.Name == name }) {
		return true
	}
	expr, ok := Bound(p, name)
	if !ok {
		return false
	}
	for _, of := range expression.NamesIn(expr) {
		if of == name || !OfFields(p, of, field) {
			return false
		}
	}
	return true
}

// Bound returns the expression of a let or decide that stands outside routes.
func Bound(p *lang.Pipeline, name string) (expr string, ok bool) {
	for _, s := range p.Steps {
		names, is := s.(interface{ Bindings() []lang.Binding })
		if !is {
			continue
		}
		for _, b := range names.Bindings() {
			if b.Name == name {
				return b.Expr, true
			}
		}
	}
	return "", false
}

// boundAnswers are the columns of features that stages of other keys compute.
type boundAnswers []*boundAsked

// Place implements Bound.
func (boundAnswers) Place() lang.Place { return lang.Place{Rest: true} }

// Lower implements Bound.
func (b boundAnswers) Lower(*lang.Plan, lang.At) operator.Operator {
	var list []operator.Answered
	for _, m := range b {
		list = append(list, operator.Answered{Feature: m.feature.Name, By: m.by, Columns: m.columns, Empty: m.spec.Empty})
	}
	return operator.NewAnswers(list)
}

// Joins implements Deferred.
func (m *boundAsked) Joins(lang.Deferred) bool { return false }

// BindLate implements Deferred.
func (m *boundAsked) BindLate(s *lang.Scope, _ []lang.Deferred) lang.Bound {
	late := m.boundFeature
	late.contribution(s)
	slot, ok := s.Make(m.path, s.HiddenName(), value.Type{Kind: m.kind, Optional: true})
	if !ok {
		slot = value.Slot{}
	}
	return &boundReturn{m.path, operator.Return{Feature: m.feature.Name, By: m.feature.By, Value: late.value, When: late.when, Slot: slot}}
}

// boundReturn sends the delayed value of an event to the stage of a feature.
type boundReturn struct {
	path string
	op   operator.Return
}

// Place implements Bound.
func (*boundReturn) Place() lang.Place { return lang.Place{Waves: true, Adds: true, Rest: true} }

// Lower implements Bound.
func (b *boundReturn) Lower(*lang.Plan, lang.At) operator.Operator { return &b.op }

// ofInput runs bind, which binds value and when. source is a condition that holds for events of the
// input in From; it is "" if the feature takes all inputs.
func (f *Feature) ofInput(s *lang.Scope, path string, bind func(source string)) {
	if f.From == "" {
		bind("")
		return
	}
	all := s.Pipeline.Inputs
	at := slices.IndexFunc(all, func(in lang.Input) bool { return in.Topic == f.From })
	switch {
	case len(all) < 2:
		s.Fail(path+".from", "the pipeline has one input, so all events are from it")
		s.Hint("remove it")
	case at < 0:
		s.Fail(path+".from", "%q is not the topic of an input", f.From)
		if near := expression.Nearest(f.From, topicsOf(all)); near != "" {
			s.Hint("did you mean " + near + "?")
		}
	default:
		s.OfInput(&all[at], func() { bind("meta.topic == " + strconv.Quote(f.From)) })
	}
}

func topicsOf(inputs []lang.Input) (topics []string) {
	for _, in := range inputs {
		topics = append(topics, in.Topic)
	}
	return topics
}

// both returns the conjunction of two conditions. An empty b is always true.
func both(a, b string) string {
	if b == "" {
		return a
	}
	return a + " && (" + b + ")"
}
