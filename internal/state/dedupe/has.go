package dedupe

import (
	"crypto/sha256"
	"math"
)

// Has reports whether Seen would call an event with this id a duplicate if no event is newer than
// newest. It remembers nothing.
func (s *Set) Has(id string, newest int64) bool {
	if s.next == s.first {
		return false
	}
	s.scratch = append(s.scratch[:0], id...)
	sum := sha256.Sum256(s.scratch)
	hash := [hashBytes]byte(sum[:hashBytes])
	return s.find(&hash, max(newest, math.MinInt64+s.window)-s.window)
}
