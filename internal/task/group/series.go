package group

import (
	"math"
	"slices"

	"github.com/afterbay/afterbay/internal/task/operator"
)

// series holds the events of one key and one value of `by` that are in no group that ended. It
// divides them into groups by their event times alone:
//
//  1. Members are sorted by (time, source, offset).
//  2. A member begins another group in two cases: the gap before it is at least idle, or it is at or
//     after the first member of its group + timeout.
//
// So a group is a function of its members' times and does not depend on the order that they arrive
// in. An event changes only the groups around it: place finds them.
type series struct {
	spec   *operator.Group
	name   string   // its state key
	anchor int64    // offset of the event that began it: the prefix of the keys of its members
	loaded bool     // groups were read from the state
	groups []*group // open groups, by time
	open   int      // number of open groups
	bytes  int      // bytes of their members
	ends   int64    // when the first open group ends by time
	at     int64    // time of its entry in the queue
	stale  bool     // it was stored by another version, or with another idle or timeout
	dirty  bool
	past   []*past // groups that ended and are still known
}

// group holds consecutive members of a series. If its events are not stored, it has only the first
// one.
type group struct {
	spec    *operator.Group
	fold    fold               // for groups that store no events
	members []*member          // by (time, source, offset)
	ids     map[string]*member // the first member of each id; later ones are ignored
	orders  map[int64]int      // number of those members by order; nil if the group has no Order
	end     int64              // least order of an event that says it is the last; never if no event does
	bytes   int
}

const never = math.MaxInt64

func newGroup(spec *operator.Group, members ...*member) *group {
	g := &group{spec: spec, end: never}
	if spec.Folded {
		g.fold = newFold(spec)
	} else {
		g.ids = map[string]*member{}
	}
	if spec.End != nil && spec.Order != nil {
		g.orders = map[int64]int{}
	}
	for _, m := range members {
		g.insert(m)
	}
	return g
}

func (g *group) first() int64 { return g.members[0].time }
func (g *group) last() int64 {
	if g.spec.Folded {
		return g.fold.last
	}
	return g.members[len(g.members)-1].time
}

// over returns the first time that is after the group.
func (g *group) over() int64 { return over(g.spec, g.first(), g.last()) }

func over(spec *operator.Group, first, last int64) int64 {
	at := int64(never)
	if spec.Idle > 0 {
		at = last + spec.Idle.Microseconds()
	}
	if spec.Within > 0 {
		at = min(at, first+spec.Within.Microseconds())
	}
	return at
}

// insert inserts a member in order.
func (g *group) insert(m *member) { g.put(m, g.ids[m.id]) }

// put inserts a member in order. was is the group's former member of the same id.
func (g *group) put(m, was *member) {
	if g.spec.Folded {
		g.absorb(&fold{count: 1, newest: m.offset, last: m.time, first: m, aggregates: m.aggregates})
		return
	}
	if n := len(g.members); n == 0 || g.members[n-1].compare(m) < 0 {
		g.members = append(g.members, m)
	} else {
		at, _ := slices.BinarySearchFunc(g.members, m, (*member).compare)
		g.members = slices.Insert(g.members, at, m)
	}
	g.bytes += int(m.size)
	if was != nil && was.compare(m) < 0 {
		return
	}
	g.ids[m.id] = m
	if g.orders != nil {
		g.orders[m.order]++
	}
	if was != nil {
		g.replaced(was)
	}
	if m.end {
		g.end = min(g.end, m.order)
	}
}

// absorb adds the counts and aggregates of another fold.
func (g *group) absorb(f *fold) {
	g.fold.merge(g.spec, f)
	g.members, g.bytes = append(g.members[:0], g.fold.first), g.fold.size()
}

// replaced removes a member from the counts, because an earlier member has the same id.
func (g *group) replaced(was *member) {
	if g.orders != nil {
		if g.orders[was.order]--; g.orders[was.order] == 0 {
			delete(g.orders, was.order)
		}
	}
	if !was.end {
		return
	}
	g.end = never
	for _, m := range g.ids {
		if m.end {
			g.end = min(g.end, m.order)
		}
	}
}

// useless reports whether a member changes nothing: an earlier one of its id is there, and no later
// event can begin a group between the two.
func (g *group) useless(m, was *member) bool {
	return was != nil && was.compare(m) < 0 && (was.time == m.time || g.spec.Within == 0 && m.time <= g.last())
}

// full reports whether the group exceeds its limits.
func (g *group) full() bool {
	return !g.spec.Folded && len(g.ids) > g.spec.Events || g.bytes > g.spec.Bytes
}

// whole reports whether the last event and all events before it are there.
func (g *group) whole() bool {
	switch {
	case g.end == never:
		return false
	case g.orders == nil:
		return true
	case int64(len(g.orders)) <= g.end:
		return false
	}
	for order := range g.end + 1 {
		if g.orders[order] == 0 {
			return false
		}
	}
	return true
}

// split returns the members of the group by (order, time, source, offset), and the members that
// repeat an id.
func (g *group) split() (members, repeats []*member) {
	if g.spec.Folded {
		return g.members, nil
	}
	for _, m := range g.members {
		if g.ids[m.id] == m {
			members = append(members, m)
		} else {
			repeats = append(repeats, m)
		}
	}
	slices.SortStableFunc(members, (*member).byOrder)
	return members, repeats
}

