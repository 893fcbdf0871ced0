// Package join pairs the events of two inputs within a partition. The events of a pair have the
// same key and the same join fields, and their event times are within an interval. The left event
// of a pair continues to the next steps, with the fields of the right event.
//
//  1. The pairs are a function of the event times. The watermark only decides when no other event
//     can arrive in time. Then a left event continues without a right one, and the set deletes the
//     waiting events.
//  2. Each waiting event is an entry of state. A left event stores a copy of its best right event,
//     so a right event waits only while a left event for it may still arrive.
//  3. Memory holds an index of the waiting events. Contents are read from the state.
package join

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// Plan is the join of a pipeline.
type Plan struct {
	Join   *operator.Join // nil without a join
	Schema *value.Schema
	Fields []value.Slot // fields of the inputs
}

// Counts are the counters of a join in a process. The sets of all partitions share them.
type Counts struct {
	Rows, Bytes atomic.Int64  // waiting events, and the bytes of their state
	Matched     atomic.Uint64 // pairs that continued
	Unmatched   atomic.Uint64 // lefts that ended without a right
	Unclaimed   atomic.Uint64 // rights that no left took
	Unkept      atomic.Uint64 // rights that a left took and that do not wait for other lefts, because there is no room
}

const never = math.MaxInt64

// Set holds the waiting events of a partition. It is ahead of the committed state. The caller
// discards it after a failed commit. One goroutine owns it. A nil Set has no join.
type Set struct {
	plan    *Plan
	counts  *Counts
	id      stream.Partition
	view    stream.View
	due     *due.Lane
	buckets map[string]*bucket // by name
	rows    int
	bytes   int
	ended   []*Joined    // for Ended
	fields  []value.Slot // fields of rights
	buf     []byte
	dirty   []*row
	idle    []*row // rows to release from memory when the transaction is durable
}

// bucket holds the waiting events of one key and one value of the join fields.
type bucket struct {
	name   string
	lefts  list  // by place
	taken  list  // with MatchFirst: the lefts that have a best right, by its place
	rights list  // by place
	at     int64 // time of its entry in the queue; never without one
}

// Open restores the waiting events of a partition from its state. It returns nil if the pipeline
// has no join. It adds their due times to queue. It returns an error if the state belongs to a join
// that the pipeline no longer has.
func Open(plan *Plan, counts *Counts, id stream.Partition, view stream.View, queue *due.Queue) (*Set, error) {
	s := &Set{plan: plan, counts: counts, id: id, view: view, due: &queue[due.Group], buckets: map[string]*bucket{}}
	for entry, err := range view.Scan([]byte{statekey.Join}) {
		if err == nil {
			err = s.restore(entry)
		}
		if err != nil {
			return nil, err
		}
	}
	if plan.Join == nil {
		return nil, nil
	}
	for _, f := range plan.Join.Fields {
		s.fields = append(s.fields, f.Field)
	}
	for _, b := range s.buckets {
		s.await(b)
	}
	return s, nil
}

func (s *Set) restore(entry stream.Entry) error {
	join, of, _, right, offset, ok := statekey.JoinOf(entry.Key)
	if !ok {
		return fmt.Errorf("a join of %v: %w", s.id, packed.ErrDamaged)
	}
	if j := s.plan.Join; j == nil || j.Name != join {
		return fmt.Errorf("events of join %q wait in %v, but the pipeline has no such step: run the earlier file until they have continued", join, s.id)
	}
	r := &row{offset: offset, right: right, written: true}
	if err := r.parse(entry.Value); err != nil {
		return fmt.Errorf("join %q of %v: %w", join, s.id, err)
	}
	b := s.buckets[of]
	if b == nil {
		b = &bucket{name: of, at: never}
	}
	s.insert(b, r)
	r.data = nil
	return nil
}

// Close subtracts the events of the set from the counters of the process.
func (s *Set) Close() {
	if s == nil {
		return
	}
	s.counts.Rows.Add(-int64(s.rows))
	s.counts.Bytes.Add(-int64(s.bytes))
	s.rows, s.bytes = 0, 0
}

