// Package group collects the events of a group in a partition until the group ends. A group ends if
// all of its events are there, or if a gap or a limit of event time ends it. It also ends if its
// window is over or if it is full. One event made of them then continues in their place.
//
// A group is a function of the event times of its events (see series, windows). The watermark only
// decides when that is final. Whether a group is complete or full is decided in log order. So the
// same log makes the same groups, whatever the batches, members and crashes. Each member is a
// separate state entry: a transaction writes only new members, however large the group is. Windows
// store aggregates, and no members.
package group

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// Reason is the reason why a group ended.
type Reason uint8

// The reasons.
const (
	Complete Reason = iota // its last event and all events before it are there
	Idle                   // the next event is at least idle after its last
	Timeout                // the next event is at least timeout after its first
	Full                   // one more event would exceed its limits
	Window                 // it is a window that is over
	reasonsCount
)

var reasons = [reasonsCount]string{"complete", "idle", "timeout", "full", "window"}

// String returns the word for the reason.
func (r Reason) String() string { return reasons[r] }

// Reasons returns the words for all reasons, in their order.
func Reasons() []string { return slices.Clone(reasons[:]) }

// Plan holds the groups of a pipeline.
type Plan struct {
	Groups []*operator.Group // by Index
	Schema *value.Schema
	Fields []value.Slot // fields of the input
}

