package task

import (
	"context"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/observe"
	"github.com/afterbay/afterbay/step"
)

// scoreScratch holds the rows of the calls of one stage.
type scoreScratch struct {
	items  []int32
	values []float32
	scores []float32
}

// scoreStage calls the stage's model for the active items, in calls of at most
// Size rows. The rows of several partitions share calls, which is safe because
// a model's score of a row depends on that row alone.
func (w *worker) scoreStage(ctx context.Context, stage *step.Stage) error {
	s := stage.Score
	b := &w.score
	b.items, b.values = b.items[:0], b.values[:0]
	for _, i := range w.active {
		it := &w.items[i]
		if !it.alive() || !stage.Guard.Holds(it.row) {
			continue
		}
		if wanted, err := step.Holds(s.When, it.row); err != nil {
			it.fail(stage.Name, err)
			continue
		} else if !wanted {
			if err := s.Skip(it.row); err != nil {
				it.fail(stage.Name, err)
			}
			continue
		}
		at := len(b.values)
		b.values = s.AppendRow(b.values, it.row)
		if err := s.Model.Check(b.values[at:]); err != nil {
			b.values = b.values[:at]
			it.fail(stage.Name, err)
			continue
		}
		b.items = append(b.items, i)
		if len(b.items) == s.Size {
			if err := w.callModel(ctx, stage); err != nil {
				return err
			}
		}
	}
	return w.callModel(ctx, stage)
}

// callModel predicts the gathered rows and stores their scores.
func (w *worker) callModel(ctx context.Context, stage *step.Stage) error {
	s, b := stage.Score, &w.score
	n := len(b.items)
	if n == 0 {
		return nil
	}
	outputs := len(s.Outputs)
	if cap(b.scores) < n*outputs {
		b.scores = make([]float32, n*outputs)
	}
	b.scores = b.scores[:n*outputs]
	start := time.Now()
	err := w.predict(ctx, stage, 0, n)
	w.spent[observe.Model] += time.Since(start)
	for at, i := range b.items {
		if it := &w.items[i]; it.alive() {
			if err := s.Store(it.row, b.scores[at*outputs:(at+1)*outputs]); err != nil {
				it.fail(stage.Name, err)
			}
		}
	}
	b.items, b.values = b.items[:0], b.values[:0]
	return err
}

// predict scores the gathered rows from lo to hi. When a call fails it is
// repeated by halves, so that one bad row costs its own dead letter and not its
// neighbours'.
func (w *worker) predict(ctx context.Context, stage *step.Stage, lo, hi int) error {
	s, b := stage.Score, &w.score
	width, outputs := len(s.Inputs), len(s.Outputs)
	rows := model.Rows{Width: width, Values: b.values[lo*width : hi*width]}
	err := s.Model.Predict(ctx, rows, b.scores[lo*outputs:hi*outputs])
	w.metrics.ModelCalls.Add(1)
	w.metrics.ModelRows.Add(uint64(hi - lo))
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case hi-lo == 1:
		w.items[b.items[lo]].fail(stage.Name, fmt.Errorf("%s: %w", s.Name, err))
		return nil
	}
	middle := (lo + hi) / 2
	if err := w.predict(ctx, stage, lo, middle); err != nil {
		return err
	}
	return w.predict(ctx, stage, middle, hi)
}

// feature reads a feature, adds to it, or both.
func (w *worker) feature(f *step.Feature, it *item) error {
	set, cell := w.plan.sets()[setOf(f)], it.key.cells[setOf(f)]
	if f.Read && f.ReadFirst {
		w.readFeature(f, it)
	}
	if f.Add {
		wanted, err := step.Holds(f.When, it.row)
		if err != nil {
			return err
		}
		if wanted {
			v := 0.0
			if f.Value != nil {
				if v, err = step.Number(f.Value, it.row); err != nil {
					return err
				}
			}
			if err := set.Add(cell, f.Index, it.time, v); err != nil {
				return err
			}
		}
	}
	if f.Read && !f.ReadFirst {
		w.readFeature(f, it)
	}
	return nil
}

func (w *worker) readFeature(f *step.Feature, it *item) {
	set, cell := w.plan.sets()[setOf(f)], it.key.cells[setOf(f)]
	set.Read(cell, f.Index, it.time, it.row.Numbers(f.Columns[0], len(f.Columns)))
	if set.Approximate(cell, f.Index) {
		it.approximate = append(it.approximate, f.Name)
	}
}
