package steps

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Emit writes an output record.
type Emit struct {
	Topic string
	Key   string // a name; "" is the input's key, and its partition with it
	When  string
	ID    string         // expression of type string; "" is pipeline:event:topic, and #Name behind it
	Name  string         `json:",omitempty"` // which of several steps that write Topic this one is; one of them needs none
	Names []string       // names; dots become _; event.* is all fields, feature.* expands
	Value []lang.Binding // instead of Names: JSON key to expression
}

// StepKind implements Step.
func (*Emit) StepKind() *lang.StepKind { return &emitKind }

var emitKind = lang.KindOf("emit", spec.Outputs, readEmit, "{topic: decisions, value: [tx, fraud.score, action]}", "writes an output record")

var readEmit = spec.MappingOf(emitFields)

var emitFields = []spec.Field[Emit]{
	{Name: "topic", Affects: spec.Outputs, Required: true, Form: spec.Into(func(e *Emit) *string { return &e.Topic }, spec.ReadName),
		Example: "decisions", Help: "the topic that is written"},
	{Name: "key", Affects: spec.Outputs, Form: spec.Into(func(e *Emit) *string { return &e.Key }, spec.ReadName), Example: "customer", Help: "the output's key, of type string or int"},
	{Name: "when", Affects: spec.Outputs, Form: spec.Into(func(e *Emit) *string { return &e.When }, lang.ReadBool),
		Example: `action == "block"`, Help: "for which events", Absent: "always"},
	{Name: "id", Affects: spec.Outputs, Form: spec.Into(func(e *Emit) *string { return &e.ID }, spec.ReadExpression), Example: `'"freeze:" + tx'`, Help: "the output's id, of type string",
		Absent: "`pipeline:event:topic`, with `#name` behind it if the step has a name"},
	{Name: "name", Affects: spec.Outputs, Form: spec.Into(func(e *Emit) *string { return &e.Name }, spec.ReadName), Example: "refund",
		Help: "the end of the output's id; of the steps that write a topic, one needs none", Absent: "the id ends with the topic"},
	{Name: "value", Affects: spec.Outputs, Form: spec.OneOf("write `[name]` or `{name: expression}`",
		spec.List, spec.Into(func(e *Emit) *[]string { return &e.Names }, lang.ReadNames),
		spec.Mapping, spec.Into(func(e *Emit) *[]lang.Binding { return &e.Value }, lang.ReadBindings)),
		Example: "[tx, fraud.score, action]", Absent: "the names of `decide`"},
	{Name: "on_failure", Affects: spec.Outputs, Instead: "remove it: an event that cannot be emitted is a dead letter"},
}

// Declare implements Step.
func (*Emit) Declare(*lang.Declared) {}

// Effect implements Step.
func (e *Emit) Effect() lang.Effects {
	return lang.Effects{InFailure: true, Writes: []lang.Write{{Topic: e.Topic, Emit: true, Always: e.When == "", Key: e.Key}}}
}

// maxEmits is how many emits a pipeline has at most: an event has a bit for each.
const maxEmits = 64

// Bind implements Step.
func (e *Emit) Bind(s *lang.Scope, path string) {
	if s.Outputs.Emits == maxEmits {
		s.Fail(path, "a pipeline has at most %d emits", maxEmits)
		return
	}
	s.Writable(path+".topic", e.Topic)
	stage := &operator.Emit{Index: s.Outputs.Emits, Output: s.Outputs.Index(e.Topic), Topic: e.Topic, Name: e.Name}
	s.Outputs.Emits++
	s.Outputs.Writers++
	if e.When != "" {
		stage.When = s.Expr(path+".when", e.When, value.Bool)
	}
	if e.Key != "" {
		for _, slot := range s.Slots(path+".key", e.Key) {
			if slot.Type.Optional || slot.Type.Kind != value.String && slot.Type.Kind != value.Int {
				s.Fail(path+".key", "%q is of type %v: a key is a string or int that is always there", e.Key, slot.Type)
			}
			stage.Key = &slot
		}
	}
	waves := s.Fed(stage.When)
	s.OutputName(path+".topic", path+".name", e.Topic, e.Name)
	if e.ID != "" {
		slot, fed := computed(s, path+".id", "id", e.ID, stage, value.String)
		stage.ID, waves = slot, waves || fed
	}
	waves = e.bindValue(s, path+".value", stage) || waves
	s.Outputs.Wrote(e.Topic, stage)
	s.Add(e, path, boundEmit{*stage, waves})
}

// boundEmit writes a record.
type boundEmit struct {
	operator operator.Emit // without the table that has its rows
	waves    bool
}

// Place implements Bound.
func (b boundEmit) Place() lang.Place { return lang.Place{Waves: b.waves, Adds: true} }

// Lower implements Bound.
func (b boundEmit) Lower(p *lang.Plan, _ lang.At) operator.Operator {
	b.operator.Table = p.Writes(b.operator.Topic)
	return &b.operator
}

// computed gives an emit's expression a slot of its own, so that what can fail
// does so at the emit's place. A name alone cannot fail and never changes: its
// own slot will do, under another name, as the emit's author did not list it. It
// reports whether the expression reads what is fed back.
func computed(s *lang.Scope, path, name, source string, stage *operator.Emit, want ...value.Kind) (slot *value.Slot, fed bool) {
	program := s.Expr(path, source, want...)
	if program == nil {
		return nil, false
	}
	fed = s.Fed(program)
	if name, ok := program.Name(); ok {
		slot, _ := s.Names.Slot(name)
		slot.Name = s.HiddenName()
		return &slot, fed
	}
	made, ok := s.Make(path, s.HiddenName(), program.Type())
	if !ok {
		return nil, false
	}
	stage.Compute = append(stage.Compute, operator.Assign{Name: name, Slot: made, Program: program})
	return &made, fed
}

// bindValue resolves the value, and reports whether it reads what is fed back.
func (e *Emit) bindValue(s *lang.Scope, path string, stage *operator.Emit) (waves bool) {
	seen := map[string]bool{}
	add := func(at, key string, slot value.Slot) {
		s.NoContent(at, slot)
		if seen[key] {
			s.Fail(at, "the value has two entries %q", key)
			return
		}
		seen[key] = true
		stage.Names = append(stage.Names, append(strconv.AppendQuote(nil, key), ':'))
		stage.Values = append(stage.Values, slot)
	}
	names := e.Names
	if names == nil && e.Value == nil {
		names = decided(s)
	}
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", path, i)
		for _, slot := range s.Slots(at, name) {
			waves = waves || s.FedSlots(slot)
			add(at, strings.ReplaceAll(slot.Name, ".", "_"), slot)
		}
	}
	for _, b := range e.Value {
		at := path + "." + b.Name
		if slot, fed := computed(s, at, "value."+b.Name, b.Expr, stage); slot != nil {
			waves = waves || fed
			add(at, b.Name, *slot)
		}
	}
	if len(stage.Values) == 0 && len(s.Errs) == 0 {
		s.Fail(path, "missing: there is no decide step whose names it could default to")
	}
	return waves
}

// decided returns the names of the decide steps above that are known here: an
// emit's default value.
func decided(s *lang.Scope) []string {
	var names []string
	for step := range lang.EachStep(s.Pipeline.Steps) {
		d, ok := step.(interface{ Decided() []lang.Binding })
		if !ok {
			continue
		}
		for _, b := range d.Decided() {
			if _, ok := s.Names.Lookup(b.Name); ok && !slices.Contains(names, b.Name) {
				names = append(names, b.Name)
			}
		}
	}
	return names
}
