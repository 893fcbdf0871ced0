package control

import (
	"errors"
	"math/bits"
	"time"
)

// Backoff computes how long a record waits before the next attempt. The time is between 0 and a
// ceiling that doubles with each attempt (full jitter). So records that failed together do not
// return together. The jitter is a hash of the record's id and the attempt, so the delay of a
// record is the same in every replay. The zero value is the default.
//
// The owner must store the time of the next attempt with the record, as a time and not as a delay.
// If the server sent a Retry-After, the owner must use the later of the two.
type Backoff struct {
	// Base is the ceiling after the first attempt; 0 is 200 ms.
	Base time.Duration
	// Max is the maximum of the ceiling; 0 is 30 s, or Base if that is more.
	Max time.Duration
	// Attempts is the number of attempts of a record that fails by its own fault; 0 is 3. A record
	// that fails because of a model is retried until it expires.
	Attempts int
}

// Resolved returns the options with defaults for those that are 0. The error joins all errors in
// the options.
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

// Delay returns the delay after a failed attempt; the first attempt is 1. It is between 0 and the
// smaller of Base * 2^(attempt-1) and Max. Attempts that failed because of a model count here too.
func (b Backoff) Delay(id string, attempt int) time.Duration {
	b = b.withDefaults()
	shift, ceiling := max(attempt, 1)-1, b.Max
	if shift < 63 && b.Base <= b.Max>>shift {
		ceiling = b.Base << shift
	}
	share, _ := bits.Mul64(jitter(id, attempt), uint64(ceiling)+1)
	return time.Duration(share)
}

// Exhausted reports whether a record with this many attempts that failed by its own fault gets no
// further attempt.
func (b Backoff) Exhausted(attempts int) bool { return attempts >= b.withDefaults().Attempts }

// jitter hashes an id with FNV-1a and applies the finalizer of splitmix64. FNV-1a alone changes the
// upper bits little if ids differ only in the last byte.
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
