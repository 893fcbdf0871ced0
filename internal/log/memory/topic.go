package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/stream"
)

// topic returns a topic, or nil if it does not exist.
func (l *Log) topic(name string) *topic {
	if t := l.topics[name]; t != nil && !t.deleted {
		return t
	}
	return nil
}

// CreateTopic implements stream.Log.
func (l *Log) CreateTopic(_ context.Context, t stream.Topic) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return stream.ErrClosed
	}
	err := stream.CheckTopic(t)
	if err == nil {
		err = l.createTopic(t)
	}
	if err != nil {
		return fmt.Errorf("create topic %q: %w", t.Name, err)
	}
	return nil
}

func (l *Log) createTopic(t stream.Topic) error {
	old := l.topics[t.Name]
	switch {
	case old == nil:
		old = &topic{}
	case !old.deleted && old.Partitions != t.Partitions:
		return fmt.Errorf("it has %d partitions, not %d", old.Partitions, t.Partitions)
	case !old.deleted:
		if old.Key == "" {
			old.Key = t.Key
		}
		return nil
	case old.Partitions > t.Partitions:
		return fmt.Errorf("it had %d partitions when it was deleted, and offsets continue in each: create it with %d or more", old.Partitions, old.Partitions)
	}
	more, all := int(t.Partitions)-len(old.partitions), 0
	for _, other := range l.topics {
		all += len(other.partitions)
	}
	if all+more > l.options.MaxPartitions {
		return fmt.Errorf("%w: the topics have %d together, and at most %d are allowed: delete a topic, or use fewer partitions", stream.ErrTooManyPartitions, all, l.options.MaxPartitions)
	}
	old.Topic, old.deleted = t, false
	old.partitions = append(old.partitions, make([]partition, more)...)
	l.topics[t.Name] = old
	return nil
}

// DeleteTopic implements stream.Log.
func (l *Log) DeleteTopic(_ context.Context, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return stream.ErrClosed
	}
	t := l.topic(name)
	if t == nil {
		return fmt.Errorf("delete topic %q: %w", name, stream.ErrUnknownTopic)
	}
	for reader, g := range l.groups {
		if len(g.members) > 0 && slices.Contains(g.topics, name) {
			return fmt.Errorf("delete topic %q: %w: group %q reads it", name, stream.ErrTopicInUse, reader)
		}
	}
	empty := true
	for i := range t.partitions {
		p := &t.partitions[i]
		p.base, p.records = p.next(), nil
		empty = empty && p.base == 0
	}
	if t.deleted = true; empty {
		delete(l.topics, name)
	}
	l.notify()
	return nil
}

// Topics implements stream.Log.
func (l *Log) Topics(context.Context) ([]stream.Topic, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, stream.ErrClosed
	}
	topics := make([]stream.Topic, 0, len(l.topics))
	for _, t := range l.topics {
		if !t.deleted {
			topics = append(topics, t.Topic)
		}
	}
	slices.SortFunc(topics, func(a, b stream.Topic) int { return strings.Compare(a.Name, b.Name) })
	return topics, nil
}
