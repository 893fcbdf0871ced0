package feature

import (
	"fmt"
	"math"

	"github.com/afterbay/afterbay/internal/event/value"
)

// A value is held in one int64 whose order is the order of the values: with
// decimals the integer v * 10^decimals, else the float's bits with those of
// negative ones turned round. So max and min compare integers in both cases,
// and only a sum has to know.

// ordered maps the bits of a float to its value word, and back.
func ordered(bits int64) int64 { return bits ^ int64(uint64(bits>>63)>>1) }

func floatWord(v float64) int64 { return ordered(int64(math.Float64bits(v))) }

func wordFloat(w int64) float64 { return math.Float64frombits(uint64(ordered(w))) }

// total is the aggregates over some entries. Sum is an int64, or the bits of a
// float64 where the feature has no decimals.
type total struct{ n, sum, max, min int64 }

// nothing is the total of no entries.
var nothing = total{max: math.MinInt64, min: math.MaxInt64}

// addFloat adds the floats whose bits a and b are.
func addFloat(a, b int64) int64 {
	return int64(math.Float64bits(math.Float64frombits(uint64(a)) + math.Float64frombits(uint64(b))))
}

// merge adds the entries of o, which come after those of t.
func (f *feature) merge(t, o *total) {
	t.n += o.n
	if f.float {
		t.sum = addFloat(t.sum, o.sum)
	} else {
		t.sum += o.sum
	}
	t.max = max(t.max, o.max)
	t.min = min(t.min, o.min)
}

// add adds one value.
func (f *feature) add(t *total, value int64) {
	t.n++
	if f.float {
		t.sum = addFloat(t.sum, ordered(value))
	} else {
		t.sum += value
	}
	t.max = max(t.max, value)
	t.min = min(t.min, value)
}

// foldValues returns the total of values in their order, those of first before
// those of second.
func (f *feature) foldValues(first, second []int64) total {
	t := nothing
	t.n, t.sum = int64(len(first)+len(second)), f.foldParts(first, second)
	if f.extremes {
		for _, v := range first {
			t.max, t.min = max(t.max, v), min(t.min, v)
		}
		for _, v := range second {
			t.max, t.min = max(t.max, v), min(t.min, v)
		}
	}
	return t
}

// foldParts returns the sum of the values of first and then those of second.
func (f *feature) foldParts(first, second []int64) (units int64) {
	if f.float {
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

// maxUnits bounds a value in units of its last decimal: beyond it a float64
// does not hold the unit any more.
const maxUnits = 1 << 53

// word returns v as it is kept.
func (f *feature) word(v float64) (int64, error) {
	if !value.Finite(v) {
		return 0, fmt.Errorf("feature %s: %v is not a finite number", f.name, v)
	}
	if f.float {
		return floatWord(v), nil
	}
	u := math.RoundToEven(v * f.scale)
	if !(math.Abs(u) <= maxUnits) {
		return 0, fmt.Errorf("feature %s: %v with %d decimals is beyond 2^53 units", f.name, v, f.decimals)
	}
	return int64(u), nil
}

// number returns the value that is kept as w.
func (f *feature) number(w int64) float64 {
	if f.float {
		return wordFloat(w)
	}
	return float64(w) / f.scale
}

// sumNumber returns the sum of t as a number.
func (f *feature) sumNumber(t *total) float64 {
	if f.float {
		return math.Float64frombits(uint64(t.sum))
	}
	return float64(t.sum) / f.scale
}

// write puts the feature's aggregates of t at the start of out and returns the
// rest of it.
func (f *feature) write(t *total, out []float64) []float64 {
	for k, a := range f.aggregates {
		v := f.empty
		switch {
		case a == Count:
			v = float64(t.n)
		case a == Sum:
			v = f.sumNumber(t)
		case t.n == 0:
		case a == Mean:
			v = f.sumNumber(t) / float64(t.n)
		case a == Max:
			v = f.number(t.max)
		case a == Min:
			v = f.number(t.min)
		}
		out[k] = v
	}
	return out[len(f.aggregates):]
}
