package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/generation"
)

// Takes reports whether clients can append records to a topic. For a topic with a name of package
// naming, they can if other systems write it. That is the case if a pipeline reads the topic, and
// the first part of its name is not the name of a pipeline or gateway. If this process runs no
// pipelines, Local regards the groups that have committed in the topic as its readers.
func (l *Local) Takes(ctx context.Context, topic string) (bool, error) {
	owner := naming.Root(topic)
	switch {
	case strings.HasPrefix(topic, "__"): // a topic of the log itself
		return false, nil
	case !naming.Topic(topic):
		return l.takesNotes(ctx, topic)
	case slices.ContainsFunc(l.own, func(own string) bool { return naming.Root(own) == owner }):
		return false, nil
	case slices.ContainsFunc(l.runners, func(r *pipeline.Runner) bool { return r.Name() == owner }):
		return false, nil
	case len(l.runners) > 0 && !slices.ContainsFunc(l.runners, func(r *pipeline.Runner) bool { return slices.Contains(r.Inputs(), topic) }):
		return false, nil
	}
	groups, err := l.Groups(ctx)
	if err != nil {
		return false, fmt.Errorf("list groups: %w", err)
	}
	switch {
	case slices.Contains(groups, owner), slices.Contains(groups, naming.Of(owner, naming.Sequence)):
		return false, nil
	case len(l.runners) > 0:
		return true, nil
	}
	return l.readBy(ctx, groups, topic)
}

// takesNotes reports whether a topic is not the notes topic of a pipeline. The name of such a topic
// is a common word, so topics of other systems may have it too.
func (l *Local) takesNotes(ctx context.Context, topic string) (bool, error) {
	owner, ok := naming.Owner(topic, naming.Order)
	if !ok {
		return true, nil
	}
	for _, r := range l.runners {
		if r.Name() == owner {
			return false, nil
		}
	}
	groups, err := l.Groups(ctx)
	return !slices.Contains(groups, owner), err
}

// KeyOf returns the JSON field that a topic is keyed by, or "" if it has none.
func (l *Local) KeyOf(ctx context.Context, topic string) (field string, err error) {
	topics, err := l.Topics(ctx)
	if err != nil {
		return "", fmt.Errorf("list topics: %w", err)
	}
	for _, t := range topics {
		if t.Name == topic {
			field = t.Key
		}
	}
	return field, nil
}

// readBy reports whether one of the groups has committed in a topic.
func (l *Local) readBy(ctx context.Context, groups []string, topic string) (bool, error) {
	for _, group := range groups {
		reads, err := l.readsOf(ctx, group)
		if err != nil || slices.ContainsFunc(reads, func(r observe.Read) bool { return r.Topic == topic }) {
			return err == nil, err
		}
	}
	return false, nil
}

// ErrNamed means that a topic cannot be deleted because a running pipeline, table, sink or gateway
// uses it.
var ErrNamed = errors.New("topic is in use")

// Writer returns the pipeline of this process that writes a topic.
func (l *Local) Writer(topic string) (pipeline string, ok bool) {
	for _, r := range l.runners {
		if slices.Contains(r.Outputs(), topic) {
			return r.Name(), true
		}
	}
	return "", false
}

// named returns the user of a topic in this process, or "" for an unused topic.
func (l *Local) named(topic string) string {
	if pipeline, ok := l.Writer(topic); ok {
		return fmt.Sprintf("pipeline %q writes it", pipeline)
	}
	for _, r := range l.runners {
		for _, read := range slices.Concat(r.Reads(), r.StageReads()) {
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
		gateway := deadletter.Topic(naming.Of(r.Name(), naming.Sequence)) // of a gateway with the pipeline's name
		if topic == generation.Topic(r.Name()) || topic == r.Plan.Notes() || deadletter.IsTopic(topic) && naming.Root(topic) == r.Name() && topic != gateway {
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
