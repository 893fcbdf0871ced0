// Package join makes pairs of the events of two inputs, beside a partition: those of one
// key that have something in common and are at most so far apart in event time. The left
// of a pair goes on, with the right's fields.
//
//  1. Which events are pairs is a function of their own times. The watermark only decides
//     when no other one can come in time: then a left goes on without a right, and what
//     waits is forgotten.
//  2. Each event that waits is an entry of state. A left that has a best right has a copy
//     of it, so a right waits only as long as lefts for it may come.
//  3. Memory has where each event stands. What it has is read from the state again.
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
	Join   *operator.Join // nil is none
	Schema *value.Schema
	Fields []value.Slot // of the inputs
}

// Counts is what a join counts in a process: the sets of all of its partitions share it.
type Counts struct {
	Rows, Bytes atomic.Int64  // events that wait, and what is stored of them
	Matched     atomic.Uint64 // that went on: lefts with a right, or pairs
	Unmatched   atomic.Uint64 // lefts without a right, whether they went on or not
	Unclaimed   atomic.Uint64 // rights without a left
}

const never = math.MaxInt64

// Set is what waits beside a partition. It runs ahead of what is committed; after a failed
// commit it is thrown away. One goroutine owns it. A nil one has no join.
type Set struct {
	plan    *Plan
	counts  *Counts
	id      stream.Partition
	view    stream.View
	due     *due.Lane
	buckets map[string]*bucket // by name
	rows    int
	bytes   int
	ended   []*Joined    // to be taken
	fields  []value.Slot // of rights
	buf     []byte
	dirty   []*row
	idle    []*row // whose content the state has, once the step before is durable
}

// bucket is the events of a key that have the same values of On.
type bucket struct {
	name  string
	lefts []*row // by place
	right []*row // likewise
	at    int64  // of its entry in the queue; never is none
}

// Open returns what waits beside a partition as its state has it; nil where the pipeline
// has no join. Events that wait for a join that it no longer has are an error. What comes
// due is put into queue.
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

// Close takes what the set has out of the counts of its process.
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

// insert has a row wait.
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

// touch notes that a row which waits is to be written, or deleted.
func (s *Set) touch(r *row) {
	if r.stored && !r.dirty {
		r.dirty = true
		s.dirty = append(s.dirty, r)
	}
}

// remove ends the waiting of a row. It is still in its bucket.
func (s *Set) remove(r *row) {
	r.gone = true
	s.count(-1, -r.size)
	s.touch(r)
}

// sweep takes the rows that wait no more out of a bucket, and the bucket itself if it is
// empty.
func (s *Set) sweep(b *bucket) {
	for _, side := range []*[]*row{&b.lefts, &b.right} {
		*side = slices.DeleteFunc(*side, func(r *row) bool { return r.gone })
	}
	if len(b.lefts)+len(b.right) == 0 {
		delete(s.buckets, b.name)
	}
}

// until returns the time of the last event that a row is a pair with.
func (s *Set) until(r *row) int64 {
	if r.right {
		return r.time + s.plan.Join.Before.Microseconds()
	}
	return r.time + s.plan.Join.Within.Microseconds()
}

// next returns when something is to be done about a row, unless an event does it before.
func (s *Set) next(r *row) int64 {
	if s.plan.Join.Match == operator.MatchFirst && r.best != nil {
		return min(r.best.time, s.until(r)+1)
	}
	return s.until(r) + 1
}

// await notes when something is first to be done about a bucket.
func (s *Set) await(b *bucket) {
	first := int64(never)
	for _, side := range [][]*row{b.lefts, b.right} {
		for i, r := range side {
			first = min(first, s.next(r))
			if i == 0 && (r.right || s.plan.Join.Match != operator.MatchFirst) {
				break // they come in the order of their times
			}
		}
	}
	if first < b.at {
		b.at = first
		s.due.Push(due.Entry{At: first, Key: b.name})
	}
}

// load has the content of a row in memory until the step is durable.
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

// Changes calls write with what changed since it was last called, by state key; nil data
// deletes. What it wrote before must be durable. Keys and data are not kept.
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
