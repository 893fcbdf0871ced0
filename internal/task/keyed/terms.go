package keyed

import (
	"time"

	"github.com/afterbay/afterbay/internal/feature"
)

// Ended is what a key's silence up to a watermark ended.
type Ended uint8

// The more it ended the greater.
const (
	Nothing Ended = iota
	Windows
	All
)

// Terms are how long keys may be silent, and what is kept of them. A key without events
// loses its windows when the watermark has passed its newest event by the longest window,
// and everything after Keep. Nothing is stored for that: the newest event time of the key
// decides.
type Terms struct {
	Sets      [2]*feature.Set // nil where there is none
	Retention time.Duration   // silence after which a key's windows end
	Keep      time.Duration   // silence after which a key is forgotten
}

// Ended returns what silence from the newest event to the watermark ended.
func (t *Terms) Ended(newest, watermark int64) Ended {
	switch {
	case watermark < newest+t.Retention.Microseconds():
		return Nothing
	case watermark < newest+t.Keep.Microseconds():
		return Windows
	}
	return All
}

// Next returns the newest event time of a key after an event at a time and watermark, and
// what silence before it ended. newest is that before, or Never.
func (t *Terms) Next(newest, at, watermark int64) (next int64, ended Ended) {
	if newest == Never {
		return at, Nothing
	}
	if ended = t.Ended(newest, watermark); ended == All || ended == Windows && !t.Outlives() {
		return at, ended
	}
	return max(newest, at), ended
}

// End drops what a silent key lost of its cell in one of the sets, which is nil
// where there is none.
func (t *Terms) End(set int, cell *feature.Cell, what Ended) {
	switch {
	case cell == nil || what == Nothing:
	case what == All:
		t.Sets[set].Forget(cell)
	default:
		t.Sets[set].DropWindows(cell)
	}
}

// EndAll is End for both cells of a key.
func (t *Terms) EndAll(cells [2]*feature.Cell, what Ended) {
	for set, cell := range cells {
		t.End(set, cell, what)
	}
}

// Outlives reports whether a key is more than its windows.
func (t *Terms) Outlives() bool {
	return t.Sets[0] != nil && t.Sets[0].KeepsForever() || t.Sets[1] != nil && t.Sets[1].KeepsForever()
}

// windows reports whether keys have any.
func (t *Terms) windows() bool {
	return t.Sets[0] != nil && t.Sets[0].Retention() > 0 || t.Sets[1] != nil && t.Sets[1].Retention() > 0
}

// Longest returns the set whose headers tell of every key there is.
func (t *Terms) Longest() int {
	if t.Sets[0] == nil || t.Sets[1] != nil && !t.Sets[0].KeepsForever() {
		return 1
	}
	return 0
}

// Windowed reports whether the end of its windows changes the stored state of a key
// with these cells. A cell is nil if there is no such set. A key that does not
// outlive its windows is forgotten with them, even if they are empty.
func (t *Terms) Windowed(cells [2]*feature.Cell) bool {
	for i, c := range cells {
		if c == nil {
			continue
		}
		if _, seen := c.Last(); seen && (!t.Outlives() || !t.Sets[i].Windowless(c)) {
			return true
		}
	}
	return false
}

// windowless reports whether a stored header shows that Windowed does not hold. It
// cannot where the other set has windows.
func (t *Terms) windowless(header []byte) bool {
	set := t.Longest()
	other := t.Sets[1-set]
	return t.Outlives() && (other == nil || other.Retention() == 0) && t.Sets[set].HeaderWindowless(header)
}
