// Package kafka hands records to a topic of another cluster of Kafka.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// Log is a cluster. stream/kafka.Log is one.
type Log interface {
	// Topics lists the topics by name.
	Topics(ctx context.Context) ([]stream.Topic, error)

	// Append writes records in their order, as stream.Log has it.
	Append(ctx context.Context, records ...stream.Record) error

	// AppendNumbered writes those of the records whose number is above the highest
	// that it wrote for the producer, all or none, and returns how many were not.
	// Numbers are from 1 on, and rise.
	AppendNumbered(ctx context.Context, producer string, numbers []int64, records ...stream.Record) (repeated int, err error)

	// Close ends the connections.
	Close() error
}

// Options of a Writer. All but ExactlyOnce are needed.
type Options struct {
	Open  func(ctx context.Context) (Log, error) // connects to the cluster: again, where it failed
	Topic string
	Group string // that reads what is handed on: the names of producers begin with it

	// ExactlyOnce writes by transactions which hold how far each partition is: who
	// reads only what is committed sees each record once.
	ExactlyOnce bool
}

// Validate returns all that is wrong with the options, and why.
func (o Options) Validate() error {
	if o.Open == nil || o.Topic == "" || o.Group == "" {
		return fmt.Errorf("topic %q of group %q: both are needed, and what connects to the cluster", o.Topic, o.Group)
	}
	return nil
}

// Writer writes to a topic. It is safe for concurrent use. Make one with New.
//
// A record keeps its key, value, time and headers, and its id is in the header
// afterbay-id whoever wrote it. It goes to the partition of its key, or, where it
// has none, of its value.
type Writer struct {
	options Options

	mu  sync.Mutex // guards what follows, and is held while connecting
	log Log        // nil before the first record
}

var _ sink.Writer = (*Writer)(nil)

// New returns a writer. It connects to nobody.
func New(o Options) (*Writer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Writer{options: o}, nil
}

// Close ends the connections.
func (w *Writer) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.log != nil {
		_ = w.log.Close() // nothing is under way
		w.log = nil
	}
}

// connect returns the cluster.
func (w *Writer) connect(ctx context.Context) (Log, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.log != nil {
		return w.log, nil
	}
	log, err := w.options.Open(ctx)
	if err == nil {
		w.log = log
	}
	return log, err
}

// Check returns what of the cluster is not as it has to be. It changes nothing.
func (w *Writer) Check(ctx context.Context) []error {
	if _, err := w.ready(ctx); err != nil {
		return []error{err}
	}
	return nil
}

// ready returns the cluster, where it has the topic.
func (w *Writer) ready(ctx context.Context) (Log, error) {
	log, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	topics, err := log.Topics(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for topic %q: %w", w.options.Topic, err)
	}
	if !slices.ContainsFunc(topics, func(t stream.Topic) bool { return t.Name == w.options.Topic }) {
		return nil, fmt.Errorf("the cluster of the sink has no topic %q, or does not show it: make it there: %w", w.options.Topic, stream.ErrUnknownTopic)
	}
	return log, nil
}

// Claim implements sink.Writer. With ExactlyOnce the first write ends what an
// earlier owner writes.
func (w *Writer) Claim(ctx context.Context, p stream.Partition, _ stream.Offset) (sink.Claim, error) {
	log, err := w.ready(ctx)
	if err != nil {
		return nil, err
	}
	return &claim{Writer: w, log: log, producer: w.options.Group + "/" + p.String()}, nil
}

// claim is a partition that is written from.
type claim struct {
	*Writer
	log      Log
	producer string
}

// Write implements sink.Claim. Records that are too large for the cluster are
// refused. With ExactlyOnce those behind a refused one wait for its dead letter: the
// number of the producer would pass it, and after a crash it would be taken for one
// that is written.
func (c *claim) Write(ctx context.Context, _ stream.Offset, records []stream.Record) (outcome sink.Outcome, err error) {
	err = c.append(ctx, records)
	if !errors.Is(err, stream.ErrTooLarge) {
		return outcome, err
	}
	for i := range records { // which of them
		switch err := c.append(ctx, records[i:i+1]); {
		case errors.Is(err, stream.ErrTooLarge):
			outcome.Refused = append(outcome.Refused, sink.Refusal{Index: i, Err: err})
			if c.options.ExactlyOnce {
				outcome.Stopped = true
				return outcome, nil
			}
		case err != nil:
			return sink.Outcome{}, err
		}
	}
	return outcome, nil
}

func (c *claim) append(ctx context.Context, records []stream.Record) error {
	out := make([]stream.Record, len(records))
	numbers := make([]int64, len(records))
	for i := range records {
		r := &records[i]
		numbers[i] = int64(r.Offset) + 1
		out[i] = stream.Record{
			Partition: stream.Partition{Topic: c.options.Topic, Index: stream.ByKey},
			Time:      r.Time, Key: r.Key, Value: r.Value, Headers: r.Headers,
		}
		if header.Get(r, header.ID) == "" {
			out[i].Headers = append(slices.Clone(r.Headers), stream.Header{Key: header.ID, Value: []byte(sink.IDOf(r))})
		}
	}
	if c.options.ExactlyOnce {
		_, err := c.log.AppendNumbered(ctx, c.producer, numbers, out...)
		return err
	}
	return c.log.Append(ctx, out...)
}
