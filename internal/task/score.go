package task

import (
	"context"
	"fmt"

	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// scoreScratch holds the rows of the calls of one operator.
type scoreScratch struct {
	batch.Gather
	items    []int32            // items of the rows
	failures []operator.Failure // failures of the rows in Failed, if the model has a Calling
}

// ask calls the model of an operator for the active items, in calls of at most Size rows. Rows of
// several partitions share calls. This is safe because the answer to a row depends only on that
// row.
func (ch *chunk) ask(ctx context.Context, op operator.Batched, stage *operator.Placed) error {
	how, b := op.How(), &ch.score
	numbers, texts, _ := op.Columns()
	b.Begin(numbers, texts)
	for _, i := range ch.active {
		it := &ch.items[i]
		if !it.Alive() || !it.takes(stage) {
			continue
		}
		if wanted, err := op.Wants(&it.Event.Event); err != nil {
			it.failAt(stage, err)
			continue
		} else if !wanted {
			if err := op.Skip(&it.Event.Event); err != nil {
				it.failAt(stage, err)
			}
			continue
		}
		if how.Async {
			if err := ch.enqueue(it, async.Head{Stage: stage.At - 1}, nil); err != nil {
				return err
			}
			continue
		}
		if err := op.Append(&b.Rows, &it.Event.Event); err != nil {
			if err := ch.giveUp(stage, it, err); err != nil {
				return err
			}
			continue
		}
		b.items = append(b.items, i)
		if len(b.items) == how.Size && !how.ByLength {
			if err := ch.callModel(ctx, op, stage); err != nil {
				return err
			}
		}
	}
	return ch.callModel(ctx, op, stage)
}

// callModel calls the model for the gathered rows, and stores the answers.
func (ch *chunk) callModel(ctx context.Context, op operator.Batched, stage *operator.Placed) error {
	how, b := op.How(), &ch.score
	if len(b.items) == 0 {
		return nil
	}
	numbers, texts, outputs := op.Columns()
	defer func() {
		b.items = b.items[:0]
		b.Begin(numbers, texts)
	}()
	start := ch.options.Clock.Now()
	called, err := ch.predict(ctx, how, outputs)
	if !how.Finds { // lookups count as feature time, and count themselves
		ch.spent[observe.Model] += ch.options.Clock.Now().Sub(start)
		ch.metrics.ModelCalls.Add(uint64(b.Calls))
		ch.metrics.ModelRows.Add(uint64(b.Called))
	}
	switch {
	case !called:
		return ch.refused(op, stage, b.items)
	case err != nil:
		return err
	}
	if !how.Shared && !how.Finds { // a shared model counts its own calls
		ch.metrics.ModelFull.Add(uint64(len(b.items) / how.Size))
		if len(b.items)%how.Size > 0 {
			ch.metrics.ModelIdle.Add(1) // no more rows are waiting
		}
	}
	for i, f := range b.Failed {
		it, err := &ch.items[b.items[f.Row]], fmt.Errorf("%s: %w", how.Name, f.Err)
		if err = ch.unscored(stage, it, err, b.failures[min(i, len(b.failures)):]); err != nil {
			return err
		}
	}
	for at, i := range b.items {
		it := &ch.items[i]
		if !it.Alive() {
			continue
		}
		if err := op.Store(&it.Event.Event, b.Answer(at)); err != nil {
			if err := ch.giveUp(stage, it, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// predict calls a model for the gathered rows. called is false if the endpoint takes no calls now.
// The error is that of ctx.
func (ch *chunk) predict(ctx context.Context, how *operator.Batch, outputs int) (called bool, err error) {
	b, c := &ch.score, how.Calling
	if b.failures = b.failures[:0]; c == nil {
		return true, b.Run(ctx, how.Model, outputs, how.Size, how.ByLength)
	}
	// A failing model may hang. The dispatcher tests outside the loop whether it works again, using
	// queued events. With OpenFallback no event is queued, so the loop itself makes the test call.
	if c.Open != operator.OpenFallback && !c.Endpoint.Breaker.Steady() {
		return false, nil
	}
	admitted, ok := c.Place(ctx, ch.options.Clock.Now(), ch.dispatcher.Calling())
	if !ok {
		return false, nil
	}
	defer func() { c.Endpoint.End(ch.options.Clock.Now(), admitted) }()
	timed, cancel := c.InPlace(ctx, how.Model.Info(), len(b.items))
	defer cancel()
	if err = b.Run(timed, how.Model, outputs, how.Size, how.ByLength); err == nil && len(b.Failed) == 0 {
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
	c.Endpoint.Observe(ch.options.Clock.Now(), admitted, c.Judge(admitted, len(b.items)-len(b.Failed), b.failures))
	return true, nil
}
