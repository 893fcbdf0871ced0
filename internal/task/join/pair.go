package join

import (
	"errors"
	"fmt"
	"sort"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// Event is an event of the left or the right input.
type Event struct {
	Record    *stream.Record
	Right     bool
	Time      int64
	Watermark int64
	Row       *value.Row
	operator.Identity
}

const onMax = 1024 // bytes

var errOn = errors.New("what it is joined on has more than 1024 bytes")

// Add adds an event to the join, and returns about how many bytes the state stores for it.
// A failure makes the event a dead letter and leaves the join unchanged.
func (s *Set) Add(e Event) (bytes int, failure, fatal error) {
	j := s.plan.Join
	on, ok := j.OnText(e.Row, e.Right)
	name := string(statekey.AppendJoin(nil, j.Name, e.Record.Key, on))
	b := s.buckets[name]
	if b == nil {
		b = &bucket{name: name, at: never}
	}
	r := s.rowOf(&e, b)
	switch {
	case len(on) > onMax:
		return 0, errOn, nil
	case !ok && e.Right:
		s.counts.Unclaimed.Add(1)
		return 0, nil, nil
	case !ok:
		s.close(r, never)
		return 0, nil, nil
	}
	stays, met := s.until(r) >= e.Watermark, s.met(b, r)
	if len(met) > j.Most.Matches {
		return 0, fmt.Errorf("makes %d pairs, more than max.matches (%d) of join %s", len(met), j.Most.Matches, j.Name), nil
	}
	if stays && (s.rows >= j.Most.Rows || s.bytes+r.size > j.Most.Bytes) {
		return 0, fmt.Errorf("join %s has %d events that wait, with %d bytes: one more is over its max.rows (%d) or max.bytes (%d)", j.Name, s.rows, s.bytes, j.Most.Rows, j.Most.Bytes), nil
	}
	for _, o := range met {
		if err := s.load(o); err != nil {
			return 0, nil, err
		}
		if e.Right {
			s.meet(o, r)
		} else {
			s.meet(r, o)
		}
	}
	s.settle(b, met, &e)
	switch {
	case !e.Right && s.decided(r, e.Watermark):
		s.goOn(r, never)
	case stays:
		bytes = r.size
		s.insert(b, r)
		s.touch(r)
		s.await(b)
	case !e.Right:
		s.close(r, never)
	case !r.matched:
		s.counts.Unclaimed.Add(1)
	}
	return bytes, nil, nil
}

// settle sends on the lefts whose first right is certain because of an event.
func (s *Set) settle(b *bucket, lefts []*row, e *Event) {
	if !e.Right || s.plan.Join.Match != operator.MatchFirst {
		return
	}
	went := false
	for _, l := range lefts {
		if s.decided(l, e.Watermark) {
			s.goOn(l, never)
			s.remove(l)
			went = true
		}
	}
	if went {
		s.sweep(b)
	}
	s.await(b)
}

// rowOf returns the stored form of an event: all names of a left, the fields of a right.
func (s *Set) rowOf(e *Event, b *bucket) *row {
	slots := s.plan.Schema.Slots
	if e.Right {
		slots = s.fields
	}
	r := &row{
		place: place{e.Time, positionOf(e.Source)}, of: b, offset: int64(e.Record.Offset), right: e.Right,
		data: &content{Identity: e.Identity, row: operator.AppendNamed(nil, e.Row, slots)},
	}
	if e.Right {
		r.data.Client = operator.Client{} // it ends at the join
	}
	s.buf = r.append(s.buf[:0])
	r.size = len(s.buf)
	return r
}

// met returns the rows of a bucket that make a pair with an event, by place.
func (s *Set) met(b *bucket, r *row) []*row {
	j, side := s.plan.Join, *b.side(!r.right)
	from, to := r.time-j.Before.Microseconds(), r.time+j.Within.Microseconds()
	if r.right {
		from, to = r.time-j.Within.Microseconds(), r.time+j.Before.Microseconds()
	}
	first := sort.Search(len(side), func(i int) bool { return side[i].time >= from })
	return side[first:][:sort.Search(len(side)-first, func(i int) bool { return side[first+i].time > to })]
}

// meet records that a left and a right are a pair.
func (s *Set) meet(l, r *row) {
	if !r.matched {
		r.matched = true
		s.touch(r)
	}
	right := event{r.data.ID, r.data.Source, r.data.row}
	if s.plan.Join.Match == operator.MatchEach {
		s.emit(l, &right, max(l.time, r.time), never)
		if !l.matched {
			l.matched = true
			s.touch(l)
		}
		return
	}
	l.data.count++
	before := l.best
	if order := 0; before != nil {
		if order = r.compare(before); s.plan.Join.Match == operator.MatchFirst && order > 0 {
			return
		} else if s.plan.Join.Match == operator.MatchLast && order < 0 {
			s.resize(l)
			return
		}
	}
	best := r.place
	l.best, l.data.best, l.matched = &best, right, true
	s.resize(l)
}

// resize measures a left that changed, and marks it to be written.
func (s *Set) resize(l *row) {
	before := l.size
	s.buf = l.append(s.buf[:0])
	if l.size = len(s.buf); l.stored {
		s.count(0, l.size-before)
		s.touch(l)
	}
}

// decided reports whether the best right of a left is certain: no earlier one can arrive in
// time.
func (s *Set) decided(l *row, watermark int64) bool {
	return s.plan.Join.Match == operator.MatchFirst && l.best != nil && l.best.time <= watermark
}

// goOn sends a left on with its best right.
func (s *Set) goOn(l *row, at int64) { s.emit(l, &l.data.best, max(l.time, l.best.time), at) }

// close ends a left for which no other right can arrive.
func (s *Set) close(l *row, at int64) {
	switch {
	case s.plan.Join.Match == operator.MatchEach && l.matched:
	case l.best == nil:
		s.emit(l, nil, s.until(l), at)
	case s.plan.Join.Match == operator.MatchFirst:
		s.goOn(l, at)
	default:
		s.emit(l, &l.data.best, s.until(l), at)
	}
}

// emit sends a left on: at a time of the queue, or at once if the time is never.
func (s *Set) emit(l *row, right *event, time, at int64) {
	if right != nil {
		s.counts.Matched.Add(1)
	} else {
		s.counts.Unmatched.Add(1)
	}
	s.ended = append(s.ended, &Joined{Join: s.plan.Join, Time: time, Due: at, of: l.of.name, offset: l.offset, left: l.data, right: right})
}

// Come ends the rows that are due at an entry of the queue, and returns about how many bytes
// of changes it made. An outdated entry changes nothing.
func (s *Set) Come(e due.Entry) (bytes int, err error) {
	b := s.buckets[e.Key]
	if b == nil || b.at != e.At {
		return 0, nil
	}
	b.at = never
	for _, side := range [][]*row{b.lefts, b.right} {
		for _, r := range side {
			if s.next(r) > e.At {
				if r.right || s.plan.Join.Match != operator.MatchFirst {
					break
				}
				continue
			}
			bytes += len(b.name)
			if r.right && !r.matched {
				s.counts.Unclaimed.Add(1)
			}
			if !r.right {
				if err := s.load(r); err != nil {
					return 0, err
				}
				s.close(r, e.At)
			}
			s.remove(r)
		}
	}
	s.sweep(b)
	if len(b.lefts)+len(b.right) > 0 {
		s.await(b)
	}
	return bytes, nil
}

// Ended returns the lefts that were sent on since the last call, in order.
func (s *Set) Ended() []*Joined {
	if s == nil || len(s.ended) == 0 {
		return nil
	}
	ended := s.ended
	s.ended = nil
	return ended
}
