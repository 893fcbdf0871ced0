// Package join pairs the events of two inputs within a partition. The events of a pair have
// the same key and the same join fields, and their event times are within an interval. The
// left event of a pair goes on to the next steps, with the fields of the right event.
//
//  1. The pairs are a function of the event times. The watermark only decides when no other
//     event can arrive in time: then a left goes on without a right, and the set deletes
//     the waiting events.
//  2. Each waiting event is an entry of state. A left keeps a copy of its best right, so a
//     right waits only while a left for it may still arrive.
//  3. Memory holds an index of the waiting events. Contents are read from the state.
package join

import (
	"fmt"
	"math"
	"slices"
	"sort"
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
	Fields []value.Slot // of the inputs
}

// Counts are the counters of a join in a process. The sets of all partitions share them.
type Counts struct {
	Rows, Bytes atomic.Int64  // waiting events, and the bytes of their state
	Matched     atomic.Uint64 // pairs that went on
	Unmatched   atomic.Uint64 // lefts that ended without a right
	Unclaimed   atomic.Uint64 // rights that ended without a left
}

const never = math.MaxInt64

// Set is the waiting events of a partition. It is ahead of the committed state; the caller
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
	fields  []value.Slot // of rights
	buf     []byte
	dirty   []*row
	idle    []*row // their contents leave memory when the step is durable
}

// bucket is the waiting events of one key and one value of the join fields.
type bucket struct {
	name  string
	lefts []*row // by place
	right []*row // by place
	at    int64  // of its entry in the queue; never without one
}

// Open restores the waiting events of a partition from its state; nil if the pipeline has no
// join. It adds their due times to queue. State of a join that the pipeline no longer has is
// an error.
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
		return fmt.Errorf("events of join %q wait in %v, which the pipeline no longer has: run it as it was until they went on", join, s.id)
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

func (b *bucket) side(right bool) *[]*row {
	if right {
		return &b.right
	}
	return &b.lefts
}

// insert adds a row to its bucket.
func (s *Set) insert(b *bucket, r *row) {
	side := b.side(r.right)
	at := sort.Search(len(*side), func(i int) bool { return (*side)[i].compare(&r.place) > 0 })
	*side, r.of, r.stored = slices.Insert(*side, at, r), b, true
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

// remove ends a row. The caller sweeps its bucket.
func (s *Set) remove(r *row) {
	r.gone = true
	s.count(-1, -r.size)
	s.touch(r)
}

// sweep removes the rows that ended from a bucket, and the bucket if it is empty.
func (s *Set) sweep(b *bucket) {
	for _, side := range []*[]*row{&b.lefts, &b.right} {
		*side = slices.DeleteFunc(*side, func(r *row) bool { return r.gone })
	}
	if len(b.lefts)+len(b.right) == 0 {
		delete(s.buckets, b.name)
	}
}

// until returns the latest time of an event that makes a pair with a row.
func (s *Set) until(r *row) int64 {
	if r.right {
		return r.time + s.plan.Join.Before.Microseconds()
	}
	return r.time + s.plan.Join.Within.Microseconds()
}

// next returns the time at which a row is due, unless an event ends it before.
func (s *Set) next(r *row) int64 {
	if s.plan.Join.Match == operator.MatchFirst && r.best != nil {
		return min(r.best.time, s.until(r)+1)
	}
	return s.until(r) + 1
}

// await queues a bucket for the time at which its first row is due.
func (s *Set) await(b *bucket) {
	first := int64(never)
	for _, side := range [][]*row{b.lefts, b.right} {
		for i, r := range side {
			first = min(first, s.next(r))
			if i == 0 && (r.right || s.plan.Join.Match != operator.MatchFirst) {
				break // rows are in the order of their times
			}
		}
	}
	if first < b.at {
		b.at = first
		s.due.Push(due.Entry{At: first, Key: b.name})
	}
}

// load reads the content of a row into memory, until the step is durable.
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

// Changes calls write for each state key that changed since the last call; nil data deletes
// the key. The changes of the last call must be durable. Write must not keep its arguments.
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
