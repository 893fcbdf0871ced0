package feature

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// With Per the entries of a list are in groups, and an aggregate is that of the entries of
// each group, as if the others were not there. It is computed by a look at the entries: what
// is kept is the entries alone, with the name of the group of each.

// Values of groups are bounded, so that a sum of all entries, or of their squares, is in range:
// there are at most 2^14 of them.
const (
	groupedUnits = 1 << 48
	groupedFloat = 0x1p500
)

// splitBy makes the reading that of a checked spec with Per.
func (r *reading) splitBy(spec *Spec) {
	r.per, r.take = true, cmp.Or(spec.Take, defaultGroups)
	if r.limit = groupedUnits; r.float {
		r.limit = groupedFloat
	}
}

// Split says the group of the entry that the next Add, AddInt or AddText adds to feature i,
// which has Per. A group of more than MaxText bytes is an error.
func (s *Set) Split(c *Cell, i int, group string) error {
	f := &s.features[i]
	if err := CheckText(group); err != nil {
		return fmt.Errorf("feature %s: per: %w", f.name, err)
	}
	x := f.windows.in(c)
	if x.texts == nil {
		x.texts = &texts{}
	}
	x.texts.group = group
	return nil
}

// putGroup keeps the group of an entry that has the rest of its words.
func (x *exact) putGroup(e *entries, item []int64) {
	if x.texts == nil {
		x.texts = &texts{}
	}
	first := int64(-1)
	switch live := x.live(); {
	case e.values == Texts:
		first = live[1]
	case len(live) > len(item):
		first = live[e.groupAt]
	}
	item[e.groupAt], x.texts.group = x.texts.put(x.texts.group, first), ""
}

// groups is what a look at groups needs beside the entries of one.
type groups struct {
	members []member
	found   []group // those of the most entries first
	sorted  []entry // of one group behind those of another
	pairs   []int64 // the entries of a group: times and values
}

// member is an entry, and the place of its group among those counted.
type member struct {
	entry
	group uint32
}

// group is a group, and which of the sorted entries are of it: [from, to).
type group struct {
	counted
	from, to int
	late     bool // they are not in the order of time
}

// split puts the aggregates of the groups of each window, or of the newest values. It reports
// whether there are more groups than are taken.
func (l *look) split(x *exact, out []Value, before bool) (more bool) {
	if out == nil {
		return false
	}
	for k := range max(1, len(l.windows.list)) {
		lo := int64(math.MinInt64)
		if l.windows.newestN == 0 {
			lo = max(l.at-l.windows.list[k].size, x.newest-l.windows.longest)
		}
		l.grouped(x, lo)
		more = more || len(l.found) > l.take
		l.of = Texts
		l.found = best(l.found, l.take, func(a, b group) int { return l.byCount(a.counted, b.counted) })
		l.of = l.values
		l.writeGroups(out[k*len(l.aggregates):], before)
	}
	return more
}

// grouped takes the entries after lo, and finds their groups.
func (l *look) grouped(x *exact, lo int64) {
	e := &l.windows.entries
	l.reset()
	l.texts, l.members, l.of = x.texts, l.members[:0], Texts
	l.countUpTo(len(x.live()) / e.entry)
	for k := range x.blocks() {
		if !x.index.blocks[k].outside(lo, l.at) {
			l.enter(x.blockWords(e, k), lo)
		}
	}
	l.enter(x.tailWords(e), lo)
	l.of = l.values
	l.found, l.sorted = l.found[:0], slices.Grow(l.sorted[:0], len(l.members))[:len(l.members)]
	end := 0
	for _, c := range l.counted {
		l.found = append(l.found, group{counted: c, from: end, to: end})
		end += c.n
	}
	for k := range l.members {
		m := &l.members[k]
		g := &l.found[m.group]
		g.late = g.late || g.to > g.from && l.sorted[g.to-1].t > m.t
		l.sorted[g.to] = m.entry
		g.to++
	}
}

// enter takes the entries of words that are in (lo, l.at], or all of the newest values, by
// arrival.
func (l *look) enter(words []int64, lo int64) {
	e := &l.windows.entries
	for ; len(words) > 0; words = words[e.entry:] {
		t := words[0]
		switch {
		case e.newestN > 0:
			t = 0
		case t <= lo || t > l.at:
			continue
		}
		at := l.placeOf(words[e.groupAt])
		l.counted[at].n++
		l.members = append(l.members, member{entry{t, l.unsigned(words[1])}, at})
	}
}

// writeGroups puts the aggregates of the groups found.
func (l *look) writeGroups(out []Value, before bool) {
	for k, a := range l.aggregates {
		if before == (a == Previous) {
			out[k] = Value{Items: out[k].Items[:0], Present: true}
		}
	}
	own := l.entries
	for i := range l.found {
		g := &l.found[i]
		l.entries, l.words, l.ordered = l.sorted[g.from:g.to], l.words[:0], !g.late
		l.inOrder()
		for k, a := range l.aggregates {
			if before == (a == Previous) {
				v := l.ofGroup(a)
				v.Group = l.texts.of(g.value)
				out[k].Items = append(out[k].Items, v)
			}
		}
	}
	l.entries = own
}

// ofGroup returns an aggregate of the entries of a group.
func (l *look) ofGroup(a Aggregate) Value {
	v := Value{Number: l.empty, Present: true}
	if a.Counts() {
		v = l.value(a)
		v.Int = int64(v.Number)
		return v
	}
	switch a {
	case Sum:
		v.Number = l.sumOf()
	case Mean:
		v.Number = l.sumOf() / float64(len(l.entries))
	case Max:
		v = l.valueOf(slices.MaxFunc(l.entries, byWord).value)
	case Min:
		v = l.valueOf(slices.MinFunc(l.entries, byWord).value)
	case Variance, Stddev:
		m := l.momentsOf()
		if v.Number = l.variance(&m); a == Stddev {
			v.Number = math.Sqrt(v.Number)
		}
	case Slope:
		m := l.momentsOf()
		if slope, ok := l.slope(&m); ok {
			v.Number = slope
		}
	default:
		v = l.value(a)
	}
	return v
}

func byWord(a, b entry) int { return cmp.Compare(a.value, b.value) }

// sumOf returns the sum of the entries. That of floats adds them by (time, position).
func (l *look) sumOf() float64 {
	sum := nothing
	for k := range l.entries {
		l.unit.add(&sum, l.entries[k].value)
	}
	return l.sumNumber(&sum)
}

// momentsOf returns the moments of the entries.
func (l *look) momentsOf() moments {
	l.pairs = l.pairs[:0]
	for k := range l.entries {
		l.pairs = append(l.pairs, l.entries[k].t, l.entries[k].value)
	}
	return l.windows.entries.scanMoments(l.pairs, math.MinInt64, math.MaxInt64)
}
