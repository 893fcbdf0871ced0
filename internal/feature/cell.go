package feature

import (
	"fmt"
	"math"
	"unsafe"
)

// Cell is what a Set keeps of one key. It has one user at a time, and is used
// with one set only: that which made it, or made the zero Cell ready by Reset or
// Reload.
type Cell struct {
	newest  int64   // none before the first event
	changed bool    // since the last Changes
	stored  bool    // the state has a header
	bound   float32 // of sums; see ErrSum
	words   []int64
	exacts  []exact
}

// Times are taken as at most this far from 1970, 73,000 years, so that a time
// less a window never overflows.
const maxTime = 1 << 61

const none = math.MinInt64 // for a time

func clampTime(t int64) int64 { return min(max(t, -maxTime), maxTime) }

// NewCell returns the cell of a key without events.
func (s *Set) NewCell() *Cell {
	c := &Cell{}
	s.Reset(c)
	return c
}

// Reset makes c the cell of another key without events, of which nothing is
// stored. It keeps what little memory most keys need.
func (s *Set) Reset(c *Cell) {
	s.layout.clear(c)
	if c.exacts == nil && s.exacts > 0 {
		c.exacts = make([]exact, s.exacts)
	}
	for i := range c.exacts {
		words := c.exacts[i].queue
		words.reset()
		c.exacts[i] = exact{queue: words, lost: none}
	}
	c.newest, c.changed, c.stored, c.bound = none, false, false, 0
}

// Last returns the greatest time given to Touch or Add, in microseconds, and
// whether there was one.
func (c *Cell) Last() (t int64, ok bool) { return c.newest, c.newest != none }

// Touch takes t, in microseconds, as a time of the key's events. Add does so
// too; Touch is for events that no feature takes.
func (s *Set) Touch(c *Cell, t int64) {
	c.changed = true
	c.newest = max(c.newest, clampTime(t))
}

// Add folds the value v of an event at time t, in microseconds, into feature i.
// A feature of counts or elapsed time ignores v. With decimals v becomes the
// integer nearest to v * 10^decimals, a tie going to the even one; it is an
// error where that is beyond 2^53. A v that is not finite is an error too, and so
// are an entry more than the feature may have of the key, an ErrFull, and one with
// which a sum as of t or of the newest time would be out of range, an ErrSum. Where
// a pane keeps a sum, that one counts too. After an error c is unchanged.
//
// An entry that is out of every window, seen from the newest one of the feature
// and key, is left out.
func (s *Set) Add(c *Cell, i int, t int64, v float64) error {
	f := &s.features[i]
	var value int64
	if f.kind != kindElapsed && !f.count {
		var err error
		if value, err = f.word(v); err != nil {
			return fmt.Errorf("feature %s: %w", f.name, err)
		}
	}
	t = clampTime(t)
	if f.windows.dead {
		if err := f.full(c, t); err != nil {
			return err
		}
	}
	return s.fold(c, f, t, value)
}

// AddInt is Add of a value of Ints.
func (s *Set) AddInt(c *Cell, i int, t int64, v int64) error {
	f, t := &s.features[i], clampTime(t)
	if err := f.full(c, t); err != nil {
		return err
	}
	return s.fold(c, f, t, v)
}

// AddText is Add of a value of Texts. A text of more than MaxText bytes is an error.
func (s *Set) AddText(c *Cell, i int, t int64, v string) error {
	f, t := &s.features[i], clampTime(t)
	if err := CheckText(v); err != nil {
		return fmt.Errorf("feature %s: %w", f.name, err)
	}
	if err := f.full(c, t); err != nil {
		return err
	}
	var word int64
	switch x := f.windows.in(c); {
	case f.count:
	case x.over || f.windows.exacts == 0:
		word = x.passText(v)
	default:
		word = x.keepText(v)
	}
	return s.fold(c, f, t, word)
}

// full returns the error of an entry of time t that the windows have no room for.
func (f *feature) full(c *Cell, t int64) error {
	if !f.windows.refuses(c, t) {
		return nil
	}
	return fmt.Errorf("feature %s: %w: the key has max = %d entries in them: raise max, at most 1,048,576, or write them in panes, size/pane", f.name, ErrFull, f.windows.limit)
}

