package tree

import (
	"fmt"
	"math"
)

// Limits of a model. Nothing else is allocated only because a file declares it. So memory while
// loading is about twice the file as its framework writes it. A malicious file takes at most 320
// MiB for the sets of its categorical splits. In addition, it takes ten times its size, or a
// hundred times if its leaves are vectors.
const (
	fileMax       = 1 << 30 // bytes; 5,000 trees of depth 8 are 0.1 GB as JSON
	treesMax      = 1 << 17 // bounds the cost of trees apart from their nodes
	nodesMax      = 1 << 16 // per tree: a flat node addresses its children in 16 bits
	inputsMax     = 1<<15 - 1
	outputsMax    = 1 << 12
	categoriesMax = 1 << 24 // XGBoost accepts no category from there on
	setWordsMax   = 1 << 26
)

// noChild marks a leaf.
const noChild = -1

// split is one node of a tree. A value below the threshold goes left. The reader of a format
// translates its questions into this form.
type split struct {
	left, right int32 // noChild in a leaf
	input       int32
	defaultLeft bool    // a missing value goes left
	zeroMissing bool    // zero, of either sign, and values next to it count as missing
	value       float64 // threshold, after narrow a float32; in a leaf its score
	set         segment // in ensemble.listed: categories that go right; empty for a numeric split
}

// segment is part of a list.
type segment struct{ from, to int32 }

// part is the share of one output in one tree of the file. A tree with vectors as leaves has a
// part for each output.
type part struct {
	nodes  []split
	output int32
	index  int32 // index of the tree in the file
	width  int32 // width of its leaves
}

// ensemble is a model that was read from any format.
type ensemble struct {
	kind      string // kind in model.Info
	objective string // training objective, for people
	note      string // further note for people, beginning with a comma
	ambiguous string // as in model.Info
	inputs    int64
	names     []string
	labels    [][]string // by input: the meaning of its category codes
	count     int        // trees of the file
	parts     []part
	listed    []int32 // categories of all sets, one set after the other
	setWords  int64   // words of the sets as bits
	codes     coding
	base      []float64 // by output: the initial value of its sum
	double    bool      // scores are summed in float64, else in float32
	after     after
	finite    bool // infinities are refused
	// wideInputs reports that the framework compares inputs in float64, else in float32.
	wideInputs bool
	outputs    int // scores of a row
	single     linker[float32]
	wide       linker[float64] // set if double
}

// number is the type of the sums of scores.
type number interface{ float32 | float64 }

// linker turns the margins of rows, width per row, into their scores. Margins and scores are in
// different memory. A nil linker copies.
type linker[T number] interface {
	apply(margins []T, width int, scores []float32)
}

// after holds the steps that turn the sums of leaves into margins. They apply in this order, and
// each step rounds in the type of the sums.
type after struct {
	divisor float64   // 0 if unused
	factor  float64   // 0 if unused
	bias    []float64 // by output, or nil
}

// baseOf returns the initial values of the sums.
func baseOf[T number](e *ensemble) []T {
	list := make([]T, len(e.base))
	for i, value := range e.base {
		list[i] = T(value)
	}
	return list
}

// finish turns sums into margins, width per row.
func finish[T number](a *after, sums []T, width int) {
	if a.divisor != 0 {
		for i := range sums {
			sums[i] /= T(a.divisor)
		}
	}
	if a.factor != 0 {
		for i := range sums {
			sums[i] *= T(a.factor)
		}
	}
	if len(a.bias) > 0 {
		for i := range sums {
			sums[i] += T(a.bias[i%width])
		}
	}
}

// zeroMax is the greatest magnitude that counts as zero for splits that treat zero as missing:
// LightGBM's kZeroThreshold.
const zeroMax = float64(float32(1e-35))

// withoutZero returns the value as a split sees it if the split treats zero as missing.
func withoutZero(value float32) float32 {
	if wide := float64(value); wide >= -zeroMax && wide <= zeroMax {
		return float32(math.NaN())
	}
	return value
}

// categorical reports whether a node sends listed categories to the right
// instead of comparing with a threshold.
func (s *split) categorical() bool { return s.set.to > s.set.from }

// atMost makes a split send values of at most limit to the left. If no value is above limit, it
// reverses the split: all values are at least its threshold.
func (s *split) atMost(limit float64) {
	if math.IsInf(limit, 1) {
		s.left, s.right, s.defaultLeft, s.value = s.right, s.left, !s.defaultLeft, math.Inf(-1)
		return
	}
	s.value = math.Nextafter(limit, math.Inf(1))
}

// checkShape walks from the root. It checks that every child exists and has one parent, and that
// every value is usable. It returns how many nodes it met and turns the others into leaves. If
// something is wrong, it returns the place and a text.
func checkShape(nodes []split) (met int, wrong *misshape) {
	seen := make([]bool, len(nodes))
	seen[0] = true
	queue := make([]int32, 1, len(nodes))
	for next := 0; next < len(queue); next++ {
		i := queue[next]
		node := nodes[i]
		fail := func(property property, format string, arguments ...any) (int, *misshape) {
			return 0, &misshape{property, int(i), fmt.Sprintf(format, arguments...)}
		}
		if node.left == noChild && node.right == noChild {
			if math.IsNaN(node.value) || math.IsInf(node.value, 0) {
				return fail(ofValue, "a leaf's score is %g, not finite", node.value)
			}
			continue
		}
		if node.value != node.value && !node.categorical() {
			return fail(ofValue, "the threshold is NaN")
		}
		if node.input < 0 {
			return fail(ofInput, "the split is on input %d", node.input)
		}
		for side, child := range [2]int32{node.left, node.right} {
			if child < 0 || int(child) >= len(nodes) {
				return fail(ofLeft+property(side), "child %d is not one of the %d nodes", child, len(nodes))
			}
			if seen[child] {
				return fail(ofLeft+property(side), "child %d has another parent, or is the root", child)
			}
			seen[child] = true
			queue = append(queue, child)
		}
	}
	for i := range nodes {
		if !seen[i] {
			nodes[i] = split{left: noChild, right: noChild}
		}
	}
	return len(queue), nil
}

// misshape describes an error in a node of a tree.
type misshape struct {
	property property
	node     int
	text     string
}

// property is a property of a node in a file. Each format has its own name for it.
type property int

const (
	ofValue property = iota
	ofInput
	ofLeft
	ofRight
)
