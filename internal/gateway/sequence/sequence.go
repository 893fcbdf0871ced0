// Package sequence orders, deduplicates and numbers the events and results of clients. For each
// inbox partition it keeps the known events of its clients and how they ended. See
// docs/design/gateway.md.
package sequence

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/log/optional"
	"github.com/afterbay/afterbay/stream"
)

// Sequencer runs the log loops of a gateway. Any number of sequencers, in any number of processes,
// share the partitions. Create one with New.
type Sequencer struct {
	log     stream.Log
	options Options
}

// New returns a sequencer. The error joins all errors in the options.
func New(log stream.Log, o Options) (*Sequencer, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Sequencer{log: log, options: o}, nil
}

// MakeTopics creates the gateway's own topics. An existing topic with another number of partitions
// is an error, because clients would move to other partitions. If the inbox or the results got more
// partitions since the gateway began, the error is a stream.PartitionsError.
func (s *Sequencer) MakeTopics(ctx context.Context) error {
	if err := s.Grown(ctx); err != nil {
		return err
	}
	for _, name := range []string{Inbox(s.options.Name), Results(s.options.Name), DeadTopic(s.options.Name)} {
		if err := s.log.CreateTopic(ctx, stream.Topic{Name: name, Partitions: s.options.Partitions}); err != nil {
			return fmt.Errorf("topic %s of gateway %q, with %d partitions, which cannot change: %w", name, s.options.Name, s.options.Partitions, err)
		}
	}
	return nil
}

// Grown returns a stream.PartitionsError if one of the gateway's own topics got more partitions
// since the gateway began, and the log can tell.
func (s *Sequencer) Grown(ctx context.Context) error {
	topics, err := s.log.Topics(ctx)
	if err != nil {
		return err
	}
	began, err := optional.StatePartitions(ctx, s.log, Group(s.options.Name), Inbox(s.options.Name), 0)
	if err != nil || began != s.options.Partitions {
		return err // if the options disagree, the options are wrong
	}
	own := []string{Inbox(s.options.Name), Results(s.options.Name), DeadTopic(s.options.Name)}
	for _, t := range topics {
		if t.Partitions > began && slices.Contains(own, t.Name) {
			return fmt.Errorf("gateway %q: %w", s.options.Name, &stream.PartitionsError{Topic: t.Name, Partitions: t.Partitions, State: began})
		}
	}
	return nil
}

// Run creates the topics and processes events until ctx is done; the error is then nil. The topics
// of the pipeline must exist.
func (s *Sequencer) Run(ctx context.Context) error {
	err := s.MakeTopics(ctx)
	var field string
	if err == nil {
		field, err = s.inputKey(ctx)
	}
	if err == nil {
		// Copying uses a group of its own. In one group for all topics, one member could get all of
		// the inbox and another all of the outputs.
		both, ctx := errgroup.WithContext(ctx)
		both.Go(func() error {
			return s.members(ctx, Group(s.options.Name), []string{Inbox(s.options.Name)}, func() handler {
				return &judge{options: &s.options, field: field, partitions: map[stream.Partition]*partition{}}
			})
		})
		both.Go(func() error {
			return s.members(ctx, CopyGroup(s.options.Name), s.sources(), func() handler { return copier{&s.options} })
		})
		err = both.Wait()
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("gateway %q: %w", s.options.Name, err)
	}
	return nil
}

// inputKey returns the field that keys the records of the pipeline's input, as stored with the
// topic; "" if the topic has none.
func (s *Sequencer) inputKey(ctx context.Context) (string, error) {
	topics, err := s.log.Topics(ctx)
	if err != nil {
		return "", fmt.Errorf("key of topic %s: %w", s.options.Input, err)
	}
	for _, t := range topics {
		if t.Name == s.options.Input {
			return t.Key, nil
		}
	}
	return "", nil
}

func (s *Sequencer) sources() []string {
	var topics []string
	for _, source := range s.options.Sources {
		topics = append(topics, source.Topic)
	}
	slices.Sort(topics)
	return topics
}

// judge is the handler for the inbox.
type judge struct {
	options    *Options
	field      string // key field of the pipeline's input
	partitions map[stream.Partition]*partition
}

func (j *judge) assign(a stream.Assigned) (err error) {
	j.partitions[a.Partition], err = restore(a, j.options, j.field)
	return err
}

func (j *judge) revoke(p stream.Partition) { delete(j.partitions, p) }

func (j *judge) take(r *stream.Record, t *turn) error {
	p := j.partitions[r.Partition]
	before := p.cells.bytes
	err := p.take(r, t)
	t.bytes += p.cells.bytes - before
	return err
}

func (j *judge) due(now time.Time, t *turn) (next time.Time, err error) {
	for _, p := range j.partitions {
		at, err := p.due(now, t)
		if err != nil {
			return next, err
		}
		if next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next, nil
}

func (j *judge) settle(t *turn) {
	for id, p := range j.partitions {
		if _, touched := t.Offsets[id]; touched {
			p.settle()
			t.Changes = p.cells.changes(t.Changes)
		}
	}
}

func (j *judge) committed() {
	for _, p := range j.partitions {
		clear(p.cells.written)
	}
}
