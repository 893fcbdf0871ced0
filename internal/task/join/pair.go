package join

import (
	"errors"
	"fmt"
	"slices"

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
	Tied int32 // smallest partition of the right topic that may still deliver an event with the watermark's time
}

const onMax = 1024 // bytes

var errOn = errors.New("the value that it is joined on has more than 1024 bytes")

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
		s.emit(r, nil, r.time, never)
		return 0, nil, nil
	}
	pairs := s.pairs(b, r)
	if len(pairs) > j.Most.Matches {
		return 0, fmt.Errorf("makes %d pairs, more than max.matches (%d) of join %s", len(pairs), j.Most.Matches, j.Name), nil
	}
	for _, o := range pairs {
		if err := s.load(o); err != nil {
			return 0, nil, err
		}
	}
	sure := s.sure(&e, r, pairs)
	waits := s.until(r) >= e.Watermark && (e.Right || !sure)
	if waits, failure = s.room(r, pairs, sure, waits); failure != nil {
		return 0, failure, nil
	}
	for _, o := range pairs {
		if e.Right {
			s.meet(o, r, sure)
		} else {
			s.meet(r, o, sure)
		}
	}
	switch {
	case waits:
		bytes = r.size
		s.insert(b, r)
		s.touch(r)
	case e.Right && !r.matched:
		s.counts.Unclaimed.Add(1)
	case !e.Right && !sure:
		s.close(r, never)
	}
	s.await(b)
	return bytes, nil, nil
}

// sure reports whether no right event can arrive in time that is earlier than the one in the
// event's pairs. That is the event itself, or the first right of a left.
func (s *Set) sure(e *Event, r *row, pairs []*row) bool {
	if s.plan.Join.Match != operator.MatchFirst || len(pairs) == 0 {
		return false
	}
	if !e.Right {
		r = pairs[0]
	}
	return r.time < e.Watermark || r.time == e.Watermark && r.source.Index <= e.Tied
}

// room reports whether an event waits. It returns an error if the limits refuse the event. A right
// event that a waiting left takes is not refused: without room, it does not wait for other lefts.
// The copies of rights that lefts keep may take max.bytes a second time.
func (s *Set) room(r *row, pairs []*row, sure, waits bool) (bool, error) {
	most, rows, bytes, copies := &s.plan.Join.Most, 0, 0, 0
	if waits {
		rows, bytes = 1, r.size
	}
	for i, o := range pairs {
		switch {
		case sure && r.right:
			rows, bytes = rows-1, bytes-o.size
		case sure || s.plan.Join.Match == operator.MatchEach:
		case r.right && s.takes(o, r):
			copies += r.event().size() - o.data.best.size()
		case !r.right && (i == 0 || s.plan.Join.Match == operator.MatchLast):
			copies = o.event().size()
		}
	}
	fits := func(grown, to, most int) bool { return grown <= 0 || to+grown <= most }
	switch {
	case fits(rows, s.rows, most.Rows) && fits(bytes+copies, s.bytes, most.Bytes):
		return waits, nil
	case r.right && len(pairs) > 0 && fits(copies, s.bytes, 2*most.Bytes):
		if waits {
			s.counts.Unkept.Add(1)
		}
		return false, nil
	}
	return false, fmt.Errorf("join %s has %d events that wait, with %d bytes: one more is over its max.rows (%d) or max.bytes (%d)", s.plan.Join.Name, s.rows, s.bytes, most.Rows, most.Bytes)
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

// pairs returns the rows of a bucket that make a pair with an event, by place. With MatchFirst it
// returns only the first right of a left, and the lefts with a best right that is later than a
// right.
func (s *Set) pairs(b *bucket, r *row) (list []*row) {
	j := s.plan.Join
	before, within := j.Before.Microseconds(), j.Within.Microseconds()
	if !r.right {
		for o := range b.rights.since(func(o *row) bool { return o.time >= r.time-before }) {
			if o.time > r.time+within {
				break
			}
			if list = append(list, o); j.Match == operator.MatchFirst {
				break
			}
		}
		return list
	}
	for o := range b.lefts.since(func(o *row) bool { return o.time >= r.time-within }) {
		if o.time > r.time+before {
			break
		}
		list = append(list, o)
	}
	open := len(list)
	for o := range b.taken.since(func(o *row) bool { return o.best.compare(&r.place) > 0 }) {
		if r.time-within <= o.time && o.time <= r.time+before {
			list = append(list, o)
		}
	}
	if len(list) > open {
		slices.SortFunc(list, byPlace)
	}
	return list
}

// takes reports whether a right becomes the best right of a left.
func (s *Set) takes(l, r *row) bool {
	return l.best == nil || (r.compare(l.best) < 0) == (s.plan.Join.Match == operator.MatchFirst)
}

// meet records that a left and a right are a pair. It sends the left on if the right is sure
// to be the first.
func (s *Set) meet(l, r *row, sure bool) {
	s.match(r)
	right := r.event()
	switch {
	case s.plan.Join.Match == operator.MatchEach:
		s.emit(l, &right, max(l.time, r.time), never)
		s.match(l)
		return
	case sure:
		s.emit(l, &right, max(l.time, r.time), never)
		if l.stored {
			s.remove(l)
		}
		return
	case s.plan.Join.Match == operator.MatchLast:
		l.data.count++
	}
	if s.takes(l, r) {
		if l.stored {
			s.takeOut(l)
		}
		best := r.place
		l.best, l.data.best, l.matched = &best, right, true
		if l.stored {
			s.putIn(l)
		}
	}
	s.resize(l)
}

// match records that a row is in a pair.
func (s *Set) match(r *row) {
	if !r.matched {
		r.matched = true
		s.touch(r)
	}
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

// close ends a left row when no other right can arrive for it.
func (s *Set) close(l *row, at int64) {
	switch {
	case s.plan.Join.Match == operator.MatchEach && l.matched:
	case l.best == nil:
		s.emit(l, nil, s.until(l), at)
	case s.plan.Join.Match == operator.MatchFirst:
		s.emit(l, &l.data.best, max(l.time, l.best.time), at)
	default:
		s.emit(l, &l.data.best, s.until(l), at)
	}
}

// emit releases a left row: at a time of the queue, or at once if the time is never.
func (s *Set) emit(l *row, right *event, time, at int64) {
	if right != nil {
		s.counts.Matched.Add(1)
	} else {
		s.counts.Unmatched.Add(1)
	}
	s.ended = append(s.ended, &Joined{Join: s.plan.Join, Time: time, Due: at, of: l.of.name, offset: l.offset, left: l.data, right: right})
}

// comeMax is how many rows Come ends at once. It queues the bucket again for the rest.
const comeMax = 1024

// Come ends rows that are due at an entry of the queue, and returns about how many bytes of
// changes it made. An outdated entry changes nothing.
func (s *Set) Come(e due.Entry) (bytes int, err error) {
	b := s.buckets[e.Key]
	if b == nil || b.at != e.At {
		return 0, nil
	}
	b.at = never
	for range comeMax {
		r := s.first(b)
		if r == nil || s.next(r) > e.At {
			break
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
	s.await(b)
	return bytes, nil
}

// Ended returns the left events that were released since the last call, in order.
func (s *Set) Ended() []*Joined {
	if s == nil || len(s.ended) == 0 {
		return nil
	}
	ended := s.ended
	s.ended = nil
	return ended
}
