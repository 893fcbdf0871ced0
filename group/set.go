// Package group collects the events of a group beside a partition until it ends:
// because all of them are there, because none came for too long, or because no more
// fit. One event made of them then goes on in their place.
//
// It decides in log order, by event times and the watermark at positions of the log
// alone, so that a group ends at the same event with the same members whatever the
// batches, sessions and crashes. Each member is a state entry of its own: a step
// writes those that came, however large the group is.
package group

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/due"
	"github.com/afterbay/afterbay/statekey"
	"github.com/afterbay/afterbay/step"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/value"
)

// Reason is why a group ended.
type Reason uint8

// The reasons.
const (
	Complete Reason = iota // its last event and all before it are there
	Idle                   // it had no event for too long
	Timeout                // too long after its first event
	Full                   // one more would be more than it takes
)

var reasons = [...]string{"complete", "idle", "timeout", "full"}

// String returns the word for the reason.
func (r Reason) String() string { return reasons[r] }

// Reasons returns the words for all reasons, in their order.
func Reasons() []string { return slices.Clone(reasons[:]) }

// Plan is the groups of a pipeline.
type Plan struct {
	Groups []*step.Group // by Index
	Schema *value.Schema
	Fields []value.Slot // of the input
}

func (p *Plan) find(name string) *step.Group {
	for _, g := range p.Groups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// Set is the groups beside a partition. It runs ahead of what is committed; after a
// failed commit it is thrown away. One goroutine owns it. A nil one has no groups.
type Set struct {
	plan   *Plan
	id     stream.Partition
	view   stream.View
	groups map[string]*group // by name: its state key
	open   []int             // of each of the plan
	due    due.Queue
	over   due.Queue // those that ended, by until when they are known
	known  int       // of them
	ended  []*Ended  // to be taken
	dirty  []*group
	fresh  []*member // not yet in a step
	flying []*member // in the step before, which may not be durable
	gone   [][]byte  // keys to delete
}

// group is one of a set. Of one that ended only what is below ended is known.
type group struct {
	spec  *step.Group
	name  string
	first int64 // offset of its first event
	since int64 // event time of that
	last  int64 // newest event time
	bytes int
	dirty bool

	loaded  bool
	members []*member // by (order, offset)
	ids     map[string]bool
	orders  int   // different ones
	end     int64 // least order of an event that says it is the last; never where none does

	at int64 // of its entry in the queue

	over   bool
	reason Reason
	hashes []uint64 // of the ids it had, sorted
}

const never = math.MaxInt64

// Open returns the groups beside a partition as its state has them; nil where the
// pipeline has none. Those that are open and that it no longer has are an error.
func Open(plan *Plan, id stream.Partition, view stream.View) (*Set, error) {
	s := &Set{plan: plan, id: id, view: view, groups: map[string]*group{}, open: make([]int, len(plan.Groups))}
	for entry, err := range view.Scan([]byte{statekey.Group}) {
		if err != nil {
			return nil, err
		}
		name, _, _, ok := statekey.GroupOf(entry.Key)
		g := &group{name: string(entry.Key), spec: plan.find(name)}
		if !ok || !g.parse(entry.Value) {
			return nil, fmt.Errorf("a group of %v: %w", id, errDamaged)
		}
		if g.spec == nil && g.over {
			s.gone = append(s.gone, entry.Key)
			continue
		}
		if g.spec == nil {
			return nil, fmt.Errorf("groups of %q are open in %v, which the pipeline no longer has: run it as it was until they ended", name, id)
		}
		s.groups[g.name] = g
		if g.over {
			s.know(g, g.at)
			continue
		}
		s.count(g, 1)
		s.await(g, g.deadline())
	}
	if len(plan.Groups) == 0 {
		return nil, nil
	}
	return s, nil
}

// Close takes what the set has out of the counts of its process.
func (s *Set) Close() {
	if s == nil {
		return
	}
	for _, g := range s.groups {
		if !g.over {
			s.count(g, -1)
		}
	}
	clear(s.groups)
}

func (s *Set) count(g *group, n int) {
	s.open[g.spec.Index] += n
	g.spec.Counts.Open.Add(int64(n))
	g.spec.Counts.Bytes.Add(int64(n * g.bytes))
}

// deadline returns the watermark that ends the group.
func (g *group) deadline() int64 {
	at := int64(never)
	if g.spec.Idle > 0 {
		at = g.last + g.spec.Idle.Microseconds()
	}
	if g.spec.Within > 0 {
		at = min(at, g.since+g.spec.Within.Microseconds())
	}
	return at
}

// await notes when the group is to be looked at.
func (s *Set) await(g *group, at int64) {
	g.at = at
	if at != never {
		s.due.Push(due.Entry{At: at, Key: g.name})
	}
}

func (s *Set) touch(g *group) {
	if !g.dirty {
		g.dirty = true
		s.dirty = append(s.dirty, g)
	}
}

// Event is one to be collected.
type Event struct {
	Group        *step.Group
	Key          []byte
	Offset, Time int64
	Row          *value.Row
	ID, Source   string          // of the event, and where it was copied from
	Headers      []stream.Header // that it came with
}

// Add collects an event, and returns about how many bytes the step takes more. The
// first error is the event's: it is not collected.
func (s *Set) Add(e Event) (bytes int, failure, fatal error) {
	by, id, order, err := e.Group.Place(e.Row, e.Time)
	if err != nil {
		return 0, err, nil
	}
	m := &member{offset: e.Offset, order: order, time: e.Time, id: id, end: e.Group.Last(e.Row)}
	m.value = m.append(nil, &e, s.plan.Schema)
	if len(m.value) > e.Group.Bytes {
		return 0, fmt.Errorf("takes %d bytes, more than the %d of max.bytes of its group", len(m.value), e.Group.Bytes), nil
	}
	name := string(statekey.AppendGroup(nil, e.Group.Name, e.Key, by))
	for {
		g := s.groups[name]
		switch {
		case g != nil && g.over:
			if _, known := slices.BinarySearch(g.hashes, hash(id)); known {
				e.Group.Counts.Duplicates.Add(1)
				return 0, nil, nil
			}
			e.Group.Counts.Late.Add(1)
			switch e.Group.Late {
			case step.LateDrop:
				return 0, nil, nil
			case step.LateInclude:
				s.forget(g)
				continue
			}
			return 0, fmt.Errorf("%s of %s %q comes after its group ended: %v", describe(e.Group, m), e.Group.By.Name, by, g.reason), nil
		case g == nil:
			if most := e.Group.Open; s.open[e.Group.Index] >= most {
				return 0, fmt.Errorf("would open group %d of %s beside the partition: max.groups is %d", most+1, e.Group.Name, most), nil
			}
			g = &group{spec: e.Group, name: name, first: e.Offset, since: e.Time, last: e.Time, loaded: true, ids: map[string]bool{}, end: never}
			s.groups[name] = g
			s.count(g, 1)
			s.await(g, g.deadline())
		}
		if err := s.load(g); err != nil {
			return 0, nil, err
		}
		switch {
		case g.ids[id]:
			e.Group.Counts.Duplicates.Add(1)
			return 0, nil, nil
		case len(g.members) == e.Group.Events || g.bytes+len(m.value) > e.Group.Bytes:
			s.finish(g, Full, g.last)
			continue
		}
		s.join(g, m)
		if g.whole() {
			s.finish(g, Complete, g.last)
		}
		return len(m.value), nil, nil
	}
}

func describe(g *step.Group, m *member) string {
	if g.Order != nil {
		return fmt.Sprintf("%s %d", g.Order.Name, m.order)
	}
	return fmt.Sprintf("%s %q", g.ID.Name, m.id)
}

func hash(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64()
}

// join adds a member.
func (s *Set) join(g *group, m *member) {
	m.of = g.first
	g.insert(m)
	g.last = max(g.last, m.time)
	g.bytes += len(m.value)
	g.spec.Counts.Bytes.Add(int64(len(m.value)))
	s.fresh = append(s.fresh, m)
	s.touch(g)
}

// insert puts a member in its place.
func (g *group) insert(m *member) {
	at, _ := slices.BinarySearchFunc(g.members, m, (*member).compare)
	before := at > 0 && g.members[at-1].order == m.order
	after := at < len(g.members) && g.members[at].order == m.order
	if !before && !after {
		g.orders++
	}
	g.members = slices.Insert(g.members, at, m)
	g.ids[m.id] = true
	if m.end {
		g.end = min(g.end, m.order)
	}
}

// whole reports whether the last event and all before it are there.
func (g *group) whole() bool {
	switch {
	case g.end == never:
		return false
	case g.spec.Order == nil:
		return true
	}
	return g.orders > int(g.end) && g.missing(1) == nil
}

// missing returns orders that are not there before the last, at most limit: up to
// that of the event that says so, or else of the last that is there.
func (g *group) missing(limit int) (list []int64) {
	if g.spec.Order == nil {
		return nil
	}
	next, last := int64(0), g.end
	if last == never && len(g.members) > 0 {
		last = g.members[len(g.members)-1].order
	}
	for _, m := range g.members {
		for ; next < m.order && next <= last && len(list) < limit; next++ {
			list = append(list, next)
		}
		next = m.order + 1
	}
	for ; next <= last && last != never && len(list) < limit; next++ {
		list = append(list, next)
	}
	return list
}

// lacks returns how many orders are not there before the last.
func (g *group) lacks() int64 {
	if g.spec.Order == nil || len(g.members) == 0 {
		return 0
	}
	last := g.end
	if last == never {
		last = g.members[len(g.members)-1].order
	}
	there, before := int64(0), int64(-1)
	for _, m := range g.members {
		if m.order != before && m.order <= last {
			there++
		}
		before = m.order
	}
	return last + 1 - there
}

// Due reports whether there is something to end by a watermark.
func (s *Set) Due(watermark int64) bool {
	return s != nil && watermark != math.MinInt64 && s.due.Until(watermark)
}

// Expire ends the groups that a watermark ends, by (time, key), until those that
// ended take more than so many bytes. It reports whether it came to their end.
func (s *Set) Expire(watermark int64, bytes int) (done bool, err error) {
	for s.due.Until(watermark) {
		if bytes < 0 {
			return false, nil
		}
		e := s.due.Pop()
		g := s.groups[e.Key]
		if g == nil || g.at != e.At {
			continue // it was noted for another time since
		}
		if g.over {
			s.forget(g)
			continue
		}
		if at := g.deadline(); at > e.At {
			s.await(g, at)
			continue
		}
		if err := s.load(g); err != nil {
			return false, err
		}
		bytes -= g.bytes
		reason := Timeout
		if g.spec.Idle > 0 && g.last+g.spec.Idle.Microseconds() == e.At {
			reason = Idle
		}
		s.finish(g, reason, e.At)
	}
	return true, nil
}

// finish ends a group at a time.
func (s *Set) finish(g *group, reason Reason, at int64) {
	s.count(g, -1)
	g.spec.Counts.Ended[reason].Add(1)
	e := &Ended{Group: g.spec, Reason: reason, Time: at, Bytes: g.bytes, Missing: g.lacks(), name: g.name, first: g.first, members: g.members, id: s.id}
	e.Complete = reason == Complete || reason != Full && g.spec.End == nil && e.Missing == 0
	e.holes = g.missing(holesMax)
	for _, m := range g.members {
		e.Offset = max(e.Offset, m.offset)
		g.hashes = append(g.hashes, hash(m.id))
	}
	slices.Sort(g.hashes)
	s.ended = append(s.ended, e)
	g.over, g.reason = true, reason
	g.members, g.ids, g.loaded = nil, nil, false
	keep := g.spec.Idle
	if keep == 0 {
		keep = g.spec.Within
	}
	s.know(g, at+keep.Microseconds())
	s.touch(g)
}

// know notes a group that ended, until a watermark. Of more than may be open at once
// those are forgotten that would be soonest.
func (s *Set) know(g *group, until int64) {
	s.await(g, until)
	s.over.Push(due.Entry{At: until, Key: g.name})
	s.known++
	most := 0
	for _, g := range s.plan.Groups {
		most += g.Open
	}
	for s.known > most {
		if e := s.over.Pop(); s.knows(e) {
			s.forget(s.groups[e.Key])
		}
	}
	if s.over.Len() <= 2*most {
		return
	}
	s.over.Reset()
	for name, g := range s.groups {
		if g.over {
			s.over.Push(due.Entry{At: g.at, Key: name})
		}
	}
}

func (s *Set) knows(e due.Entry) bool {
	g := s.groups[e.Key]
	return g != nil && g.over && g.at == e.At
}

// forget makes a group that ended unknown.
func (s *Set) forget(g *group) {
	s.known--
	delete(s.groups, g.name)
	g.hashes = nil
	s.touch(g)
}

// Ended returns the groups that ended since it was last called, in the order of
// their ending.
func (s *Set) Ended() []*Ended {
	if s == nil || len(s.ended) == 0 {
		return nil
	}
	ended := s.ended
	s.ended = nil
	return ended
}

// Changes calls write with what changed since it was last called, by state key; nil
// data deletes. What it wrote before must be durable. Keys and data are not kept.
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
	for _, g := range s.dirty {
		switch now := s.groups[g.name]; {
		case now == g:
			write([]byte(g.name), g.append(nil))
		case now == nil:
			write([]byte(g.name), nil)
		}
		g.dirty = false
	}
	s.gone, s.dirty = s.gone[:0], s.dirty[:0]
}

// key returns the parts of the group's name.
func (e *Ended) key() (key []byte, by string) {
	_, key, by, _ = statekey.GroupOf([]byte(e.name))
	return key, by
}

// Refused returns why the event made of the group is not to go on, nil where it is.
func (e *Ended) Refused() error {
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
	return fmt.Errorf("%s: redrive goes on with what is there, as does incomplete: pass", text)
}

const holesMax = 10 // of a message
