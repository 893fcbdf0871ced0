package tree

import (
	"fmt"
	"math"
)

// verifyRows is a whole block, four rows and three, so every path is taken.
const verifyRows = blockRows + lanes + 3

// verify scores generated rows one by one, in blocks and in another order by
// the flat kernel, and by walking the trees as the file has them, and fails
// where any bit differs: whoever shares calls between batches relies on it.
func verify(e *ensemble, f *flat) error {
	rows := generate(e, verifyRows)
	width := int(e.inputs)
	wanted := make([]float32, verifyRows)
	for i := range wanted {
		wanted[i] = walk(e.trees, f.base, rows[i*width:(i+1)*width])
	}
	s := f.scratch()
	compare := func(how string, row int, got float32) error {
		if math.Float32bits(got) == math.Float32bits(wanted[row]) || got != got && wanted[row] != wanted[row] {
			return nil
		}
		return fmt.Errorf("a row scored %s has margin %g and walked margin %g", how, got, wanted[row])
	}
	out := make([]float32, verifyRows)
	f.score(s, rows, out)
	for i, got := range out {
		if err := compare("in a batch", i, got); err != nil {
			return err
		}
	}
	for i := range verifyRows {
		f.score(s, rows[i*width:(i+1)*width], out[:1])
		if err := compare("alone", i, out[0]); err != nil {
			return err
		}
	}
	const stepOver = 29 // coprime with verifyRows: visits each row once
	shuffled := make([]float32, 0, len(rows))
	for i := range verifyRows {
		from := i * stepOver % verifyRows
		shuffled = append(shuffled, rows[from*width:(from+1)*width]...)
	}
	f.score(s, shuffled, out)
	for i, got := range out {
		if err := compare("shuffled", i*stepOver%verifyRows, got); err != nil {
			return err
		}
	}
	return nil
}

// walk scores a row by following the trees as the file has them.
func walk(trees [][]split, base float32, row []float32) float32 {
	sum := base
	for _, tree := range trees {
		at := int32(0)
		for tree[at].left != noChild {
			n := tree[at]
			value := row[n.input]
			switch {
			case value != value && n.defaultLeft, value < n.value:
				at = n.left
			default:
				at = n.right
			}
		}
		sum += tree[at].value
	}
	return sum
}

// generate returns rows whose values lie at, just below and just above the
// thresholds of their inputs, or are missing, zeros and extremes.
func generate(e *ensemble, count int) []float32 {
	thresholds := make([][]float32, e.inputs)
	for _, tree := range e.trees {
		for _, n := range tree {
			if n.left != noChild {
				thresholds[n.input] = append(thresholds[n.input], n.value)
			}
		}
	}
	special := [...]float32{
		float32(math.NaN()), 0, float32(math.Copysign(0, -1)), math.SmallestNonzeroFloat32,
		-math.SmallestNonzeroFloat32, math.MaxFloat32, -math.MaxFloat32, 1,
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
