package tree

import (
	"fmt"
	"math"
	"slices"
)

// verifyRows is a whole block and part of one.
const verifyRows = blockRows + 11

// verify scores the rows from generate in three ways: one by one, in two orders in blocks by each
// kernel, and by walking the trees of the file. It fails if any bit differs. Callers that share
// calls between batches rely on this.
func verify[T number](e *ensemble, f *flat[T], b *blocks[T], by []kernel, rows []float32) error {
	width, outputs := int(e.inputs), len(f.outputs)
	wanted := make([]T, verifyRows*outputs)
	for i := range verifyRows {
		walk(e, f, rows[i*width:(i+1)*width], wanted[i*outputs:(i+1)*outputs])
	}
	compare := func(how string, row int, got []T) error {
		for i, margin := range wanted[row*outputs : (row+1)*outputs] {
			if math.Float64bits(float64(got[i])) != math.Float64bits(float64(margin)) && (got[i] == got[i] || margin == margin) {
				return fmt.Errorf("a row scored %s has margin %g and walked margin %g", how, got[i], margin)
			}
		}
		return nil
	}
	out := make([]T, len(wanted))
	for i := range by {
		f.score(&by[i], f.scratch(), rows, out)
		for row := range verifyRows {
			if err := compare("alone by kernel "+by[i].name, row, out[row*outputs:]); err != nil {
				return err
			}
		}
	}
	if b == nil {
		return nil
	}
	s := b.scratch()
	for i := range by {
		for _, stepOver := range []int{1, 29} { // coprime with verifyRows: visits each row once
			shuffled := make([]float32, 0, len(rows))
			for i := range verifyRows {
				from := i * stepOver % verifyRows
				shuffled = append(shuffled, rows[from*width:(from+1)*width]...)
			}
			b.score(&by[i], s, shuffled[:blockRows*width], out[:blockRows*outputs])
			b.score(&by[i], s, shuffled[blockRows*width:], out[blockRows*outputs:])
			for row := range verifyRows {
				if err := compare("by kernel "+by[i].name, row*stepOver%verifyRows, out[row*outputs:]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// walk scores a row by following the trees of the file.
func walk[T number](e *ensemble, f *flat[T], row []float32, out []T) {
	for i, of := range f.outputs {
		out[i] = of.base
	}
	for _, p := range e.parts {
		at := int32(0)
		for p.nodes[at].left != noChild {
			n := &p.nodes[at]
			value := row[n.input]
			if n.zeroMissing {
				value = withoutZero(value)
			}
			left := float64(value) < n.value
			if value != value {
				left = n.defaultLeft
			} else if n.categorical() {
				_, listed := slices.BinarySearch(e.listed[n.set.from:n.set.to], int32(min(value, categoriesMax)))
				negative := value < 0
				if e.codes == lightgbmCodes {
					negative = value <= -1
				}
				left = negative || !listed
			}
			if at = n.right; left {
				at = n.left
			}
		}
		out[p.output] += T(p.nodes[at].value)
	}
}

// generate returns rows with values at, just below and just above the thresholds and categories of
// their inputs, and with missing values, zeros and extremes.
func generate(e *ensemble, count int) []float32 {
	thresholds := make([][]float32, e.inputs)
	for _, p := range e.parts {
		for _, n := range p.nodes {
			switch {
			case n.left == noChild:
			case n.categorical():
				thresholds[n.input] = append(thresholds[n.input], float32(e.listed[n.set.from]), float32(e.listed[n.set.to-1]))
			default:
				thresholds[n.input] = append(thresholds[n.input], float32(n.value))
				if n.zeroMissing {
					thresholds[n.input] = append(thresholds[n.input], float32(zeroMax), -float32(zeroMax))
				}
			}
		}
	}
	special := [...]float32{
		float32(math.NaN()), 0, float32(math.Copysign(0, -1)), math.SmallestNonzeroFloat32,
		-math.SmallestNonzeroFloat32, math.MaxFloat32, -math.MaxFloat32, 1, categoriesMax,
	}
	state := uint64(1)
	random := func(n int) int { // a fixed sequence: a model loads always or never
		state = state*6364136223846793005 + 1442695040888963407
		return int(state >> 33 % uint64(n))
	}
	rows := make([]float32, 0, count*int(e.inputs))
	for range count {
		for _, list := range thresholds {
			value := special[random(len(special))]
			if len(list) > 0 && random(8) > 0 {
				near := list[random(len(list))]
				value = [3]float32{math.Nextafter32(near, -math.MaxFloat32), near, math.Nextafter32(near, math.MaxFloat32)}[random(3)]
			}
			if math.IsInf(float64(value), 0) {
				value = 0
			}
			rows = append(rows, value)
		}
	}
	return rows
}