// remove removes an ended group.
func (s *series) remove(g *group) {
	i := slices.Index(s.groups, g)
	s.groups = slices.Delete(s.groups, i, i+1)
	s.open, s.bytes = len(s.groups), s.bytes-g.bytes
}

// late returns the ended group that covers a member, unless an open group takes the member. repeats
// reports whether an ended group has the member's id, even if an open group would take the member:
// no event is in two groups.
func (s *series) late(m *member) (over *past, repeats bool) {
	for _, p := range s.past {
		if p.has(m.time) {
			if p.knows(m.id) {
				return p, true
			}
			if over == nil || p.key < over.key {
				over = p // the result must not depend on the order of s.past, which changes after a restart
			}
		}
	}
	if i := s.before(m.time); i >= 0 && m.time < s.groups[i].over() {
		return nil, false
	}
	return over, false
}

// before returns the index of the last group that begins at or before a time, or -1.
func (s *series) before(t int64) int {
	if n := len(s.groups); n == 0 || s.groups[n-1].first() <= t {
		return n - 1
	}
	n, _ := slices.BinarySearchFunc(s.groups, t, func(g *group, t int64) int {
		if g.first() <= t {
			return -1
		}
		return 1
	})
	return n - 1
}

// change is the effect of a member on a series: the member joins one group, or other groups replace
// the groups from..to.
type change struct {
	into     *group
	was      *member // former member of into with the member's id
	from, to int
	groups   []*group
}

// place returns the change that a new member makes to a series. It does not apply the change.
func (s *series) place(m *member) change {
	i := s.before(m.time)
	joins := i >= 0 && m.time < s.groups[i].over()
	if !joins {
		i++
	}
	switch {
	case joins:
		if g := s.groups[i]; s.apart(i+1, over(s.spec, g.first(), max(g.last(), m.time))) {
			return change{into: g, was: g.ids[m.id]}
		}
	case s.apart(i, over(s.spec, m.time, m.time)):
		return change{from: i, to: i, groups: []*group{newGroup(s.spec, m)}}
	case s.spec.Within == 0 || s.groups[i].last() < m.time+s.spec.Within.Microseconds():
		return change{into: s.groups[i], was: s.groups[i].ids[m.id]} // it becomes the first member
	}
	return s.cut(i, joins, m)
}

// apart reports whether group i begins at or after over. It returns true if there is no group i.
func (s *series) apart(i int, over int64) bool {
	return i >= len(s.groups) || s.groups[i].first() >= over
}

// cut divides members into groups again. It starts with group i if m joins it, or else with m. It
// continues with the following groups, up to one that begins as before.
func (s *series) cut(i int, joins bool, m *member) change {
	c := change{from: i, to: i}
	g := newGroup(s.spec)
	if s.spec.Folded {
		return s.cutFolds(c, m)
	}
	if joins {
		g, c.to = newGroup(s.spec, s.groups[i].members...), i+1
	}
	g.insert(m)
	for ; c.to < len(s.groups) && s.groups[c.to].first() < g.over(); c.to++ {
		for _, m := range s.groups[c.to].members {
			if m.time >= g.over() {
				c.groups, g = append(c.groups, g), newGroup(s.spec)
			}
			g.insert(m)
		}
	}
	c.groups = append(c.groups, g)
	return c
}

// cutFolds is cut for groups that store no events. Only idle delimits them, so groups merge or
// stay.
func (s *series) cutFolds(c change, m *member) change {
	g := newGroup(s.spec, m)
	for ; c.to < len(s.groups) && s.groups[c.to].first() < g.over(); c.to++ {
		g.absorb(&s.groups[c.to].fold)
	}
	c.groups = append(c.groups, g)
	return c
}

// full returns the groups of a series that must end, because a change would make them exceed their
// limits.
func (c *change) full(s *series, m *member) (list []*group) {
	if s.spec.Folded {
		return nil
	}
	if g := c.into; g != nil {
		if c.was == nil && len(g.ids) == s.spec.Events || g.bytes+int(m.size) > s.spec.Bytes {
			list = append(list, g)
		}
		return list
	}
	for _, old := range s.groups[c.from:c.to] {
		for _, g := range c.groups {
			if g.full() && old.first() <= g.last() && g.first() <= old.last() {
				list = append(list, old)
				break
			}
		}
	}
	return list
}

// apply applies a change.
func (s *series) apply(c *change, m *member) {
	if c.into != nil {
		before := c.into.bytes
		c.into.put(m, c.was)
		s.bytes += c.into.bytes - before
		return
	}
	for _, g := range s.groups[c.from:c.to] {
		s.bytes -= g.bytes
	}
	for _, g := range c.groups {
		s.bytes += g.bytes
	}
	s.groups = slices.Replace(s.groups, c.from, c.to, c.groups...)
	s.open = len(s.groups)
}

// cutAll divides all members of a series into groups. The members need not be sorted. It returns
// their bytes.
func (s *series) cutAll(members []*member) int {
	slices.SortFunc(members, (*member).compare)
	s.groups, s.bytes = nil, 0
	for _, m := range members {
		n := len(s.groups)
		if n == 0 || m.time >= s.groups[n-1].over() {
			s.groups, n = append(s.groups, newGroup(s.spec)), n+1
		}
		s.groups[n-1].insert(m)
	}
	for _, g := range s.groups {
		s.bytes += g.bytes
	}
	s.open = len(s.groups)
	return s.bytes
}
