package control

import (
	"errors"
	"math/bits"
	"time"
)

// Backoff says how long a record waits before it is tried again: a time from 0 up
// to a ceiling that doubles with each attempt (full jitter), so that what failed
// together does not come back together. The jitter is a hash of the record's id
// and the attempt: the same record waits equally long wherever and whenever it is
// replayed. The zero value is the default.
//
// The owner keeps the time at which the record is due beside it, as a time and not
// as a wait, and where the server said when to come back (Retry-After) the later
// of the two.
type Backoff struct {
	// Base is the ceiling after the first attempt: 200 ms where it is 0.
	Base time.Duration
	// Max is the most that a ceiling becomes: 30 s where it is 0, or Base where
	// that is more.
	Max time.Duration
	// Attempts is how many a record gets that fails by its own fault: 3 where it
	// is 0. What fails by the fault of a model is tried until it expires.
	Attempts int
}

// Resolved returns the options with those that are 0 filled in, or all that is
// wrong with them.
func (b Backoff) Resolved() (Backoff, error) {
	b = b.withDefaults()
	var list complaints
	list.check(b.Base < 0, "a base of %v is negative", b.Base)
	list.check(b.Max < 0, "at most %v is negative", b.Max)
	list.check(b.Max >= 0 && b.Base > b.Max, "a base of %v is more than the most, %v", b.Base, b.Max)
	list.check(b.Attempts < 0, "%d attempts are negative", b.Attempts)
	return b, errors.Join(list...)
}

func (b Backoff) withDefaults() Backoff {
	if b.Base == 0 {
		b.Base = 200 * time.Millisecond
		if b.Max > 0 {
			b.Base = min(b.Base, b.Max)
		}
	}
	if b.Max == 0 {
		b.Max = max(30*time.Second, b.Base)
	}
	if b.Attempts == 0 {
		b.Attempts = 3
	}
	return b
}

// Delay returns how long the record waits after an attempt that failed, the first
// of which is 1: from 0 to the smaller of Base * 2^(attempt-1) and Max. Attempts
// that failed by the fault of a model count here too.
func (b Backoff) Delay(id string, attempt int) time.Duration {
	b = b.withDefaults()
	shift, ceiling := max(attempt, 1)-1, b.Max
	if shift < 63 && b.Base <= b.Max>>shift {
		ceiling = b.Base << shift
	}
	share, _ := bits.Mul64(jitter(id, attempt), uint64(ceiling)+1)
	return time.Duration(share)
}

// Exhausted reports that a record has had so many attempts that failed by its own
// fault, and gets no other.
func (b Backoff) Exhausted(attempts int) bool { return attempts >= b.withDefaults().Attempts }

// jitter is FNV-1a of an id, whose upper bits differ little between ids that differ
// in their last byte, and then the finalizer of splitmix64, which spreads that.
func jitter(id string, attempt int) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	h += uint64(attempt) * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
