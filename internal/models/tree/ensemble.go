package tree

import (
	"fmt"
	"math"
)

// Limits of what is loaded. Nothing else is allocated on a file's word alone,
// so memory while loading is about twice the file as its framework writes it. A
// file made for the purpose takes at most 320 MiB for the sets of its categorical
// splits, and beside them ten times its size, or a hundred times where its
// leaves are vectors.
const (
	fileMax       = 1 << 30 // bytes; 5,000 trees of depth 8 are 0.1 GB as JSON
	treesMax      = 1 << 17 // bounds what trees cost beside their nodes
	nodesMax      = 1 << 16 // of one tree: a flat node addresses its children in 16 bits
	inputsMax     = 1<<15 - 1
	outputsMax    = 1 << 12
	categoriesMax = 1 << 24 // from there on XGBoost takes a category for none
	setWordsMax   = 1 << 26
)

// noChild marks a leaf.
const noChild = -1

// split is one node of a tree. A value below the threshold goes left: what a file
// asks in other words its reader says in these.
type split struct {
	left, right int32 // noChild in a leaf
	input       int32
	defaultLeft bool    // where a missing value goes
	zeroMissing bool    // zero, of either sign, and what is next to it count as missing
	value       float64 // threshold, behind narrow a float32; in a leaf its score
	set         segment // of ensemble.listed: categories that go right; empty where the split is numeric
}

// segment is part of a list.
type segment struct{ from, to int32 }

// part is what one output of a model has of one tree of its file: a tree whose
// leaves are vectors has a part for each output.
type part struct {
	nodes  []split
	output int32
	index  int32 // of the tree in the file
	width  int32 // of its leaves
}

// ensemble is a model that was read, whatever its format.
type ensemble struct {
	kind      string // of model.Info
	objective string // what it was trained for, for people
	note      string // what else people should know, with a comma before it
	ambiguous string // of model.Info
	inputs    int64
	names     []string
	labels    [][]string // of an input: what its category codes stand for
	count     int        // trees of the file
	parts     []part
	listed    []int32 // categories of all sets, set behind set
	setWords  int64   // what the sets take as bits
	codes     coding
	base      []float64 // of each output: what its sum begins with
	double    bool      // scores are added up in float64, else in float32
	after     after
	finite    bool // infinities are refused
	// wideInputs says that the framework compares inputs in float64, else in float32.
	wideInputs bool
	outputs    int // scores of a row
	single     linker[float32]
	wide       linker[float64] // where double
}

// number is what scores are added up in.
type number interface{ float32 | float64 }

// linker turns the margins of rows, width of them each, into their scores, which
// lie in other memory. A nil one copies.
type linker[T number] interface {
	apply(margins []T, width int, scores []float32)
}

// after is what becomes of the sums of leaves before they are margins, in this
// order, each step rounded in the type of the sums.
type after struct {
	divisor float64   // 0 for none
	factor  float64   // 0 for none
	bias    []float64 // of each output, or none
}

// baseOf returns what the sums begin with.
func baseOf[T number](e *ensemble) []T {
	list := make([]T, len(e.base))
	for i, value := range e.base {
		list[i] = T(value)
	}
	return list
}

// finish makes margins of sums, width of them a row.
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

// zeroMax is the greatest magnitude that counts as zero where zero is missing:
// LightGBM's kZeroThreshold.
const zeroMax = float64(float32(1e-35))

// withoutZero returns the value as a split sees it that takes zero for missing.
func withoutZero(value float32) float32 {
	if wide := float64(value); wide >= -zeroMax && wide <= zeroMax {
		return float32(math.NaN())
	}
	return value
}

// categorical reports whether a node sends listed categories to the right
// instead of comparing with a threshold.
func (s *split) categorical() bool { return s.set.to > s.set.from }

// atMost makes a split send the values to the left that are at most limit. If no value
// is above limit, it turns the split around: all are at least its threshold.
func (s *split) atMost(limit float64) {
	if math.IsInf(limit, 1) {
		s.left, s.right, s.defaultLeft, s.value = s.right, s.left, !s.defaultLeft, math.Inf(-1)
		return
	}
	s.value = math.Nextafter(limit, math.Inf(1))
}

// checkShape walks from the root: every child exists and has one parent, and
// every value can be used. It returns how many nodes it met and makes leaves of
// the others, or the place and the text of what is wrong.
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

// misshape is what is wrong with a node of a tree.
type misshape struct {
	property property
	node     int
	text     string
}

// property is what a file says of a node. Formats have names of their own for it.
type property int

const (
	ofValue property = iota
	ofInput
	ofLeft
	ofRight
)
