package config

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/afterbay/afterbay"
)

// What the pipeline file may say, mapping by mapping, in the order of the
// documentation. A word without read is part of the language but not built.

var (
	readName       = textOf("a name")
	readExpression = textOf("an expression")
	readType       = textOf("a type such as string, int, number or optional string")
	readBindings   = named(bindingName, field(bindingExpr, readExpression))
	readFields     = named(fieldName, field(fieldType, readType))
)

func bindingName(b *afterbay.Binding) *string { return &b.Name }
func bindingExpr(b *afterbay.Binding) *string { return &b.Expr }
func fieldName(f *afterbay.Field) *string     { return &f.Name }
func fieldType(f *afterbay.Field) *string     { return &f.Type }

var pipelineWords = []word[afterbay.Pipeline]{
	{name: "pipeline", required: true, read: field(func(p *afterbay.Pipeline) *string { return &p.Name }, readName)},
	{name: "input", required: true, read: field(func(p *afterbay.Pipeline) *afterbay.Input { return &p.Input }, words(inputWords))},
	{name: "inputs", instead: "write one `input`; merge topics before it"},
	{name: "delivery", read: field(func(p *afterbay.Pipeline) *afterbay.Delivery { return &p.Delivery },
		choice[afterbay.Delivery](string(afterbay.ExactlyOnce), string(afterbay.AtLeastOnce), string(afterbay.AtMostOnce)))},
	{name: "commit", read: field(func(p *afterbay.Pipeline) *afterbay.Commit { return &p.Commit }, words(commitWords))},
	{name: "queue", instead: "remove it: the bounds are built in"},
	{name: "budget", instead: "remove it, and watch the latency in the metrics"},
	{name: "lag", instead: "remove it, and watch the lag in the metrics"},
	{name: "models", read: field(func(p *afterbay.Pipeline) *[]afterbay.Model { return &p.Models },
		named(func(m *afterbay.Model) *string { return &m.Name }, words(modelWords)))},
	{name: "constants", read: field(func(p *afterbay.Pipeline) *[]afterbay.Constant { return &p.Constants },
		named(func(c *afterbay.Constant) *string { return &c.Name }, constant))},
	{name: "steps", required: true, read: field(func(p *afterbay.Pipeline) *[]afterbay.Step { return &p.Steps }, listOf(step))},
	{name: "sinks", instead: "remove it, and read the emitted topic with a program of your own"},
}

var inputWords = []word[afterbay.Input]{
	{name: "topic", required: true, read: field(func(in *afterbay.Input) *string { return &in.Topic }, readName)},
	{name: "partitions", read: field(func(in *afterbay.Input) *int32 { return &in.Partitions }, whole[int32](1, 1024))},
	{name: "key", required: true, read: field(func(in *afterbay.Input) *string { return &in.Key }, readName)},
	{name: "time", read: field(func(in *afterbay.Input) *afterbay.EventTime { return &in.Time }, words(timeWords))},
	{name: "fields", required: true, read: field(func(in *afterbay.Input) *[]afterbay.Field { return &in.Fields }, readFields)},
	{name: "max_bytes", read: field(func(in *afterbay.Input) *int { return &in.MaxBytes }, size(1, 1<<20))},
	{name: "dedupe", instead: "remove it, and drop repeated events before the topic"},
}

var timeWords = []word[afterbay.EventTime]{
	{name: "field", read: field(func(t *afterbay.EventTime) *string { return &t.Field }, readName)},
	{name: "unit", read: field(func(t *afterbay.EventTime) *string { return &t.Unit }, choice[string]("s", "ms", "us", "ns", "rfc3339"))},
	{name: "lateness", read: field(func(t *afterbay.EventTime) *time.Duration { return &t.Lateness }, span(0, 30*day))},
	{name: "late", read: field(func(t *afterbay.EventTime) *string { return &t.Late }, choice[string]("dlq", "drop", "include"))},
	{name: "max_ahead", read: field(func(t *afterbay.EventTime) *time.Duration { return &t.MaxAhead }, span(time.Millisecond, 30*day))},
	{name: "idle", instead: "remove it: time moves with the events"},
}

var commitWords = []word[afterbay.Commit]{
	{name: "interval", read: field(func(c *afterbay.Commit) *time.Duration { return &c.Interval }, span(time.Millisecond, time.Minute))},
	{name: "size", read: field(func(c *afterbay.Commit) *int { return &c.Size }, whole[int](1, 1<<20))},
}

var modelWords = []word[afterbay.Model]{
	{name: "file", required: true, read: field(func(m *afterbay.Model) *string { return &m.File }, textOf("the path of a model file"))},
	{name: "version", required: true, read: field(func(m *afterbay.Model) *int { return &m.Version }, version)},
	{name: "outputs", required: true, read: field(func(m *afterbay.Model) *[]afterbay.Field { return &m.Outputs }, readFields)},
	{name: "url", instead: "use a model `file`"},
	{name: "process", instead: "use a model `file`"},
	{name: "call", instead: "remove it: a model `file` is called in the process"},
	{name: "journal", instead: "remove it: the answers of a model `file` need none"},
}

