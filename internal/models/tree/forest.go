package tree

import (
	"context"
	"fmt"
	"sync"

	"github.com/afterbay/afterbay/model"
)

// forest is an ensemble that is ready to score, in one of the two types of sums.
type forest[T number] struct {
	flat      *flat[T]
	blocks    *blocks[T] // nil if rows are always scored one by one
	choice    choice
	scales    []*scale // by input; nil if inputs are rounded
	after     after
	link      linker[T]
	scratches sync.Pool // of *scratch[T]
}

// scratch is the working memory of one call.
type scratch[T number] struct {
	values  []float32        // for a block: the float32 stand-ins of its numbers
	slots   []uint32         // for one row
	block   *blockScratch[T] // nil if there are no blocks
	margins []T              // for a block
}

// scorer is a forest of either type.
type scorer interface {
	predict(ctx context.Context, rows model.Rows, outputs int, scores []float32) error
	margins(rows model.Rows, out []float32)
	margins64(rows model.Rows, out []float64)
	width() int // margins of a row
	describe(e *ensemble) string
}

// plant lays out an ensemble, verifies it and chooses how to score.
func plant[T number](e *ensemble, link linker[T], kernels []kernel) (*forest[T], error) {
	scales, err := e.narrow()
	if err != nil {
		return nil, err
	}
	base := baseOf[T](e)
	f := &forest[T]{scales: scales, flat: flatten(e, base), blocks: layBlocks(e, base), after: e.after, link: link}
	rows := generate(e, verifyRows)
	if err := verify(e, f.flat, f.blocks, kernels, rows); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	f.choice = choose(f.flat, f.blocks, kernels, rows, measureMax)
	f.scratches.New = func() any { return f.scratch() }
	return f, nil
}

func (f *forest[T]) scratch() *scratch[T] {
	s := &scratch[T]{values: make([]float32, blockRows*f.flat.inputs), slots: f.flat.scratch(), margins: make([]T, blockRows*f.width())}
	if f.blocks != nil {
		s.block = f.blocks.scratch()
	}
	return s
}

func (f *forest[T]) width() int { return len(f.flat.outputs) }

// predict writes the scores of rows, outputs per row.
func (f *forest[T]) predict(ctx context.Context, rows model.Rows, outputs int, scores []float32) error {
	s := f.scratches.Get().(*scratch[T])
	defer f.scratches.Put(s)
	for first := 0; first < rows.Len(); first += blockRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		end := min(first+blockRows, rows.Len())
		margins, of := f.score(s, rows, first, end), scores[first*outputs:end*outputs]
		if f.link == nil {
			round(margins, of)
		} else {
			f.link.apply(margins, f.width(), of)
		}
	}
	return nil
}

func (f *forest[T]) margins(rows model.Rows, out []float32) { marginsTo(f, rows, out) }

func (f *forest[T]) margins64(rows model.Rows, out []float64) { marginsTo(f, rows, out) }

func marginsTo[T, U number](f *forest[T], rows model.Rows, out []U) {
	s := f.scratches.Get().(*scratch[T])
	defer f.scratches.Put(s)
	for first := 0; first < rows.Len(); first += blockRows {
		end := min(first+blockRows, rows.Len())
		round(f.score(s, rows, first, end), out[first*f.width():end*f.width()])
	}
}

// round copies values to another type.
func round[T, U number](from []T, to []U) {
	for i, value := range from {
		to[i] = U(value)
	}
}

// score returns the margins of the rows from first on, at most 64, in the memory of s.
func (f *forest[T]) score(s *scratch[T], rows model.Rows, first, end int) []T {
	values, margins := s.values[:(end-first)*rows.Width], s.margins[:(end-first)*f.width()]
	narrowRows(&f.choice.kernel, values, rows.Values[first*rows.Width:end*rows.Width], f.scales)
	if end-first < f.choice.minimum {
		f.flat.score(&f.choice.kernel, s.slots, values, margins)
	} else {
		f.blocks.score(&f.choice.kernel, s.block, values, margins)
	}
	finish(&f.after, margins, f.width())
	return margins
}

// describe returns the objective, the shape and the kernel for batches.
func (f *forest[T]) describe(e *ensemble) string {
	depth := int32(0)
	for _, t := range f.flat.trees {
		depth = max(depth, t.depth)
	}
	text := clip([]byte(e.objective))
	if n := f.width(); n > 1 {
		text += fmt.Sprintf(" of %d outputs", n)
	}
	text += fmt.Sprintf(", %d trees of depth up to %d, %d nodes, kernel %s", e.count, depth, len(f.flat.nodes), f.choice.kernel.name)
	return text + e.note + e.describeCategories(f.flat.categorical)
}
