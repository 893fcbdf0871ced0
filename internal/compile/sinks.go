package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/sink"
)

// Sunk is a sink with its default names filled in, and the description of its topic.
type Sunk struct {
	lang.Sink
	Topic sink.Topic
}

// checkSinks checks the sinks of the pipeline's outputs.
func checkSinks(b *bound, found *lang.Findings) []Sunk {
	list, topics := make([]Sunk, len(b.Pipeline.Sinks)), append(topicsOf(b), deadletter.Topic(b.Pipeline.Name))
	complete := len(found.Errs) == 0 && !b.Ended // after an error, steps that write may be missing
	for i := range list {
		s, path := &list[i], fmt.Sprintf("sinks[%d]", i)
		s.Sink = b.Pipeline.Sinks[i]
		s.Name = cmp.Or(s.Name, s.From)
		switch {
		case s.From == "":
			found.Fail(path+".from", "missing: name a topic that the pipeline writes")
			continue
		case complete && !slices.Contains(topics, s.From):
			found.Fail(path+".from", "the pipeline does not write %q", s.From)
			found.Hint("it writes " + strings.Join(topics, ", "))
		case !naming.ValidTopic(s.Name):
			found.Fail(path+".name", "%q is not the name of a sink: use letters, digits, '.', '_' and '-'", s.Name)
		case naming.ReservedSink(s.Name):
			found.Fail(path+".name", "sink %q has a reserved name: another part of the engine uses that group or those topics", s.Name)
			found.Hint("give it a `name`, such as " + strings.ReplaceAll(s.Name, ".", "-") + "-sink")
		case slices.ContainsFunc(list[:i], func(o Sunk) bool { return o.Name == s.Name }):
			found.Fail(path+".name", "two sinks are named %q: the name of a sink is also its consumer group", s.Name)
			found.Hint("give one of them a `name`")
		}
		if s.Config == nil {
			found.Fail(path, "missing: the destination of the records")
			found.Hint("name a kind of sink with its fields; in Go, set Config")
			continue
		}
		if _, ok := s.Config.(sink.Opaque); !ok && b.Outputs.FormatOf(s.From) != (lang.OutputFormat{}) {
			found.Fail(path+".from", "%q is written with a format, and this sink reads JSON", s.From)
			found.Hint("use a sink of kind kafka, or emit to a separate topic without a format")
		}
		s.Topic = topicOf(b, &s.Sink, topics, !complete)
		checkSink(path, s, found)
		if err := OptionsOf(&s.Sink, b.Pipeline.Name).Validate(); err != nil && b.Pipeline.Name != "" {
			found.Fail(path, "%v", err)
		}
	}
	return list
}

// topicOf returns the description of a topic for its sink. partial means that steps that write may
// be missing.
func topicOf(b *bound, s *lang.Sink, topics []string, partial bool) sink.Topic {
	t := sink.Topic{
		Name: s.From, Pipeline: b.Pipeline.Name, Sink: s.Name, Group: GroupOf(s, b.Pipeline.Name), Concurrency: s.Concurrency, Partial: partial,
		Constants: map[string]any{}, Log: b.Pipeline.Engine.URL, Topics: slices.Clone(topics),
	}
	for _, in := range append([]lang.Input{b.Pipeline.Input}, b.Pipeline.Inputs...) {
		if in.Topic != "" {
			t.Topics = append(t.Topics, in.Topic)
		}
	}
	if written, ok := b.Outputs.Written[s.From]; ok {
		t.Columns = make([]sink.Column, len(written))
		for i, f := range written {
			t.Columns[i] = sink.Column{Name: f.Name, Type: f.Type}
			if f.Type == lang.MixedTypes {
				t.Columns[i].Type = ""
			}
		}
	}
	keyed := b.Outputs.Keyed[s.From]
	t.Keys, t.Deletes = keyed.By, keyed.Deletes
	for name, constant := range b.Names.Constants {
		if t.Constants[name] = constant.Value; constant.Table != nil {
			t.Constants[name] = constant.Table
		}
	}
	return t
}

// checkSink checks the destination of a sink's records.
func checkSink(path string, s *Sunk, found *lang.Findings) {
	switch takes := TakenBy(s.Config); {
	case takes == sink.Whole && s.Expire != 0:
		found.Fail(path+".expire", "it has no effect for files: the sink tries each record until it is written")
		fallthrough
	case takes != sink.Each:
		noWindow(path, &s.Sink, found)
	}
	before := len(found.Errs)
	found.Found(path, s.Kind, s.Config.Check(s.Topic))
	if warner, ok := s.Config.(sink.Warner); ok && len(found.Errs) == before {
		found.Warned(path, s.Kind, warner.Warnings(s.Topic))
	}
}

// TakenBy returns how a sink takes records.
func TakenBy(config sink.Config) sink.Way {
	if taker, ok := config.(sink.Taker); ok {
		return taker.Takes()
	}
	return sink.Each
}

// noWindow reports settings for remembered ids in a sink that delivers records in the order of
// their offsets. Such a sink remembers no ids.
func noWindow(path string, s *lang.Sink, found *lang.Findings) {
	for _, word := range []struct {
		name string
		set  bool
	}{{"window", s.Window != 0}, {"max", s.Max != 0}} {
		if word.set {
			found.Fail(path+"."+word.name, "it has no effect for this kind of sink, which remembers no ids: it is for sinks of kind http")
			found.Hint("remove it")
		}
	}
}

// GroupOf returns the sink's consumer group.
func GroupOf(s *lang.Sink, pipeline string) string { return pipeline + "." + s.Name }

// OptionsOf returns how to deliver records to a sink.
func OptionsOf(s *lang.Sink, pipeline string) sinks.Options {
	var objects sink.Bounds
	if bounded, ok := s.Config.(sink.Bounded); ok {
		objects = bounded.Bounds()
	}
	return sinks.Options{
		Objects: objects,
		Group:   GroupOf(s, pipeline), Topic: s.From, Name: s.Name, Timeout: s.Timeout, Concurrency: s.Concurrency,
		Window: s.Window, Max: s.Max, Expire: s.Expire,
	}
}
