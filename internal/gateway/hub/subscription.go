package hub

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Subscription delivers the records of one key from a position on. Only one goroutine may call
// Read; any goroutine may call Close.
type Subscription struct {
	part *partition
	key  []byte
	wake func()

	start stream.Offset // the first requested offset, or the first after a gap
	whole bool          // there was no gap at the start

	// Guarded by part.mu:
	next    stream.Offset // see Hub
	live    bool          // the reader puts records into queue
	queue   []stream.Record
	bytes   int  // size of queue
	waiting bool // Read has nothing to return: the next record must trigger wake
	closed  bool
	gap     *Gap // returned by the next Read
}

// Start returns the offset at which the subscription started. It does not deliver records before
// that offset.
func (s *Subscription) Start() stream.Offset { return s.start }

// Whole reports whether all records from the requested offset on were available, as far as
// Subscribe knew. If not, Read first returns a *Gap.
func (s *Subscription) Whole() bool { return s.whole }

// Behind returns the number of offsets between the position of Read and the end of the partition,
// as far as the hub knows. It is 0 if the subscription waits for new records.
func (s *Subscription) Behind() int64 {
	s.part.mu.Lock()
	defer s.part.mu.Unlock()
	return int64(max(0, s.part.next-s.position()))
}

// Next returns the position at which another subscription would continue. Read has returned all
// records of the key before it.
func (s *Subscription) Next() stream.Offset {
	s.part.mu.Lock()
	defer s.part.mu.Unlock()
	return s.position()
}

// position is like Next. The caller holds part.mu.
func (s *Subscription) position() stream.Offset {
	switch {
	case len(s.queue) > 0:
		return s.queue[0].Offset
	case s.live:
		return s.part.next
	}
	return s.next
}

// State says what the next Read will do.
type State int

const (
	Idle   State = iota // return nothing: the hub will call wake
	Queued              // return records without reading the log
	Behind              // read the log
)

// State returns what the next Read will do.
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

// readTimeout limits one read of the log. So the caller can do other work in between, even if the
// log hangs.
const readTimeout = 5 * time.Second

// Read returns the next records in order, about Options.QueueBytes at most. If no records are
// available yet, Read returns none, State is Idle, and the hub calls wake when there are more. Read
// does not wait for new records.
//
// If the subscription is behind, Read reads the log. If that takes 5 s, Read returns no records and
// State is Behind: call Read again. The caller owns the records.
//
// A *Gap means that records are missing; the next Read continues after the gap. After any other
// error except stream.ErrClosed, the caller may call Read again for the same records.
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

// page reads the next records from the log, starting at from; the result may be empty.
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

// take returns the queued records, or the offset at which the caller must start to read the log.
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
	if s.live { // all records that the reader has passed since then have other keys
		s.next = max(s.next, s.part.next)
	}
	s.live = s.part.started && s.next >= s.part.next
	s.waiting = s.live || !s.part.started
	return nil, s.next, s.waiting, nil
}

// trimmed returns the position at which a subscription continues after retention has removed its
// offset, and a *Gap.
func (s *Subscription) trimmed(ctx context.Context, from stream.Offset) (stream.Offset, error) {
	first, _, err := s.part.hub.log.Offsets(ctx, s.part.at)
	if err != nil || first <= from {
		return from, errors.Join(err, ctx.Err())
	}
	s.part.hub.metrics.Gaps.Add(1)
	return first, &Gap{Partition: s.part.at, Requested: from, Earliest: first}
}

// offer queues r if it is next, and reports whether the caller must call wake. The caller holds
// part.mu.
func (s *Subscription) offer(r *stream.Record, bytes int) (wake bool) {
	if !s.live || r.Offset < s.next {
		return false
	}
	if len(s.queue) > 0 && s.bytes+bytes > s.part.hub.options.QueueBytes {
		// The subscriber will read the record from the log. So a subscriber that does not read
		// needs no memory.
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

// miss makes the subscription read a record from the log. The reader has only its key, because the
// key had no subscribers when the reader read it. The result is as for offer.
func (s *Subscription) miss(offset stream.Offset) (wake bool) {
	if !s.live || offset < s.next {
		return false
	}
	s.next, s.live = offset, false
	return s.due()
}

// due reports whether to call wake, and returns true only once. The caller holds part.mu.
func (s *Subscription) due() bool {
	wake := s.waiting
	s.waiting = false
	return wake
}

// Close ends the subscription. The hub may still call wake once.
func (s *Subscription) Close() {
	s.part.remove(s)
}

// clone returns a copy of r in one allocation. The original may share a buffer of the log with
// thousands of other records; the copy does not keep that buffer in memory.
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

// recordBytes estimates the memory of a record's fields, without the bytes they point to.
const recordBytes = 128

func size(r *stream.Record) int {
	n := recordBytes + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += 48 + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}
