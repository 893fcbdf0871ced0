// Package hub delivers the records of a topic to subscribers by key. A subscriber starts at any
// position. It receives its records strictly in order: first those that are in the log, then new
// ones, without a gap or a repeat between the two. The hub uses no consumer group: any process can
// serve any key.
package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/afterbay/afterbay/stream"
)

// Log is the part of stream.Log and stream.Inspector that a Hub needs.
type Log interface {
	Topics(ctx context.Context) ([]stream.Topic, error)
	Tail(ctx context.Context, p stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error]
	Offsets(ctx context.Context, p stream.Partition) (first, next stream.Offset, err error)
	Peek(ctx context.Context, p stream.Partition, from stream.Offset) (stream.Record, bool, error)
}

// Options limits a Hub. The zero value is a good default.
type Options struct {
	// QueueBytes limits the records that wait for one subscriber; 0 is 32 KiB. A slower subscriber
	// drops its queue and reads the records from the log, QueueBytes at a time. A larger queue
	// delivers results no sooner; it only costs memory for subscribers that do not read.
	QueueBytes int
	// IndexRecords is the number of newest records of each partition that are indexed by key, at 12
	// bytes each; 0 is 262,144, 3 MiB for a partition. A subscriber that starts within the index
	// reads only its own records.
	IndexRecords int
	// Replays is the maximum number of subscribers that read the log at the same time; 0 is 16.
	// Others wait.
	Replays int64
}

// Validate returns all errors in the options, joined.
func (o Options) Validate() error {
	var errs []error
	if o.QueueBytes < 0 {
		errs = append(errs, fmt.Errorf("QueueBytes is %d: no record could wait", o.QueueBytes))
	}
	if o.IndexRecords < 0 {
		errs = append(errs, fmt.Errorf("IndexRecords is %d: it has to be at least 1", o.IndexRecords))
	}
	if o.Replays < 0 {
		errs = append(errs, fmt.Errorf("option Replays is %d: no subscriber could read the log", o.Replays))
	}
	return errors.Join(errs...)
}

// Hub tails the partitions of a topic that have subscribers, each once. Create one with New, and
// call Run.
//
// These invariants guarantee the seamless change from the log to new records. They hold for each
// partition, under its mutex:
//
//  1. The reader has passed every record before partition.next, and none after it.
//  2. A subscription has received, or has in its queue, every record of its key
//     before Subscription.next, and none after it.
//  3. The reader puts a record into the queue of a subscription that is live and has
//     next at or before the record. It then moves that next past the record.
//  4. A subscription becomes live only if its next is at or after partition.next. So
//     the reader has yet to pass everything that the subscription lacks. Until then
//     the subscription reads pages of the log.
type Hub struct {
	topic      string
	log        Log
	keyed      stream.KeyTailer // the log; nil if it is not a KeyTailer
	options    Options
	partitions []*partition
	replays    *semaphore.Weighted
	metrics    Metrics
}

// New returns a hub for a topic of log.
func New(ctx context.Context, log Log, topic string, o Options) (*Hub, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("hub of %q: %w", topic, err)
	}
	topics, err := log.Topics(ctx)
	if err != nil {
		return nil, fmt.Errorf("hub of %q: %w", topic, err)
	}
	i := slices.IndexFunc(topics, func(t stream.Topic) bool { return t.Name == topic })
	if i < 0 {
		return nil, fmt.Errorf("hub of %q: %w: create it first", topic, stream.ErrUnknownTopic)
	}
	o.QueueBytes = cmp.Or(o.QueueBytes, 32<<10)
	o.IndexRecords = cmp.Or(o.IndexRecords, 256<<10)
	o.Replays = cmp.Or(o.Replays, 16)
	h := &Hub{topic: topic, log: log, options: o, replays: semaphore.NewWeighted(o.Replays)}
	h.keyed, _ = log.(stream.KeyTailer)
	for n := range topics[i].Partitions {
		h.partitions = append(h.partitions, newPartition(h, stream.Partition{Topic: topic, Index: n}))
	}
	return h, nil
}

// Run tails partitions until ctx is done, which is not an error, or the log is closed. It tails a
// partition from its first subscriber on. It keeps tailing after the last one leaves, because the
// index speeds up subscribers that return.
func (h *Hub) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range h.partitions {
		group.Go(func() error { return p.run(ctx) })
	}
	return group.Wait()
}

// Metrics returns the counters of the hub.
func (h *Hub) Metrics() *Metrics { return &h.metrics }

