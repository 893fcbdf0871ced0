package task

import (
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// output makes the records of the chunk in position order.
func (w *worker) output() error {
	fired := 0
	for i := range w.items {
		it := &w.items[i]
		fired = w.writeFirings(fired, i, it)
		from := len(w.step.Outputs)
		if w.plan.Copy != nil {
			w.copy(it)
		}
		for _, writer := range w.plan.writers {
			switch op := writer.(type) {
			case *operator.Call:
				w.writeOutputs(op, it)
			case *operator.Emit:
				if it.Emits>>op.Index&1 != 0 {
					w.step.Emit(op, &it.Event)
				}
			}
		}
		if it.Outcome == operator.Diverted {
			w.step.Aside(&it.Event)
		}
		if it.Failure != nil {
			it.Failure.Resume = w.words(it)
			w.step.DeadLetter(&it.Event)
		}
		if w.plan.Ends.Topic != "" && effects[it.Outcome].told {
			w.step.End(&it.Event, from, it.late && w.plan.Time.Late == operator.LateDrop)
		}
		if w.options.Observe != nil && effects[it.Outcome].ended && it.group == nil {
			w.options.Observe(it.observed())
		}
		if it.group != nil && effects[it.Outcome].ended {
			if err := it.partition.groups.Release(it.group, it.Record.Offset, w.step.EndMember(&it.Event)); err != nil {
				return err
			}
		}
	}
	clear(w.firings)
	w.firings = w.firings[:0]
	w.metrics.Approximate.Add(uint64(w.step.Approximate))
	w.step.Approximate = 0
	return nil
}

// observed is what is told of an event.
func (it *item) observed() *Observed {
	o := &Observed{
		Record: it.Record, Row: it.Row, Time: operator.TimeOrZero(it.Time), Watermark: operator.TimeOrZero(it.Watermark),
		Late: it.late, Dropped: effects[it.Outcome].left, Approximate: it.Approximate,
	}
	if it.Failure != nil {
		o.Stage, o.Err = it.Failure.Stage, it.Failure.Err
	}
	return o
}

// writeOutputs makes the records that a function wrote for an event.
func (w *worker) writeOutputs(c *operator.Call, it *item) {
	for _, made := range it.Calls {
		if made.Call != c {
			continue
		}
		if err := w.step.Call(made.Outputs, &it.Event, it.Row.Text(w.plan.Meta.ID), c.As, value.Text(it.Record.Key), it.Time); err != nil && it.Failure == nil {
			it.fail("call", err)
		}
	}
}
