package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/dead"
	"github.com/afterbay/afterbay/generation"
	"github.com/afterbay/afterbay/internal/naming"
)

// EngineTopic reports whether a topic is the engine's own by its name: one that
// package naming builds, or one of the log itself. Such topics take no records from
// outside.
func EngineTopic(name string) bool { return naming.Topic(name) || strings.HasPrefix(name, "__") }

// ErrNamed says that a topic cannot be deleted: something that runs names it.
var ErrNamed = errors.New("topic is in use")

// keeps reports whether a topic is the engine's own, as far as this process knows.
func (l *Local) keeps(topic string) bool {
	for _, r := range l.runners {
		reads := r.Reads()
		if topic == afterbay.Ended(r.Name()) || len(reads) > 1 && reads[len(reads)-1].Topic == topic { // it copies its inputs there
			return true
		}
	}
	return EngineTopic(topic) || slices.Contains(l.own, topic)
}

// writer returns the pipeline of this process that writes a topic.
func (l *Local) writer(topic string) (pipeline string, ok bool) {
	for _, r := range l.runners {
		if slices.Contains(r.Outputs(), topic) {
			return r.Name(), true
		}
	}
	return "", false
}

// named returns what names a topic in this process, "" for nothing.
func (l *Local) named(topic string) string {
	if pipeline, ok := l.writer(topic); ok {
		return fmt.Sprintf("pipeline %q writes it", pipeline)
	}
	for _, r := range l.runners {
		for _, read := range r.Reads() {
			if read.Topic == topic {
				return fmt.Sprintf("pipeline %q reads it", r.Name())
			}
		}
		if slices.Contains(r.Tables(), topic) {
			return fmt.Sprintf("it is a table of pipeline %q", r.Name())
		}
		for _, read := range r.SinkReads() {
			if read.Topic == topic {
				return fmt.Sprintf("a sink of pipeline %q reads it", r.Name())
			}
		}
		if topic == generation.Topic(r.Name()) || dead.IsTopic(topic) && naming.Root(topic) == r.Name() {
			return fmt.Sprintf("pipeline %q keeps it", r.Name())
		}
	}
	if slices.Contains(l.gateway, topic) || slices.Contains(l.own, topic) {
		return "the gateway uses it"
	}
	return ""
}

// DeleteTopic implements Directory.
func (l *Local) DeleteTopic(ctx context.Context, name string) error {
	if why := l.named(name); why != "" {
		return fmt.Errorf("delete topic %q: %w: %s: end that process first, or leave the topic out of its file", name, ErrNamed, why)
	}
	return l.Log.DeleteTopic(ctx, name)
}
