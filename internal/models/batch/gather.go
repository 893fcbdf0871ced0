// Package batch groups rows into calls of a model. A call has as many rows as pay off, and starts
// before they are due.
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

// Gather collects rows for calls of a model, and splits a call that fails. It is not safe for
// concurrent use. It reuses its memory.
type Gather struct {
	Rows   model.Rows
	Scores []float32 // of the rows, one after the other, after Run
	Texts  [][]byte  // of the rows, in the same order, if the model answers with texts
	Failed []Failed  // rows without scores, after Run
	Calls  int       // calls that Run made
	Called int       // rows of these calls

	model   model.Model
	outputs int
	texts   int        // texts per row
	rows    model.Rows // in the order of the calls
	into    []float32  // their scores
	said    [][]byte   // their texts
	good    int        // rows with scores
	down    error      // why no more calls are made
	sorted  model.Rows // Rows by length
	order   []int32    // index in Rows of each row of sorted
	scores  []float32  // of sorted
	sayings [][]byte   // of sorted
}

// Failed is a row without scores, and its error.
type Failed struct {
	Row int
	Err error
}

// Begin removes the rows, and makes room for rows with width numbers and bytesWidth texts.
func (g *Gather) Begin(width, bytesWidth int) {
	clear(g.Rows.Bytes) // releases the memory that they point to
	clear(g.Texts)
	g.Rows = model.Rows{Width: width, Values: g.Rows.Values[:0], BytesWidth: bytesWidth, Bytes: g.Rows.Bytes[:0]}
	g.Failed, g.Calls, g.Called = g.Failed[:0], 0, 0
}

// Run scores the rows, outputs scores each, in calls of at most size rows. With byLength, rows of
// similar length share calls. This wastes little if a model pads to the longest.
//
// If a call fails because of its rows, Run finds the bad rows with few further calls. One bad row
// among n costs log2(n)+1 more calls, or one more than that if the model may be to blame. Only the
// bad row is in Failed then. An error that says nothing about rows (model.BlameWay) applies to all
// rows without scores, and ends the calls. The error of Run is ctx's, if it was cancelled.
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

// answers reports whether a model may return texts.
func answers(m model.Model) bool {
	_, ok := m.(model.Answerer)
	return ok
}

// Answer returns the result of Run for a row. Its memory belongs to g.
func (g *Gather) Answer(row int) model.Answer {
	return model.Answer{
		Scores: g.Scores[row*g.outputs : (row+1)*g.outputs : (row+1)*g.outputs],
		Texts:  g.Texts[row*g.texts : (row+1)*g.texts : (row+1)*g.texts],
	}
}

// call scores the rows [lo, hi).
func (g *Gather) call(ctx context.Context, lo, hi int) error {
	err := g.predict(ctx, lo, hi)
	if err == nil {
		return nil
	}
	if g.stopped(ctx) {
		return g.giveUp(ctx, lo, hi, err)
	}
	// One bad row is the most likely case. Rows before at have scores, and the first bad row is
	// before end.
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
	// If a call fails and all its other rows are good, the remaining row is bad, unless the model
	// had a temporary fault.
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
	if g.stopped(ctx) || g.good == 0 && calling.BlameOf(err) == model.BlameModel { // no row shows that the error is about rows
		return g.giveUp(ctx, end, hi, err)
	}
	return g.halve(ctx, end, hi, err)
}

// halve splits the rows of a failed call into halves, which is best if many are bad.
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

// predict calls the model, unless an earlier call ended all calls.
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

// stopped reports whether no more calls may be made.
func (g *Gather) stopped(ctx context.Context) bool { return g.down != nil || canceled(ctx) }

func canceled(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// giveUp records rows as failed.
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

// sort copies the rows to sorted, the shortest texts first.
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
