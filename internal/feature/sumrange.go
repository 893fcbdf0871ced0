package feature

import (
	"errors"
	"fmt"
	"math"

	"github.com/afterbay/afterbay/internal/event/value"
)

// A sum out of range is refused. With decimals the sum in units must fit an int64; a float must be
// finite. The order of integers does not change their sum, so partial sums may wrap: only the
// result decides.
//
// A cell has a bound, which is not stored. No sum of any subset of the entries of one of its
// features exceeds it in magnitude. The bound is in units of the last decimal. For sums of floats
// it counts multiples of 2^-960, so that one limit serves both. While the bound is below that
// limit, Add and Read check only the bound, and Add raises it by its value. At the limit, Add
// recomputes the bound from the entries that the key still has. If it stays at the limit, Add and
// Read check the sums themselves.

// ErrSum reports that a sum of a feature is out of range: beyond 2^63 units of the last decimal, or
// not a finite number. The error names the feature and the window, and says what to do.
var ErrSum = errors.New("the sum is out of range")

// From a bound of safe on, sums are checked: 2^62 units, or a float of 2^1022. If moments are kept,
// it is a float of 2^498, because squares are in range below the limit of squares.
const (
	safe         = 1 << 62
	floatWeight  = 0x1p-960
	squareWeight = 0x1p-436

	mostSquareUnits = 0x1p126
	mostSquare      = 0x1p1000
)

// outOfRange returns the error for a sum over a window, or over the newest values.
func (f *feature) outOfRange(over string) error {
	if f.squares {
		return fmt.Errorf("feature %s: %w: the sum or the squares of %s exceed the largest number: scale the value down, use fewer decimals, or leave out variance, stddev and slope", f.name, ErrSum, over)
	}
	if f.float {
		return fmt.Errorf("feature %s: %w: the sum of %s exceeds the largest number: scale the value down, or leave out sum and mean", f.name, ErrSum, over)
	}
	return fmt.Errorf("feature %s: %w: the sum of %s exceeds 2^63 units of %d decimals: use fewer decimals, or leave out sum and mean", f.name, ErrSum, over, f.decimals)
}

// bounded reports that no sum of the feature can be out of range.
func (f *feature) bounded(c *Cell) bool { return !f.sums || c.bound < safe }

// raised returns the bound after one more value.
func (f *feature) raised(c *Cell, value int64) float64 {
	return float64(c.bound) + f.weigh(f.near(value))
}

// anew recomputes the bound from the cell's entries and adds an entry of f of time t. It fails if a
// sum that includes the entry would be out of range.
func (s *Set) anew(c *Cell, f *feature, t, value int64) (bound float64, err error) {
	if bound = s.weight(c) + f.weigh(f.near(value)); !(bound < safe) {
		err = f.checkSums(c, t, value)
	}
	return bound, err
}

// weight returns the bound of the cell's entries.
func (s *Set) weight(c *Cell) (bound float64) {
	for i := range s.features {
		if f := &s.features[i]; f.sums {
			bound += f.weigh(f.weight(c))
		}
	}
	return bound
}

// weigh returns how much a sum, or a part of it, counts in the bound.
func (u *unit) weigh(sum float64) float64 {
	return math.Abs(sum * u.weight)
}

// setBound stores a bound, rounded up to a float32.
func (c *Cell) setBound(bound float64) {
	c.bound = float32(bound)
	if float64(c.bound) < bound {
		c.bound = math.Float32frombits(math.Float32bits(c.bound) + 1)
	}
}

// near returns a stored value as a float; for an integer, its units.
func (u *unit) near(value int64) float64 {
	if u.float {
		return wordFloat(value)
	}
	return float64(value)
}

// weight returns a bound that no partial sum of the feature's entries exceeds.
func (f *feature) weight(c *Cell) (bound float64) {
	if f.kind == kindLast {
		return f.last.weight(c.words)
	}
	return f.windows.weight(c)
}

// weight returns a bound that no partial sum of the values exceeds.
func (l *last) weight(words []int64) float64 {
	first, second := l.values(words)
	return l.unit.size(first, 1) + l.unit.size(second, 1)
}

// weight returns a bound that no partial sum of the entries exceeds.
func (ws *windows) weight(c *Cell) (bound float64) {
	for k := range ws.list {
		if w := &ws.list[k]; !w.exact || ws.over(c) {
			bound = max(bound, w.weight(c.words))
		}
	}
	if ws.exacts > 0 {
		bound = max(bound, ws.entries.weight(ws.in(c)))
	}
	return bound
}

