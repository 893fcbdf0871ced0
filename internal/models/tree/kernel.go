package tree

import (
	"fmt"
	"os"
	"strings"
	"time"
)

//go:generate go run ./internal/kernelgen

// kernel is a way to score rows: its steps in assembly. A nil step runs in Go.
type kernel struct {
	name string

	// round rounds eight numbers at a time.
	round func(from *float64, to *float32, eights int)

	// ask answers questions on a numeric input for 64 values. The first function sends a missing
	// value to the right, the second to the left.
	ask [2]func(values *[blockRows]float32, thresholds *float32, answers *uint64, count int)

	// walk adds to sum the scores of one row by groups of eight trees.
	walk   walker[float32]
	walk64 walker[float64]

	// trees adds the scores of complete trees of depth 2, 4, 6 and 8.
	trees   [4]adder[float32]
	trees64 [4]adder[float64]

	// levels adds the scores of trees that ask one question at each depth.
	levels   [4]adder[float32]
	levels64 [4]adder[float64]
}

// walker and adder are the types of walk and trees for scores of one type.
type (
	walker[T number] func(nodes *node, leaves *T, slots *uint32, trees *span, sum T, groups int) T
	adder[T number]  func(answers *uint64, questions *uint32, leaves *T, sums *[blockRows]T, count int)
)

// walkerOf returns the step of a kernel for scores of a type.
func walkerOf[T number](k *kernel) walker[T] {
	if w, ok := any(&k.walk).(*walker[T]); ok {
		return *w
	}
	return *any(&k.walk64).(*walker[T])
}

// addersOf returns the steps of a kernel for scores of a type.
func addersOf[T number](k *kernel) (trees, levels *[4]adder[T]) {
	if a, ok := any(&k.trees).(*[4]adder[T]); ok {
		return a, any(&k.levels).(*[4]adder[T])
	}
	return any(&k.trees64).(*[4]adder[T]), any(&k.levels64).(*[4]adder[T])
}

// portable is the name of the kernel that needs no assembly.
const portable = "portable"

// kernels returns the kernels that this processor runs, the portable one last.
func kernels() []kernel { return append(vectorKernels(), kernel{name: portable}) }

// kernels returns the candidate kernels: the named one, or all.
func (o Options) kernels() ([]kernel, error) {
	name, all := o.Kernel, kernels()
	if name == "" {
		name = os.Getenv("AFTERBAY_KERNEL")
	}
	if name == "" {
		return all, nil
	}
	names := make([]string, len(all))
	for i, k := range all {
		if k.name == name {
			return all[i : i+1], nil
		}
		names[i] = k.name
	}
	return nil, fmt.Errorf("kernel %q does not run here (hint: this processor runs %s)", clip([]byte(name)), strings.Join(names, ", "))
}

// The runtime cannot interrupt a call into assembly, and the garbage collector may wait for it. So
// a call stays below about 50 us.
const (
	callQuestions = 1 << 14 // questions in one call
	callTrees     = 64      // trees in one call
	callWalks     = 512     // trees in one call for one row
	callEights    = 1 << 13 // eight numbers each, rounded in one call
	walkDepthMax  = 64      // steps in each of them
)

// compare answers the questions on an input by a comparison with each threshold.
func compare[T number](k *kernel, s *blockScratch[T], c *column) {
	for side := range c.sides {
		q := &c.sides[side]
		for from := 0; from < len(q.thresholds); from += callQuestions {
			k.ask[side](&s.values, &q.thresholds[from], &s.answers[q.first+from], min(callQuestions, len(q.thresholds)-from))
		}
	}
}

// addRun adds the scores of a run of complete trees.
func addRun[T number](add adder[T], b *blocks[T], s *blockScratch[T], r run) {
	for ; r.count > 0; r.count -= callTrees {
		add(&s.answers[0], &b.questions[r.first], &b.leaves[r.leaf], &s.sums, min(callTrees, r.count))
		r.first += callTrees * r.asked()
		r.leaf += callTrees << r.depth
	}
}

// choice is how a model scores: in blocks by a kernel from minimum rows on, and fewer rows one by
// one.
type choice struct {
	kernel  kernel
	minimum int
}

const (
	minimumUnmeasured = 16
	measureMax        = 2 * time.Millisecond
)

// choose measures rows one by one with the first kernel, and in a block with each kernel. It starts
// no measurement after atMost. Without a measurement it takes the first kernel, from 16 rows on.
// Another kernel must be clearly faster, so that noise does not decide. The choice changes no
// score.
func choose[T number](f *flat[T], b *blocks[T], from []kernel, rows []float32, atMost time.Duration) choice {
	alone := choice{from[0], blockRows + 1}
	if b == nil {
		return alone
	}
	start := time.Now()
	measure := func(call func()) time.Duration {
		least := time.Duration(0)
		for range 3 {
			before := time.Now()
			if before.Sub(start) >= atMost {
				break
			}
			call()
			if took := max(1, time.Since(before)); least == 0 || took < least {
				least = took
			}
		}
		return least
	}
	best, bestTook := choice{from[0], minimumUnmeasured}, time.Duration(0)
	const some = 4
	slots, scratch := f.scratch(), b.scratch()
	rows = rows[:blockRows*b.inputs]
	out := make([]T, blockRows*len(b.outputs))
	one := measure(func() { f.score(&from[0], slots, rows[:some*b.inputs], out[:some*len(b.outputs)]) }) / some
	for i := range from {
		took := measure(func() { b.score(&from[i], scratch, rows, out) })
		if took > 0 && (bestTook == 0 || took < bestTook*4/5) {
			best.kernel, bestTook = from[i], took
		}
	}
	if one > 0 && bestTook > 0 {
		best.minimum = max(2, int((bestTook+one-1)/one))
	}
	if best.minimum > blockRows {
		return alone
	}
	return best
}
