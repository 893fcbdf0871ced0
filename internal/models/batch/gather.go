// Package batch turns rows into calls of a model: as many rows in a call as pay,
// and no later than they are due.
package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

// Gather collects rows for calls of a model, and takes a call apart where it
// fails. One goroutine owns it. Its memory is used again.
type Gather struct {
	Rows   model.Rows
	Scores []float32 // of the rows, one behind the other, after Run
	Texts  [][]byte  // of the rows, likewise, where the model answers with some
	Failed []Failed  // rows without scores, after Run
	Calls  int       // that Run made
	Called int       // rows of them

	model   model.Model
	outputs int
	texts   int        // of a row
	rows    model.Rows // as they are called
	into    []float32  // their scores
	said    [][]byte   // their texts
	good    int        // rows with scores
	down    error      // why the model is not called any more
	sorted  model.Rows // Rows by length
	order   []int32    // the row of Rows that each of sorted is
	scores  []float32  // of sorted
	sayings [][]byte   // of sorted
}

// Failed is a row that the model has no scores for.
type Failed struct {
	Row int
	Err error
}

// Begin forgets the rows, and makes room for others of so many numbers and
// texts each.
func (g *Gather) Begin(width, bytesWidth int) {
	clear(g.Rows.Bytes) // let go of what they point to
	clear(g.Texts)
	g.Rows = model.Rows{Width: width, Values: g.Rows.Values[:0], BytesWidth: bytesWidth, Bytes: g.Rows.Bytes[:0]}
	g.Failed, g.Calls, g.Called = g.Failed[:0], 0, 0
}

// Run scores the rows, outputs scores each, in calls of at most size rows. With
// byLength rows of like length share calls, so that little of what a model pads
// to the longest is wasted.
//
// Where a call fails over its rows, as few more as possible find those that are
// bad: one bad row among n costs log2(n)+1 calls more, or one more than that where
// the model may be to blame. It is alone in Failed then, without its neighbours.
// An error that says nothing about rows, model.BlameWay, is that of all rows
// without scores, and the model is not called again. The error of Run is ctx's,
// where it was cancelled.
func (g *Gather) Run(ctx context.Context, m model.Model, outputs, size int, byLength bool) error {
	n := g.Rows.Len()
	g.model, g.outputs, g.good, g.down = m, outputs, 0, nil
	if g.texts = 0; answers(m) {
		g.texts = m.Info().Texts()
	}
	g.Scores = slices.Grow(g.Scores[:0], n*outputs)[:n*outputs]
	g.Texts = slices.Grow(g.Texts[:0], n*g.texts)[:n*g.texts]
	g.rows, g.into, g.said = g.Rows, g.Scores, g.Texts
	if byLength = byLength && n > size; byLength {
		g.sort()
		g.scores = slices.Grow(g.scores[:0], n*outputs)[:n*outputs]
		g.sayings = slices.Grow(g.sayings[:0], n*g.texts)[:n*g.texts]
		g.rows, g.into, g.said = g.sorted, g.scores, g.sayings
	}
	for lo := 0; lo < n; lo += size {
		if err := g.call(ctx, lo, min(lo+size, n)); err != nil {
			return err
		}
	}
	if byLength {
		for at, row := range g.order {
			copy(g.Scores[int(row)*outputs:(int(row)+1)*outputs], g.scores[at*outputs:])
			copy(g.Texts[int(row)*g.texts:(int(row)+1)*g.texts], g.sayings[at*g.texts:])
		}
		for i := range g.Failed {
			g.Failed[i].Row = int(g.order[g.Failed[i].Row])
		}
		clear(g.sorted.Bytes)
		clear(g.sayings)
	}
	if counted, ok := m.(*Counted); ok {
		counted.add(n, g.Failed)
	}
	return nil
}

// answers reports whether a model may have texts.
func answers(m model.Model) bool {
	_, ok := m.(model.Answerer)
	return ok
}

// Answer returns what Run brought for a row, in the memory of g.
func (g *Gather) Answer(row int) model.Answer {
	return model.Answer{
		Scores: g.Scores[row*g.outputs : (row+1)*g.outputs : (row+1)*g.outputs],
		Texts:  g.Texts[row*g.texts : (row+1)*g.texts : (row+1)*g.texts],
	}
}