// weight returns a bound that no partial sum of the entries exceeds.
func (e *entries) weight(x *exact) float64 {
	size := e.size(x.tailWords(e), e.entry)
	if x.index != nil {
		for k := range x.index.blocks {
			b := &x.index.blocks[k]
			size += float64(b.n) * max(math.Abs(e.near(b.max)), math.Abs(e.near(b.min)))
		}
	}
	return size
}

// weight returns a bound that no partial sum of the panes exceeds.
func (p *panes) weight(words []int64) (size float64) {
	for live := p.live(words); len(live) > 0; live = live[p.stride:] {
		sum := p.sum(live)
		size += math.Abs(sum.near)
		if p.squares { // entries may cancel in the sum: by Cauchy and Schwarz their magnitudes do not exceed this
			size += math.Sqrt(float64(live[0]>>paneBits)) * math.Sqrt(sum.square)
		}
	}
	return size
}

// size returns the sum of the magnitudes of values. A value is the last word of an item.
func (u *unit) size(words []int64, item int) (sum float64) {
	for k := item - 1; k < len(words); k += item {
		sum += math.Abs(u.near(words[k]))
	}
	return sum
}

// amount is a sum that may be out of range. It has the sum of units as an int64 that wraps, and as
// an approximate float. If moments are kept, it also has the sum of squares.
type amount struct {
	units  int64
	near   float64
	square float64
}

func (a *amount) add(b amount) {
	a.units, a.near, a.square = a.units+b.units, a.near+b.near, a.square+b.square
}

// amount returns the sum of one entry or of one block of entries, which is always in range.
func (u *unit) amount(sum int64) amount {
	if u.float {
		return amount{near: math.Float64frombits(uint64(sum))}
	}
	return amount{sum, float64(sum), 0}
}

// of returns a value as an amount.
func (u *unit) of(value int64) amount {
	a := amount{value, float64(value), 0}
	if u.float {
		a = amount{near: wordFloat(value)}
	}
	if u.squares {
		a.square = float64(a.near * a.near)
	}
	return a
}

// sum returns the sum of a pane.
func (f *paneForm) sum(pane []int64) amount {
	sum := f.amount(pane[f.sumAt])
	if f.squares {
		m := f.momentsIn(pane, pane[0]>>paneBits)
		sum.square = f.square(&m)
	}
	return sum
}

// fits reports that a sum is in range. If a sum of units is out of range, it differs from its int64
// by 2^64; otherwise the difference is negligible.
func (u *unit) fits(a amount) bool {
	if u.float {
		return value.Finite(a.near) && (!u.squares || a.square < mostSquare)
	}
	return math.Abs(a.near-float64(a.units)) < safe && (!u.squares || a.square < mostSquareUnits)
}

// checkSums checks the sums that would include an entry: as of its own time and as of the newest
// time, and those of its panes.
func (f *feature) checkSums(c *Cell, t, value int64) error {
	v := f.of(value)
	if f.kind == kindLast {
		if !f.last.takes(c.words, v) {
			return f.outOfRange(f.last.over())
		}
		return nil
	}
	for k := range f.windows.list {
		if w := &f.windows.list[k]; !f.windows.takes(c, w, t, v) {
			return f.outOfRange("window " + w.name)
		}
	}
	return nil
}

// takes reports that the sum that would include the value is in range.
func (l *last) takes(words []int64, v amount) bool {
	first, second := l.values(words)
	if len(first)+len(second) == l.most {
		if len(first) > 0 {
			first = first[1:]
		} else {
			second = second[1:]
		}
	}
	sum := l.sum(first, second)
	sum.add(v)
	return l.fits(sum)
}

// sum returns the sum of the values of first and second.
func (l *last) sum(first, second []int64) amount {
	sum := l.amount(l.foldParts(first, second))
	if l.squares {
		for _, part := range [2][]int64{first, second} {
			for _, v := range part {
				sum.square += l.of(v).square
			}
		}
	}
	return sum
}

// over names the range of a sum, for errors.
func (l *last) over() string { return fmt.Sprintf("the last %d values", l.most) }

