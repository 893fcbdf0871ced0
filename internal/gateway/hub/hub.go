// Package hub hands the records of a topic to subscribers by key: each from a
// position on, strictly in order, first those that are in the log, then those
// that come, with neither a gap nor a repeat where the two meet. It needs no
// group: any process serves any key.
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

// Log is what a Hub needs of a stream.Log and its stream.Inspector, as they
// promise it.
type Log interface {
	Topics(ctx context.Context) ([]stream.Topic, error)
	Tail(ctx context.Context, p stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error]
	Offsets(ctx context.Context, p stream.Partition) (first, next stream.Offset, err error)
	Peek(ctx context.Context, p stream.Partition, from stream.Offset) (stream.Record, bool, error)
}

// Options bound a Hub. The zero value is a good default.
type Options struct {
	// QueueBytes of records may wait for a subscriber. One that is slower gives
	// them back and reads them from the log, QueueBytes at a time; 0 is 32 KiB:
	// more brings results no sooner, and a thousand who do not read take a third.
	QueueBytes int
	// IndexRecords of each partition, the newest, are known by their keys, in 12
	// bytes each: a subscriber that begins among them reads its own records
	// only; 0 is 262,144, 3 MiB for a partition.
	IndexRecords int
	// Replays is how many subscribers may read the log at once; others wait; 0
	// is 16.
	Replays int64
}

// Validate returns all that is wrong with the options, and why.
func (o Options) Validate() error {
	var errs []error
	if o.QueueBytes < 0 {
		errs = append(errs, fmt.Errorf("QueueBytes is %d: no record could wait", o.QueueBytes))
	}
	if o.IndexRecords < 0 {
		errs = append(errs, fmt.Errorf("IndexRecords is %d: it has to be at least 1", o.IndexRecords))
	}
	if o.Replays < 0 {
		errs = append(errs, fmt.Errorf("option Replays is %d: nobody could read the log", o.Replays))
	}
	return errors.Join(errs...)
}

// Hub tails the partitions of a topic that have subscribers, each once. Make one
// with New, and Run it.
//
// What makes the seam hold, of one partition and under its mutex:
//
//  1. The reader has passed every record before partition.next, and none after.
//  2. A subscription has been given every record of its key before
//     Subscription.next, or has it in its queue, and none after.
//  3. The reader puts a record in the queue of a subscription that is live and
//     whose next is not beyond it, and moves that next behind it.
//  4. A subscription becomes live only where its next is not before
//     partition.next: so what it has not been given is what the reader has still
//     to pass. Until then it reads pages of the log.
type Hub struct {
	topic      string
	log        Log
	keyed      stream.KeyTailer // the log; nil where it is none
	options    Options
	partitions []*partition
	replays    *semaphore.Weighted
	metrics    Metrics
}

// New returns a hub of a topic of log.
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

// Run tails partitions until ctx is done, which is no error, or the log is
// closed. A partition is tailed from its first subscriber on, and stays so, since
// its index serves those that come again.
func (h *Hub) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range h.partitions {
		group.Go(func() error { return p.run(ctx) })
	}
	return group.Wait()
}

// Metrics returns what the hub counts.
func (h *Hub) Metrics() *Metrics { return &h.metrics }

// Partitions returns how many partitions the topic has.
func (h *Hub) Partitions() int32 { return int32(len(h.partitions)) }

// Place returns the partition of the records of key.
func (h *Hub) Place(key []byte) int32 { return stream.Place(key, h.Partitions()) }

// Where a subscription begins, other than at an offset.
const (
	Latest   stream.Offset = -1 // behind the newest record
	Earliest stream.Offset = -2 // at the first that is retained
)

// Subscribe returns a subscription to the records of key from offset from on, or
// Latest, or Earliest. An offset before the first retained record, or beyond the
// end of the log, is a *Gap that Read returns. Where Read has left nothing, its
// State is Idle, wake is called once, as soon as there is more, by who reads the
// partition for all: it must not block, so that it may call Read where State is Queued. Close the subscription when it is not needed.
// A log that does not say within 5 s what it has is an error.
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

// Resume is Subscribe behind the record at an offset, which had this digest. If the log
// has another record there, or none any more, its history is another one: then the
// subscription begins at Earliest, and Read returns a *Gap first.
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

// replaced reports whether the record at an offset is not the one of a digest. If
// retention deleted it, or it is beyond the end, Subscribe reports the gap.
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

// peekTimeout bounds a read of the log that may end without a result.
const peekTimeout = time.Second

// At returns the record at an offset of the partition of key, as far as the log has it
// and says so at once.
func (h *Hub) At(ctx context.Context, key []byte, offset stream.Offset) (stream.Record, bool) {
	if offset < 0 {
		return stream.Record{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, peekTimeout)
	defer cancel()
	r, found, err := h.log.Peek(ctx, h.partitions[h.Place(key)].at, offset)
	return r, err == nil && found && r.Offset == offset
}

// Gap says that records which a subscriber asked for are not in the log, by
// retention, or since the log was lost. Its subscription goes on at Earliest.
type Gap struct {
	Partition           stream.Partition
	Requested, Earliest stream.Offset
}

// Error says what is missing.
func (g *Gap) Error() string {
	return fmt.Sprintf("%v has nothing at offset %d any more, its first record is at %d: go on there", g.Partition, g.Requested, g.Earliest)
}

// Is makes a Gap a stream.ErrTrimmed.
func (g *Gap) Is(target error) bool { return target == stream.ErrTrimmed }
