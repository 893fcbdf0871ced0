package feature

import (
	"math"
	"slices"
)

// reference is one feature of one key by its definition: it keeps every entry
// and computes from all of them at every read.
type reference struct {
	spec Spec

	entries []refEntry // every one ever taken, by arrival
	newest  int64      // the greatest time of them, where there are any

	// The runs of entries whose sums of floats are added first: full blocks by
	// number, then the tail.
	first  int
	blocks [][]refEntry
	tail   []refEntry

	over   bool
	added  int          // entries so far
	at     int64        // of the read
	byPane [][]refEntry // of the read, if it is of panes
	more   bool         // it left out groups
	lost   int64        // the greatest time of entries that left a full list
	panes  []refPanes   // by window; used for windows in panes, or once over
}

type refEntry struct {
	t int64
	v float64 // units with decimals
	n int     // its number

	group string
}

func newReference(spec Spec) *reference {
	return &reference{spec: spec, panes: make([]refPanes, len(spec.Windows)), lost: math.MinInt64}
}

func (r *reference) units(v float64) float64 {
	if r.spec.Decimals < 0 {
		return v
	}
	return math.RoundToEven(v * math.Pow10(r.spec.Decimals))
}

func (r *reference) longest() int64 {
	longest := int64(0)
	for _, w := range r.spec.Windows {
		if w.Pane == 0 {
			longest = max(longest, w.Size.Microseconds())
		}
	}
	return longest
}

// add reports whether the entry was taken.
func (r *reference) add(t int64, v float64) bool {
	r.added++
	e := refEntry{t, r.units(v), r.added, groupOf(t, v)}
	if r.spec.Overflow == OverflowDead && r.longest() > 0 {
		trial := *r
		trial.panes = make([]refPanes, len(r.panes))
		if trial.addExact(e, r.longest()); trial.over {
			return false
		}
	}
	for k, w := range r.spec.Windows {
		if w.Pane > 0 {
			r.panes[k].add(w.Pane.Microseconds(), int64(w.Size/w.Pane), e)
		}
	}
	if longest := r.longest(); longest > 0 {
		r.addExact(e, longest)
		return true
	}
	r.entries = append(r.entries, e)
	r.newest = max(r.newest, t)
	if len(r.entries) == 1 {
		r.newest = t
	}
	return true
}

func (r *reference) limit() int {
	switch {
	case r.spec.Max == 0 && r.spec.Looks():
		return 1024
	case r.spec.Max == 0:
		return 65_536
	}
	return r.spec.Max
}

// approximate reports whether windows are read from panes, or lack entries.
func (r *reference) approximate() bool {
	return r.over || r.lost > r.newest-r.longest() && r.lost != math.MinInt64 || r.beyond()
}

func (r *reference) addExact(e refEntry, longest int64) {
	if len(r.entries) == 0 || e.t > r.newest {
		if r.over && e.t-longest >= r.newest {
			*r = *newReference2(r)
		}
		r.newest = e.t
	}
	live := func(e refEntry) bool { return e.t > r.newest-longest }
	if !live(e) {
		return
	}
	for len(r.blocks) > 0 && !slices.ContainsFunc(r.blocks[0], live) {
		r.blocks = r.blocks[1:]
		r.first++
	}
	for len(r.blocks) == 0 && len(r.tail) > 0 && !live(r.tail[0]) {
		r.tail = r.tail[1:]
	}
	full := !r.over && 64*len(r.blocks)+len(r.tail) >= r.limit()
	if full && r.spec.Overflow == OverflowOldest {
		for _, old := range r.blocks[0] {
			r.lost = max(r.lost, old.t)
		}
		r.entries = filter(r.entries, func(e refEntry) bool { return !slices.Contains(r.blocks[0], e) })
		r.blocks = r.blocks[1:]
		r.first++
	} else if full {
		r.over = true
		for _, old := range append(slices.Concat(r.blocks...), r.tail...) {
			if live(old) {
				r.addOver(old)
			}
		}
	}
	r.entries = append(r.entries, e)
	if r.over {
		r.addOver(e)
		return
	}
	r.tail = append(r.tail, e)
	if len(r.tail) == 64 {
		r.blocks, r.tail = append(r.blocks, r.tail), nil
	}
}

// newReference2 is r without the entries of exact windows.
func newReference2(r *reference) *reference {
	n := newReference(r.spec)
	for k, w := range r.spec.Windows {
		if w.Pane > 0 {
			n.panes[k] = r.panes[k]
		}
	}
	return n
}

func (r *reference) addOver(e refEntry) {
	for k, w := range r.spec.Windows {
		if w.Pane == 0 {
			r.panes[k].add(w.Size.Microseconds()/60, 60, e)
		}
	}
}