// takes reports that the sums of a window that would include the entry are in range.
func (ws *windows) takes(c *Cell, w *window, t int64, v amount) bool {
	if w.exact {
		return ws.takesExact(c, w, t, v)
	}
	return w.takes(c.words, t, v)
}

// takes reports that the sums that would include the entry are in range.
func (p *panes) takes(words []int64, t int64, v amount) bool {
	live, newest := p.live(words), words[p.at+2]
	i := p.index(t, newest)
	if len(live) == 0 {
		return true
	}
	if newest-i >= p.count {
		return true // the entry is not added
	}
	for rest := live; i <= newest && len(rest) > 0; rest = rest[p.stride:] {
		if age(newest, rest[0]) == newest-i {
			sum := p.sum(rest)
			if sum.add(v); !p.fits(sum) {
				return false
			}
		}
	}
	for _, at := range [2]int64{i, max(i, newest)} {
		sum := p.sumAll(p.visible(live, newest, at))
		if sum.add(v); !p.fits(sum) {
			return false
		}
	}
	return true
}

func (p *panes) sumAll(live []int64) (sum amount) {
	for ; len(live) > 0; live = live[p.stride:] {
		sum.add(p.sum(live))
	}
	return sum
}

// takesExact is takes for an exact window.
func (ws *windows) takesExact(c *Cell, w *window, t int64, v amount) bool {
	x := ws.in(c)
	switch {
	case x.empty() || x.over && t-ws.longest >= x.newest:
		return true // the entry is the first
	case t <= x.newest-ws.longest:
		return true // the entry is not added
	case x.over:
		return w.takes(c.words, t, v)
	case x.refuses(&ws.entries, t) && !ws.fitsSpare(x, w, t, v):
		return false
	}
	newest := max(x.newest, t)
	for _, at := range [2]int64{t, newest} {
		if at-w.size >= t {
			continue // the entry has left
		}
		sum := ws.entries.sum(x, max(at-w.size, newest-ws.longest), at)
		if sum.add(v); !ws.fits(sum) {
			return false
		}
	}
	return true
}

// sum returns the sum of the entries in (lo, t].
func (e *entries) sum(x *exact, lo, t int64) (sum amount) {
	for k := range x.blocks() {
		switch b := &x.index.blocks[k]; {
		case b.outside(lo, t):
		case b.inside(lo, t):
			sum.add(e.amount(b.sum))
		default:
			sum.add(e.amount(e.scanIn(x.blockWords(e, k), lo, t).sum))
		}
	}
	sum.add(e.amount(e.scanIn(x.tailWords(e), lo, t).sum))
	if e.squares {
		for live := x.live(); len(live) > 0; live = live[e.entry:] {
			if at := live[0]; at > lo && at <= t {
				sum.square += e.of(live[1]).square
			}
		}
	}
	return sum
}

// fitsSpare reports that the sums of the overflow panes are in range for the entries of a full list
// and one more.
func (e *entries) fitsSpare(x *exact, w *window, t int64, v amount) bool {
	panes, newest := map[int64]amount{}, w.index(max(x.newest, t), 0)
	take := func(t int64, v amount) {
		i := w.index(t, 0)
		sum := panes[i]
		if sum.add(v); newest-i < w.count {
			panes[i] = sum
		}
	}
	for words := x.live(); len(words) > 0; words = words[e.entry:] {
		take(words[0], e.of(words[e.entry-1]))
	}
	take(t, v)
	for _, sum := range panes {
		if !e.fits(sum) {
			return false
		}
	}
	return true
}

// checkRead checks the sum of window w as of time t, or of the newest values, if the bound does not
// decide.
func (f *feature) checkRead(c *Cell, w *window, t int64) error {
	switch {
	case w == nil && !f.fits(f.last.sum(f.last.values(c.words))):
		return f.outOfRange(f.last.over())
	case w != nil && !f.windows.inRange(c, w, t):
		return f.outOfRange("window " + w.name)
	}
	return nil
}

// inRange reports that the sum of a window as of time t is in range.
func (ws *windows) inRange(c *Cell, w *window, t int64) bool {
	if w.exact && !ws.over(c) {
		x := ws.in(c)
		return x.empty() || ws.fits(ws.entries.sum(x, max(t-w.size, x.newest-ws.longest), t))
	}
	live, newest := w.live(c.words), c.words[w.at+2]
	return len(live) == 0 || w.fits(w.sumAll(w.visible(live, newest, w.index(t, newest))))
}
