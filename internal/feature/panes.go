package feature

import "math"

// paneForm describes the words of a pane of a feature. The first word is count<<paneBits | index
// mod 2^paneBits. Sum, max, min and moments follow, if the feature needs them. The live panes of a
// window are within maxPanes of the newest, so the low bits of the index tell them apart.
type paneForm struct {
	unit
	sumAt, maxAt, minAt int // index in a pane; 0 if not kept
	momentsAt           int // if unit.squares
}

// formOf returns the form of panes for a reading, and the number of words of a pane.
func formOf(r *reading) (f paneForm, words int) {
	if f.unit, words = r.unit, 1; r.per {
		return f, words // it never overflows into panes
	}
	keep := func(at *int, as ...Aggregate) {
		if r.any(as...) {
			*at = words
			words++
		}
	}
	keep(&f.sumAt, Sum, Mean, Variance, Stddev, Slope)
	keep(&f.maxAt, Max)
	keep(&f.minAt, Min)
	if f.squares {
		f.momentsAt = words
		words += f.momentWords()
	}
	return f, words
}

const (
	paneBits = 10
	paneMask = 1<<paneBits - 1
)

// grid says how a window is cut into panes.
type grid struct {
	length int64 // of a pane, microseconds
	count  int64 // number of panes of the window
}

// index returns the index of the pane of time t, which often equals hint.
func (g grid) index(t, hint int64) int64 {
	if d := t - hint*g.length; d >= 0 && d < g.length {
		return hint
	}
	i := t / g.length
	if t%g.length < 0 {
		i--
	}
	return i
}

// panes is one window: a queue, by index, of the panes that have an entry. A pane is dropped when
// it is grid.count or more behind the newest one. An entry that far behind is not added.
//
// The sum of floats is the left fold over the panes by index; the sum of a pane is in order of
// arrival. The base holds the total of all panes but the newest, in an item behind the room of the
// queue. The newest pane takes nearly all entries, so most reads add two totals. The base is a
// function of the panes alone. It is discarded when an earlier pane changes or is dropped. Integers
// are an exception: there the base can be updated.
type panes struct {
	grid
	place
	paneForm
}

// few is the largest number of panes without a base: every read folds all of them.
const few = 8

// base returns the words of the base: a number of entries, negative if the base is unknown, then
// the words of a pane. It is nil if the queue has no room for a base.
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

// age returns how many panes the first pane is behind the newest one.
func age(newest, first int64) int64 { return (newest - first) & paneMask }

// add folds a value into the pane of time t. It ignores a value if its pane is older than the
// window, which ends with the newest pane.
func (p *panes) add(c *Cell, t, value int64) {
	e, newest := extent(c.words[p.at]), c.words[p.at+2]
	i := p.index(t, newest)
	switch empty := e.len() == 0; {
	case i == newest && !empty:
		p.fold(c.words[e.to()-p.stride:e.to()], t, value)
	case i > newest || empty:
		p.fold(p.advance(c, i), t, value)
	case newest-i < p.count:
		if base := p.base(c.words); known(base) && p.float {
			base[0] = -1
		} else if known(base) {
			if p.squares {
				m := p.momentsIn(base, base[0])
				p.addMoments(&m, t, value)
				p.putMoments(base, &m)
			}
			sum := p.baseTotal(base)
			p.unit.add(&sum, value)
			p.putBase(base, &sum)
		}
		p.fold(p.late(c, i), t, value)
	}
}

// advance makes i the newest pane, drops the panes that are now out of the window, and returns pane
// i.
func (p *panes) advance(c *Cell, i int64) []int64 {
	words := c.words
	newest := words[p.at+2]
	if live := p.live(words); len(live) > 0 {
		base := p.base(words)
		if known(base) {
			if p.squares {
				p.mergePane(base, live[len(live)-p.stride:])
			}
			sum, last := p.baseTotal(base), p.total(live[len(live)-p.stride:])
			p.merge(&sum, &last)
			p.putBase(base, &sum)
		}
		old := 0
		shift := min(i-newest, p.count)
		for old < len(live) && shift+age(newest, live[old]) >= p.count {
			if known(base) {
				p.leave(base, live[old:])
			}
			old += p.stride
		}
		p.drop(words, old)
	}
	words[p.at+2] = i
	pane := p.push(c)
	p.clear(pane, i)
	return pane
}

// leave removes a pane from the base. Integers are subtracted exactly. If the pane may hold the
// greatest or least value, the rest is unknown and leave discards the base.
func (f *paneForm) leave(base, pane []int64) {
	gone, sum := f.total(pane), f.baseTotal(base)
	if f.float || f.maxAt > 0 && gone.max == sum.max || f.minAt > 0 && gone.min == sum.min {
		base[0] = -1
		return
	}
	if f.squares {
		m, of := f.momentsIn(base, base[0]), f.momentsIn(pane, gone.n)
		m.leave(&of)
		f.putMoments(base, &m)
	}
	sum.n -= gone.n
	sum.sum -= gone.sum
	f.putBase(base, &sum)
}

