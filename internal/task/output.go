package task

import (
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// output writes the records of the chunk in position order.
func (ch *chunk) output() error {
	fired := 0
	for i := range ch.items {
		it := &ch.items[i]
		fired = ch.firings.write(ch.building, fired, i, it.partition)
		from := len(ch.building.Outputs)
		if ch.plan.Copy != nil {
			ch.copy(it)
		}
		for _, writer := range ch.plan.writers {
			if op, ok := writer.(*operator.Emit); !ok {
				ch.writeOutputs(writer, it)
			} else if it.Emits>>op.Index&1 != 0 {
				ch.building.Emit(op, &it.Event)
			}
		}
		if ch.plan.Answers != nil {
			ch.building.answer(ch.plan, it)
		}
		if ch.plan.Returns != nil {
			ch.building.give(ch.plan.Returns, it)
		}
		if it.Outcome == operator.Diverted {
			ch.building.Aside(&it.Event)
		}
		if it.Failure != nil && !ch.plan.answers(it) {
			it.Failure.Resume = ch.words(it)
			ch.building.DeadLetter(&it.Event)
		}
		if ch.plan.Ends.Topic != "" && effects[it.Outcome].told {
			ch.building.End(&it.Event, from, it.late && ch.plan.Time.Late == operator.LateDrop)
		}
		if ch.options.Observe != nil && effects[it.Outcome].ended {
			ch.options.Observe(it.observed())
		}
		if it.group != nil && effects[it.Outcome].ended {
			if err := it.partition.groups.Release(it.group, it.Record.Offset, ch.building.EndMember(&it.Event)); err != nil {
				return err
			}
		}
	}
	ch.firings.reset()
	ch.metrics.Approximate.Add(uint64(ch.building.Approximate))
	ch.building.Approximate = 0
	return nil
}

// observed returns the event as observers see it.
func (it *item) observed() *Observed {
	o := &Observed{
		Record: it.Record, Row: it.Row, Time: operator.TimeOrZero(it.Time), Watermark: operator.TimeOrZero(it.Watermark),
		Late: it.late, Dropped: effects[it.Outcome].left, Collected: effects[it.Outcome].collected, Made: it.made(), Approximate: it.Approximate,
	}
	if it.Failure != nil {
		o.Stage, o.Err = it.Failure.Stage, it.Failure.Err
	}
	return o
}

// writeOutputs writes the records that an operator made for an event: by a function, or from
// elements of a list.
func (ch *chunk) writeOutputs(by operator.Operator, it *item) {
	for _, made := range it.Calls {
		if made.By != by {
			continue
		}
		err := ch.building.Call(made.Outputs, &it.Event, it.Row.Text(ch.plan.Meta.ID), made.Step, value.Text(it.Record.Key), it.Time)
		if err != nil && it.Failure == nil {
			kind, _ := by.Label()
			it.fail(kind, err)
		}
	}
}
