package lang

import (
	"cmp"
	"time"

	"github.com/afterbay/afterbay/internal/spec"
)

// Score calls a model.
type Score struct {
	Model    string
	As       string    // prefix of the outputs' names; "" is the model's name
	When     string    // a skipped score yields Fallback or optional outputs
	Inputs   []string  // names and expressions in the model's order; feature.* expands
	ByName   []Binding // instead of Inputs: model feature name to name or expression, any order
	Fallback []Binding // output to expression
	Batch    Batch

	// Async queues every event before the call, which is made off the loop: events
	// that do not need it do not wait for it. Ordered queues the events of a key
	// behind one of it that is queued, so that they are done with in order.
	Async   bool
	Ordered bool

	// Partial shows the words of a chat model while they come; nil does not. The
	// score is async, and its model's only output a string.
	Partial *Partial

	// OnFailure is done for an event that is given up: let, decide, call and emit.
	// It is a dead letter too, unless they write something.
	OnFailure []Step
}

// Partial has the words that a model has said so far written to a topic, as
// {"id": ..., "model_output": ...}, by the event's key. What was said before a crash or
// a retry may differ from what is said after it: the pipeline's own output is the answer.
type Partial struct {
	Topic    string
	Interval time.Duration // least time between the records of an event; 0 is 250 ms
}

// Batch bounds one call of a model.
type Batch struct {
	Size int           // most rows of a call; 0 is 64
	Wait time.Duration // longest wait for more rows while more are on their way; 0 is none
}

// StepKind implements Step.
func (*Score) StepKind() *StepKind { return &scoreKind }

var scoreKind = stepKind("score", spec.State, readScore, "{model: fraud, inputs: [spend.*, amount]}", "calls a model")

var readScore = spec.MappingOf(scoreFields)

var scoreFields = []spec.Field[Score]{
	{Name: "model", Affects: spec.Outputs, Required: true, Form: spec.Into(func(s *Score) *string { return &s.Model }, spec.ReadName),
		Example: "fraud", Help: "one of `models`"},
	{Name: "as", Affects: spec.Outputs, Form: spec.Into(func(s *Score) *string { return &s.As }, spec.ReadName).Unless(func(s *Score) bool { return s.As == s.Model }), Example: "second"},
	{Name: "when", Affects: spec.Outputs, Form: spec.Into(func(s *Score) *string { return &s.When }, readBool), Example: "amount > 100", Absent: "always"},
	{Name: "inputs", Affects: spec.Outputs, Required: true, Form: spec.OneOf("write `[name, expression]` or `{name: expression}`",
		spec.List, spec.Into(func(s *Score) *[]string { return &s.Inputs }, spec.ListOf(spec.ReadExpression)),
		spec.Mapping, spec.Into(func(s *Score) *[]Binding { return &s.ByName }, readBindingSet)),
		Example: "[spend.*, amount / 100]"},
	{Name: "fallback", Affects: spec.Outputs, Form: spec.Into(func(s *Score) *[]Binding { return &s.Fallback }, readBindingSet),
		Example: "{score: 0.5}", Help: "outputs of a score that is skipped: names to expressions", Absent: "they are optional"},
	{Name: "batch", Affects: spec.Nothing, Form: spec.Into(func(s *Score) *Batch { return &s.Batch }, spec.MappingOf(batchFields)),
		Example: "{size: 256, wait: 2ms}", Absent: "as below"},
	{Name: "async", Affects: spec.Outputs, Form: spec.Into(func(s *Score) *bool { return &s.Async }, spec.OnlyTrue()), Example: "true", Absent: "events wait for the scores of those before them",
		Help: "events are queued, and scored off the loop: those that need no score do not wait for them"},
	{Name: "ordered", Affects: spec.Outputs, Form: spec.Into(func(s *Score) *bool { return &s.Ordered }, spec.OnlyTrue()), Example: "true", Absent: "what is queued is done with in any order",
		Help: "the events of a key are queued behind one of it that is, and are done with in their order"},
	{Name: "partial", Affects: spec.Outputs, Form: spec.Optional(func(s *Score) **Partial { return &s.Partial }, spec.MappingOf(partialFields)), Example: "{topic: drafts, interval: 250ms}", Absent: "no records of them",
		Help: "the words that a chat model has said so far, as records, while an `async` score waits for the rest: {id, model_output}, all words of the event in each. The output of the pipeline is the answer"},
	{Name: "on_failure", Affects: spec.State, Form: spec.Into(func(s *Score) *[]Step { return &s.OnFailure }, readSteps), Example: "[emit: {topic: unscored, value: [tx]}]", Absent: "it is a dead letter",
		Help: "steps for an event that is given up: let, decide, call and emit; it is a dead letter too, unless they write something"},
}

var partialFields = []spec.Field[Partial]{
	{Name: "topic", Affects: spec.Outputs, Required: true, Form: spec.Into(func(p *Partial) *string { return &p.Topic }, spec.ReadName), Example: "drafts", Help: "a topic"},
	{Name: "interval", Affects: spec.Nothing, Form: spec.Into(func(p *Partial) *time.Duration { return &p.Interval }, spec.Span(time.Millisecond, time.Minute)), Example: "100ms"},
}

var batchFields = []spec.Field[Batch]{
	{Name: "size", Affects: spec.Nothing, Form: spec.Into(func(b *Batch) *int { return &b.Size }, spec.Whole[int](1, 4096)), Example: "256"},
	{Name: "wait", Affects: spec.Nothing, Form: spec.Into(func(b *Batch) *time.Duration { return &b.Wait }, spec.Span(0, time.Minute)), Example: "2ms"},
}

// Declare implements Step.
func (s *Score) Declare(d *Declared) { d.AddOutputs(cmp.Or(s.As, s.Model)+".", s.Model) }

// Effect implements Step.
func (s *Score) Effect() Effects {
	e := Effects{Fails: true, OnFailure: s.OnFailure}
	if s.Partial != nil {
		e.Writes = []Write{{Topic: s.Partial.Topic, Silent: true, By: "words of an answer", Instead: "give partial another topic"}}
	}
	return e
}
