package task

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/internal/task/keyed"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/udf"
)

// What cannot be finished now is parked:
//
//  1. The event becomes state in the step that moves past it: its record, its
//     row, its place among the stages. Once that is durable its model is called
//     off the loop, when it is due and its endpoint takes calls.
//  2. What the call brought is input of a later step, which goes on with the
//     event at the next stage, and deletes what was kept or parks it again.
//  3. After a crash what is parked is called for again. An event that is parked
//     no more when its call ends, or whose partition went, is left alone.

// park keeps an event, to go on with it at a stage. err is why, nil where it was
// not tried. The error returned is not the event's, which may be given up instead.
func (w *worker) park(it *item, head async.Head, err error) error {
	head.Client, head.Late = header.Get(it.Record, header.ClientEvent), it.late
	head.Time, head.Watermark = it.Time, it.Watermark
	head.Since, head.Answered = w.now.UnixMicro(), it.Answered || w.step.Answers(it.Emits, nil) || slices.ContainsFunc(it.Calls, func(c operator.Called) bool { return w.step.Answers(0, c.Outputs) })
	if it.resumed != nil {
		head = it.resumed.Again(head)
	} else if refused := w.desk.Class(&head, it.Row); refused != nil {
		return w.giveUp(&w.plan.Stages[head.Stage], it, refused)
	}
	members, fatal := it.partition.groups.Detach(it.group, it.Row)
	if fatal != nil {
		return fatal
	}
	w.rowBuf = async.AppendRow(w.rowBuf[:0], it.Row, w.plan.Schema)
	e := &async.Entry{
		Head: head, Step: w.plan.resumption.Labels()[head.Stage], Record: *it.Record, Ended: uint8(it.ended),
		Approximate: it.Approximate, Fallback: it.Fallback, Row: w.rowBuf, Members: members,
	}
	if err != nil {
		e.Error = err.Error()
	}
	it.Become(operator.Queued)
	w.store(it.partition.parked, e)
	return nil
}

// store makes an event state of the step; nil is that the step moves p.
func (w *worker) store(p *async.Partition, e *async.Entry) {
	if w.step.touch(w.partitions[p.ID]); e != nil {
		w.write(p, e)
		p.Park(int64(e.Record.Offset), e.Record.Key, e.Head, w.step.number)
		w.metrics.Parkings.Add(1)
	}
}

func (w *worker) write(p *async.Partition, e *async.Entry) {
	at := len(w.step.Bytes)
	w.step.Bytes = e.Append(w.step.Bytes)
	w.step.Change(p.ID, statekey.AppendParked(nil, int64(e.Record.Offset)), w.step.Bytes[at:len(w.step.Bytes):len(w.step.Bytes)])
}

