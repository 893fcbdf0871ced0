package lang

import (
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/generation"
)

// Call calls a function in Go.
type Call struct {
	Go      string   // a name in Pipeline.Code.Functions
	When    string   // a skipped call leaves its outputs absent: they are optional then
	Inputs  []string // names that it may read
	Outputs []Field  // names that it introduces
	Topics  []string // topics that it may write
	Name    string   `json:",omitempty"` // as Emit.Name, for Topics
}

// StepKind implements Step.
func (*Call) StepKind() *StepKind { return &callKind }

var callKind = stepKind("call", spec.State, readCall, "{go: language, inputs: [text], outputs: {lang: string}}", "calls a function in Go")

var readCall = spec.MappingOf(callFields)

var callFields = []spec.Field[Call]{
	{Name: "go", Affects: spec.State, Required: true, Form: spec.Into(func(c *Call) *string { return &c.Go }, spec.ReadName), Example: "language"},
	{Name: "when", Affects: spec.Outputs, Form: spec.Into(func(c *Call) *string { return &c.When }, readBool), Example: `lang == "en"`, Absent: "always"},
	{Name: "inputs", Affects: spec.Outputs, Form: spec.Into(func(c *Call) *[]string { return &c.Inputs }, readNames), Example: "[text, spend.*]", Absent: "none"},
	{Name: "outputs", Affects: spec.Outputs, Form: spec.Into(func(c *Call) *[]Field { return &c.Outputs }, readFields),
		Example: "{lang: string, sure: optional number}", Help: "names that it introduces, and their types", Absent: "none"},
	{Name: "topics", Affects: spec.Outputs, Form: spec.Into(func(c *Call) *[]string { return &c.Topics }, readNames), Example: "[alerts]", Absent: "none"},
	{Name: "name", Affects: spec.Outputs, Form: spec.Into(func(c *Call) *string { return &c.Name }, spec.ReadName), Example: "alert",
		Help: "the end of the ids of its outputs, as `name` of `emit`", Absent: "the ids end with the topic"},
}

// Declare implements Step.
func (c *Call) Declare(d *Declared) { d.AddFields("", c.Outputs) }

// Effect implements Step.
func (c *Call) Effect() Effects {
	e := Effects{InFailure: true}
	for _, topic := range c.Topics {
		e.Writes = append(e.Writes, Write{Topic: topic, By: "function " + c.Go, Instead: "write it by an emit step"})
	}
	return e
}

// FunctionPart returns what a keyed function keeps. A newer version of the function reads
// what an older one wrote.
func FunctionPart(name string) Part {
	return Part{generation.KindFunction, name, text(callFields, &Call{Go: name}, spec.State)}
}