func (p *Plan) find(name string) *operator.Group {
	for _, g := range p.Groups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// Counts are the counters of one group step in a process. The sets of all partitions share
// them.
type Counts struct {
	Open, Bytes      atomic.Int64 // open groups, and the bytes of their state
	Ended            [reasonsCount]atomic.Uint64
	Duplicates, Late atomic.Uint64 // events that were ignored, and events for groups that had ended
}

// Set holds the groups of a partition. It is ahead of the committed state. The caller discards it
// after a failed commit. One goroutine owns it. A nil Set has no groups.
type Set struct {
	plan   *Plan
	counts []Counts // by operator.Group.Index
	id     stream.Partition
	view   stream.View
	series map[string]*series // by name: its state key
	past   map[string]*past   // groups that ended and are still known, by state key
	open   []int              // number of open groups or panes of each group of the plan
	due    *due.Lane          // series and windows by the end of their first group, and past by its expiry
	over   due.Lane           // past only
	ended  []*Ended           // ended groups for Ended
	dirty  []*series
	told   []string  // keys of past that changed
	fresh  []*member // members that are not in a transaction yet
	flying []*member // members in the previous transaction, which may not be durable
	gone   [][]byte  // keys to delete

	windows map[string]*windows // by name: its state key
	panes   []*pane             // panes that changed
	moved   []*windows          // windows with a changed next end
}

// Open restores the groups of a partition from its state. It returns nil if the pipeline has no
// groups. It adds their ends to queue, and counts in counts, by operator.Group.Index. It returns an
// error if the state has an open group of a step that the pipeline no longer has.
func Open(plan *Plan, counts []Counts, id stream.Partition, view stream.View, queue *due.Queue) (*Set, error) {
	s := &Set{plan: plan, counts: counts, id: id, view: view, due: &queue[due.Group], series: map[string]*series{}, past: map[string]*past{}, windows: map[string]*windows{}, open: make([]int, len(plan.Groups))}
	for _, prefix := range []byte{statekey.Group, statekey.Ended, statekey.Pane} {
		for entry, err := range view.Scan([]byte{prefix}) {
			if err == nil {
				err = s.restore(entry)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	for _, q := range s.series {
		if err := s.resume(q); err != nil {
			return nil, err
		}
	}
	for _, w := range s.windows {
		if err := s.resumeWindows(w); err != nil {
			return nil, err
		}
	}
	if len(plan.Groups) == 0 {
		return nil, nil
	}
	return s, nil
}

// resume counts the groups of a restored series. If idle or timeout changed, it divides the series
// again.
func (s *Set) resume(q *series) error {
	if q.stale {
		if err := s.load(q); err != nil {
			return err
		}
		q.at = never
		s.touch(q)
	}
	s.count(q, q.open, q.bytes)
	s.await(q)
	return nil
}

// Close subtracts the groups of the set from the counters of the process.
func (s *Set) Close() {
	if s == nil {
		return
	}
	for _, q := range s.series {
		s.count(q, -q.open, -q.bytes)
	}
	clear(s.series)
	for _, w := range s.windows {
		for _, p := range w.panes {
			s.tally(w, -1, -p.size())
		}
	}
	clear(s.windows)
}

func (s *Set) count(q *series, groups, bytes int) {
	s.open[q.spec.Index] += groups
	s.counts[q.spec.Index].Open.Add(int64(groups))
	s.counts[q.spec.Index].Bytes.Add(int64(bytes))
}

// await queues the end by time of the first group of a series. An entry that is already queued for
// an earlier time stays: Come then queues the series again.
func (s *Set) await(q *series) {
	if len(q.groups) > 0 {
		q.ends = q.groups[0].over()
	}
	if q.open > 0 && q.ends < q.at {
		q.at = q.ends
		s.queue(q.at, q.name)
	}
}

// dueMin is how many outdated entries the queue may always have.
const dueMin = 1024

// queue adds an entry to the queue. If more than half of the queue is outdated, it rebuilds the
// queue.
func (s *Set) queue(at int64, key string) {
	s.due.Push(due.Entry{At: at, Key: key})
	if s.due.Len() <= 2*(len(s.series)+len(s.windows)+len(s.past))+dueMin {
		return
	}
	s.due.Reset()
	for _, q := range s.series {
		if q.at != never {
			s.due.Push(due.Entry{At: q.at, Key: q.name})
		}
	}
	for _, w := range s.windows {
		if w.at != never {
			s.due.Push(due.Entry{At: w.at, Key: w.name})
		}
	}
	for _, p := range s.past {
		s.due.Push(due.Entry{At: p.until, Key: p.key})
	}
}

func (s *Set) touch(q *series) {
	if !q.dirty {
		q.dirty = true
		s.dirty = append(s.dirty, q)
	}
}

// of returns the series of a name, and makes it if it is new.
func (s *Set) of(spec *operator.Group, name string) *series {
	q := s.series[name]
	if q == nil {
		q = &series{spec: spec, name: name, at: never, loaded: true}
		s.series[name] = q
	}
	return q
}

// drop removes a series that has no members and no ended groups.
func (s *Set) drop(q *series) {
	if q.open == 0 && len(q.past) == 0 {
		delete(s.series, q.name)
	}
}

// Event is an event to collect.
type Event struct {
	Group        *operator.Group
	Key          []byte
	Offset, Time int64
	Watermark    int64
	Row          *value.Row
	operator.Identity
}

// Add collects an event, and returns about how many bytes it adds to the transaction. The first
// error is the event's: the event is not collected.
func (s *Set) Add(e Event) (bytes int, failure, fatal error) {
	by, id, order, err := e.Group.Place(e.Row, e.Time)
	if err != nil {
		return 0, err, nil
	}
	m := &member{offset: e.Offset, order: order, time: e.Time, id: id, end: e.Group.Last(e.Row)}
	if m.aggregates, err = aggregatesOf(e.Group, e.Row); err != nil {
		return 0, err, nil
	}
	m.comesFrom(e.Source)
	m.value = m.append(nil, &e, s.plan.Schema)
	if len(m.value) > e.Group.Bytes {
		return 0, fmt.Errorf("takes %d bytes, more than the %d of max.bytes of its group", len(m.value), e.Group.Bytes), nil
	}
	if e.Group.Windows() {
		bytes, failure = s.put(&e, m, by)
		return bytes, failure, nil
	}
	m.size = int32(len(m.value))
	q := s.of(e.Group, string(statekey.AppendGroup(nil, e.Group.Name, e.Key, by)))
	defer s.drop(q)
	if err := s.load(q); err != nil {
		return 0, nil, err
	}
	for {
		if over, repeats := q.late(m); repeats {
			s.counts[e.Group.Index].Duplicates.Add(1)
			return 0, nil, nil
		} else if over != nil {
			if s.counts[e.Group.Index].Late.Add(1); e.Group.Late == operator.LateDrop {
				return 0, nil, nil
			} else if e.Group.Late == operator.LateDead {
				return 0, fmt.Errorf("%s of %s %q comes after its group ended: %v", describe(e.Group, m), e.Group.By.Name, by, over.reason), nil
			}
			s.forget(over)
			continue
		}
		c := q.place(m)
		if c.into != nil && c.into.useless(m, c.was) {
			s.counts[e.Group.Index].Duplicates.Add(1)
			return 0, nil, nil
		}
		if full := c.full(q, m); len(full) > 0 {
			for _, g := range full {
				s.finish(q, g, Full, g.last())
			}
			continue
		}
		if most, n := e.Group.Open, s.open[e.Group.Index]+len(c.groups)-(c.to-c.from); n > most && len(c.groups) > c.to-c.from {
			return 0, fmt.Errorf("would open more than max.groups (%d) groups of %s", most, e.Group.Name), nil
		}
		s.join(q, &c, m)
		return len(m.value), nil, nil
	}
}

func describe(g *operator.Group, m *member) string {
	if g.Order != nil {
		return fmt.Sprintf("%s %d", g.Order.Name, m.order)
	}
	return fmt.Sprintf("%s %q", g.ID.Name, m.id)
}

// join adds a member, and ends the groups that become complete.
func (s *Set) join(q *series, c *change, m *member) {
	if s.series[q.name] = q; q.open == 0 {
		q.anchor = m.offset
	}
	if m.of = q.anchor; q.spec.Stores() {
		s.fresh = append(s.fresh, m)
	}
	s.touch(q)
	open, bytes := q.open, q.bytes
	q.apply(c, m)
	s.count(q, q.open-open, q.bytes-bytes)
	s.await(q)
	for _, g := range c.groups {
		s.close(q, g)
	}
	if c.into != nil {
		s.close(q, c.into)
	}
}

// close ends a group that is complete.
func (s *Set) close(q *series, g *group) {
	if g.whole() {
		s.finish(q, g, Complete, g.last())
	}
}

// Come handles an entry of the queue: it ends the first group of a series or a window, or removes
// an expired group. An outdated entry changes nothing.
func (s *Set) Come(e due.Entry) error {
	if p := s.past[e.Key]; p != nil && p.until == e.At {
		s.forget(p)
		return nil
	}
	if w := s.windows[e.Key]; w != nil {
		s.comeWindow(w, e.At)
		return nil
	}
	q := s.series[e.Key]
	if q == nil || q.at != e.At {
		return nil // outdated: the end moved since
	}
	if q.at = never; q.open == 0 || q.ends > e.At {
		s.await(q)
		return nil
	}
	if err := s.load(q); err != nil {
		return err
	}
	g, reason := q.groups[0], Timeout
	if g.spec.Idle > 0 && g.last()+g.spec.Idle.Microseconds() == e.At {
		reason = Idle
	}
	s.finish(q, g, reason, e.At)
	return nil
}

// finish ends a group of a series at a time.
func (s *Set) finish(q *series, g *group, reason Reason, at int64) {
	s.touch(q)
	s.count(q, -1, -g.bytes)
	q.remove(g)
	s.await(q)
	s.counts[g.spec.Index].Ended[reason].Add(1)
	e := &Ended{Group: g.spec, Reason: reason, Time: at, Bytes: g.bytes, name: q.name, first: g.members[0], of: q.anchor, shared: q.open > 0}
	e.members, e.repeats = g.split()
	s.counts[g.spec.Index].Duplicates.Add(uint64(len(e.repeats)))
	e.Count, e.aggregates = int64(len(e.members)), make([]aggregate, len(g.spec.Values))
	for _, m := range e.members {
		merge(g.spec, e.aggregates, m.aggregates)
	}
	if g.spec.Folded {
		e.gather(&g.fold)
	}
	e.Missing, e.holes = missing(g, e.members)
	e.Complete = reason == Complete || reason != Full && g.spec.End == nil && e.Missing == 0
	newest := int64(math.MinInt64)
	for _, m := range e.members {
		e.Offset, newest = max(e.Offset, m.offset), max(newest, m.time)
	}
	if !e.ByTime() {
		e.Time = newest
	}
	s.ended = append(s.ended, e)
	s.learn(pastOf(q, g, e, at))
}

// missing returns how many orders before the last are missing, and the first of them. The last is
// the order of the event with end: true, or else the greatest order.
func missing(g *group, members []*member) (n int64, first []int64) {
	if g.spec.Order == nil {
		return 0, nil
	}
	last := g.end
	if last == never {
		last = members[len(members)-1].order
	}
	next := int64(0)
	hole := func(to int64) {
		n += max(0, to-next)
		for ; next < to && len(first) < holesMax; next++ {
			first = append(first, next)
		}
	}
	for _, m := range members {
		hole(min(m.order, last+1))
		next = m.order + 1
	}
	hole(last + 1)
	return n, first
}

// Ended returns the groups that ended since the last call, in the order of their ends.
func (s *Set) Ended() []*Ended {
	if s == nil || len(s.ended) == 0 {
		return nil
	}
	ended := s.ended
	s.ended = nil
	return ended
}

// Changes calls write for each state key that changed since the last call. nil data deletes the
// key. The changes of the last call must be durable. write must not keep its arguments.
func (s *Set) Changes(write func(key, data []byte)) {
	if s == nil {
		return
	}
	for _, m := range s.flying {
		m.value = nil
	}
	s.flying, s.fresh = s.fresh, s.flying[:0]
	kept := s.flying[:0]
	for _, m := range s.flying {
		if !m.gone {
			write(statekey.AppendMember(nil, m.of, m.offset), m.value)
			m.written, kept = true, append(kept, m)
		}
	}
	s.flying = kept
	for _, key := range s.gone {
		write(key, nil)
	}
	for _, q := range s.dirty {
		if q.dirty = false; q.open > 0 {
			write([]byte(q.name), q.append(nil))
		} else if s.series[q.name] == nil || s.series[q.name] == q {
			write([]byte(q.name), nil)
		}
	}
	for _, key := range s.told {
		if p := s.past[key]; p != nil {
			write([]byte(key), p.append(nil))
		} else {
			write([]byte(key), nil)
		}
	}
	s.gone, s.dirty, s.told = s.gone[:0], s.dirty[:0], s.told[:0]
	s.windowChanges(write)
}

// key returns the parts of the group's name.
func (e *Ended) key() (key []byte, by string) {
	_, key, by, _ = statekey.GroupOf([]byte(e.name))
	return key, by
}

// overflow returns an error if a sum of ints does not fit in an int.
func (e *Ended) overflow() error {
	for i := range e.Group.Values {
		v := &e.Group.Values[i]
		if v.Aggregate != operator.AggregateSum || v.Kind() != value.Int {
			continue
		}
		if _, ok := e.aggregates[i].int(); !ok {
			_, by := e.key()
			return fmt.Errorf("group of %s %q: its sum %s.%s is about %v, beyond an int of 64 bits: write {sum: float(...)}", e.Group.By.Name, by, e.Group.Name, v.Name, e.aggregates[i].sum())
		}
	}
	return nil
}

// Refused returns the error that makes the event of the group a dead letter, or nil if the event
// continues.
func (e *Ended) Refused() error {
	if err := e.overflow(); err != nil {
		return err
	}
	if e.Complete || e.Group.Pass {
		return nil
	}
	_, by := e.key()
	text := fmt.Sprintf("group of %s %q ended: %v, with %d of its events", e.Group.By.Name, by, e.Reason, len(e.members))
	if len(e.holes) > 0 {
		var list []string
		for _, n := range e.holes {
			list = append(list, fmt.Sprint(n))
		}
		if e.Missing > int64(len(e.holes)) {
			list = append(list, "...")
		}
		text += fmt.Sprintf(", without %s %s", e.Group.Order.Name, strings.Join(list, ", "))
	} else if e.Reason != Full {
		text += ", without its last"
	}
	return fmt.Errorf("%s: redrive continues with the events that are there, like incomplete: pass", text)
}

const holesMax = 10 // missing orders in a message
