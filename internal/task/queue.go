package task

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/internal/task/keyed"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

// An event that cannot be finished now enters the async queue:
//
//  1. The event becomes state in the transaction that moves past it: its record, its row, and its
//     place among the operators. Once that is durable, the dispatcher calls the model outside the
//     loop, when the event is due and the endpoint takes calls.
//  2. The result of the call is input of a later transaction. It continues with the event at the
//     next operator, and deletes the entry or queues the event again.
//  3. After a crash, the dispatcher repeats the calls of queued events. The result of a call is
//     ignored if its event is no longer queued or its partition was revoked.

// enqueue queues an event, to resume it at an operator. err is the error of the call, or nil if no
// call was tried. enqueue returns only fatal errors. If the dispatcher refuses the event, enqueue
// gives the event up.
func (ch *chunk) enqueue(it *item, head async.Head, err error) error {
	head.Client, head.Late = header.Get(it.Record, header.ClientEvent), it.late
	head.Time, head.Watermark = it.Time, it.Watermark
	head.Since, head.Answered = ch.now.UnixMicro(), it.Answered || ch.building.Answers(it.Emits, nil) || slices.ContainsFunc(it.Calls, func(c operator.Called) bool { return ch.building.Answers(0, c.Outputs) })
	if it.resumed != nil {
		head = it.resumed.Again(head)
	} else if refused := ch.dispatcher.Class(&head, it.Row); refused != nil {
		return ch.giveUp(&ch.plan.Stages[head.Stage], it, refused)
	}
	members, fatal := it.partition.groups.Detach(it.group, it.Row)
	if fatal != nil {
		return fatal
	}
	if it.joined != nil {
		members = it.joined.Ref()
	}
	ch.rowBuf = async.AppendRow(ch.rowBuf[:0], it.Row, ch.plan.Schema)
	e := &async.Entry{
		Head: head, Step: ch.plan.resumption.labels[head.Stage], Record: *it.Record, Ended: uint8(it.ended),
		Approximate: it.Approximate, Fallback: it.Fallback, Row: ch.rowBuf, Members: members,
	}
	if err != nil {
		e.Error = err.Error()
	}
	it.Become(operator.Queued)
	ch.store(it.partition.queue, e)
	return nil
}

// store writes an entry to the state of the transaction. A nil entry only marks p as changed.
func (tx *committer) store(p *async.Partition, e *async.Entry) {
	if tx.building.touch(tx.partitions[p.ID]); e != nil {
		tx.write(p, e)
		p.Add(int64(e.Record.Offset), e.Record.Key, e.Head, tx.building.number)
		tx.metrics.Enqueued.Add(1)
	}
}

func (tx *committer) write(p *async.Partition, e *async.Entry) {
	at := len(tx.building.Bytes)
	tx.building.Bytes = e.Append(tx.building.Bytes)
	tx.building.Change(p.ID, statekey.AppendQueued(nil, int64(e.Record.Offset)), tx.building.Bytes[at:len(tx.building.Bytes):len(tx.building.Bytes)])
}

// queueBehind queues each event of the wave that follows a queued event of its key. An event that
// already ended waits there only so that its key records it in order.
func (ch *chunk) queueBehind() error {
	if !ch.plan.Ordered {
		return nil
	}
	for _, i := range ch.active {
		it := &ch.items[i]
		over := !it.Alive() && it.noted() && ch.plan.keys.Sets[1] != nil
		if !it.Alive() && !over || !it.partition.queue.Before(string(it.Record.Key), int64(it.Record.Offset)) {
			continue
		}
		if over {
			ch.noteLater(it)
		} else if err := ch.enqueue(it, async.Head{Stage: ch.plan.Waves, Behind: true}, nil); err != nil {
			return err
		}
	}
	return nil
}