// parkedBehind parks the events of the wave that have an earlier one of their key
// parked before them.
func (w *worker) parkedBehind() error {
	if !w.plan.Ordered {
		return nil
	}
	for _, i := range w.active {
		it := &w.items[i]
		if it.Alive() && it.partition.parked.Before(string(it.Record.Key), int64(it.Record.Offset)) {
			if err := w.park(it, async.Head{Stage: w.plan.Waves, Behind: true}, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// refused is what becomes of events whose score cannot be asked for.
func (w *worker) refused(op operator.Batched, stage *operator.Placed, items []int32) error {
	for _, i := range items {
		if it := &w.items[i]; op.How().Calling.Open == operator.OpenFallback {
			it.fallBack(op, stage)
		} else if err := w.park(it, async.Head{Stage: stage.At - 1}, nil); err != nil {
			return err
		}
	}
	return nil
}

func (it *item) fallBack(op operator.Batched, stage *operator.Placed) {
	it.Fallback = append(it.Fallback, op.How().Name)
	if err := op.Skip(&it.Event.Event); err != nil {
		it.failAt(stage, err)
	}
}

// unscored handles an event after its call failed. The first of failures is its own;
// without a Calling failures is empty.
func (w *worker) unscored(stage *operator.Placed, it *item, err error, failures []operator.Failure) error {
	c := stage.How().Calling
	if c == nil || c.Exhausted(err, failures[0].Attempts) {
		return w.giveUp(stage, it, err)
	}
	due := w.now.Add(c.Delay(it.Row.Text(w.plan.Meta.ID), 1, err))
	if err := w.park(it, async.Head{Stage: stage.At - 1, Attempts: failures[0].Attempts, Due: due.UnixMicro()}, err); err != nil || it.Outcome != operator.Queued {
		return err
	}
	it.partition.parked.Failed(int64(it.Record.Offset), *failures[0].Outlier)
	return nil
}

// giveUp makes the event a dead letter, unless what is done about that emits. The
// error returned is not the event's.
func (w *worker) giveUp(stage *operator.Placed, it *item, err error) error {
	if fatal := operator.FatalOf(err); fatal != nil {
		return fatal
	}
	emits, called := it.Emits, len(it.Calls)
	instead := stage.OnFailure()
	for i := range instead {
		if fatal := w.run(&instead[i], it); fatal != nil {
			return fatal
		}
		if it.Failure != nil {
			err = fmt.Errorf("%w; and then in on_failure: %w", err, it.Failure.Err)
			break
		}
	}
	if it.Failure == nil && (it.Emits != emits || len(it.Calls) > called) {
		it.Become(operator.Recovered)
		return nil
	}
	it.failAt(stage, err)
	return nil
}

// tend goes on with parked events as far as it can, and calls for others unless
// the session ends or stands still.
func (w *worker) tend(ctx context.Context, ending bool) error {
	if !w.plan.parks {
		return nil
	}
	w.now = w.options.Clock.Now()
	for _, part := range w.desk.Parts() {
		w.partial(&part)
	}
	list, down, err := w.desk.Next(w.now, w.step.number, ending || w.options.Abort.Stopped() != nil)
	w.down = down
	for len(list) > 0 && err == nil {
		n, dead := min(len(list), w.options.ChunkEvents), w.step.Dead
		err = w.resume(ctx, list[:n])
		if w.watchDead(0, w.step.Dead-dead); err == nil && w.full() {
			err = w.commit()
		}
		list = list[n:]
	}
	return err
}

// partial writes what a model has said so far of a parked event, and of the first part
// that its attempt has begun. What is too large is left out: the whole comes.
func (w *worker) partial(part *async.Part) {
	p, e := w.partitions[part.Partition.ID], part.Entry
	if w.step.touch(p); part.First {
		w.write(part.Partition, e)
	}
	event := output.Event{Event: operator.Event{Record: &e.Record, Row: part.Row, Time: e.Time, Watermark: e.Watermark}, Origin: &p.origin, Attempt: e.Shown}
	made := w.plan.Stages[e.Stage].How().Partial.Output(part.Row, w.plan.Meta.ID, e.Shown, part.Text)
	_ = w.step.Call([]udf.Output{made}, &event, part.Row.Text(w.plan.Meta.ID), "", string(e.Record.Key), e.Time)
}

// resume computes the rest of parked events, as a chunk of its own.
func (w *worker) resume(ctx context.Context, list []async.Task) error {
	start := w.options.Clock.Now()
	w.chunk++
	w.items = w.items[:0]
	w.spent = [len(observe.Phases)]time.Duration{}
	for _, m := range w.plan.Shared {
		m.Enter()
		defer m.Leave()
	}
	for i := range list {
		t := &list[i]
		p, e := w.partitions[t.Partition.ID], t.Entry
		members := w.plan.Groups.Attached(e.Members, p.id)
		event := output.Event{
			Event: operator.Event{
				Record: &e.Record, Row: t.Row, Time: e.Time, Watermark: e.Watermark, Index: int32(i), Kept: p,
				Approximate: e.Approximate, Fallback: e.Fallback,
			},
			Origin: &p.origin, Attempts: e.Attempts, Answered: e.Answered, Place: members.Place(),
		}
		w.items = append(w.items, item{Event: event, partition: p, ended: keyed.Ended(e.Ended), late: e.Late, resumed: t, group: members})
		it := &w.items[i]
		tooLarge := w.goOn(it, e.Stage)
		w.step.touch(p)
		if !w.plan.Stateless() {
			if err := w.link(int32(i), it, nil); err != nil {
				return err
			}
		}
		stage := &w.plan.Stages[e.Stage]
		if t.Cancelled {
			it.Become(operator.Cancelled)
		}
		switch {
		case tooLarge != nil:
			t.Err = tooLarge
		case t.Answered:
			t.Err = stage.Operator.(operator.Batched).Store(&it.Event.Event, t.Answer)
		case t.Fallback:
			it.fallBack(stage.Operator.(operator.Batched), stage)
		}
		if t.Err != nil {
			if err := w.giveUp(stage, it, t.Err); err != nil {
				return err
			}
		} else if t.Answered || t.Fallback {
			it.point.Done = stage.At
		}
	}
	if err := w.waves(ctx); err != nil {
		return err
	}
	made := w.options.Clock.Now()
	if err := w.output(); err != nil {
		return err
	}
	w.measure(start, made)
	w.unpark()
	return nil
}

// unpark ends the parking of the chunk's events that are through.
func (w *worker) unpark() {
	w.step.again += len(w.items)
	for i := range w.items {
		it := &w.items[i]
		if !effects[it.Outcome].ended {
			continue
		}
		p, offset := it.partition, int64(it.Record.Offset)
		w.step.Change(p.id, statekey.AppendParked(nil, offset), nil)
		if p.parked.Remove(offset); p.parked.HasReady() {
			w.session.Wake()
		}
		if w.plan.Ordered && it.key != nil && !w.plan.keys.Featureless() && !p.parked.Holds(it.key.Name) {
			p.keys.LookAgain(it.key)
			p.overdue = p.overdue || p.keys.Overdue(p.watermark(w.plan.Time.Lateness))
		}
	}
}

// holdBack stops reading where as much is parked as may be, an endpoint that is
// down is to be waited for, or too much of what is read becomes dead letters.
func (w *worker) holdBack() {
	if w.plan.parks {
		now := w.options.Clock.Now()
		w.gate.Observe(now, w.desk.Len())
		w.desk.Measure(w.metrics, w.gate.State(now), w.down)
	}
	act := w.session.Resume
	stop := w.down || w.gate.Throttled() || w.options.Abort.Stopped() != nil
	if stop {
		act = w.session.Pause
	}
	if stop != w.held {
		act(slices.Collect(maps.Keys(w.partitions))...)
	}
	w.held = stop
}

// watchDead notes how many of the events that were computed are dead letters.
func (w *worker) watchDead(events, dead int) {
	if w.options.Abort.Count(w.now, events, dead) {
		w.options.Logger.Error("pipeline stopped: too many of its events become dead letters", "pipeline", w.plan.Name)
	}
}
