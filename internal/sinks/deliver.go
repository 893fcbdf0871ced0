// Package sinks delivers the committed records of a topic to a service. It reads the topic in a
// consumer group of its own, and retries each record until the service accepts it. So a slow or
// failing service never blocks the pipeline that wrote the records.
//
// A record has an id, which pipelines derive from its event, so the id is the same after every
// crash. The ids that a service has accepted are stored with the partition, within a window. A
// record with such an id is not delivered again. So the service gets one call for an id, plus one
// for every failed attempt. One more call follows each time that the process dies or loses the
// partition during the call, or before the commit that follows its answer. All of these calls carry
// the same id, so a service that checks ids applies each record once.
//
// A record that the service refuses becomes a dead letter. Package deadletter can redrive it to
// this sink only.
package sinks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/log/optional"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/dedupe"
	contract "github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// Options configures a Deliverer. Group and Topic are required.
type Options struct {
	Group       string          // consumer group, <pipeline>.<sink>
	Topic       string          // topic to read
	Name        string          // name of the sink in dead letters; "" is the group
	Timeout     time.Duration   // timeout of a call, up to 10 m; 0 is 3 s, 30 s for a Writer and 2 m for an Archive
	Concurrency int             // concurrent calls, up to 1,024, plus one for redriven records; 0 is 16
	Window      time.Duration   // how long an id is remembered, in event time, 1 s to 366 days; 0 is 24 h
	Max         int             // ids remembered for each partition, 1,024 to 40,000,000; 0 is 1,000,000
	Expire      time.Duration   // a record that is retried for this long becomes a dead letter; 0 is never
	Batch       int             // for a Writer: records in a call, up to 100,000; 0 is 2,000
	BatchBytes  int             // for a Writer: approximate bytes in a call, up to 1 GiB; 0 is 8 MiB
	Wait        time.Duration   // for a Writer: how long a call waits to be filled, up to an hour; 0 calls at once with the available records
	Objects     contract.Bounds // for an Archive, with a default Concurrency of 4; Window, Max and Expire have no effect there
	Hurry       func() bool     // for an Archive: whether to finish objects without waiting for more records; nil is never
	Logger      *slog.Logger    // nil discards

	// Fault is called with a call or a commit in flight (call, answer, write, sync, after). Crash
	// tests end the process there. nil is none.
	Fault func(stage string)
}

// Defaults of Options.
const (
	DefaultTimeout     = 3 * time.Second
	DefaultConcurrency = 16 // concurrent calls
	DefaultWindow      = 24 * time.Hour
	DefaultMax         = 1_000_000

	DefaultWriteTimeout = 30 * time.Second // for a Writer
	DefaultBatch        = 2_000
	DefaultBatchBytes   = 8 << 20

	archiveTimeout     = 2 * time.Minute
	archiveConcurrency = 4
)

const (
	timeoutMax     = 10 * time.Minute
	concurrencyMax = 1024
	idsLeast       = 1024 // more than the held records of a partition
	batchMax       = 100_000
	batchBytesMax  = 1 << 30
	waitMax        = time.Hour
)

// Validate returns all errors in the options, joined.
func (o Options) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Group == "" || o.Topic == "" {
		fail("group %q and topic %q: both are needed", o.Group, o.Topic)
	}
	if o.Timeout < 0 || o.Timeout > timeoutMax {
		fail("timeout is %v: use up to %v, because the next owner of a partition waits for running calls", o.Timeout, timeoutMax)
	}
	if o.Concurrency < 0 || o.Concurrency > concurrencyMax {
		fail("concurrency is %d: use 1 to %d", o.Concurrency, concurrencyMax)
	}
	if o.Max != 0 && o.Max < idsLeast {
		fail("max is %d: use %d or more, the number of records in flight", o.Max, idsLeast)
	} else if err := o.ids().Validate(); err != nil {
		errs = append(errs, err)
	}
	if o.Expire < 0 {
		fail("expire is %v: a record is tried once at least", o.Expire)
	}
	if o.Batch < 0 || o.Batch > batchMax {
		fail("a batch of %d records: use 1 to %d", o.Batch, batchMax)
	}
	if o.BatchBytes < 0 || o.BatchBytes > batchBytesMax {
		fail("a batch of %d bytes: use 1 to %d, as much is held twice for each partition", o.BatchBytes, batchBytesMax)
	}
	if o.Wait < 0 || o.Wait > waitMax {
		fail("wait is %v: use up to %v", o.Wait, waitMax)
	}
	errs = append(errs, o.Objects.Validate())
	return errors.Join(errs...)
}

func (o Options) ids() dedupe.Spec {
	return dedupe.Spec{Window: cmp.Or(o.Window, DefaultWindow), Max: cmp.Or(o.Max, DefaultMax)}
}