// read returns the columns as of t.
func (r *reference) read(t int64) []float64 {
	var out []float64
	r.at = t
	switch {
	case r.spec.Elapsed:
		if len(r.entries) == 0 {
			return []float64{r.spec.Empty}
		}
		return []float64{math.Max(0, float64(t-r.newest)/1e6)}
	case r.spec.Last > 0:
		last := r.entries[max(0, len(r.entries)-r.spec.Last):]
		return r.aggregate(out, last, [][]refEntry{last}, [][][]refEntry{{last}})
	}
	for k, w := range r.spec.Windows {
		size := w.Size.Microseconds()
		if w.Pane > 0 {
			in, sums := r.panes[k].read(w.Pane.Microseconds(), int64(w.Size/w.Pane), t)
			r.byPane = sums
			out = r.aggregate(out, in, sums, singles(sums))
		} else if r.over {
			in, sums := r.panes[k].read(size/60, 60, t)
			r.byPane = sums
			out = r.aggregate(out, in, sums, singles(sums))
		} else {
			in := func(e refEntry) bool { return e.t > t-size && e.t <= t && e.t > r.newest-r.longest() }
			r.byPane = nil
			out = r.aggregate(out, filter(r.entries, in), r.runs(in), r.groups(in))
		}
	}
	return out
}

func filter(entries []refEntry, in func(refEntry) bool) []refEntry {
	var out []refEntry
	for _, e := range entries {
		if in(e) {
			out = append(out, e)
		}
	}
	return out
}

// runs returns the sums of the groups of 16 blocks, the last of which has the
// tail, as if each were one entry: the order of additions of exact.
func (r *reference) runs(in func(refEntry) bool) [][]refEntry {
	groups := map[int]float64{}
	for k, b := range append(slices.Clone(r.blocks), r.tail) {
		sum := 0.0
		for _, e := range filter(b, in) {
			sum += e.v
		}
		groups[(r.first+k)/16] += sum
	}
	var out [][]refEntry
	for g := r.first / 16; g <= (r.first+len(r.blocks))/16; g++ {
		out = append(out, []refEntry{{v: groups[g]}})
	}
	return out
}

// groups returns the groups of 16 blocks, the last of which has the tail.
func (r *reference) groups(in func(refEntry) bool) (out [][][]refEntry) {
	for k, b := range append(slices.Clone(r.blocks), r.tail) {
		if k == 0 || (r.first+k)%16 == 0 {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], filter(b, in))
	}
	return out
}

// singles returns runs of which each entry is a part of its own.
func singles(runs [][]refEntry) (out [][][]refEntry) {
	for _, run := range runs {
		out = append(out, slices.Collect(slices.Chunk(run, 1)))
	}
	return out
}

// aggregate appends the aggregates of the entries, whose sum is that of the
// sums of runs. Moments of floats are merged over the parts of groups.
func (r *reference) aggregate(out []float64, in []refEntry, runs [][]refEntry, groups [][][]refEntry) []float64 {
	scale := 1.0
	sum := 0.0
	if r.spec.Decimals >= 0 {
		scale = math.Pow10(r.spec.Decimals)
		units := int64(0)
		for _, e := range in {
			units += int64(e.v)
		}
		sum = float64(units) / scale
	} else {
		for _, run := range runs {
			part := 0.0
			for _, e := range run {
				part += e.v
			}
			sum += part
		}
	}
	for _, a := range r.spec.Aggregates {
		v := r.spec.Empty
		byValue := func(a, b refEntry) int {
			if a.v < b.v {
				return -1
			} else if a.v > b.v {
				return 1
			}
			return 0
		}
		switch {
		case a == Count:
			v = float64(len(in))
		case a == Sum:
			v = sum
		case a == Distinct && r.byPane != nil:
			v = r.distinctOf(r.byPane)
		case a == Changes, a == Distinct:
			v = float64(r.look(a, in).n)
		case len(in) == 0:
		case a.looks() && r.byPane != nil:
			v = r.percentileOf(a, r.byPane)
		case a.looks():
			v = r.look(a, in).v / scale
			if a == EWMA {
				v = r.ewma(in)
			}
		case a == Mean:
			v = sum / float64(len(in))
		case a == Max:
			v = slices.MaxFunc(in, byValue).v / scale
		case a == Min:
			v = slices.MinFunc(in, byValue).v / scale
		case a == Slope:
			if slope, ok := r.slope(in, groups); ok {
				v = slope
			}
		case a == Variance:
			v = r.variance(in, groups)
		case a == Stddev:
			v = math.Sqrt(r.variance(in, groups))
		}
		out = append(out, v)
	}
	return out
}

// refPanes keeps the entries of a window in panes by the rules of the baseline:
// a dictionary of panes, of which those n or more behind the newest are deleted.
type refPanes struct{ at map[int64][]refEntry }

func (p *refPanes) newest(i int64) int64 {
	for k := range p.at {
		i = max(i, k)
	}
	return i
}

func floorDiv(a, b int64) int64 { return int64(math.Floor(float64(a) / float64(b))) }

func (p *refPanes) add(pane, n int64, e refEntry) {
	i := floorDiv(e.t, pane)
	newest := p.newest(i)
	if i <= newest-n {
		return
	}
	if p.at == nil {
		p.at = map[int64][]refEntry{}
	}
	p.at[i] = append(p.at[i], e)
	for k := range p.at {
		if k <= newest-n {
			delete(p.at, k)
		}
	}
}

// read returns the entries in the window as of t, and by pane.
func (p *refPanes) read(pane, n, t int64) (all []refEntry, runs [][]refEntry) {
	i := floorDiv(t, pane)
	newest := p.newest(i)
	for k := newest - n + 1; k <= i; k++ {
		if run := p.at[k]; len(run) > 0 {
			all = append(all, run...)
			runs = append(runs, run)
		}
	}
	return all, runs
}