// noteLater queues an ended event, so that its key records it after the earlier events of the key
// are finished. Until then the event may end state that these still count.
func (ch *chunk) noteLater(it *item) {
	p := it.partition
	e := &async.Entry{
		Head:   async.Head{Stage: ch.plan.Waves, Behind: true, Over: true, Time: it.Time, Watermark: it.Watermark, Since: ch.now.UnixMicro(), Class: control.LowClass},
		Record: stream.Record{Offset: it.Record.Offset, Key: it.Record.Key, Time: it.Record.Time},
		Step:   ch.plan.resumption.labels[ch.plan.Waves], Ended: uint8(it.ended),
	}
	it.over = true
	ch.building.touch(p)
	ch.write(p.queue, e)
	p.queue.Add(int64(e.Record.Offset), e.Record.Key, e.Head, ch.building.number)
}

// refused handles events while their model cannot be called. They get the fallback or are queued.
func (ch *chunk) refused(op operator.Batched, stage *operator.Placed, items []int32) error {
	for _, i := range items {
		if it := &ch.items[i]; op.How().Calling.Open == operator.OpenFallback {
			it.fallBack(op, stage)
		} else if err := ch.enqueue(it, async.Head{Stage: stage.At - 1}, nil); err != nil {
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

// unscored handles an event after its call failed: it retries later through the queue, or gives up.
// failures[0] is the failure of this event. Without a Calling, failures is empty.
func (ch *chunk) unscored(stage *operator.Placed, it *item, err error, failures []operator.Failure) error {
	c := stage.How().Calling
	if c == nil || c.Exhausted(err, failures[0].Attempts) {
		return ch.giveUp(stage, it, err)
	}
	due := ch.now.Add(c.Delay(it.Row.Text(ch.plan.Meta.ID), 1, err))
	if err := ch.enqueue(it, async.Head{Stage: stage.At - 1, Attempts: failures[0].Attempts, Due: due.UnixMicro()}, err); err != nil || it.Outcome != operator.Queued {
		return err
	}
	it.partition.queue.Failed(int64(it.Record.Offset), *failures[0].Outlier)
	return nil
}

// giveUp runs the on_failure steps of an operator. If they write nothing, the event becomes a dead
// letter. giveUp returns only fatal errors.
func (ch *chunk) giveUp(stage *operator.Placed, it *item, err error) error {
	if fatal := operator.FatalOf(err); fatal != nil {
		return fatal
	}
	emits, called := it.Emits, len(it.Calls)
	instead := stage.OnFailure()
	for i := range instead {
		if fatal := ch.run(&instead[i], it); fatal != nil {
			return fatal
		}
		if it.Failure != nil {
			err = fmt.Errorf("%w; on_failure then failed: %w", err, it.Failure.Err)
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

// tend resumes queued events as far as possible. It starts further calls unless the member is
// ending or stopped.
func (w *worker) tend(ctx context.Context, ending bool) error {
	if !w.plan.queues {
		return nil
	}
	w.now = w.options.Clock.Now()
	for _, part := range w.dispatcher.Parts() {
		w.partial(&part)
	}
	list, down, err := w.dispatcher.Next(w.now, w.building.number, ending || w.options.Abort.Stopped() != nil)
	w.down = down
	for len(list) > 0 && err == nil {
		n, dead := min(len(list), w.options.ChunkEvents), w.building.Dead
		err = w.resume(ctx, list[:n])
		if w.watchDead(0, w.building.Dead-dead); err == nil && w.full() {
			err = w.commit()
		}
		list = list[n:]
	}
	return err
}

// partial writes the text that a model has produced so far for a queued event. With the first part
// of an attempt it also stores that the attempt has begun. A part that is too large is dropped: the
// complete answer follows.
func (w *worker) partial(part *async.Part) {
	p, e := w.partitions[part.Partition.ID], part.Entry
	if w.building.touch(p); part.First {
		w.write(part.Partition, e)
	}
	event := output.Event{Event: operator.Event{Record: &e.Record, Row: part.Row, Time: e.Time, Watermark: e.Watermark}, Origin: &p.origin, Attempt: e.Shown, Source: w.copiedFrom(&e.Record)}
	made := w.plan.Stages[e.Stage].How().Partial.Output(part.Row, w.plan.Meta.ID, e.Shown, part.Text)
	_ = w.building.Call([]udf.Output{made}, &event, part.Row.Text(w.plan.Meta.ID), "", string(e.Record.Key), e.Time)
}

// resume computes the rest of queued events, as a chunk of its own.
func (ch *chunk) resume(ctx context.Context, list []async.Task) error {
	start := ch.options.Clock.Now()
	ch.serial++
	ch.items, ch.places = ch.items[:0], ch.places[:0]
	ch.spent = [len(observe.Phases)]time.Duration{}
	for _, m := range ch.plan.Shared {
		m.Enter()
		defer m.Leave()
	}
	for i := range list {
		t := &list[i]
		p, e := ch.partitions[t.Partition.ID], t.Entry
		members, joined := ch.plan.Groups.Attached(e.Members), ch.plan.Joins.Attached(e.Members)
		event := output.Event{
			Event: operator.Event{
				Record: &e.Record, Row: t.Row, Time: e.Time, Watermark: e.Watermark, Index: int32(i), Kept: p,
				Approximate: e.Approximate, Fallback: e.Fallback,
			},
			Origin: &p.origin, Attempts: e.Attempts, Answered: e.Answered,
		}
		ch.items = append(ch.items, item{Event: event, partition: p, ended: keyed.Ended(e.Ended), late: e.Late, resumed: t, group: members, joined: joined})
		it := &ch.items[i]
		it.Place = it.madeAt()
		it.Source = ch.copiedFrom(it.Record)
		tooLarge := ch.goOn(it, e.Stage)
		ch.building.touch(p)
		if !ch.plan.Stateless() {
			if err := ch.link(int32(i), it, nil); err != nil {
				return err
			}
		}
		if e.Over {
			it.Outcome = operator.Tick
			continue
		}
		stage := &ch.plan.Stages[e.Stage]
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
			if err := ch.giveUp(stage, it, t.Err); err != nil {
				return err
			}
		} else if t.Answered || t.Fallback {
			it.point.done = stage.At
		}
	}
	if err := ch.waves(ctx); err != nil {
		return err
	}
	made := ch.options.Clock.Now()
	if err := ch.output(); err != nil {
		return err
	}
	ch.measure(start, made)
	ch.dequeue()
	return nil
}

// dequeue removes the chunk's finished events from the async queue.
func (ch *chunk) dequeue() {
	ch.building.again += len(ch.items)
	for i := range ch.items {
		it := &ch.items[i]
		if it.Outcome == operator.Queued {
			continue
		}
		p, offset := it.partition, int64(it.Record.Offset)
		ch.building.Change(p.id, statekey.AppendQueued(nil, offset), nil)
		if p.queue.Remove(offset); p.queue.HasReady() {
			ch.member.Wake()
		}
		if ch.plan.Ordered && it.key != nil && !ch.plan.keys.Featureless() && !p.queue.Holds(it.key.Name) {
			p.keys.LookAgain(it.key)
			p.overdue = p.overdue || p.keys.Overdue(p.watermark(ch.plan.Time.Lateness))
		}
	}
}

// holdBack stops reading in three cases: the async queue is full, a required endpoint is down, or
// too many events become dead letters.
func (w *worker) holdBack() {
	if w.plan.queues {
		now := w.options.Clock.Now()
		w.gate.Observe(now, w.dispatcher.Len())
		w.dispatcher.Measure(w.metrics, w.gate.State(now), w.down)
	}
	act := w.member.Resume
	stop := w.down || w.gate.Throttled() || w.options.Abort.Stopped() != nil
	if stop {
		act = w.member.Pause
	}
	if stop != w.held {
		act(slices.Collect(maps.Keys(w.partitions))...)
		for _, p := range w.partitions {
			if p.source != nil {
				p.source.still = false
			}
		}
	}
	w.held = stop
}

// watchDead counts computed events and dead letters for Options.Abort.
func (w *worker) watchDead(events, dead int) {
	if w.options.Abort.Count(w.now, events, dead) {
		w.options.Logger.Error("pipeline stopped: too many of its events become dead letters", "pipeline", w.plan.Name)
	}
}