// fold adds the word of a value that the feature has room for.
func (s *Set) fold(c *Cell, f *feature, t, value int64) error {
	if f.sums {
		bound, err := f.raised(c, value), error(nil)
		if !(bound < safe) {
			if bound, err = s.anew(c, f, t, value); err != nil {
				return err
			}
		}
		c.setBound(bound)
	}
	c.changed = true
	c.newest = max(c.newest, t)
	switch f.kind {
	case kindElapsed:
		f.elapsed.add(c.words, t)
	case kindLast:
		f.last.add(c, value)
	case kindWindows:
		f.windows.add(c, t, value)
	}
	return nil
}

// Read puts feature i as of time t, in microseconds, at the start of out, which
// has room for its columns:
//
//   - windows: the aggregates over the entries with t-size < time <= t. With
//     panes: over the panes up to that of t, and less than size/pane before the
//     newest of t and the times added. Sum and count of nothing are 0.
//   - last: the aggregates over the newest values. A sum of floats adds them in
//     the order of arrival, the oldest first.
//   - elapsed: seconds since the greatest time added; 0 where that is after t.
//
// It changes nothing that is stored or read later. A sum that is out of range, as
// late entries and negative values may leave one, is an ErrSum; out then holds
// anything.
func (s *Set) Read(c *Cell, i int, t int64, out []float64) error {
	f := &s.features[i]
	t = clampTime(t)
	bounded := f.bounded(c)
	rest := out
	switch f.kind {
	case kindElapsed:
		out[0] = f.elapsed.read(c.words, t, f.empty)
	case kindLast:
		if !bounded {
			if err := f.checkRead(c, nil, t); err != nil {
				return err
			}
		}
		sum := f.last.total(c.words)
		if f.squares {
			m := f.last.moments(c.words)
			f.writeMoments(&m, out)
		}
		f.write(&sum, out)
		if f.looks {
			s.look(c, f, t, false, columns{numbers: out})
		}
	case kindWindows:
		for k := range f.windows.list {
			w := &f.windows.list[k]
			if !bounded {
				if err := f.checkRead(c, w, t); err != nil {
					return err
				}
			}
			sum := f.windows.total(c, w, t)
			if f.squares {
				f.readMoments(c, w, t, rest)
			}
			rest = f.write(&sum, rest)
		}
		if f.looks {
			s.look(c, f, t, false, columns{numbers: out})
		}
	}
	return nil
}

// Approximate reports whether Read takes the exact windows of feature i from
// panes, of a sixtieth of the window each: those of a key that had more entries
// than the feature may have are so until an event comes when nothing is left in
// the longest one. Or that they lack entries, which left by OverflowOldest. Or that a
// pane has more different values, or bins of values, than it can keep apart.
func (s *Set) Approximate(c *Cell, i int) bool {
	return s.features[i].windows.approximate(c)
}

// DropWindows empties every window, for a key that has been silent for the
// retention. Where the set keeps nothing for ever the cell is as new, and the
// next Changes deletes it from the state.
func (s *Set) DropWindows(c *Cell) {
	c.changed = true
	for k := range s.layout.places {
		if p := &s.layout.places[k]; p.windowed {
			p.empty(c)
		}
	}
	for i := range s.features {
		ws := &s.features[i].windows
		if ws.exacts > 0 && ws.newestN == 0 {
			ws.in(c).reset()
		}
		for k := range ws.list {
			ws.dropSketches(c, k)
		}
	}
	c.setBound(s.weight(c))
	if !s.KeepsForever() {
		c.newest = none
	}
}

// Bytes returns about how much memory the cell takes.
func (c *Cell) Bytes() int {
	n := int(unsafe.Sizeof(*c)) + 8*cap(c.words) + len(c.exacts)*int(unsafe.Sizeof(exact{}))
	for i := range c.exacts {
		x := &c.exacts[i]
		n += 8 * cap(x.words)
		if x.texts != nil {
			n += int(unsafe.Sizeof(*x.texts)) + cap(x.texts.bytes)
		}
		if x.sketches != nil {
			n += x.sketches.size()
		}
		if in := x.index; in != nil {
			n += int(unsafe.Sizeof(*in)) + (cap(in.blocks)+cap(in.groups))*int(unsafe.Sizeof(span{})) + 8*cap(in.reach)
			n += (cap(in.ofBlocks) + cap(in.ofGroups)) * int(unsafe.Sizeof(moments{}))
		}
	}
	return n
}
