package feature

import "math"

// A pane is an item of a queue: a word of count<<paneBits | index mod 2^paneBits,
// then, where the feature needs them, its sum, max and min. The live panes of a
// window are within maxPanes of the newest, so the low bits tell them apart.
const (
	paneBits = 10
	paneMask = 1<<paneBits - 1
)

// grid is how a window is cut into panes.
type grid struct {
	pane  int64 // microseconds
	panes int64 // of the window
}

// index returns the pane of time t, which is often the hinted one.
func (g grid) index(t, hint int64) int64 {
	if d := t - hint*g.pane; d >= 0 && d < g.pane {
		return hint
	}
	i := t / g.pane
	if t%g.pane < 0 {
		i--
	}
	return i
}

// panes is one window in panes: those that got an entry, by index. A pane is
// dropped when it is grid.panes or more behind the newest one, and an entry so
// far behind is not added.
//
// The sum of floats is the left fold over the panes by index, of sums in the
// order of arrival. base keeps the total of all panes but the newest, which
// takes nearly all entries, so most reads look at two totals. It is a function
// of the panes alone: forgotten when an earlier pane changes or leaves, but for
// integers, where it can follow.
type panes struct {
	queue
	newest int64  // index of the last live pane
	base   *total // nil, or with n < 0, where it is not known
}

func (p *panes) known() bool { return p.base != nil && p.base.n >= 0 }

func (p *panes) forget() {
	if p.base != nil {
		p.base.n = -1
	}
}

// few is how many panes are folded at every read rather than keeping a base.
const few = 8

// age returns how many panes a pane is behind the newest one.
func (p *panes) age(first int64) int64 { return (p.newest - first) & paneMask }

// add folds a value into the pane of time t.
func (p *panes) add(f *feature, g grid, t, value int64) {
	i := g.index(t, p.newest)
	switch empty := len(p.words) == 0; {
	case empty || i > p.newest:
		p.advance(f, g, i, empty)
		f.fold(p.words[len(p.words)-f.stride:], value)
	case i == p.newest:
		f.fold(p.words[len(p.words)-f.stride:], value)
	case p.newest-i < g.panes:
		if f.float {
			p.forget()
		} else if p.known() {
			f.add(p.base, value)
		}
		f.fold(p.late(f, i), value)
	}
}

// advance makes i the newest pane and drops those that it leaves behind.
func (p *panes) advance(f *feature, g grid, i int64, empty bool) {
	if !empty {
		if p.known() {
			last := f.paneTotal(p.words[len(p.words)-f.stride:])
			f.merge(p.base, &last)
		}
		live, old := p.live(), 0
		shift := min(i-p.newest, g.panes)
		for old < len(live) && shift+p.age(live[old]) >= g.panes {
			if p.known() {
				p.leave(f, live[old:])
			}
			old += f.stride
		}
		p.drop(old)
	}
	p.newest = i
	f.clear(p.push(f.stride), i)
}

// leave takes a pane out of the base, or forgets the base where it cannot tell
// what is left: integers come out exactly, a greatest or least value does not.
func (p *panes) leave(f *feature, pane []int64) {
	gone := f.paneTotal(pane)
	if f.float || f.maxAt > 0 && gone.max == p.base.max || f.minAt > 0 && gone.min == p.base.min {
		p.forget()
		return
	}
	p.base.n -= gone.n
	p.base.sum -= gone.sum
}

// late returns the pane of an index behind the newest one, made where it is
// missing.
func (p *panes) late(f *feature, i int64) []int64 {
	live, want := p.live(), p.newest-i
	at := len(live) - f.stride
	for at >= 0 && p.age(live[at]) < want {
		at -= f.stride
	}
	if at >= 0 && p.age(live[at]) == want {
		return live[at : at+f.stride]
	}
	p.push(f.stride)
	live, at = p.live(), at+f.stride
	copy(live[at+f.stride:], live[at:])
	f.clear(live[at:], i)
	return live[at : at+f.stride]
}

// read returns the total of the panes at or before that of time t, and less
// than the window's number of panes before the newest of both.
func (p *panes) read(f *feature, g grid, t int64) total {
	live := p.live()
	if len(live) == 0 {
		return nothing
	}
	i := g.index(t, p.newest)
	if i >= p.newest {
		whole := len(live)
		for len(live) > 0 && i-p.newest+p.age(live[0]) >= g.panes {
			live = live[f.stride:]
		}
		if len(live) == whole && whole > few*f.stride {
			return p.wholly(f, live)
		}
		return f.foldPanes(live)
	}
	for len(live) > 0 && p.age(live[len(live)-f.stride]) < p.newest-i {
		live = live[:len(live)-f.stride]
	}
	return f.foldPanes(live)
}

// wholly returns the total of all live panes.
func (p *panes) wholly(f *feature, live []int64) total {
	last := live[len(live)-f.stride:]
	if !p.known() {
		if p.base == nil {
			p.base = new(total)
		}
		*p.base = f.foldPanes(live[:len(live)-f.stride])
	}
	out, t := *p.base, f.paneTotal(last)
	f.merge(&out, &t)
	return out
}

// reset drops every pane.
func (p *panes) reset() { *p = panes{} }

// clear makes a pane that of index i without entries.
func (f *feature) clear(pane []int64, i int64) {
	pane[0] = i & paneMask
	if f.sumAt > 0 {
		pane[f.sumAt] = 0
	}
	if f.maxAt > 0 {
		pane[f.maxAt] = math.MinInt64
	}
	if f.minAt > 0 {
		pane[f.minAt] = math.MaxInt64
	}
}

// fold adds a value to a pane.
func (f *feature) fold(pane []int64, value int64) {
	pane[0] += 1 << paneBits
	if f.sumAt > 0 {
		if f.float {
			pane[f.sumAt] = addFloat(pane[f.sumAt], ordered(value))
		} else {
			pane[f.sumAt] += value
		}
	}
	if f.maxAt > 0 {
		pane[f.maxAt] = max(pane[f.maxAt], value)
	}
	if f.minAt > 0 {
		pane[f.minAt] = min(pane[f.minAt], value)
	}
}

// paneTotal returns a pane as a total.
func (f *feature) paneTotal(pane []int64) total {
	t := nothing
	t.n = pane[0] >> paneBits
	if f.sumAt > 0 {
		t.sum = pane[f.sumAt]
	}
	if f.maxAt > 0 {
		t.max = pane[f.maxAt]
	}
	if f.minAt > 0 {
		t.min = pane[f.minAt]
	}
	return t
}

// foldPanes returns the total of panes in their order.
func (f *feature) foldPanes(live []int64) total {
	t := nothing
	for k := 0; k < len(live); k += f.stride {
		t.n += live[k] >> paneBits
	}
	if at := f.sumAt; at > 0 && f.float {
		var sum float64
		for k := at; k < len(live); k += f.stride {
			sum += math.Float64frombits(uint64(live[k]))
		}
		t.sum = int64(math.Float64bits(sum))
	} else if at > 0 {
		for k := at; k < len(live); k += f.stride {
			t.sum += live[k]
		}
	}
	if f.maxAt > 0 {
		for k := f.maxAt; k < len(live); k += f.stride {
			t.max = max(t.max, live[k])
		}
	}
	if f.minAt > 0 {
		for k := f.minAt; k < len(live); k += f.stride {
			t.min = min(t.min, live[k])
		}
	}
	return t
}