func (o Options) withDefaults() Options {
	o.Name = cmp.Or(o.Name, o.Group)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Batch, o.BatchBytes = cmp.Or(o.Batch, DefaultBatch), cmp.Or(o.BatchBytes, DefaultBatchBytes)
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// DeadTopic returns the dead letter topic of a group.
func DeadTopic(group string) string { return deadletter.Topic(group) }

// Topics returns the group's own topics: its dead letters, and its redriven records. They have as
// many partitions as the topic that the group reads.
func Topics(group string) []string { return []string{DeadTopic(group), deadletter.SinkTopic(group)} }

// Deliverer delivers the records of a topic to a service. Create one with New.
type Deliverer struct {
	log     stream.Log
	sink    contract.Service
	options Options
	metrics *Metrics
	service *service
}

// New returns a Deliverer that is ready to Run. It counts in metrics.
func New(log stream.Log, sink contract.Service, options Options, metrics *Metrics) (*Deliverer, error) {
	if sink.Kinds() != 1 {
		return nil, fmt.Errorf("sink %q: it takes records either one at a time, or many, or as objects", options.Group)
	}
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("sink %q: %w", options.Group, err)
	}
	service, err := newService()
	if err != nil {
		return nil, fmt.Errorf("sink %q: %w", options.Group, err)
	}
	switch {
	case sink.Many != nil:
		options.Timeout = cmp.Or(options.Timeout, DefaultWriteTimeout)
	case sink.Whole != nil:
		options.Timeout = cmp.Or(options.Timeout, archiveTimeout)
		options.Concurrency = cmp.Or(options.Concurrency, archiveConcurrency)
		options.Objects = options.Objects.WithDefaults()
	}
	options = options.withDefaults()
	return &Deliverer{log: log, sink: sink, options: options, metrics: metrics, service: service}, nil
}

// Run delivers records until ctx is done. Then it waits for the calls in flight, at most the
// timeout, commits the accepted records and returns nil. It shares the partitions with the other
// members of the group. If a member loses its partitions or its commit fails, Run starts a new
// member.
func (d *Deliverer) Run(ctx context.Context) error {
	err := d.makeTopics(ctx)
	if err == nil {
		// Redriven records have a group of their own. In one group for both topics, one member
		// could get all of one topic and another member all of the other.
		group := d.options.Group
		both, ctx := errgroup.WithContext(ctx)
		both.Go(func() error { return d.members(ctx, reading{group, d.options.Topic, d.options.Concurrency}) })
		both.Go(func() error {
			return d.members(ctx, reading{deadletter.SinkGroup(group), deadletter.SinkTopic(group), 1})
		})
		err = both.Wait()
		d.metrics.Resting.Store(false)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("sink %q: %w", d.options.Group, err)
	}
	return nil
}

// reading says what a member reads, and how many concurrent calls it makes.
type reading struct {
	group, topic string
	concurrency  int
}

// members runs one member after the other, until one ends with a final error or ctx is done.
func (d *Deliverer) members(ctx context.Context, from reading) error {
	for {
		err := d.member(ctx, from)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, stream.ErrFenced):
			d.metrics.Rejoined.Add(1)
			d.options.Logger.Info("member was fenced and joins its group again", "sink", from.group, "reason", err)
			if errors.Is(err, errOwned) { // a member that rejoins at once would fence the new owner
				select {
				case <-time.After(rejoinAfter):
				case <-ctx.Done():
				}
			}
		case err != nil:
			return err
		}
	}
}

// makeTopics creates the group's own topics. If the topic got more partitions since the group
// began, the error is a stream.PartitionsError.
func (d *Deliverer) makeTopics(ctx context.Context) error {
	topics, err := d.log.Topics(ctx)
	if err != nil {
		return err
	}
	existing := map[string]int32{}
	for _, t := range topics {
		existing[t.Name] = t.Partitions
	}
	partitions := existing[d.options.Topic]
	if partitions == 0 {
		return fmt.Errorf("topic %q: %w", d.options.Topic, stream.ErrUnknownTopic)
	}
	began, err := optional.StatePartitions(ctx, d.log, d.options.Group, d.options.Topic, existing[DeadTopic(d.options.Group)])
	if err != nil {
		return err
	}
	if began > 0 && began < partitions {
		return &stream.PartitionsError{Topic: d.options.Topic, Partitions: partitions, State: began}
	}
	for _, name := range Topics(d.options.Group) {
		if began >= partitions && existing[name] > partitions { // a log that is not a Sizer may report a larger number
			continue // only the readers of this topic are affected
		}
		if err := d.log.CreateTopic(ctx, stream.Topic{Name: name, Partitions: partitions}); err != nil {
			return err
		}
	}
	return nil
}

// loop is the main loop of a member.
type loop interface {
	turn(ctx context.Context) error
	finish() error // waits for the calls in flight, or cancels them
	end()
}

// member runs one member until it dies or ctx is done.
func (d *Deliverer) member(ctx context.Context, from reading) (err error) {
	s, err := d.log.Join(ctx, from.group, from.topic)
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	var w loop
	switch {
	case d.sink.Many != nil:
		w = newBatches(ctx, d, s, from)
	case d.sink.Whole != nil:
		w = newArchiver(ctx, d, s, from)
	default:
		w = newWorker(ctx, d, s, from)
	}
	defer func() {
		w.end()
		err = errors.Join(err, s.Close())
	}()
	for ctx.Err() == nil {
		if err := w.turn(ctx); err != nil {
			return err
		}
	}
	return w.finish()
}
