package task

import (
	"context"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/udf"
)

// scoreScratch holds the rows of the calls of one stage.
type scoreScratch struct {
	batch.Gather
	items    []int32            // of the rows
	failures []operator.Failure // of Failed, where the model has a Calling
}

// scoreStage calls the stage's model for the active items, in calls of at most
// Size rows. The rows of several partitions share calls, which is safe because
// a model's score of a row depends on that row alone.
func (w *worker) scoreStage(ctx context.Context, stage *operator.Stage, at int) error {
	s := stage.Score
	b := &w.score
	numbers, texts, _ := s.Columns()
	b.Begin(numbers, texts)
	for _, i := range w.active {
		it := &w.items[i]
		if !it.alive() || !it.takes(stage) {
			continue
		}
		if wanted, err := operator.Holds(s.When, it.Row); err != nil {
			it.failAt(stage, err)
			continue
		} else if !wanted {
			if err := s.Skip(it.Row); err != nil {
				it.failAt(stage, err)
			}
			continue
		}
		if s.Async {
			if err := w.park(it, async.Head{Stage: at}, nil); err != nil {
				return err
			}
			continue
		}
		var kept *udf.Keyed
		if s.State != nil {
			state, err := w.fire(it.partition, it.key, s.State, it.index, it.Watermark)
			if err != nil {
				return err
			}
			kept = state.Keyed
		}
		if err := s.AppendRow(&b.Rows, it.Row, kept); err != nil {
			if err := w.giveUp(stage, it, err); err != nil {
				return err
			}
			continue
		}
		b.items = append(b.items, i)
		if len(b.items) == s.Size && !s.ByLength {
			if err := w.callModel(ctx, stage, at); err != nil {
				return err
			}
		}
	}
	return w.callModel(ctx, stage, at)
}

// callModel predicts the gathered rows, and stores their scores.
func (w *worker) callModel(ctx context.Context, stage *operator.Stage, at int) error {
	s, b := stage.Score, &w.score
	if len(b.items) == 0 {
		return nil
	}
	numbers, texts, outputs := s.Columns()
	defer func() {
		b.items = b.items[:0]
		b.Begin(numbers, texts)
	}()
	start := time.Now()
	called, err := w.predict(ctx, s, outputs)
	if s.Row == nil { // what is looked up is part of the features, and counts itself
		w.spent[observe.Model] += time.Since(start)
		w.metrics.ModelCalls.Add(uint64(b.Calls))
		w.metrics.ModelRows.Add(uint64(b.Called))
	}
	switch {
	case !called:
		return w.refused(stage, at, b.items)
	case err != nil:
		return err
	}
	if !s.Shared && s.Row == nil { // it counts itself
		w.metrics.ModelFull.Add(uint64(len(b.items) / s.Size))
		if len(b.items)%s.Size > 0 {
			w.metrics.ModelIdle.Add(1) // nothing more is waiting
		}
	}
	for i, f := range b.Failed {
		it, err := &w.items[b.items[f.Row]], fmt.Errorf("%s: %w", s.Name, f.Err)
		if err = w.unscored(stage, at, it, err, b.failures[min(i, len(b.failures)):]); err != nil {
			return err
		}
	}
	for at, i := range b.items {
		it, answer := &w.items[i], b.Answer(at)
		if !it.alive() {
			continue
		}
		if err := s.Store(it.Row, answer); err != nil {
			if err := w.giveUp(stage, it, err); err != nil {
				return err
			}
		} else if s.State != nil {
			state, err := it.partition.keys.Call(it.key, s.State)
			if err != nil {
				return err
			}
			w.keep(it.partition, it.key, state, s.Keep(answer.Scores, state.Keyed, it.Time+w.plan.Keep.Microseconds(), int64(it.Record.Offset)))
		}
	}
	return nil
}

// predict calls a model for the gathered rows, unless its endpoint takes no calls.
// The error is ctx's.
func (w *worker) predict(ctx context.Context, s *operator.Score, outputs int) (called bool, err error) {
	b, c := &w.score, s.Calling
	if b.failures = b.failures[:0]; c == nil {
		return true, b.Run(ctx, s.Model, outputs, s.Size, s.ByLength)
	}
	// A model that is out of order may hang: whether it works again is tried off the
	// loop, unless nothing is parked that it could be tried with.
	if c.Open != operator.OpenFallback && !c.Endpoint.Breaker.Steady() {
		return false, nil
	}
	admitted, ok := c.Place(ctx, w.desk.Calling())
	if !ok {
		return false, nil
	}
	defer func() { c.Endpoint.End(time.Now(), admitted) }()
	timed, cancel := c.InPlace(ctx, s.Model.Info(), len(b.items))
	defer cancel()
	if err = b.Run(timed, s.Model, outputs, s.Size, s.ByLength); err == nil && len(b.Failed) == 0 {
		err = c.Late(timed)
	}
	if err != nil {
		b.Failed = b.Failed[:0]
		for row := range b.items {
			b.Failed = append(b.Failed, batch.Failed{Row: row, Err: err})
		}
	}
	for _, f := range b.Failed {
		b.failures = append(b.failures, operator.Failure{Err: f.Err})
	}
	c.Endpoint.Observe(time.Now(), admitted, c.Judge(admitted, len(b.items)-len(b.Failed), b.failures))
	return true, nil
}
