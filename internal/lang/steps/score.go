package steps

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/fetch"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/udf"
)

// Score calls a model and introduces its outputs.
type Score struct {
	Model    string
	As       string         // prefix of the outputs' names; "" is the model's name
	When     string         // a skipped score gives Fallback, or optional outputs
	Inputs   []string       // names and expressions in the model's order; feature.* expands
	ByName   []lang.Binding // instead of Inputs: names of the model's features to names or expressions, in any order
	Fallback []lang.Binding // name of an output to expression
	Batch    Batch

	// Async queues every event before the call, which runs off the loop. Events that do not need
	// the call do not wait for it. Ordered queues an event if an earlier event of its key is
	// queued, so that the events of a key finish in order.
	Async   bool
	Ordered bool

	// Partial shows the words of a chat model as they arrive; nil does not. The score must be
	// async, and the model's only output a string.
	Partial *Partial

	// OnFailure runs for an event that is given up. It may contain let, decide, call and emit. If
	// these steps write nothing, the event also becomes a dead letter.
	OnFailure []lang.Step
}

// Partial writes the words that a model has produced so far to a topic, as {"id": ...,
// "model_output": ...}, keyed like the event. The words before a crash or a retry may differ from
// those after it: the answer is the pipeline's own output.
type Partial struct {
	Topic    string
	Interval time.Duration // shortest time between two records for an event; 0 is 250 ms
}

// Batch limits one call of a model.
type Batch struct {
	Size int           // most rows in a call; 0 is 64
	Wait time.Duration // longest wait for more rows while more are on their way; 0 is no wait
}

// StepKind implements Step.
func (*Score) StepKind() *lang.StepKind { return &scoreKind }

var scoreKind = lang.KindOf("score", spec.State, readScore, "{model: fraud, inputs: [spend.*, amount]}", "calls a model")

var readScore = spec.MappingOf(scoreFields)

