package group

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// fold holds the count and the aggregates of events that are not stored.
type fold struct {
	count      int64
	newest     int64   // greatest offset
	last       int64   // greatest time
	first      *member // first event by (time, source, offset), with its stored form
	aggregates []aggregate
}

func newFold(g *operator.Group) fold {
	return fold{newest: math.MinInt64, last: math.MinInt64, aggregates: make([]aggregate, len(g.Values))}
}

// take adds an event.
func (f *fold) take(g *operator.Group, m *member) {
	f.merge(g, &fold{count: 1, newest: m.offset, last: m.time, first: m, aggregates: m.aggregates})
}

// merge adds the events of another fold, which it does not change.
func (f *fold) merge(g *operator.Group, o *fold) {
	f.count += o.count
	f.newest, f.last = max(f.newest, o.newest), max(f.last, o.last)
	if merge(g, f.aggregates, o.aggregates); f.first == nil || o.first.compare(f.first) < 0 {
		f.first = o.first
	}
}

// size returns about how many bytes its stored form takes.
func (f *fold) size() int {
	if f.first == nil {
		return 0
	}
	n := len(f.first.value)
	for i := range f.aggregates {
		n += 8 * len(f.aggregates[i].parts)
	}
	return n
}

// append appends the stored form of a fold.
func (f *fold) append(dst []byte) []byte {
	for _, n := range []int64{f.count, f.newest, f.last, f.first.offset} {
		dst = binary.AppendVarint(dst, n)
	}
	return appendAggregates(packed.AppendText(dst, f.first.value), f.aggregates)
}

// parse parses the output of append.
func (f *fold) parse(g *operator.Group, r *packed.Reader) bool {
	f.count, f.newest, f.last = r.Signed(), r.Signed(), r.Signed()
	f.first = &member{offset: r.Signed()}
	f.first.value = slices.Clone(r.Text())
	if f.aggregates = aggregatesFrom(r); r.Bad || len(f.aggregates) != len(g.Values) {
		return false
	}
	_, err := f.first.parse(f.first.value)
	return err == nil
}

const foldsVersion = 4 // version of a series that stores no events: see seriesVersion

// appendFolds is append for a series that stores no events.
func (s *series) appendFolds(dst []byte) []byte {
	dst = binary.AppendUvarint(append(dst, foldsVersion), uint64(len(s.groups)))
	for _, g := range s.groups {
		dst = g.fold.append(dst)
	}
	return dst
}

// parseFolds parses the output of appendFolds after its version. If idle changed, it may merge
// groups.
func (s *series) parseFolds(r *packed.Reader) bool {
	s.loaded = true
	for range r.Count() {
		var f fold
		if !f.parse(s.spec, r) {
			return false
		}
		n := len(s.groups)
		if n == 0 || f.first.time >= s.groups[n-1].over() {
			s.groups, n = append(s.groups, newGroup(s.spec)), n+1
		}
		s.groups[n-1].absorb(&f)
	}
	for _, g := range s.groups {
		s.bytes += g.bytes
	}
	s.open = len(s.groups)
	return r.Whole() && s.open > 0
}
