package lang

import (
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/lookup"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// Kinds are the kinds that pipeline files may name. Package internal/process/builtin lists the
// built-in ones.
type Kinds struct {
	Steps   []*StepKind // in the order of the reference page
	Sinks   []sink.Kind
	Lookups []lookup.Kind
	Logs    []stream.Kind
	Models  []model.Kind // kinds of models with a manifest
}

// With returns the kinds together with those of a Go program. A duplicate name or an invalid struct
// tag is an error.
func (k Kinds) With(code Code) (Kinds, error) {
	all := Kinds{
		Steps:   k.Steps,
		Sinks:   slices.Concat(k.Sinks, code.Sinks),
		Lookups: slices.Concat(k.Lookups, code.Lookups),
		Logs:    slices.Concat(k.Logs, code.Logs),
		Models:  slices.Concat(k.Models, code.ModelKinds),
	}
	return all, all.Check()
}

// sinkFields returns the fields of a sink: the common ones, and one for each kind between them.
func (k Kinds) sinkFields() ([]spec.Field[Sink], error) {
	chosen, err := SinkKinds(k.Sinks)
	for i := range chosen {
		if chosen[i].Absent = "see `" + chosen[0].Name + "`"; i == 0 {
			chosen[i].Absent = "one of " + spec.Listed(k.sinkNames(), "and") + " is required"
		}
	}
	return slices.Concat(sinkFieldsAbove, chosen, sinkFieldsBelow), err
}

var sinkChoice = Choice[Sink, sink.Config]{
	Of: "sink", Others: slices.Concat(sinkFieldsAbove, sinkFieldsBelow), Affects: spec.Nothing, Absent: spec.Nothing,
	More: "a sink changes nothing of the pipeline",
	At:   func(s *Sink) (*string, *sink.Config) { return &s.Kind, &s.Config },
}

// SinkKinds returns the fields that choose kinds of sinks. The error lists the invalid kinds.
func SinkKinds(kinds []sink.Kind) ([]spec.Field[Sink], error) {
	of := make([]KindIn[sink.Config], len(kinds))
	for i := range kinds {
		of[i] = KindIn[sink.Config](kinds[i])
	}
	return sinkChoice.Fields(of)
}

func (k Kinds) sinkNames() []string {
	names := make([]string, len(k.Sinks))
	for i, kind := range k.Sinks {
		names[i] = kind.Name
	}
	return names
}

// oneKind reports each sink that does not have exactly one kind. It runs only if the document has
// no other error.
func (k Kinds) oneKind(r *spec.Reader, root *spec.Node) {
	for _, e := range root.Entries {
		if e.Key != "sinks" {
			continue
		}
		for i, item := range e.Value.Items {
			n := 0
			for _, field := range item.Entries {
				if slices.Contains(k.sinkNames(), field.Key) {
					n++
				}
			}
			if n != 1 {
				r.Fail(item.Offset, fmt.Sprintf("sinks[%d]", i), "a sink has exactly one of "+spec.Listed(k.sinkNames(), "and")+", its destination", "write a sink for each, with a `name`")
			}
		}
	}
}

var sinkFieldsAbove = []spec.Field[Sink]{
	{Name: "from", Affects: spec.Nothing, Required: true, Form: spec.Into(func(s *Sink) *string { return &s.From }, spec.ReadName), Example: "freezes"},
	{Name: "name", Affects: spec.Nothing, Form: spec.Into(func(s *Sink) *string { return &s.Name }, spec.ReadName), Example: "cards", Absent: "the topic's name",
		Help: "its consumer group is `<pipeline>.<name>`, and its dead letters go to `<pipeline>.<name>.dlq`; it does not end in `dlq`, `redrive`, `sequence` or `outcomes`, does not begin with `repartition` or g and a number, as in `g2.cards`, and has no part `changelog`"},
}

var sinkFieldsBelow = []spec.Field[Sink]{
	{Name: "timeout", Affects: spec.Nothing, Form: spec.Into(func(s *Sink) *time.Duration { return &s.Timeout }, spec.Span(time.Millisecond, 10*time.Minute)), Example: "10s"},
	{Name: "concurrency", Affects: spec.Nothing, Form: spec.Into(func(s *Sink) *int { return &s.Concurrency }, spec.Whole[int](1, 1024)), Example: "4"},
	{Name: "window", Affects: spec.Nothing, Form: spec.Into(func(s *Sink) *time.Duration { return &s.Window }, spec.Span(time.Second, 366*spec.Day)), Example: "72h"},
	{Name: "max", Affects: spec.Nothing, Form: spec.Into(func(s *Sink) *int { return &s.Max }, spec.Whole[int](1024, 40_000_000)), Example: "100000"},
	{Name: "expire", Affects: spec.Nothing, Form: spec.Into(func(s *Sink) *time.Duration { return &s.Expire }, spec.Span(time.Second, 366*spec.Day)), Example: "24h", Absent: "retried without limit"},
}