// list returns the list that a row belongs to, and its order.
func (b *bucket) list(r *row, match operator.Match) (*list, func(a, b *row) int) {
	switch {
	case r.right:
		return &b.rights, byPlace
	case match == operator.MatchFirst && r.best != nil:
		return &b.taken, byBest
	}
	return &b.lefts, byPlace
}

func (s *Set) putIn(r *row) {
	list, order := r.of.list(r, s.plan.Join.Match)
	list.insert(r, order)
}

func (s *Set) takeOut(r *row) {
	list, order := r.of.list(r, s.plan.Join.Match)
	list.remove(r, order)
}

// insert adds a row to its bucket.
func (s *Set) insert(b *bucket, r *row) {
	r.of, r.stored = b, true
	s.putIn(r)
	s.buckets[b.name] = b
	s.count(1, r.size)
}

func (s *Set) count(rows, bytes int) {
	s.rows, s.bytes = s.rows+rows, s.bytes+bytes
	s.counts.Rows.Add(int64(rows))
	s.counts.Bytes.Add(int64(bytes))
}

// touch marks a row of a bucket to be written or deleted.
func (s *Set) touch(r *row) {
	if r.stored && !r.dirty {
		r.dirty = true
		s.dirty = append(s.dirty, r)
	}
}

// remove ends a row, and removes it from its bucket.
func (s *Set) remove(r *row) {
	s.takeOut(r)
	r.gone = true
	s.count(-1, -r.size)
	if s.touch(r); r.of.empty() {
		delete(s.buckets, r.of.name)
	}
}

func (b *bucket) empty() bool { return len(b.lefts)+len(b.taken)+len(b.rights) == 0 }

// until returns the latest time of an event that makes a pair with a row.
func (s *Set) until(r *row) int64 {
	if r.right {
		return r.time + s.plan.Join.Before.Microseconds()
	}
	return r.time + s.plan.Join.Within.Microseconds()
}

// next returns the time when a row is due, unless an event ends it before. With MatchFirst a left
// with a best right is due when no earlier right can arrive.
func (s *Set) next(r *row) int64 {
	if s.plan.Join.Match == operator.MatchFirst && r.best != nil {
		return r.best.time + 1
	}
	return s.until(r) + 1
}

// first returns the row of a bucket that is due first, or nil if the bucket is empty.
func (s *Set) first(b *bucket) (first *row) {
	for _, l := range []list{b.taken, b.lefts, b.rights} {
		if r := l.first(); r != nil && (first == nil || s.next(r) < s.next(first)) {
			first = r
		}
	}
	return first
}

// dueMin is how many outdated entries the queue may always have.
const dueMin = 1024

// await queues a bucket for the time when its first row is due. If more than half of the queue is
// outdated, await rebuilds the queue.
func (s *Set) await(b *bucket) {
	r := s.first(b)
	if r == nil || s.next(r) >= b.at {
		return
	}
	b.at = s.next(r)
	if s.due.Push(due.Entry{At: b.at, Key: b.name}); s.due.Len() <= 2*len(s.buckets)+dueMin {
		return
	}
	s.due.Reset()
	for _, b := range s.buckets {
		s.due.Push(due.Entry{At: b.at, Key: b.name})
	}
}

// load reads the content of a row into memory, until the transaction is durable.
func (s *Set) load(r *row) error {
	if r.data != nil {
		return nil
	}
	data, err := s.view.Get(r.key())
	if err == nil {
		err = r.parse(data)
	}
	if err != nil {
		return fmt.Errorf("join %q of %v: %w", s.plan.Join.Name, s.id, err)
	}
	s.idle = append(s.idle, r)
	return nil
}

// Changes calls write for each state key that changed since the last call. nil data deletes the
// key. The changes of the last call must be durable. write must not keep its arguments.
func (s *Set) Changes(write func(key, data []byte)) {
	if s == nil {
		return
	}
	for _, r := range s.idle {
		if !r.dirty {
			r.data = nil
		}
	}
	clear(s.idle)
	s.idle = s.idle[:0]
	for _, r := range s.dirty {
		switch r.dirty = false; {
		case !r.gone:
			s.buf = r.append(s.buf[:0])
			write(r.key(), s.buf)
			r.written, s.idle = true, append(s.idle, r)
		case r.written:
			write(r.key(), nil)
		}
	}
	clear(s.dirty)
	s.dirty = s.dirty[:0]
}
