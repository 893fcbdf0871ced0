package feature

import (
	"fmt"
	"math"

	"github.com/afterbay/afterbay/internal/event/value"
)

// unit says how the values of a feature are kept: each as one int64, and int64 order is value
// order. With decimals it is the integer v * 10^decimals. Otherwise it is the bits of the float,
// with those of negative floats inverted. So max and min compare integers in both cases, and only
// sums distinguish them.
type unit struct {
	float    bool
	decimals int
	scale    float64 // 10^decimals
	values   Kind    // Numbers, or the kind of words that are not numbers
	weight   float64 // factor of a sum in the bound of a cell
	limit    float64 // largest value, or units of a value
	squares  bool    // moments of values are kept
	slopes   bool    // with times
}

// unitOf returns the unit for this many decimals; -1 means floats.
func unitOf(decimals int) unit {
	if decimals < 0 {
		return unit{float: true, decimals: decimals, weight: floatWeight, limit: math.MaxFloat64}
	}
	return unit{decimals: decimals, scale: pow10(decimals), weight: 1, limit: maxUnits}
}

func pow10(n int) float64 {
	p := 1.0
	for range n {
		p *= 10
	}
	return p
}

// ordered maps the bits of a float to its value word, and back.
func ordered(bits int64) int64 { return bits ^ int64(uint64(bits>>63)>>1) }

func floatWord(v float64) int64 { return ordered(int64(math.Float64bits(v))) }

func wordFloat(w int64) float64 { return math.Float64frombits(uint64(ordered(w))) }

// unsigned returns a value; it turns -0 into +0, so that zeros are equal.
func (u *unit) unsigned(value int64) int64 {
	if u.float && value == floatWord(math.Copysign(0, -1)) {
		return floatWord(0)
	}
	return value
}

// merge adds the entries of o, which come after those of t.
func (u *unit) merge(t, o *total) {
	t.n += o.n
	if u.float {
		t.sum = addFloat(t.sum, o.sum)
	} else {
		t.sum += o.sum
	}
	t.max = max(t.max, o.max)
	t.min = min(t.min, o.min)
}

// add adds one value.
func (u *unit) add(t *total, value int64) {
	t.n++
	if u.float {
		t.sum = addFloat(t.sum, ordered(value))
	} else {
		t.sum += value
	}
	t.max = max(t.max, value)
	t.min = min(t.min, value)
}

// foldParts returns the sum of the values of first and then those of second.
func (u *unit) foldParts(first, second []int64) (units int64) {
	if u.float {
		var sum float64
		for _, v := range first {
			sum += wordFloat(v)
		}
		for _, v := range second {
			sum += wordFloat(v)
		}
		return int64(math.Float64bits(sum))
	}
	for _, v := range first {
		units += v
	}
	for _, v := range second {
		units += v
	}
	return units
}

// maxUnits bounds a value in units of its last decimal. Beyond it a float64 cannot represent single
// units.
const maxUnits = 1 << 53

// word encodes v for storage.
func (u *unit) word(v float64) (int64, error) {
	if u.float {
		if math.Abs(v) <= u.limit {
			return floatWord(v), nil
		}
		return 0, u.refuse(v)
	}
	if n := math.RoundToEven(v * u.scale); math.Abs(n) <= u.limit {
		return int64(n), nil
	}
	return 0, u.refuse(v)
}

// refuse returns the error of a value that cannot be stored.
func (u *unit) refuse(v float64) error {
	switch {
	case !value.Finite(v):
		return fmt.Errorf("%v is not a finite number", v)
	case u.float:
		return fmt.Errorf("%v is beyond 2^%d", v, math.Ilogb(u.limit))
	}
	return fmt.Errorf("%v with %d decimals is beyond 2^%d units", v, u.decimals, math.Ilogb(u.limit))
}

// number decodes a stored value.
func (u *unit) number(w int64) float64 {
	if u.float {
		return wordFloat(w)
	}
	return float64(w) / u.scale
}

// sumNumber returns the sum of t as a number.
func (u *unit) sumNumber(t *total) float64 {
	if u.float {
		return math.Float64frombits(uint64(t.sum))
	}
	return float64(t.sum) / u.scale
}
