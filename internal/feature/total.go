package feature

import (
	"math"
)

// total holds the aggregates over some entries. sum is an int64, or the bits of a float64 if the
// feature has no decimals.
type total struct{ n, sum, max, min int64 }

// nothing is the total of no entries.
var nothing = total{max: math.MinInt64, min: math.MaxInt64}

// addFloat adds two floats given as bits, and returns the bits of the sum.
func addFloat(a, b int64) int64 {
	return int64(math.Float64bits(math.Float64frombits(uint64(a)) + math.Float64frombits(uint64(b))))
}
