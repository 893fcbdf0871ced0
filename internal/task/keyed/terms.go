package keyed

import (
	"time"

	"github.com/afterbay/afterbay/internal/feature"
)

// Ended says which state of a key expired during its silence.
type Ended uint8

// In ascending order: a greater value ends more.
const (
	Nothing Ended = iota
	Windows
	All
)

// Terms says how long keys may be silent, and which state they then lose. A key without events
// loses its windows when the watermark has passed its newest event by the longest window. It loses
// all other state after Keep. No expiry time is stored: the newest event time of the key decides.
type Terms struct {
	Sets      [2]*feature.Set // nil if there is no such set
	Retention time.Duration   // silence after which a key's windows end
	Keep      time.Duration   // silence after which a key expires
}

// Ended returns the state that expires by silence from the newest event to the watermark.
func (t *Terms) Ended(newest, watermark int64) Ended {
	switch {
	case watermark < newest+t.Retention.Microseconds():
		return Nothing
	case watermark < newest+t.Keep.Microseconds():
		return Windows
	}
	return All
}

// Next returns the newest event time of a key after an event at a time and watermark. It also
// returns the state that expired during the silence before the event. newest is the previous newest
// time, or Never.
func (t *Terms) Next(newest, at, watermark int64) (next int64, ended Ended) {
	if newest == Never {
		return at, Nothing
	}
	if ended = t.Ended(newest, watermark); ended == All || ended == Windows && !t.Outlives() {
		return at, ended
	}
	return max(newest, at), ended
}

// End drops the expired state of a key from its cell in one of the sets. The cell is nil if there
// is no such set.
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

// Outlives reports whether keys have state beyond their windows.
func (t *Terms) Outlives() bool {
	return t.Sets[0] != nil && t.Sets[0].KeepsForever() || t.Sets[1] != nil && t.Sets[1].KeepsForever()
}

// windows reports whether keys have windows.
func (t *Terms) windows() bool {
	return t.Sets[0] != nil && t.Sets[0].Retention() > 0 || t.Sets[1] != nil && t.Sets[1].Retention() > 0
}

// Longest returns the set with a stored header for every key.
func (t *Terms) Longest() int {
	if t.Sets[0] == nil || t.Sets[1] != nil && !t.Sets[0].KeepsForever() {
		return 1
	}
	return 0
}

// Windowed reports whether the end of its windows changes the stored state of a key with these
// cells. A cell is nil if there is no such set. A key that does not outlive its windows expires
// with them, even if they are empty.
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

// windowless reports whether a stored header proves that Windowed is false. It is always false if
// the other set has windows.
func (t *Terms) windowless(header []byte) bool {
	set := t.Longest()
	other := t.Sets[1-set]
	return t.Outlives() && (other == nil || other.Retention() == 0) && t.Sets[set].HeaderWindowless(header)
}
