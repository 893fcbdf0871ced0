// Package silence says what a key loses that has no more events: its windows
// when the watermark has passed its newest event by the longest of them, and
// everything after a longer time. Nothing is stored for that: the newest event
// time, which is there anyway, decides.
package silence

import (
	"fmt"
	"iter"
	"time"
	"unsafe"

	"github.com/afterbay/afterbay/due"
	"github.com/afterbay/afterbay/feature"
	"github.com/afterbay/afterbay/stream"
)

// Ended is what a key's silence up to a watermark ended.
type Ended uint8

// The more it ended the greater.
const (
	Nothing Ended = iota
	Windows
	All
)

// Terms are how long keys may be silent, and what is kept of them.
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

// Outlives reports whether a key is more than its windows.
func (t *Terms) Outlives() bool {
	return t.Sets[0] != nil && t.Sets[0].KeepsForever() || t.Sets[1] != nil && t.Sets[1].KeepsForever()
}

// Longest returns the set whose headers tell of every key there is.
func (t *Terms) Longest() int {
	if t.Sets[0] == nil || t.Sets[1] != nil && !t.Sets[0].KeepsForever() {
		return 1
	}
	return 0
}

// Next returns when a key is to be looked at next, with something of it left:
// when its windows end, or, where those have, when it is forgotten.
func (t *Terms) Next(newest int64, after Ended) int64 {
	if after == Windows {
		return newest + t.Keep.Microseconds()
	}
	return newest + t.Retention.Microseconds()
}

// trimKeys is after how many keys of a scan their times are held to their limit.
const trimKeys = 4096

// Load pushes when each of the keys is to be looked at whose headers of the set
// Longest a scan yields, after a byte of kind, but for those that are known
// already. It holds q to a number of bytes.
func (t *Terms) Load(q *due.Queue, bytes, watermark int64, known func(key []byte) bool, scan iter.Seq2[stream.Entry, error]) error {
	for entry, err := range scan {
		if err != nil {
			return err
		}
		key := entry.Key[1:]
		if known(key) {
			continue
		}
		newest, err := feature.HeaderTime(entry.Value)
		if err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
		after := t.Ended(newest, watermark)
		if after != Nothing && !t.windowless(entry.Value) {
			after = Nothing // its windows are there: they end now
		}
		q.Push(due.Entry{At: t.Next(newest, after), Key: unsafe.String(unsafe.SliceData(key), len(key))})
		if q.Len()%trimKeys == 0 {
			q.Trim(bytes)
		}
	}
	return nil
}

// windowless reports whether a header shows that all of the key's windows have
// ended. It cannot where the other set has windows.
func (t *Terms) windowless(header []byte) bool {
	set := t.Longest()
	other := t.Sets[1-set]
	return (other == nil || other.Retention() == 0) && t.Sets[set].Windowless(header)
}