// call scores the rows from lo to before hi.
func (g *Gather) call(ctx context.Context, lo, hi int) error {
	err := g.predict(ctx, lo, hi)
	if err == nil {
		return nil
	}
	if g.stopped(ctx) {
		return g.giveUp(ctx, lo, hi, err)
	}
	// One bad row is the most likely case. Rows before at have scores, and the first
	// bad one is before end.
	at, end, inferred := lo, hi, false
	for end-at > 1 {
		middle := (at + end) / 2
		switch again := g.predict(ctx, at, middle); {
		case g.stopped(ctx):
			return g.giveUp(ctx, at, hi, err)
		case again == nil:
			at, inferred = middle, true
		default:
			end, err, inferred = middle, again, false
		}
	}
	// What failed in a call whose other rows are good is bad, unless the model was
	// out of order for a moment.
	if inferred && (end == hi || calling.BlameOf(err) == model.BlameModel) {
		err = g.predict(ctx, at, end)
	}
	if g.stopped(ctx) {
		return g.giveUp(ctx, at, hi, err)
	}
	if err != nil {
		g.fail(at, end, err)
	}
	if end == hi {
		return nil
	}
	if err = g.predict(ctx, end, hi); err == nil {
		return nil
	}
	if g.stopped(ctx) || g.good == 0 && calling.BlameOf(err) == model.BlameModel { // no row shows that it is about rows
		return g.giveUp(ctx, end, hi, err)
	}
	return g.halve(ctx, end, hi, err)
}

// halve scores rows whose call failed by halves, which is best where many are bad.
func (g *Gather) halve(ctx context.Context, lo, hi int, err error) error {
	if hi-lo == 1 {
		g.fail(lo, hi, err)
		return nil
	}
	middle := (lo + hi) / 2
	for _, part := range [2][2]int{{lo, middle}, {middle, hi}} {
		err := g.predict(ctx, part[0], part[1])
		if err == nil {
			continue
		}
		if g.stopped(ctx) {
			err = g.giveUp(ctx, part[0], part[1], err)
		} else {
			err = g.halve(ctx, part[0], part[1], err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// predict calls the model, unless a call said that it is of no use.
func (g *Gather) predict(ctx context.Context, lo, hi int) error {
	if g.down != nil {
		return g.down
	}
	err := calling.Ask(ctx, g.model, g.rows.Slice(lo, hi), g.into[lo*g.outputs:hi*g.outputs], g.said[lo*g.texts:hi*g.texts])
	g.Calls++
	g.Called += hi - lo
	if err == nil {
		g.good += hi - lo
		return nil
	}
	var some model.RowErrors
	switch {
	case errors.As(err, &some):
		for _, f := range some {
			g.Failed = append(g.Failed, Failed{lo + f.Row, f.Err})
		}
		g.good += hi - lo - len(some)
		return nil
	case calling.BlameOf(err) == model.BlameWay:
		g.down = err
	case ctx.Err() != nil:
		g.down = fmt.Errorf("%w: %v", ctx.Err(), err)
	}
	return err
}

// stopped reports whether no more calls are to be made.
func (g *Gather) stopped(ctx context.Context) bool { return g.down != nil || canceled(ctx) }

func canceled(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// giveUp leaves rows without scores.
func (g *Gather) giveUp(ctx context.Context, lo, hi int, err error) error {
	if canceled(ctx) {
		return ctx.Err()
	}
	if g.down != nil {
		err = g.down
	}
	g.fail(lo, hi, err)
	return nil
}

func (g *Gather) fail(lo, hi int, err error) {
	for row := lo; row < hi; row++ {
		g.Failed = append(g.Failed, Failed{row, err})
	}
}

// sort puts the rows into sorted, the shortest texts first.
func (g *Gather) sort() {
	n, r := g.Rows.Len(), &g.Rows
	g.order = slices.Grow(g.order[:0], n)[:n]
	for i := range g.order {
		g.order[i] = int32(i)
	}
	length := func(row int32) (sum int) {
		for _, text := range r.Bytes[int(row)*r.BytesWidth : (int(row)+1)*r.BytesWidth] {
			sum += len(text)
		}
		return sum
	}
	slices.SortStableFunc(g.order, func(a, b int32) int { return cmp.Compare(length(a), length(b)) })
	g.sorted = model.Rows{Width: r.Width, Values: g.sorted.Values[:0], BytesWidth: r.BytesWidth, Bytes: g.sorted.Bytes[:0]}
	for _, row := range g.order {
		g.sorted.Append(r.Row(int(row)))
	}
}