// late returns the pane of an index behind the newest one. It adds the pane if it is missing.
func (p *panes) late(c *Cell, i int64) []int64 {
	newest := c.words[p.at+2]
	live, want := p.live(c.words), newest-i
	at := len(live) - p.stride
	for at >= 0 && age(newest, live[at]) < want {
		at -= p.stride
	}
	if at >= 0 && age(newest, live[at]) == want {
		return live[at : at+p.stride]
	}
	p.push(c)
	live, at = p.live(c.words), at+p.stride
	copy(live[at+p.stride:], live[at:])
	p.clear(live[at:], i)
	return live[at : at+p.stride]
}

// read returns the total of the panes at or before that of time t. They are less than the window's
// number of panes before the newest of t's pane and the newest pane.
func (p *panes) read(words []int64, t int64) total {
	newest, live := words[p.at+2], p.live(words)
	if len(live) == 0 {
		return nothing
	}
	i, whole := p.index(t, newest), len(live)
	if i != newest {
		live = p.visible(live, newest, i)
	}
	if i >= newest && len(live) == whole && whole > few*p.stride {
		return p.wholly(p.base(words), live)
	}
	return p.foldAll(live)
}

// visible returns the live panes that the window as of pane i reads. newest is the newest live
// pane.
func (p *panes) visible(live []int64, newest, i int64) []int64 {
	if i >= newest {
		for len(live) > 0 && i-newest+age(newest, live[0]) >= p.count {
			live = live[p.stride:]
		}
		return live
	}
	for len(live) > 0 && age(newest, live[len(live)-p.stride]) < newest-i {
		live = live[:len(live)-p.stride]
	}
	return live
}

// wholly returns the total of all live panes, which are more than few.
func (p *panes) wholly(base, live []int64) total {
	last := live[len(live)-p.stride:]
	if !known(base) {
		p.learn(base, live[:len(live)-p.stride])
	}
	t := nothing
	t.n = base[0] + last[0]>>paneBits
	if at := p.sumAt; at > 0 && p.float {
		t.sum = addFloat(base[at], last[at])
	} else if at > 0 {
		t.sum = base[at] + last[at]
	}
	if at := p.maxAt; at > 0 {
		t.max = max(base[at], last[at])
	}
	if at := p.minAt; at > 0 {
		t.min = min(base[at], last[at])
	}
	return t
}

// learn computes the base from panes.
func (p *panes) learn(base, live []int64) {
	if p.squares {
		m := p.foldMoments(live)
		p.putMoments(base, &m)
	}
	sum := p.foldAll(live)
	p.putBase(base, &sum)
}

// readMoments is read for moments.
func (p *panes) readMoments(words []int64, t int64) moments {
	newest, live := words[p.at+2], p.live(words)
	if len(live) == 0 {
		return moments{}
	}
	i, whole := p.index(t, newest), len(live)
	if i != newest {
		live = p.visible(live, newest, i)
	}
	if i < newest || len(live) < whole || whole <= few*p.stride {
		return p.foldMoments(live)
	}
	base, last := p.base(words), live[len(live)-p.stride:]
	if !known(base) {
		p.learn(base, live[:len(live)-p.stride])
	}
	m, newer := p.momentsIn(base, base[0]), p.momentsIn(last, last[0]>>paneBits)
	p.mergeMoments(&m, &newer)
	return m
}

// baseTotal returns the total of a base that is known.
func (f *paneForm) baseTotal(base []int64) total {
	t := nothing
	t.n = base[0]
	f.takeTotal(&t, base)
	return t
}

func (f *paneForm) putBase(base []int64, t *total) {
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

// clear turns a pane into the empty pane of index i.
func (f *paneForm) clear(pane []int64, i int64) {
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
	if f.squares {
		f.putMoments(pane, &moments{})
	}
}

// fold adds an entry to a pane.
func (f *paneForm) fold(pane []int64, t, value int64) {
	if f.squares {
		f.foldInMoments(pane, t, value)
	}
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

// total returns a pane as a total.
func (f *paneForm) total(pane []int64) total {
	t := nothing
	t.n = pane[0] >> paneBits
	f.takeTotal(&t, pane)
	return t
}

// takeTotal reads everything but the number of entries from a pane or a base.
func (f *paneForm) takeTotal(t *total, pane []int64) {
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

// foldAll returns the total of panes, in their order.
func (p *panes) foldAll(live []int64) total {
	t := nothing
	for k := 0; k < len(live); k += p.stride {
		t.n += live[k] >> paneBits
	}
	if at := p.sumAt; at > 0 && p.float {
		var sum float64
		for k := at; k < len(live); k += p.stride {
			sum += math.Float64frombits(uint64(live[k]))
		}
		t.sum = int64(math.Float64bits(sum))
	} else if at > 0 {
		for k := at; k < len(live); k += p.stride {
			t.sum += live[k]
		}
	}
	if p.maxAt > 0 {
		for k := p.maxAt; k < len(live); k += p.stride {
			t.max = max(t.max, live[k])
		}
	}
	if p.minAt > 0 {
		for k := p.minAt; k < len(live); k += p.stride {
			t.min = min(t.min, live[k])
		}
	}
	return t
}
