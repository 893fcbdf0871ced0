package reprocess

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/stream"
)

// aim resolves the destinations in Job.Into.
func (r *run) aim(topics []stream.Topic) error {
	for _, word := range r.job.Into {
		if err := r.aimAt(word, topics); err != nil {
			return fmt.Errorf("into %s: %w", word, err)
		}
	}
	if r.sink != "" && len(r.job.Into) > 1 {
		return fmt.Errorf("into %s: name only one sink, or only topics", strings.Join(r.job.Into, ", "))
	}
	if r.sink != "" && r.job.Follow {
		return errors.New("follow cannot be used with a sink: leave it out, and run the command again for newer outputs")
	}
	for _, topic := range slices.Compact(slices.Sorted(maps.Values(r.into))) {
		if err := r.mayWrite(topic, topics); err != nil {
			return fmt.Errorf("into topic %q: %w", topic, err)
		}
	}
	return nil
}

// aimAt resolves one destination.
func (r *run) aimAt(word string, topics []stream.Topic) error {
	if output, topic, ok := strings.Cut(word, "="); ok {
		if !slices.Contains(r.runner.Outputs(), output) {
			return fmt.Errorf("the pipeline does not write %q: it writes %s", output, strings.Join(r.runner.Outputs(), ", "))
		}
		return r.send(output, topic)
	}
	kind, name, said := strings.Cut(word, ":")
	if !said {
		kind, name = "", word
	}
	sink := false
	for i := range r.runner.Sinks {
		sink = sink || r.runner.Sinks[i].Name == name
	}
	topic := slices.ContainsFunc(topics, func(t stream.Topic) bool { return t.Name == name }) && !r.owns(name)
	switch {
	case said && kind != "sink" && kind != "topic":
		return errors.New("use NAME, sink:NAME, topic:NAME or OUTPUT=TOPIC")
	case kind == "sink" && !sink:
		return errors.New("the pipeline has no such sink")
	case !said && sink && topic:
		return fmt.Errorf("it is both a sink of the pipeline and a topic: write sink:%s or topic:%s", name, name)
	case sink && kind != "topic":
		r.sink = name
		return nil
	}
	for _, output := range r.runner.Outputs() {
		if output == deadletter.Topic(r.runner.Name()) {
			continue // readers of the topic expect outputs, not dead letters
		}
		if err := r.send(output, name); err != nil {
			return err
		}
	}
	return nil
}

// send directs an output to a topic.
func (r *run) send(output, topic string) error {
	if there, ok := r.into[output]; ok {
		return fmt.Errorf("%q goes to %q already: name one topic for each output", output, there)
	}
	if r.into == nil {
		r.into = map[string]string{}
	}
	r.into[output] = topic
	return nil
}

// owns reports whether the pipeline itself reads or writes a topic.
func (r *run) owns(topic string) bool {
	return topic == r.read.Topic || slices.Contains(slices.Concat(r.runner.Inputs(), r.runner.Outputs(), r.runner.Tables()), topic)
}

// mayWrite returns an error if a topic cannot be a destination.
func (r *run) mayWrite(topic string, topics []stream.Topic) error {
	i := slices.IndexFunc(topics, func(t stream.Topic) bool { return t.Name == topic })
	switch {
	case topic == "" || len(topic) > 249 || strings.Trim(topic, topicLetters) != "" || strings.Trim(topic, ".") == "":
		return errors.New("this is not a topic name: use letters, digits, '.', '_' and '-'")
	case r.owns(topic):
		return errors.New("the pipeline itself reads or writes it, and reprocessing does not change its records: name another topic")
	case naming.Reserved(r.runner.Name(), topic):
		return errors.New("names like that are reserved for topics of the engine: name another one")
	case i >= 0 && int(topics[i].Partitions) != len(r.parts):
		return fmt.Errorf("it has %d partitions, but outputs need %d, as their input: name a topic with that number, or a new topic", topics[i].Partitions, len(r.parts))
	}
	return nil
}

const topicLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// untouched refuses topics that another generation of the pipeline wrote to, because they would
// then hold each event twice.
func (r *run) untouched(h *generation.History, topics []stream.Topic) error {
	for _, b := range h.Begun {
		for _, topic := range slices.Sorted(maps.Values(b.Into)) {
			there := slices.ContainsFunc(topics, func(t stream.Topic) bool { return t.Name == topic })
			if there && slices.Contains(slices.Collect(maps.Values(r.into)), topic) {
				return fmt.Errorf("into topic %q: generation %d was written into it, from another pipeline file, part or live generation: name another topic, or delete that one", topic, b.Generation)
			}
		}
	}
	return nil
}
