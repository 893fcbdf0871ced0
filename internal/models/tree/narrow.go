package tree

import (
	"fmt"
	"math"
	"slices"
)

// Kernels compare float32. XGBoost, CatBoost and ONNX of float32 round each input to float32
// themselves; LightGBM and ONNX of float64 compare float64. A scale maps such an input to a float32
// that goes the same way at each of its splits:
//
//  1. A number that float32 can represent stands for itself: no float32 lies between
//     a threshold and the least float32 that is not below it, which is compared.
//  2. Any other number is looked up among the thresholds of the input. Its stand-in
//     is the greatest threshold that is not above it, rounded up.
//  3. Two thresholds may round up to the same float32, as two Unix seconds do. Then
//     the indexes of the thresholds are compared, and all numbers are looked up.
//
// So no number is rounded to the other side of a threshold. Inputs that are whole numbers up to
// 2^24, categories or float32 cost only a conversion.
type scale struct {
	thresholds []float64 // ascending: a number below a threshold goes left there
	standIns   []float32 // for numbers below the first threshold, below the second, ...
	exact      bool      // rule 1 applies
	whole      bool      // a categorical input: its whole part counts
}

// of returns the float32 that stands for a number; for NaN it is NaN.
func (s *scale) of(number float64) float32 {
	near := float32(number)
	switch {
	case s == nil || number != number || s.exact && float64(near) == number:
		return near
	case s.whole:
		return float32(math.Trunc(number))
	}
	return s.standIns[s.place(number)]
}

// place returns how many thresholds are not above a number. The search takes the same steps for all
// numbers, without a branch.
func (s *scale) place(number float64) int {
	at, length := 0, len(s.thresholds)
	for length > 1 {
		half := length / 2
		if s.thresholds[at+half-1] <= number {
			at += half
		}
		length -= half
	}
	if s.thresholds[at] <= number {
		at++
	}
	return at
}

// roundMin is the smallest number of values that a kernel rounds faster than Go.
const roundMin = 128

// narrowRows writes the stand-ins of the numbers of rows. Without scales it rounds the numbers to
// the nearest float32.
func narrowRows(k *kernel, to []float32, numbers []float64, scales []*scale) {
	to = to[:len(numbers)]
	if scales == nil {
		for k.round != nil && len(numbers) >= roundMin {
			n := min(len(numbers)/8, callEights)
			k.round(&numbers[0], &to[0], n)
			numbers, to = numbers[8*n:], to[8*n:]
		}
		round(numbers, to)
		return
	}
	for ; len(numbers) >= len(scales); numbers, to = numbers[len(scales):], to[len(scales):] {
		for i, s := range scales {
			to[i] = s.of(numbers[i])
		}
	}
}

// narrow converts the thresholds of an ensemble to float32 and returns the scale of each input. It
// returns nil if the framework rounds inputs to float32.
func (e *ensemble) narrow() ([]*scale, error) {
	if !e.wideInputs {
		for _, p := range e.parts {
			for i := range p.nodes {
				if n := &p.nodes[i]; n.left != noChild && !n.categorical() {
					n.value = float64(roundUp(n.value))
				}
			}
		}
		return nil, nil
	}
	scales, err := e.scales()
	if err != nil {
		return nil, err
	}
	for _, p := range e.parts {
		for i := range p.nodes {
			if n := &p.nodes[i]; n.left != noChild && !n.categorical() {
				s := scales[n.input]
				n.value = float64(s.standIns[s.place(n.value)])
			}
		}
	}
	return scales, nil
}

// scales returns a scale for each input that has splits.
func (e *ensemble) scales() ([]*scale, error) {
	scales := make([]*scale, e.inputs)
	zero := make([]bool, e.inputs)
	for _, p := range e.parts {
		for _, n := range p.nodes {
			if n.left == noChild {
				continue
			}
			if scales[n.input] == nil {
				scales[n.input] = &scale{whole: n.categorical()}
			}
			s := scales[n.input]
			if s.whole != n.categorical() {
				return nil, fmt.Errorf("input %d has numeric and categorical splits", n.input)
			}
			if !s.whole {
				s.thresholds = append(s.thresholds, n.value)
				zero[n.input] = zero[n.input] || n.zeroMissing
			}
		}
	}
	for input, s := range scales {
		switch {
		case s == nil:
		case s.whole:
			s.exact = true
		default:
			if err := s.settle(zero[input]); err != nil {
				return nil, fmt.Errorf("input %d: %w", input, err)
			}
		}
	}
	return scales, nil
}

// settle chooses the stand-ins of numbers, and proves them at each threshold. If zero means
// missing, numbers that count as zero must stay distinct from others.
func (s *scale) settle(zero bool) error {
	if zero {
		s.thresholds = append(s.thresholds, -zeroMax, math.Nextafter(zeroMax, 1))
	}
	slices.Sort(s.thresholds)
	s.thresholds = slices.Compact(s.thresholds) // -0 is 0
	if len(s.thresholds) >= 1<<24 {
		return fmt.Errorf("%d thresholds are not supported (at most %d)", len(s.thresholds), 1<<24-1)
	}
	s.standIns, s.exact = []float32{float32(math.Inf(-1))}, true
	for i, threshold := range s.thresholds {
		s.standIns = append(s.standIns, roundUp(threshold))
		s.exact = s.exact && (i == 0 || s.standIns[i+1] > s.standIns[i])
	}
	if !s.exact { // indexes; 0 is the index of zero
		first := 0
		if zero {
			first = s.place(0)
		}
		for i := range s.standIns {
			s.standIns[i] = float32(i - first)
		}
	}
	return s.prove()
}

// prove compares the numbers at and next to each threshold with the neighbouring thresholds. It
// compares them as the file does and as kernels do.
func (s *scale) prove() error {
	for i, threshold := range s.thresholds {
		near := float32(threshold)
		for _, number := range []float64{
			threshold, math.Nextafter(threshold, math.Inf(-1)), math.Nextafter(threshold, math.Inf(1)), float64(near),
			float64(math.Nextafter32(near, float32(math.Inf(-1)))), float64(math.Nextafter32(near, float32(math.Inf(1)))),
		} {
			for k := max(0, i-1); k < min(i+2, len(s.thresholds)); k++ {
				if (number < s.thresholds[k]) != (s.of(number) < s.standIns[k+1]) {
					return fmt.Errorf("%g and the threshold %g cannot be told apart", number, s.thresholds[k])
				}
			}
		}
	}
	return nil
}

// roundUp returns the least float32 that is not below a number.
func roundUp(number float64) float32 {
	near := float32(number)
	if float64(near) < number {
		near = math.Nextafter32(near, float32(math.Inf(1)))
	}
	return near
}
