package task

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/afterbay/afterbay/expression"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/observe"
	"github.com/afterbay/afterbay/value"
)

// scoreScratch holds the rows of the calls of one stage.
type scoreScratch struct {
	items  []int32
	values []float32
	scores []float32
}

var errNotFinite = errors.New("the model's output is not a finite number")

// scoreStage calls the stage's model for the active items, in calls of at most
// Size rows. The rows of several partitions share calls, which is safe because
// a model's score of a row depends on that row alone.
func (w *worker) scoreStage(ctx context.Context, stage *Stage) error {
	s := stage.Score
	b := &w.score
	b.items, b.values = b.items[:0], b.values[:0]
	for _, i := range w.active {
		it := &w.items[i]
		if !it.alive() {
			continue
		}
		if wanted, err := holds(s.When, it.row); err != nil {
			it.fail(stage.Name, err)
			continue
		} else if !wanted {
			if err := s.skip(it.row); err != nil {
				it.fail(stage.Name, err)
			}
			continue
		}
		at := len(b.values)
		b.values = s.appendRow(b.values, it.row)
		if err := s.Model.Check(b.values[at:]); err != nil {
			b.values = b.values[:at]
			it.fail(stage.Name, err)
			continue
		}
		b.items = append(b.items, i)
		if len(b.items) == s.Size {
			if err := w.call(ctx, stage); err != nil {
				return err
			}
		}
	}
	return w.call(ctx, stage)
}

// holds evaluates a condition; nil is true.
func holds(when *expression.Program, row *value.Row) (bool, error) {
	if when == nil {
		return true, nil
	}
	return when.Bool(row)
}

// number evaluates a program of type int or number.
func number(p *expression.Program, row *value.Row) (float64, error) {
	if p.Type().Kind == value.Int {
		v, err := p.Int(row)
		return float64(v), err
	}
	return p.Number(row)
}

// skip sets the outputs of a score whose condition does not hold.
func (s *ScoreStage) skip(row *value.Row) error {
	for i, slot := range s.Outputs {
		if s.Fallback[i] == nil {
			row.Clear(slot)
		} else if err := s.Fallback[i].Store(row, slot); err != nil {
			return fmt.Errorf("fallback of %s: %w", slot.Name, err)
		}
	}
	return nil
}

// appendRow appends the model's inputs; an absent value is missing, NaN.
func (s *ScoreStage) appendRow(dst []float32, row *value.Row) []float32 {
	for _, slot := range s.Inputs {
		v := float32(math.NaN())
		if !slot.Type.Optional || row.Has(slot) {
			v = float32(row.AsNumber(slot))
		}
		dst = append(dst, v)
	}
	return dst
}

// call predicts the gathered rows and stores their scores.
func (w *worker) call(ctx context.Context, stage *Stage) error {
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
			s.store(stage.Name, it, b.scores[at*outputs:(at+1)*outputs])
		}
	}
	b.items, b.values = b.items[:0], b.values[:0]
	return err
}

// predict scores the gathered rows from lo to hi. When a call fails it is
// repeated by halves, so that one bad row costs its own dead letter and not its
// neighbours'.
func (w *worker) predict(ctx context.Context, stage *Stage, lo, hi int) error {
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

// store puts scores into their slots.
func (s *ScoreStage) store(stage string, it *item, scores []float32) {
	for i, slot := range s.Outputs {
		v := float64(scores[i])
		if math.IsNaN(v) || math.IsInf(v, 0) {
			it.fail(stage, fmt.Errorf("%s: %w", slot.Name, errNotFinite))
			return
		}
		it.row.SetNumber(slot, v)
	}
}

// feature reads a feature, adds to it, or both.
func (w *worker) feature(f *FeatureStage, it *item) error {
	set, cell := w.plan.sets()[f.set()], it.key.cells[f.set()]
	if f.Read && f.ReadFirst {
		w.readFeature(f, it)
	}
	if f.Add {
		wanted, err := holds(f.When, it.row)
		if err != nil {
			return err
		}
		if wanted {
			v := 0.0
			if f.Value != nil {
				if v, err = number(f.Value, it.row); err != nil {
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

func (w *worker) readFeature(f *FeatureStage, it *item) {
	set, cell := w.plan.sets()[f.set()], it.key.cells[f.set()]
	out := w.columns[:len(f.Columns)]
	set.Read(cell, f.Index, it.time, out)
	for i, slot := range f.Columns {
		it.row.SetNumber(slot, out[i])
	}
}