// Partitions returns how many partitions the topic has.
func (h *Hub) Partitions() int32 { return int32(len(h.partitions)) }

// Place returns the partition that holds the records of key.
func (h *Hub) Place(key []byte) int32 { return stream.Place(key, h.Partitions()) }

// Start positions other than an offset.
const (
	Latest   stream.Offset = -1 // after the newest record
	Earliest stream.Offset = -2 // at the first retained record
)

// Subscribe returns a subscription to the records of key, from offset from, Latest or Earliest. If
// from is before the first retained record or beyond the end of the log, Read returns a *Gap.
//
// When Read has returned all records, State is Idle. The hub then calls wake once, as soon as there
// are more. The goroutine that reads the partition for all subscribers calls it, so wake must not
// block. It may call Read if State is Queued. The caller must close the subscription. If the log
// does not return its offsets within 5 s, Subscribe returns an error.
func (h *Hub) Subscribe(ctx context.Context, key []byte, from stream.Offset, wake func()) (*Subscription, error) {
	p := h.partitions[h.Place(key)]
	s := &Subscription{part: p, key: slices.Clone(key), wake: wake}
	if from < 0 || !p.indexed(from) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		first, next, err := h.log.Offsets(ctx, p.at)
		if err != nil {
			return nil, fmt.Errorf("subscribe to %v: %w", p.at, err)
		}
		switch {
		case from == Latest:
			from = next
		case from == Earliest:
			from = first
		case from < first || from > next:
			s.gap = &Gap{Partition: p.at, Requested: from, Earliest: first}
			from = first
		}
	}
	s.next, s.start, s.whole = from, from, s.gap == nil
	p.add(s)
	return s, nil
}

// Resume subscribes after the record at an offset that had this digest. If the log has another
// record there, or that record is gone, the log's history has changed. The subscription then starts
// at Earliest, and Read first returns a *Gap.
func (h *Hub) Resume(ctx context.Context, key []byte, after stream.Offset, digest func(*stream.Record) uint32, want uint32, wake func()) (*Subscription, error) {
	other, err := h.replaced(ctx, h.partitions[h.Place(key)], after, digest, want)
	if err != nil {
		return nil, err
	}
	if !other {
		return h.Subscribe(ctx, key, after+1, wake)
	}
	s, err := h.Subscribe(ctx, key, Earliest, wake)
	if err != nil {
		return nil, err
	}
	s.part.mu.Lock()
	defer s.part.mu.Unlock()
	s.gap, s.whole = &Gap{Partition: s.part.at, Requested: after + 1, Earliest: s.start}, false
	return s, nil
}

// replaced reports whether the record at an offset no longer has this digest. If retention has
// deleted the record, or the offset is beyond the end, Subscribe reports the gap.
func (h *Hub) replaced(ctx context.Context, p *partition, at stream.Offset, digest func(*stream.Record) uint32, want uint32) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r, found, err := h.log.Peek(ctx, p.at, at)
	if err != nil {
		return false, fmt.Errorf("resume at %v: %w", p.at, err)
	}
	if !found || r.Offset == at {
		return found && digest(&r) != want, nil
	}
	first, _, err := h.log.Offsets(ctx, p.at)
	if err != nil {
		return false, fmt.Errorf("resume at %v: %w", p.at, err)
	}
	return at >= first, nil
}

// peekTimeout limits a read of the log that may end without a result.
const peekTimeout = time.Second

// At returns the record at an offset of key's partition. It returns false if the log has no such
// record or does not return it within a second.
func (h *Hub) At(ctx context.Context, key []byte, offset stream.Offset) (stream.Record, bool) {
	if offset < 0 {
		return stream.Record{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, peekTimeout)
	defer cancel()
	r, found, err := h.log.Peek(ctx, h.partitions[h.Place(key)].at, offset)
	return r, err == nil && found && r.Offset == offset
}

// Gap is an error: records that a subscriber asked for are not in the log, because of retention or
// because the log was lost. The subscription continues at Earliest.
type Gap struct {
	Partition           stream.Partition
	Requested, Earliest stream.Offset
}

// Error says which records are missing.
func (g *Gap) Error() string {
	return fmt.Sprintf("%v no longer has offset %d: its first record is at %d, continue there", g.Partition, g.Requested, g.Earliest)
}

// Is makes a Gap a stream.ErrTrimmed.
func (g *Gap) Is(target error) bool { return target == stream.ErrTrimmed }
