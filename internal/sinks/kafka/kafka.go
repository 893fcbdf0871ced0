// Package kafka writes records to a topic of another Kafka cluster.
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

// Log is a Kafka cluster. internal/log/kafka implements it.
type Log interface {
	// Topics lists the topics by name.
	Topics(ctx context.Context) ([]stream.Topic, error)

	// Append writes records in order, with the contract of stream.Log.
	Append(ctx context.Context, records ...stream.Record) error

	// AppendNumbered writes the records with a number above the highest that it wrote for the
	// producer, all or none. It returns how many records it skipped. Numbers start at 1 and
	// increase.
	AppendNumbered(ctx context.Context, producer string, numbers []int64, records ...stream.Record) (repeated int, err error)

	// Close closes the connections.
	Close() error
}

// Options configures a Writer. All fields except ExactlyOnce are required.
type Options struct {
	Open  func(ctx context.Context) (Log, error) // connects to the cluster; called again after a failure
	Topic string
	Group string // consumer group of the sink; the names of producers begin with it

	// ExactlyOnce writes in transactions that include the position of each partition. A consumer of
	// committed records sees each record once.
	ExactlyOnce bool
}

// Validate returns an error if the options are invalid.
func (o Options) Validate() error {
	if o.Open == nil || o.Topic == "" || o.Group == "" {
		return fmt.Errorf("topic %q of group %q: both are needed, and what connects to the cluster", o.Topic, o.Group)
	}
	return nil
}

// Writer writes to a topic. It is safe for concurrent use. Create one with New.
//
// A record keeps its key, value, time and headers. Its id is always in the header afterbay-id. The
// key determines the partition or, if there is no key, the value.
type Writer struct {
	options Options

	mu  sync.Mutex // guards log, also while connecting
	log Log        // nil before the first connection
}

var _ sink.Writer = (*Writer)(nil)

// New returns a writer. It opens no connection.
func New(o Options) (*Writer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Writer{options: o}, nil
}

// Close closes the connections.
func (w *Writer) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.log != nil {
		_ = w.log.Close() // no call is in flight
		w.log = nil
	}
}

// connect returns the cluster, and connects first if necessary.
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

// Check returns an error if the cluster cannot be used or the topic is missing. It changes nothing.
func (w *Writer) Check(ctx context.Context) []error {
	if _, err := w.ready(ctx); err != nil {
		return []error{err}
	}
	return nil
}

// ready returns the cluster if it has the topic.
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

// Claim implements sink.Writer. With ExactlyOnce, the first write fences an earlier owner.
func (w *Writer) Claim(ctx context.Context, p stream.Partition, _ stream.Offset) (sink.Claim, error) {
	log, err := w.ready(ctx)
	if err != nil {
		return nil, err
	}
	return &claim{Writer: w, log: log, producer: w.options.Group + "/" + p.String()}, nil
}

// claim is a claimed partition of the sink's topic.
type claim struct {
	*Writer
	log      Log
	producer string
}

// Write implements sink.Claim. It refuses records that are too large for the cluster. With
// ExactlyOnce, the records after a refused one wait for its dead letter. Otherwise the producer's
// number would pass the refused record, and after a crash it would count as written.
func (c *claim) Write(ctx context.Context, _ stream.Offset, records []stream.Record) (outcome sink.Outcome, err error) {
	err = c.append(ctx, records)
	if !errors.Is(err, stream.ErrTooLarge) {
		return outcome, err
	}
	for i := range records { // find the one that is too large
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