var scoreFields = []spec.Field[Score]{
	{Name: "model", Affects: spec.Outputs, Required: true, Form: spec.Into(func(s *Score) *string { return &s.Model }, spec.ReadName),
		Example: "fraud", Help: "one of `models`"},
	{Name: "as", Affects: spec.Outputs, Form: spec.Into(func(s *Score) *string { return &s.As }, spec.ReadName).Unless(func(s *Score) bool { return s.As == s.Model }), Example: "second"},
	{Name: "when", Affects: spec.Outputs, Form: spec.Into(func(s *Score) *string { return &s.When }, lang.ReadBool), Example: "amount > 100", Absent: "always"},
	{Name: "inputs", Affects: spec.Outputs, Required: true, Form: spec.OneOf("write `[name, expression]` or `{name: expression}`",
		spec.List, spec.Into(func(s *Score) *[]string { return &s.Inputs }, spec.ListOf(spec.ReadExpression)),
		spec.Mapping, spec.Into(func(s *Score) *[]lang.Binding { return &s.ByName }, lang.ReadBindingSet)),
		Example: "[spend.*, amount / 100]"},
	{Name: "fallback", Affects: spec.Outputs, Form: spec.Into(func(s *Score) *[]lang.Binding { return &s.Fallback }, lang.ReadBindingSet),
		Example: "{score: 0.5}", Help: "outputs of a score that is skipped: names to expressions", Absent: "they are optional"},
	{Name: "batch", Affects: spec.Nothing, Form: spec.Into(func(s *Score) *Batch { return &s.Batch }, spec.MappingOf(batchFields)),
		Example: "{size: 256, wait: 2ms}", Absent: "as below"},
	{Name: "async", Affects: spec.Outputs, Form: spec.Into(func(s *Score) *bool { return &s.Async }, spec.OnlyTrue()), Example: "true", Absent: "events wait for the scores of those before them",
		Help: "events are queued, and scored off the loop: those that need no score do not wait for them"},
	{Name: "ordered", Affects: spec.Outputs, Form: spec.Into(func(s *Score) *bool { return &s.Ordered }, spec.OnlyTrue()), Example: "true", Absent: "queued events continue in any order",
		Help: "if an event is queued, later events of its key are queued behind it, and they continue in order"},
	{Name: "partial", Affects: spec.Outputs, Form: spec.Optional(func(s *Score) **Partial { return &s.Partial }, spec.MappingOf(partialFields)), Example: "{topic: drafts, interval: 250ms}", Absent: "no such records",
		Help: "writes the words that a chat model has generated so far as records, while an `async` score waits for the rest: {id, model_output}, with all words of the event in each. The output of the pipeline is the answer"},
	{Name: "on_failure", Affects: spec.State, Form: spec.Into(func(s *Score) *[]lang.Step { return &s.OnFailure }, lang.ReadSteps), Example: "[emit: {topic: unscored, value: [tx]}]", Absent: "it is a dead letter",
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
func (s *Score) Declare(d *lang.Declared) { d.AddOutputs(s.prefix()+".", s.Model) }

// Effect implements Step.
func (s *Score) Effect() lang.Effects {
	e := lang.Effects{Fails: true, OnFailure: s.OnFailure}
	if s.Partial != nil {
		e.Writes = []lang.Write{{Topic: s.Partial.Topic, Silent: true, By: "partial answers", Instead: "give partial another topic"}}
	}
	return e
}

const (
	defaultBatch = 64                     // rows in a call
	singlesBatch = 1_024                  // rows in a call that makes one request for each row
	partialEvery = 250 * time.Millisecond // time between two partial records of an event
)

// boundScore calls a model. The pipeline file gives the types of its outputs.
type boundScore struct {
	*Score
	path       string
	model      *lang.Model
	types      []value.Type // types of the outputs
	given      []givens     // values for the inputs, as the file has them
	wrong      bool         // the inputs have findings
	belowGroup bool
	score      operator.Score // without its model and inputs
	onFailure  []lang.Node
	queues     lang.Queueing
}

// givens holds the values that the file gives for one input.
type givens struct {
	name string // name of the input; "" is the next input
	path string
	text string
	list []lang.Given
}

// Place implements Bound.
func (b *boundScore) Place() lang.Place {
	p := lang.Place{Waves: true, Queues: b.queues, Singly: b.keeps(), Failure: b.onFailure}
	if b.keeps() {
		p.Keeps = []lang.Kept{{Path: b.path + ".model", What: "the model", Timers: true}}
	}
	p.Ordered = b.Ordered && b.queues != lang.QueuesNone
	return p
}

// Lower implements Bound.
func (b *boundScore) Lower(p *lang.Plan, _ lang.At) operator.Operator {
	stage := b.score
	stage.OnFailure = p.Lowered(b.onFailure)
	if b.keeps() {
		stage.State = p.State(b.state())
	}
	return &stage
}

// keeps reports whether the model keeps state for each key.
func (b *boundScore) keeps() bool { return b.score.Model != nil && b.score.Model.Info().State > 0 }

// state is the name of the state. It cannot be the name of a function.
func (b *boundScore) state() string { return "model " + b.Model + " " + b.prefix() }

// prefix returns the prefix of the output names.
func (s *Score) prefix() string { return cmp.Or(s.As, s.Model) }

// Bind implements Step. The model is not open yet: the types of its outputs come from the file.
func (x *Score) Bind(s *lang.Scope, path string) {
	i := slices.IndexFunc(s.Pipeline.Models, func(m lang.Model) bool { return m.Name == x.Model })
	if i < 0 {
		s.Fail(path+".model", "no model is named %q", x.Model)
		var known []string
		for _, m := range s.Pipeline.Models {
			known = append(known, m.Name)
		}
		if near := expression.Nearest(x.Model, known); near != "" {
			s.Hint("did you mean " + near + "?")
		}
		return
	}
	b := &boundScore{Score: x, path: path, model: &s.Pipeline.Models[i], belowGroup: s.BelowGroup()}
	if s.Absent != nil && s.Absent(x.Model) && len(s.Errs) == 0 {
		b.bindGiven(s)
		s.Ended = true
		return
	}
	var ok bool
	if b.types, ok = s.Answers[x.Model]; !ok {
		for _, o := range b.model.Outputs {
			s.Names.Broken[x.prefix()+"."+o.Name] = true
		}
		return
	}
	if x.Batch.Size < 0 || x.Batch.Size > 4096 {
		s.Fail(path+".batch.size", "%d is out of range: use 1 to 4096 rows", x.Batch.Size)
	}
	b.score = operator.Score{Batch: operator.Batch{Kind: "score", Async: x.Async || s.Async}}
	b.bindGiven(s)
	b.onFailure = s.OnFailure(path+".on_failure", x.OnFailure)
	b.bindOutputs(s)
	if x.Partial != nil {
		s.Writable(path+".partial.topic", x.Partial.Topic)
		s.Outputs.Index(x.Partial.Topic)
	}
	s.Add(x, path, b)
}

// bindGiven resolves which events are scored, and what the model gets.
func (b *boundScore) bindGiven(s *lang.Scope) {
	if b.When != "" {
		b.score.When = s.Expr(b.path+".when", b.When, value.Bool)
	}
	b.bindInputs(s)
	s.AddScored(lang.Scored{Path: b.path, Model: b.Model, When: b.score.When, Features: b.features()})
}

// features returns the inputs that a profile counts.
func (b *boundScore) features() (list []lang.Feature) {
	for _, g := range b.given {
		list = append(list, lang.Features(g.name, g.list)...)
	}
	return list
}

// bindInputs resolves the inputs of the model.
func (b *boundScore) bindInputs(s *lang.Scope) {
	before := len(s.Errs)
	for i, text := range b.Inputs {
		at := fmt.Sprintf("%s.inputs[%d]", b.path, i)
		b.given = append(b.given, givens{"", at, text, s.Givens(at, text)})
	}
	for _, in := range b.ByName {
		at := b.path + ".inputs." + in.Name
		b.given = append(b.given, givens{in.Name, at, in.Expr, s.Givens(at, in.Expr)})
	}
	b.wrong = len(s.Errs) > before
}

// bindOutputs introduces the outputs that the file declares. Open later compares them with the
// model.
func (b *boundScore) bindOutputs(s *lang.Scope) {
	for _, f := range b.Fallback {
		if !slices.ContainsFunc(b.model.Outputs, func(o lang.Field) bool { return o.Name == f.Name }) {
			s.Fail(b.path+".fallback."+f.Name, "the model has no output %q", f.Name)
		}
	}
	if b.As != "" && !s.Identifier(b.path+".as", b.As) {
		return
	}
	for i, o := range b.model.Outputs {
		var fallback *expression.Program
		t := b.types[i]
		if i := slices.IndexFunc(b.Fallback, func(f lang.Binding) bool { return f.Name == o.Name }); i >= 0 {
			fallback = bindFallback(s, b.path+".fallback."+o.Name, b.Fallback[i].Expr, t)
		}
		t.Optional = t.Optional || b.When != "" && fallback == nil
		slot, ok := s.Make(b.path, b.prefix()+"."+o.Name, t)
		if !ok {
			return
		}
		b.score.Outputs = append(b.score.Outputs, slot)
		b.score.Fallback = append(b.score.Fallback, fallback)
	}
}

// bindFallback binds the value of an output for events without an answer.
func bindFallback(s *lang.Scope, path, source string, t value.Type) *expression.Program {
	program := s.Expr(path, source, t.Kind)
	if program == nil {
		return nil
	}
	if err := program.Fits(t); err != nil {
		s.Fail(path, "%v", err)
		return nil
	}
	return program
}

// Open implements Opener. It finds the model and compares its inputs with those of the file.
func (b *boundScore) Open(r *lang.Resources) lang.Bound {
	m, ok := r.Models[b.Model]
	if !ok && b.model.Inline() && len(r.Errs) == 0 {
		m, ok = b.openInline(r)
	}
	if !ok {
		return nil // the error was reported
	}
	policy, opened := m.Info().Batch, *b
	stage := &opened.score
	stage.Model, stage.Name, stage.Asks = m.Model, m.Name, m.Asks
	stage.Size, stage.ByLength = cmp.Or(b.Batch.Size, policy.Size, defaultBatch), policy.ByLength
	// A journaled answer is used only when it is durable, so the call cannot be inline.
	stage.Async = stage.Async || m.Calling != nil && m.Calling.Always
	if wait := cmp.Or(b.Batch.Wait, policy.Wait); wait > 0 && !stage.Async {
		shared := batch.NewShared(m.Model, model.Policy{Size: stage.Size, Wait: wait, ByLength: stage.ByLength}, 0)
		stage.Model, stage.Shared, r.Shared = shared, true, append(r.Shared, shared)
	}
	b.openInputs(r, m, stage)
	if !b.wrong {
		r.CheckProfile(b.path, b.Model, b.features())
	}
	b.openContents(r, m.Info(), stage)
	b.checkState(r, m)
	b.openCalling(r, m, stage)
	if calling := stage.Calling; calling != nil {
		if opened.queues = lang.QueuesSaid; calling.Implied && !stage.Async {
			opened.queues = lang.QueuesFailed
		}
	}
	if m.Info().RowsMax == 1 && cmp.Or(b.Batch.Size, policy.Size) == 0 && !stage.Shared && !stage.Contents {
		stage.Size = singlesBatch // a slow request then delays one slot, not the next batch
	}
	b.openPartial(r, stage)
	stage.Model = &batch.Counted{Model: stage.Model}
	return &opened
}

// openInputs checks the inputs and assigns them in the order of the model.
func (b *boundScore) openInputs(r *lang.Resources, m lang.Loaded, stage *operator.Score) {
	before := len(r.Errs)
	info := m.Info().WithoutState()
	columns := columnsOf(info)
	var list []lang.Given
	if b.ByName != nil {
		list = b.byName(r, b.path+".inputs", info)
	} else {
		for _, g := range b.given {
			list = append(list, g.list...)
		}
	}
	width := 0
	for _, g := range list {
		width += g.Width()
	}
	right := !b.wrong && len(r.Errs) == before
	if right && slices.ContainsFunc(b.given, func(g givens) bool { return len(g.list) == 0 }) {
		return // the missing name was reported
	}
	whole, at := right && width == len(columns), 0
	for _, g := range list {
		switch { // check types only if the input of each value is certain, or all inputs have the same type
		case whole:
			for _, in := range columns[at : at+g.Width()] {
				if !fits(r, g, in) {
					break
				}
			}
			at += g.Width()
		case alike(columns):
			fits(r, g, columns[0])
		}
	}
	switch {
	case b.wrong || len(r.Errs) > before:
	case !whole:
		r.Fail(b.path+".inputs", "model %s takes %d inputs, %d are given", m.Name, len(columns), width)
		r.Hint("its file has no names of them: give them in the order of training")
		if names := info.Names(); names != nil {
			r.Hint("it takes, in order: " + strings.Join(names, ", "))
		}
	default:
		slots := make([]value.Slot, len(list))
		for i, g := range list {
			if slots[i] = g.Slot; g.Program != nil {
				stage.Compute = append(stage.Compute, operator.Assign{Name: g.Slot.Name, Slot: g.Slot, Program: g.Program})
			}
		}
		if b.ByName == nil && len(columns) == len(info.Inputs) && len(slots) == len(columns) {
			checkOrder(r, b.path+".inputs", m, slots, info.Names())
		}
		assignInputs(stage, slots, columns)
	}
}

// byName returns the values of each input, in the order of the model.
func (b *boundScore) byName(r *lang.Resources, path string, info model.Info) []lang.Given {
	names := info.Names()
	if names == nil {
		r.Fail(path, "the model file has no feature names, so inputs cannot be given by name")
		r.Hint("give them as a list, in the order of training")
		return nil
	}
	found := make([][]lang.Given, len(names))
	for _, g := range b.given {
		at := g.path
		i := slices.Index(names, g.name)
		if i < 0 {
			r.Fail(at, "the model has no feature %q", g.name)
			r.Hint("it has: " + strings.Join(names, ", "))
			continue
		}
		width := 0
		found[i] = g.list
		for _, g := range g.list {
			width += g.Width()
		}
		if want := info.Inputs[i].Size(); len(g.list) > 0 && width != want {
			r.Fail(at, "the model's feature %q takes %d values, %d are given", g.name, want, width)
		}
	}
	var list []lang.Given
	for i, name := range names {
		if !slices.ContainsFunc(b.given, func(g givens) bool { return g.name == name }) {
			r.Fail(path, "the model's feature %q is not given", name)
		}
		list = append(list, found[i]...)
	}
	return list
}

// checkState checks that the model's state may be kept by key, like the state of a function. Events
// of one key are scored one after the other.
func (b *boundScore) checkState(r *lang.Resources, m lang.Loaded) {
	size := m.Info().State
	if size == 0 {
		return
	}
	if b.belowGroup {
		r.RefuseBelowGroup(b.path + ".model")
	}
	if most := udf.StateMaxBytes/4 - 32; size > most {
		r.Fail(b.path+".model", "model %s keeps %d numbers of a key; at most %d", m.Name, size, most)
	}
}

// openCalling decides where and how the score is computed.
func (b *boundScore) openCalling(r *lang.Resources, m lang.Loaded, stage *operator.Score) {
	stage.Calling = m.Calling
	switch {
	case stage.Calling != nil:
	case stage.Async:
		stage.Calling = r.CallModel(b.path, &lang.Calling{}, b.Model, lang.TimeoutOf(m.Info()))
		stage.Calling.Ready = lang.ReadyOf(m.Model)
	case stage.Contents: // the content may have to be fetched again
		stage.Calling = r.CallModel(b.path, &lang.Calling{Timeout: lang.ImpliedTimeout}, b.Model, 0)
		stage.Calling.Implied, stage.Calling.Ready = true, lang.ReadyOf(m.Model)
	}
	switch {
	case stage.Calling == nil:
		if b.Ordered {
			r.Fail(b.path+".ordered", "the events of a key are in order already: this step queues no events")
			r.Hint("remove it, or write async: true, or a call at its model")
		}
		return
	case m.Info().State > 0:
		r.Fail(b.path+".model", "model %s keeps state of each key, so its calls run in log order and cannot be async", m.Name)
		r.Hint("remove call of the model, and async")
	case stage.Calling.Open == operator.OpenFallback && b.When == "" && slices.ContainsFunc(stage.Fallback, func(p *expression.Program) bool { return p == nil }):
		r.Fail(b.path+".fallback", "missing: the breaker of model %s has open: fallback", m.Name)
	}
}

// openPartial checks the settings of partial records.
func (b *boundScore) openPartial(r *lang.Resources, stage *operator.Score) {
	if b.Partial == nil {
		return
	}
	path := b.path + ".partial"
	switch {
	case len(b.types) != 1 || b.types[0].Kind != value.String:
		r.Fail(path, "model %s must have one output of type string: partial shows its words", stage.Name)
	case !stage.Async:
		r.Fail(path, "partial answers are written only while an event is queued")
		r.Hint("write async: true in the score")
	case b.Partial.Interval < 0 || b.Partial.Interval > time.Minute:
		r.Fail(path+".interval", "%v is out of range: use 1ms to 1m", b.Partial.Interval)
	}
	stage.Size = 1 // one call for each event
	stage.Partial = &operator.Partial{Topic: b.Partial.Topic, Every: cmp.Or(b.Partial.Interval, partialEvery)}
	if len(stage.Outputs) > 0 {
		stage.Partial.Slot = stage.Outputs[0]
	}
}

// openContents connects a model with the content that its rows refer to.
func (b *boundScore) openContents(r *lang.Resources, info model.Info, stage *operator.Score) {
	var types []model.Type
	for _, in := range columnsOf(info.WithoutState()) {
		if in.Type != model.Number {
			types = append(types, in.Type)
		}
	}
	var columns []fetch.Column
	var urls []value.Slot
	for i, slot := range stage.Texts {
		if slot.Type.Kind != value.Content {
			continue
		}
		content := r.Contents[slot.Name]
		column := content.From
		column.At, column.Text = i, types[i] == model.String
		columns, urls = append(columns, column), append(urls, content.URL)
	}
	switch {
	case columns == nil:
	case info.State > 0:
		r.Fail(b.path+".model", "model %s keeps state of each key, so its calls run in log order and cannot wait for content", stage.Name)
	default:
		stage.Model, stage.Texts, stage.Contents = fetch.NewContents(stage.Model, columns), append(stage.Texts, urls...), true
	}
}

// openInline opens a model that the pipeline file describes, with the inputs of the score.
func (b *boundScore) openInline(r *lang.Resources) (m lang.Loaded, ok bool) {
	inputs := b.inlineInputs(r)
	if len(r.Errs) > 0 {
		return m, false
	}
	if m, ok = r.Inline(b.model, inputs); ok {
		r.Models[b.Model] = m
	}
	return m, ok
}

// inlineInputs returns the inputs of a score, with the names that the score gives them.
func (b *boundScore) inlineInputs(r *lang.Resources) (inputs []model.ManifestInput) {
	add := func(name string, given []lang.Given) {
		for _, g := range given {
			in := model.ManifestInput{Name: cmp.Or(name, strings.ReplaceAll(g.Slot.Name, ".", "_")), Type: model.Number}
			switch {
			case name == "" && g.Program != nil:
				r.Fail(g.Path, "an input that is an expression has no name for the model")
				r.Hint("name it: inputs: {name: " + g.Slot.Name + "}")
			case g.Slot.Type.Kind == value.String:
				in.Type = model.String
			case g.Slot.Type.Kind == value.Bytes, g.Slot.Type.Kind == value.Content:
				in.Type = model.Bytes
			case g.Slot.Type.Kind == value.Vector:
				in.Shape = []int{g.Slot.Type.Size}
			}
			inputs = append(inputs, in)
		}
	}
	for _, g := range b.given {
		if g.name != "" && len(g.list) > 1 {
			r.Fail(g.path, "%q has %d values: an input takes one", g.text, len(g.list))
		}
		add(g.name, g.list)
	}
	return inputs
}
