package compile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/sink"
)

// Sunk is a sink with the names that are not written, and what it is told.
type Sunk struct {
	lang.Sink
	Topic sink.Topic
}

// sinks checks where the pipeline's outputs go.
func (c *compiler) sinks() []Sunk {
	list := make([]Sunk, len(c.Pipeline.Sinks))
	complete := len(c.Errs) == 0 && !c.Ended // else steps that write may be missing
	for i := range list {
		s, path := &list[i], fmt.Sprintf("sinks[%d]", i)
		s.Sink = c.Pipeline.Sinks[i]
		s.Name = cmp.Or(s.Name, s.From)
		switch {
		case s.From == "":
			c.Fail(path+".from", "missing: name a topic that the pipeline writes")
			continue
		case complete && !slices.Contains(c.plan.Topics(), s.From):
			c.Fail(path+".from", "the pipeline does not write %q", s.From)
			c.Hint("it writes " + strings.Join(c.plan.Topics(), ", "))
		case !naming.ValidTopic(s.Name):
			c.Fail(path+".name", "%q is not the name of a sink: use letters, digits, '.', '_' and '-'", s.Name)
		case naming.ReservedSink(s.Name):
			c.Fail(path+".name", "sink %q has a name that is reserved: its group or its topics would be those of another part of the engine", s.Name)
			c.Hint("give it a `name`, such as " + strings.ReplaceAll(s.Name, ".", "-") + "-sink")
		case slices.ContainsFunc(list[:i], func(o Sunk) bool { return o.Name == s.Name }):
			c.Fail(path+".name", "two sinks are named %q: their consumer group has that name", s.Name)
			c.Hint("give one of them a `name`")
		}
		if s.Config == nil {
			c.Fail(path, "missing: nothing says where the records go")
			c.Hint("name a kind of sink with its fields; in Go, set Config")
			continue
		}
		s.Topic = c.topicOf(&s.Sink, !complete)
		c.sinkConfig(path, s)
		if err := OptionsOf(&s.Sink, c.Pipeline.Name).Validate(); err != nil && c.Pipeline.Name != "" {
			c.Fail(path, "%v", err)
		}
	}
	return list
}

// topicOf returns what a sink is told. Partial says that steps which write may be missing.
func (c *compiler) topicOf(s *lang.Sink, partial bool) sink.Topic {
	t := sink.Topic{
		Name: s.From, Pipeline: c.Pipeline.Name, Sink: s.Name, Group: GroupOf(s, c.Pipeline.Name), Concurrency: s.Concurrency, Partial: partial,
		Constants: map[string]any{}, Log: c.Pipeline.Engine.URL, Topics: c.plan.Topics(),
	}
	for _, in := range append([]lang.Input{c.Pipeline.Input}, c.Pipeline.Inputs...) {
		if in.Topic != "" {
			t.Topics = append(t.Topics, in.Topic)
		}
	}
	if written, ok := c.Outputs.Written[s.From]; ok {
		t.Columns = make([]sink.Column, len(written))
		for i, f := range written {
			t.Columns[i] = sink.Column(f)
			if f.Type == lang.MixedTypes {
				t.Columns[i].Type = ""
			}
		}
	}
	for name, constant := range c.Names.Constants {
		if t.Constants[name] = constant.Value; constant.Table != nil {
			t.Constants[name] = constant.Table
		}
	}
	return t
}

// sinkConfig checks where a sink's records go.
func (c *compiler) sinkConfig(path string, s *Sunk) {
	switch takes := TakenBy(s.Config); {
	case takes == sink.Whole && s.Expire != 0:
		c.Fail(path+".expire", "it says nothing about files: every record is kept, and tried until it is")
		fallthrough
	case takes != sink.Each:
		c.noWindow(path, &s.Sink)
	}
	before := len(c.Errs)
	c.Found(path, s.Kind, s.Config.Check(s.Topic))
	if warner, ok := s.Config.(sink.Warner); ok && len(c.Errs) == before {
		c.Warned(path, s.Kind, warner.Warnings(s.Topic))
	}
}

// TakenBy returns how a sink takes records.
func TakenBy(config sink.Config) sink.Way {
	if taker, ok := config.(sink.Taker); ok {
		return taker.Takes()
	}
	return sink.Each
}

// noWindow refuses the words about ids that a service took: where records go in the
// order of their offsets none are remembered.
func (c *compiler) noWindow(path string, s *lang.Sink) {
	for _, word := range []struct {
		name string
		set  bool
	}{{"window", s.Window != 0}, {"max", s.Max != 0}} {
		if word.set {
			c.Fail(path+"."+word.name, "it says nothing about what is not called by http: no ids are remembered")
			c.Hint("remove it")
		}
	}
}

// GroupOf is the sink's consumer group.
func GroupOf(s *lang.Sink, pipeline string) string { return pipeline + "." + s.Name }

// OptionsOf returns how records are delivered to a sink.
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

// Ask asks the service of the sink what it is not that the sink needs, and changes nothing
// there. within bounds the time that it takes.
func (s *Sunk) Ask(ctx context.Context, within time.Duration) []error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	service, err := s.Open(ctx)
	if err != nil {
		return []error{err}
	}
	defer service.Close()
	return service.Check(ctx)
}

// Open opens what takes the records.
func (s *Sunk) Open(ctx context.Context) (sink.Service, error) {
	service, err := s.Config.Open(ctx, s.Topic)
	if err != nil {
		return sink.Service{}, err
	}
	if takes := TakenBy(s.Config); service.Kinds() != 1 || (service.Each != nil) != (takes == sink.Each) || (service.Many != nil) != (takes == sink.Many) {
		service.Close()
		return sink.Service{}, fmt.Errorf("a sink of kind %q opened another service than it takes records by", s.Kind)
	}
	return service, nil
}
