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

// The panes of one window are a queue of those that got an entry, by index. A
// pane is dropped when it is grid.panes or more behind the newest one, and an
// entry so far behind is not added.
//
// The sum of floats is the left fold over the panes by index, of sums in the
// order of arrival. The base, an item behind the room of the queue, keeps the
// total of all panes but the newest, which takes nearly all entries, so most
// reads look at two totals. It is a function of the panes alone: forgotten when
// an earlier pane changes or leaves, but for integers, where it can follow.

// few is how many panes are folded at every read rather than keeping a base.
const few = 8

// base returns where the base is: a number of entries, less than 0 where it is
// not known, then as a pane. It is nil where the queue has no room for one.
func (p *place) base(words []int64) []int64 {
	room := extent(words[p.at+1])
	if !p.based || room.len() <= few*p.stride {
		return nil
	}
	return words[room.to() : room.to()+p.stride]
}

func known(base []int64) bool { return len(base) > 0 && base[0] >= 0 }

func (p *place) forget(words []int64) {
	if base := p.base(words); base != nil {
		base[0] = -1
	}
}

// age returns how many panes a pane is behind the newest one.
func age(newest, first int64) int64 { return (newest - first) & paneMask }

// addPane folds a value into the pane of time t of a window. It leaves out a value whose
// pane is older than the window, which ends with the newest pane.
func (s *Set) addPane(c *Cell, f *feature, w *window, t, value int64) {
	e, newest := extent(c.words[w.at]), c.words[w.at+2]
	i := w.index(t, newest)
	switch empty := e.len() == 0; {
	case i == newest && !empty:
		f.fold(c.words[e.to()-f.stride:e.to()], value)
	case i > newest || empty:
		f.fold(s.advance(c, f, w, i), value)
	case newest-i < w.panes:
		if base := w.base(c.words); known(base) && f.float {
			base[0] = -1
		} else if known(base) {
			sum := f.baseTotal(base)
			f.add(&sum, value)
			f.putBase(base, &sum)
		}
		f.fold(s.late(c, f, w, i), value)
	}
}

// advance makes i the newest pane, drops those that it leaves behind, and
// returns it.
func (s *Set) advance(c *Cell, f *feature, w *window, i int64) []int64 {
	words := c.words
	newest := words[w.at+2]
	if live := w.live(words); len(live) > 0 {
		base := w.base(words)
		if known(base) {
			sum, last := f.baseTotal(base), f.paneTotal(live[len(live)-f.stride:])
			f.merge(&sum, &last)
			f.putBase(base, &sum)
		}
		old := 0
		shift := min(i-newest, w.panes)
		for old < len(live) && shift+age(newest, live[old]) >= w.panes {
			if known(base) {
				f.leave(base, live[old:])
			}
			old += f.stride
		}
		w.drop(words, old)
	}
	words[w.at+2] = i
	pane := w.push(c)
	f.clear(pane, i)
	return pane
}

// leave takes a pane out of the base, or forgets the base where it cannot tell
// what is left: integers come out exactly, a greatest or least value does not.
func (f *feature) leave(base, pane []int64) {
	gone, sum := f.paneTotal(pane), f.baseTotal(base)
	if f.float || f.maxAt > 0 && gone.max == sum.max || f.minAt > 0 && gone.min == sum.min {
		base[0] = -1
		return
	}
	sum.n -= gone.n
	sum.sum -= gone.sum
	f.putBase(base, &sum)
}

// late returns the pane of an index behind the newest one, made where it is
// missing.
func (s *Set) late(c *Cell, f *feature, w *window, i int64) []int64 {
	newest := c.words[w.at+2]
	live, want := w.live(c.words), newest-i
	at := len(live) - f.stride
	for at >= 0 && age(newest, live[at]) < want {
		at -= f.stride
	}
	if at >= 0 && age(newest, live[at]) == want {
		return live[at : at+f.stride]
	}
	w.push(c)
	live, at = w.live(c.words), at+f.stride
	copy(live[at+f.stride:], live[at:])
	f.clear(live[at:], i)
	return live[at : at+f.stride]
}

// readPanes returns the total of the panes at or before that of time t, and less
// than the window's number of panes before the newest of both.
func (f *feature) readPanes(words []int64, w *window, t int64) total {
	newest, live := words[w.at+2], w.live(words)
	if len(live) == 0 {
		return nothing
	}
	i, whole := w.index(t, newest), len(live)
	if i != newest {
		live = f.visible(live, w, newest, i)
	}
	if i >= newest && len(live) == whole && whole > few*f.stride {
		return f.wholly(w.base(words), live)
	}
	return f.foldPanes(live)
}

// visible returns the live panes that the window as of pane i reads. newest is the
// newest live pane.
func (f *feature) visible(live []int64, w *window, newest, i int64) []int64 {
	if i >= newest {
		for len(live) > 0 && i-newest+age(newest, live[0]) >= w.panes {
			live = live[f.stride:]
		}
		return live
	}
	for len(live) > 0 && age(newest, live[len(live)-f.stride]) < newest-i {
		live = live[:len(live)-f.stride]
	}
	return live
}

// wholly returns the total of all live panes, which are more than a few.
func (f *feature) wholly(base, live []int64) total {
	last := live[len(live)-f.stride:]
	if !known(base) {
		sum := f.foldPanes(live[:len(live)-f.stride])
		f.putBase(base, &sum)
	}
	t := nothing
	t.n = base[0] + last[0]>>paneBits
	if at := f.sumAt; at > 0 && f.float {
		t.sum = addFloat(base[at], last[at])
	} else if at > 0 {
		t.sum = base[at] + last[at]
	}
	if at := f.maxAt; at > 0 {
		t.max = max(base[at], last[at])
	}
	if at := f.minAt; at > 0 {
		t.min = min(base[at], last[at])
	}
	return t
}

// baseTotal returns a base that is known.
func (f *feature) baseTotal(base []int64) total {
	t := nothing
	t.n = base[0]
	f.takeTotal(&t, base)
	return t
}

func (f *feature) putBase(base []int64, t *total) {
	base[0] = t.n
	if f.sumAt > 0 {
		base[f.sumAt] = t.sum
	}
	if f.maxAt > 0 {
		base[f.maxAt] = t.max
	}
	if f.minAt > 0 {
		base[f.minAt] = t.min
	}
}

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
	f.takeTotal(&t, pane)
	return t
}

// takeTotal takes all but the number of entries from a pane or a base.
func (f *feature) takeTotal(t *total, pane []int64) {
	if f.sumAt > 0 {
		t.sum = pane[f.sumAt]
	}
	if f.maxAt > 0 {
		t.max = pane[f.maxAt]
	}
	if f.minAt > 0 {
		t.min = pane[f.minAt]
	}
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
