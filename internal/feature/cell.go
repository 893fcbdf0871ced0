package feature

import (
	"fmt"
	"math"
	"unsafe"
)

// Cell is the state that a Set keeps for one key. It is not safe for concurrent use. Use it only
// with the Set that made it, or that prepared the zero Cell by Reset or Reload.
type Cell struct {
	newest  int64   // none before the first event
	changed bool    // since the last Changes
	stored  bool    // the state has a header
	bound   float32 // bound of sums; see ErrSum
	words   []int64
	exacts  []exact
}

// Times are clamped to at most this far from 1970 (73,000 years). So a time minus a window never
// overflows.
const maxTime = 1 << 61

const none = math.MinInt64 // means no time

func clampTime(t int64) int64 { return min(max(t, -maxTime), maxTime) }

// NewCell returns the cell of a key without events.
func (s *Set) NewCell() *Cell {
	c := &Cell{}
	s.Reset(c)
	return c
}

// Reset turns c into the cell of another key that has no events and no stored state. It keeps the
// small amount of memory that most keys need.
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

// Last returns the greatest time given to Touch or Add, in microseconds, and whether there was one.
func (c *Cell) Last() (t int64, ok bool) { return c.newest, c.newest != none }

// Touch records t, in microseconds, as a time of the key's events. Add does so too; call Touch for
// events that no feature takes.
func (s *Set) Touch(c *Cell, t int64) {
	c.changed = true
	c.newest = max(c.newest, clampTime(t))
}

// Add folds the value v of an event at time t, in microseconds, into feature i. A feature of counts
// or elapsed time ignores v. With decimals, v is rounded to the nearest integer of v * 10^decimals,
// ties to even.
//
// Add fails if v is not finite, or if the rounded value is beyond 2^53. It returns ErrFull if the
// feature has no room for another entry of the key. It returns ErrSum if a sum as of t or as of the
// newest time would be out of range; the sum of a pane counts too. After an error c is unchanged.
//
// Add ignores an entry that is outside every window, measured from the newest entry of the feature
// and key.
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

// AddInt does what Add does for a value of kind Ints.
func (s *Set) AddInt(c *Cell, i int, t int64, v int64) error {
	f, t := &s.features[i], clampTime(t)
	if err := f.full(c, t); err != nil {
		return err
	}
	return s.fold(c, f, t, v)
}

// AddText does what Add does for a value of kind Texts. It fails if the text exceeds MaxText bytes.
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

// full returns ErrFull if the windows have no room for an entry of time t.
func (f *feature) full(c *Cell, t int64) error {
	if !f.windows.refuses(c, t) {
		return nil
	}
	return fmt.Errorf("feature %s: %w: the key has max = %d entries in them: raise max, at most 1,048,576, or write them in panes, size/pane", f.name, ErrFull, f.windows.limit)
}

// fold adds the word of a value. The caller has checked that the feature has room.
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

// Read writes feature i as of time t, in microseconds, to the start of out, which must have room
// for its columns:
//
//   - windows: the aggregates over the entries with t-size < time <= t. With
//     panes: over the panes up to that of t that are less than size/pane panes
//     before the newest of t and the added times. Sum and count are 0 without entries.
//   - last: the aggregates over the newest values. A sum of floats adds them in
//     the order of arrival, the oldest first.
//   - elapsed: seconds since the greatest time added; 0 if that is after t.
//
// Read changes nothing that is stored or read later. Late entries and negative values may leave a
// sum out of range. Read then returns ErrSum, and the content of out is undefined.
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

// Approximate reports whether Read returns approximate results for feature i. There are three
// reasons. The key had more entries than the feature may have, so the exact windows are read from
// panes of a sixtieth of the window each; this ends at the first event after the longest window has
// emptied. Or OverflowOldest removed entries from the windows. Or a pane has more different values,
// or bins of values, than its sketch can keep apart.
func (s *Set) Approximate(c *Cell, i int) bool {
	return s.features[i].windows.approximate(c)
}

// DropWindows empties every window, for a key without events during the retention. If no feature
// keeps state without expiry, the cell is then like new, and the next Changes deletes it from the
// state.
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

// Bytes returns the approximate memory of the cell.
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