var stepWords = []word[afterbay.Step]{
	{name: "let", read: field(func(s *afterbay.Step) *[]afterbay.Binding { return &s.Let }, readBindings)},
	{name: "features", read: field(func(s *afterbay.Step) *[]afterbay.Feature { return &s.Features },
		named(func(f *afterbay.Feature) *string { return &f.Name }, words(featureWords)))},
	{name: "score", read: optional(func(s *afterbay.Step) **afterbay.Score { return &s.Score }, words(scoreWords))},
	{name: "decide", read: field(func(s *afterbay.Step) *[]afterbay.Binding { return &s.Decide }, readBindings)},
	{name: "emit", read: optional(func(s *afterbay.Step) **afterbay.Emit { return &s.Emit }, words(emitWords))},
	{name: "lookup", instead: "put the columns into the events before the topic, or a small table into `constants`"},
	{name: "call", instead: "write it as an expression with `let`, or compute it before the topic"},
	{name: "route", instead: "write one pipeline a case, and `when` in its steps"},
	{name: "group", instead: "put events together before the topic"},
	{name: "fetch", instead: "put the content into the events before the topic"},
}

var featureWords = []word[afterbay.Feature]{
	{name: "value", read: field(func(f *afterbay.Feature) *string { return &f.Value }, readExpression)},
	{name: "when", read: field(func(f *afterbay.Feature) *string { return &f.When }, readExpression)},
	{name: "windows", read: field(func(f *afterbay.Feature) *[]string { return &f.Windows }, listOf(window))},
	{name: "last", read: field(func(f *afterbay.Feature) *int { return &f.Last }, whole[int](1, 1000))},
	{name: "elapsed", read: field(func(f *afterbay.Feature) *bool { return &f.Elapsed }, onlyTrue)},
	{name: "aggregates", read: field(func(f *afterbay.Feature) *[]string { return &f.Aggregates },
		listOf(choice[string]("count", "sum", "mean", "max", "min")))},
	{name: "decimals", read: optional(func(f *afterbay.Feature) **int { return &f.Decimals }, whole[int](0, 9))},
	{name: "empty", read: field(func(f *afterbay.Feature) **float64 { return &f.Empty }, number)},
	{name: "max", instead: "remove it: the bound is built in"},
	{name: "overflow", instead: "write size/pane where a key has many events, such as 60s/5s"},
}

var scoreWords = []word[afterbay.Score]{
	{name: "model", required: true, read: field(func(s *afterbay.Score) *string { return &s.Model }, readName)},
	{name: "as", read: field(func(s *afterbay.Score) *string { return &s.As }, readName)},
	{name: "when", read: field(func(s *afterbay.Score) *string { return &s.When }, readExpression)},
	{name: "inputs", required: true, read: listOr(
		field(func(s *afterbay.Score) *[]string { return &s.Inputs }, listOf(readName)),
		field(func(s *afterbay.Score) *[]afterbay.Binding { return &s.ByName }, readBindings))},
	{name: "fallback", read: field(func(s *afterbay.Score) *[]afterbay.Binding { return &s.Fallback }, readBindings)},
	{name: "batch", read: field(func(s *afterbay.Score) *afterbay.Batch { return &s.Batch }, words(batchWords))},
	{name: "async", instead: "remove it: a model `file` answers at once"},
	{name: "on_failure", instead: "remove it: an event that cannot be scored is a dead letter"},
}

var batchWords = []word[afterbay.Batch]{
	{name: "size", read: field(func(b *afterbay.Batch) *int { return &b.Size }, whole[int](1, 4096))},
	{name: "wait", read: field(func(b *afterbay.Batch) *time.Duration { return &b.Wait }, span(0, time.Minute))},
}

var emitWords = []word[afterbay.Emit]{
	{name: "topic", required: true, read: field(func(e *afterbay.Emit) *string { return &e.Topic }, readName)},
	{name: "key", read: field(func(e *afterbay.Emit) *string { return &e.Key }, readName)},
	{name: "when", read: field(func(e *afterbay.Emit) *string { return &e.When }, readExpression)},
	{name: "id", read: field(func(e *afterbay.Emit) *string { return &e.ID }, readExpression)},
	{name: "value", read: listOr(
		field(func(e *afterbay.Emit) *[]string { return &e.Names }, listOf(readName)),
		field(func(e *afterbay.Emit) *[]afterbay.Binding { return &e.Value }, readBindings))},
	{name: "on_failure", instead: "remove it: an event that cannot be emitted is a dead letter"},
}

// optional reads into a field that is nil where its word is absent.
func optional[T, U any](get func(*T) **U, read read[U]) read[T] {
	return func(r *reader, n *node, path string, into *T) {
		value := new(U)
		*get(into) = value
		read(r, n, path, value)
	}
}

// version reads a model's version.
func version(r *reader, n *node, path string, into *int) {
	if n.kind == scalar && n.text == "latest" {
		r.fail(n.offset, path, `"latest" is not a version: the same log would score differently after a new file`,
			"write the number of the version, such as 1, and raise it with the file")
		return
	}
	whole[int](1, math.MaxInt32)(r, n, path, into)
}

// step reads one step: a mapping of one word.
func step(r *reader, n *node, path string, into *afterbay.Step) {
	if n.kind == mapping && len(n.entries) > 1 {
		first, second := n.entries[0], n.entries[1]
		hint := fmt.Sprintf("indent %s below %s", shorten(second.key), shorten(first.key))
		if slices.ContainsFunc(stepWords, func(w word[afterbay.Step]) bool { return w.name == second.key }) {
			hint = fmt.Sprintf("write `- %s: ...` as a step of its own", second.key)
		}
		r.fail(second.offset, path, fmt.Sprintf("a step is one word, and %s is its second", shorten(second.key)), hint)
		return
	}
	words(stepWords)(r, n, path, into)
}
