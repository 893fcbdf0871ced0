package feature

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// With Per the entries of a list belong to groups. An aggregate is computed for each group as if
// the other groups did not exist, by a scan of the entries. The list stores only the entries, each
// with the name of its group.

// Values of groups are bounded, so that a sum of all entries, or of their squares, is in range:
// there are at most 2^14 entries.
const (
	groupedUnits = 1 << 48
	groupedFloat = 0x1p500
)

// splitBy completes the reading of a checked spec with Per.
func (r *reading) splitBy(spec *Spec) {
	r.per, r.take = true, cmp.Or(spec.Take, defaultGroups)
	if r.limit = groupedUnits; r.float {
		r.limit = groupedFloat
	}
}

// Split sets the group of the entry that the next Add, AddInt or AddText adds to feature i, which
// has Per. It fails if the group exceeds MaxText bytes.
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

// putGroup stores the group of an entry. The entry already has its other words.
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

// groups holds the additional data of a look at groups.
type groups struct {
	members []member
	found   []group // the groups with the most entries first
	sorted  []entry // the entries, one group after the other
	pairs   []int64 // the entries of a group: times and values
}

// member is an entry, and the index of its group among the counted ones.
type member struct {
	entry
	group uint32
}

// group is a group and the range of its entries in sorted: [from, to).
type group struct {
	counted
	from, to int
	late     bool // the entries are not in order of time
}

// split writes the aggregates of the groups of each window, or of the newest values. It reports
// whether there are more groups than the feature returns.
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

// grouped reads the entries after lo and finds their groups.
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

// enter adds the entries of words that are in (lo, l.at], or all of the newest values, by arrival.
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

// writeGroups writes the aggregates of the groups found.
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

// sumOf returns the sum of the entries. It adds floats by (time, position).
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
