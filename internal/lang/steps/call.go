package steps

import (
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Call calls a function in Go of the program that embeds the engine.
type Call struct {
	Go      string       // a name in afterbay.Code.Functions
	When    string       // if a call is skipped, its outputs are absent, so they are optional
	Inputs  []string     // names that the function may read
	Outputs []lang.Field // names that the call introduces
	Topics  []string     // topics that the function may write
	Name    string       `json:",omitempty"` // like Emit.Name, for Topics
}

// StepKind implements Step.
func (*Call) StepKind() *lang.StepKind { return &callKind }

var callKind = lang.KindOf("call", spec.State, readCall, "{go: language, inputs: [text], outputs: {lang: string}}", "calls a function in Go")

var readCall = spec.MappingOf(callFields)

var callFields = []spec.Field[Call]{
	{Name: "go", Affects: spec.State, Required: true, Form: spec.Into(func(c *Call) *string { return &c.Go }, spec.ReadName), Example: "language"},
	{Name: "when", Affects: spec.Outputs, Form: spec.Into(func(c *Call) *string { return &c.When }, lang.ReadBool), Example: `lang == "en"`, Absent: "always"},
	{Name: "inputs", Affects: spec.Outputs, Form: spec.Into(func(c *Call) *[]string { return &c.Inputs }, lang.ReadNames), Example: "[text, spend.*]", Absent: "none"},
	{Name: "outputs", Affects: spec.Outputs, Form: spec.Into(func(c *Call) *[]lang.Field { return &c.Outputs }, lang.ReadFields),
		Example: "{lang: string, sure: optional number}", Help: "names that it introduces, and their types", Absent: "none"},
	{Name: "topics", Affects: spec.Outputs, Form: spec.Into(func(c *Call) *[]string { return &c.Topics }, lang.ReadNames), Example: "[alerts]", Absent: "none"},
	{Name: "name", Affects: spec.Outputs, Form: spec.Into(func(c *Call) *string { return &c.Name }, spec.ReadName), Example: "alert",
		Help: "the end of the ids of its outputs, as `name` of `emit`", Absent: "the ids end with the topic"},
}

// Declare implements Step.
func (c *Call) Declare(d *lang.Declared) { d.AddFields("", c.Outputs) }

// Effect implements Step.
func (c *Call) Effect() lang.Effects {
	e := lang.Effects{InFailure: true}
	for _, topic := range c.Topics {
		e.Writes = append(e.Writes, lang.Write{Topic: topic, By: "function " + c.Go, Instead: "write it by an emit step"})
	}
	return e
}

// FunctionPart returns the fingerprint of the state of a keyed function. It does not depend on the
// version: a newer version of the function reads the state of an older one.
func FunctionPart(name string) lang.Part {
	return lang.Part{Kind: generation.KindFunction, Name: name, Text: lang.Text(callFields, &Call{Go: name}, spec.State)}
}

// Bind implements Step.
func (c *Call) Bind(s *lang.Scope, path string) {
	before := len(s.Errs)
	f, ok := s.Pipeline.Code.Functions[c.Go]
	switch {
	case c.Go == "":
		s.Fail(path+".go", "missing: name a function of afterbay.Code.Functions")
	case !ok:
		s.Fail(path+".go", "no function is bound to %q", c.Go)
		s.Hint("bind it in afterbay.Code.Functions of a program that embeds the library; the afterbay command has none")
	case !naming.Valid(c.Go):
		s.Fail(path+".go", "%q is not a name: use letters, digits, '_' and '-', at most 100", c.Go)
	case f.Event == nil:
		s.Fail(path+".go", "function %q has no Event", c.Go)
	case f.Version < 1:
		s.Fail(path+".go", "function %q has version %d: use a number from 1, and raise it when the function changes", c.Go, f.Version)
	case f.Timer != nil && !f.Keyed:
		s.Fail(path+".go", "function %q has a Timer but is not Keyed", c.Go)
	case f.Keyed && slices.Contains(s.Keyed, c.Go):
		s.Fail(path+".go", "function %q is called twice, and would share its state with itself", c.Go)
		s.Hint("bind it to a second name")
	}
	if f.Keyed {
		s.AboveGroup(path)
	}
	stage := &operator.Call{Name: c.Go, Function: &f, As: c.Name, ID: s.ID}
	if c.When != "" {
		stage.When = s.Expr(path+".when", c.When, value.Bool)
	}
	for i, name := range c.Inputs {
		stage.Inputs = append(stage.Inputs, s.Slots(fmt.Sprintf("%s.inputs[%d]", path, i), name)...)
	}
	s.NoContent(path+".inputs", stage.Inputs...)
	for i, topic := range c.Topics {
		at := fmt.Sprintf("%s.topics[%d]", path, i)
		s.Writable(at, topic)
		s.OutputName(at, path+".name", topic, c.Name)
		stage.Topics = append(stage.Topics, topic)
		stage.Writes = append(stage.Writes, s.Outputs.Index(topic))
		s.Outputs.Writers++
	}
	c.bindOutputs(s, path, stage)
	if len(s.Errs) > before {
		return
	}
	place := lang.Place{Waves: s.Fed(stage.When) || s.FedSlots(stage.Inputs...), Adds: true}
	if f.Keyed {
		s.Keyed = append(s.Keyed, c.Go)
		place.Keeps = []lang.Kept{{Path: path, What: fmt.Sprintf("function %q", c.Go), Timers: f.Timer != nil}}
	}
	s.Add(c, path, boundCall{*stage, place})
}

// boundCall calls a function.
type boundCall struct {
	operator operator.Call // without its index
	place    lang.Place
}

// Place implements Bound.
func (b boundCall) Place() lang.Place { return b.place }

// Lower implements Bound.
func (b boundCall) Lower(p *lang.Plan, _ lang.At) operator.Operator { return p.Call(b.operator) }

// bindOutputs introduces the outputs of the function.
func (c *Call) bindOutputs(s *lang.Scope, path string, stage *operator.Call) {
	for _, o := range c.Outputs {
		at := path + ".outputs." + o.Name
		t, err := value.ParseType(o.Type)
		if err != nil {
			s.Fail(at, "%v", err)
			s.Names.Broken[o.Name] = true
			continue
		}
		t.Optional = t.Optional || c.When != ""
		if !s.Identifier(at, o.Name) {
			continue
		}
		if slot, ok := s.Make(at, o.Name, t); ok {
			stage.Outputs = append(stage.Outputs, slot)
		}
	}
}
