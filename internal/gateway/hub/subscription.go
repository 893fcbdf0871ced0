package hub

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Subscription is the records of one key from a position on. One goroutine reads
// it; Close may be called from any.
type Subscription struct {
	part *partition
	key  []byte
	wake func()

	start stream.Offset // the first that it asked for, or the first behind a gap
	whole bool          // there was no gap at the start

	// Guarded by part.mu:
	next    stream.Offset // see Hub
	live    bool          // the reader puts records in the queue
	queue   []stream.Record
	bytes   int  // of the queue
	waiting bool // Read would have nothing: wake is owed
	closed  bool
	gap     *Gap // to be returned first
}

// Start returns the offset at which the subscription began: records of its key
// before it are not asked for.
func (s *Subscription) Start() stream.Offset { return s.start }

// Whole reports whether all from the offset that was asked for on was there, as far
// as Subscribe knew. Where it was not, Read returns a *Gap first.
func (s *Subscription) Whole() bool { return s.whole }

// Behind returns how many offsets of the partition lie between what Read has
// returned and the end, as far as the hub knows: 0 for one that waits.
func (s *Subscription) Behind() int64 {
	s.part.mu.Lock()
	defer s.part.mu.Unlock()
	return int64(max(0, s.part.next-s.position()))
}

// Next returns where another subscription would go on: all records of the key before
// it were returned by Read.
func (s *Subscription) Next() stream.Offset {
	s.part.mu.Lock()
	defer s.part.mu.Unlock()
	return s.position()
}

// position is Next. Its caller holds part.mu.
func (s *Subscription) position() stream.Offset {
	switch {
	case len(s.queue) > 0:
		return s.queue[0].Offset
	case s.live:
		return s.part.next
	}
	return s.next
}

// State says what Read has to do.
type State int

const (
	Idle   State = iota // nothing: wake will be called
	Queued              // it has records, without reading the log
	Behind              // it reads the log
)

// State returns what Read has to do.
func (s *Subscription) State() State {
	s.part.mu.Lock()
	defer s.part.mu.Unlock()
	switch {
	case len(s.queue) > 0:
		return Queued
	case s.waiting:
		return Idle
	}
	return Behind
}

// readTimeout is how long the log is read at once, so that whoever reads does something
// else between, also where the log stands still.
const readTimeout = 5 * time.Second

// Read returns the next records, in order, about Options.QueueBytes of them at
// most; none where there are none yet: then wake is called when there are, as in
// every State of Idle. It reads the log where the subscriber is behind, and does not wait for records to
// come. Where that takes 5 s it returns none too, in State Behind: Read goes on. The records are the caller's.
//
// A *Gap says that records are missing; the next Read goes on behind it. After
// other errors Read may be called again, for the same records, but for
// stream.ErrClosed.
func (s *Subscription) Read(ctx context.Context) ([]stream.Record, error) {
	records, from, done, err := s.take()
	if done || err != nil {
		return records, err
	}
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for !done && err == nil {
		if records, err = s.page(bounded, from); len(records) > 0 || err != nil {
			break
		}
		records, from, done, err = s.take()
	}
	if err != nil && bounded.Err() != nil && ctx.Err() == nil && !errors.Is(err, stream.ErrTrimmed) {
		s.part.hub.metrics.Failures.Add(1)
		return nil, nil
	}
	return records, err
}

// page reads the records that come next from the log, where the subscription is at
// offset from; perhaps none.
func (s *Subscription) page(ctx context.Context, from stream.Offset) ([]stream.Record, error) {
	records, next, err := s.part.page(ctx, s.key, from)
	if errors.Is(err, stream.ErrTrimmed) {
		next, err = s.trimmed(ctx, from)
	}
	s.part.mu.Lock()
	defer s.part.mu.Unlock()
	s.next = next
	return records, err
}

// take returns what is queued, or the offset from which the log has to be read.
func (s *Subscription) take() (records []stream.Record, from stream.Offset, done bool, err error) {
	s.part.mu.Lock()
	defer s.part.mu.Unlock()
	switch {
	case s.closed:
		return nil, 0, true, stream.ErrClosed
	case s.gap != nil:
		err, s.gap = s.gap, nil
		s.part.hub.metrics.Gaps.Add(1)
		return nil, 0, true, err
	case len(s.queue) > 0:
		records, s.queue, s.bytes, s.waiting = s.queue, nil, 0, s.live
		return records, 0, true, nil
	}
	if s.live { // whatever the reader has passed meanwhile was of other keys
		s.next = max(s.next, s.part.next)
	}
	s.live = s.part.started && s.next >= s.part.next
	s.waiting = s.live || !s.part.started
	return nil, s.next, s.waiting, nil
}

// trimmed returns where a subscription goes on that asked for an offset which
// retention has removed, and a *Gap.
func (s *Subscription) trimmed(ctx context.Context, from stream.Offset) (stream.Offset, error) {
	first, _, err := s.part.hub.log.Offsets(ctx, s.part.at)
	if err != nil || first <= from {
		return from, errors.Join(err, ctx.Err())
	}
	s.part.hub.metrics.Gaps.Add(1)
	return first, &Gap{Partition: s.part.at, Requested: from, Earliest: first}
}

// offer puts r in the queue where it is next, and reports whether wake is to be
// called. Its caller holds part.mu.
func (s *Subscription) offer(r *stream.Record, bytes int) (wake bool) {
	if !s.live || r.Offset < s.next {
		return false
	}
	if len(s.queue) > 0 && s.bytes+bytes > s.part.hub.options.QueueBytes {
		// It is read again from the log: what a subscriber that stands still
		// does not take needs no memory.
		s.next, s.live, s.queue, s.bytes = s.queue[0].Offset, false, nil, 0
		s.part.hub.metrics.Slow.Add(1)
		return false
	}
	s.queue = append(s.queue, *r)
	s.bytes += bytes
	s.next = r.Offset + 1
	s.part.hub.metrics.Queued.Add(1)
	return s.due()
}

// miss has a record read from the log which the reader knows by its key alone, since
// nobody had subscribed to that yet when it was read. It reports what offer does.
func (s *Subscription) miss(offset stream.Offset) (wake bool) {
	if !s.live || offset < s.next {
		return false
	}
	s.next, s.live = offset, false
	return s.due()
}

// due reports whether wake is to be called, once. Its caller holds part.mu.
func (s *Subscription) due() bool {
	wake := s.waiting
	s.waiting = false
	return wake
}

// Close ends the subscription. Wake may still be called once.
func (s *Subscription) Close() {
	s.part.remove(s)
}

// clone returns a copy of r, in one piece, that keeps no buffer of the log in
// memory, which may hold thousands of other records.
func clone(r *stream.Record) stream.Record {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Value)
	}
	c, bytes := *r, make([]byte, 0, n)
	keep := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		bytes = append(bytes, b...)
		return bytes[len(bytes)-len(b) : len(bytes) : len(bytes)]
	}
	c.Key, c.Value, c.Headers = keep(r.Key), keep(r.Value), slices.Clone(r.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = keep(c.Headers[i].Value)
	}
	return c
}

// recordBytes is about what the fields of a record take beside its bytes.
const recordBytes = 128

func size(r *stream.Record) int {
	n := recordBytes + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += 48 + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}
