package lang

import "github.com/afterbay/afterbay/internal/spec"

// Emit writes an output record.
type Emit struct {
	Topic string
	Key   string // a name; "" is the input's key, and its partition with it
	When  string
	ID    string    // expression of type string; "" is pipeline:event:topic, and #Name behind it
	Name  string    `json:",omitempty"` // which of several steps that write Topic this one is; one of them needs none
	Names []string  // names; dots become _; event.* is all fields, feature.* expands
	Value []Binding // instead of Names: JSON key to expression
}

// StepKind implements Step.
func (*Emit) StepKind() *StepKind { return &emitKind }

var emitKind = stepKind("emit", spec.Outputs, readEmit, "{topic: decisions, value: [tx, fraud.score, action]}", "writes an output record")

var readEmit = spec.MappingOf(emitFields)

var emitFields = []spec.Field[Emit]{
	{Name: "topic", Affects: spec.Outputs, Required: true, Form: spec.Into(func(e *Emit) *string { return &e.Topic }, spec.ReadName),
		Example: "decisions", Help: "the topic that is written"},
	{Name: "key", Affects: spec.Outputs, Form: spec.Into(func(e *Emit) *string { return &e.Key }, spec.ReadName), Example: "customer", Help: "the output's key, of type string or int"},
	{Name: "when", Affects: spec.Outputs, Form: spec.Into(func(e *Emit) *string { return &e.When }, readBool),
		Example: `action == "block"`, Help: "for which events", Absent: "always"},
	{Name: "id", Affects: spec.Outputs, Form: spec.Into(func(e *Emit) *string { return &e.ID }, spec.ReadExpression), Example: `'"freeze:" + tx'`, Help: "the output's id, of type string",
		Absent: "`pipeline:event:topic`, with `#name` behind it if the step has a name"},
	{Name: "name", Affects: spec.Outputs, Form: spec.Into(func(e *Emit) *string { return &e.Name }, spec.ReadName), Example: "refund",
		Help: "the end of the output's id; of the steps that write a topic, one needs none", Absent: "the id ends with the topic"},
	{Name: "value", Affects: spec.Outputs, Form: spec.OneOf("write `[name]` or `{name: expression}`",
		spec.List, spec.Into(func(e *Emit) *[]string { return &e.Names }, readNames),
		spec.Mapping, spec.Into(func(e *Emit) *[]Binding { return &e.Value }, readBindings)),
		Example: "[tx, fraud.score, action]", Absent: "the names of `decide`"},
	{Name: "on_failure", Affects: spec.Outputs, Instead: "remove it: an event that cannot be emitted is a dead letter"},
}

// Declare implements Step.
func (*Emit) Declare(*Declared) {}

// Effect implements Step.
func (e *Emit) Effect() Effects {
	return Effects{InFailure: true, Writes: []Write{{Topic: e.Topic, Emit: true, Always: e.When == "", Key: e.Key}}}
}
