package task

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/internal/task/group"
	"github.com/afterbay/afterbay/internal/task/keyed"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/internal/task/redrive"
	"github.com/afterbay/afterbay/internal/task/watermark"
	"github.com/afterbay/afterbay/stream"
)

// item is one event of the chunk being computed.
type item struct {
	output.Event
	partition *partition
	source    int           // in the plan's Sources
	key       *keyed.Key    // nil where the pipeline keeps no state, or the event died before
	ended     keyed.Ended   // what the key's silence before this event ended
	next      int32         // next item of the same key; 0 is none, since an item never follows itself
	late      bool          // before the watermark, whatever became of it
	announce  bool          // the source's watermark to all of the copies' partitions
	group     *group.Ended  // that it is made of; nil for an event of the log
	resumed   *async.Task   // what it was when it was parked; nil for a record that was read
	point     redrive.Point // where it goes on; its beginning for one that was neither parked nor sent back
}

func (it *item) fail(stage string, err error) {
	it.Failure = &output.Failure{Stage: stage, Err: err}
	it.Become(operator.Failed)
}

// failAt makes the event a dead letter of a stage.
func (it *item) failAt(s *operator.Placed, err error) {
	it.Failure = &output.Failure{Stage: s.Kind(), At: s.At, Err: err}
	it.Become(operator.Failed)
}

// takes reports whether a stage is for the event.
func (it *item) takes(s *operator.Placed) bool { return it.point.Takes(s) && s.Guard.Holds(it.Row) }

// compute moves the step being made past the first records, as many as it
// takes at once, and returns how many.
func (w *worker) compute(ctx context.Context, records []stream.Record) (int, error) {
	start := w.options.Clock.Now()
	w.now = start
	w.spent = [len(observe.Phases)]time.Duration{}
	for _, m := range w.plan.Shared {
		m.Enter() // rows of this chunk are on their way to its calls
		defer m.Leave()
	}
	n, err := w.early(records)
	if err != nil {
		return 0, err
	}
	w.fault("model")
	if err := w.waves(ctx); err != nil {
		return 0, err
	}
	limit := math.MaxInt
	if len(w.items) == 1 && w.items[0].Outcome == operator.Tick {
		limit = firingsMax
	}
	if err := w.fireRest(limit); err != nil {
		return 0, err
	}
	made := w.options.Clock.Now()
	if err := errors.Join(w.output(), w.expire()); err != nil {
		return 0, err
	}
	w.measure(start, made)
	w.step.events += n
	return n, nil
}

// measure notes the phases of the chunk's events up to the commit. Those that are
// parked have yet to come through.
func (w *worker) measure(start, made time.Time) {
	end, n := w.options.Clock.Now(), 0
	for i := range w.items {
		if it := &w.items[i]; it.read() && it.timed() {
			n++
		}
	}
	w.step.way.Chunk(w.metrics, observe.Passage{
		Begun: start, Feature: made.Sub(start) - w.spent[observe.Model], Model: w.spent[observe.Model], Emit: end.Sub(made), Made: end,
	}, n)
	for i := range w.items {
		it := &w.items[i]
		w.step.way.Case = w.plan.Cases.Case(it.Row)
		switch {
		case !it.timed():
		case it.resumed != nil:
			w.step.way.Parked(w.metrics, it.Record, time.UnixMicro(it.resumed.Entry.Since))
		case it.group == nil:
			w.step.way.Event(w.metrics, it.Record)
		}
		w.count(&w.items[i])
	}
}

// read reports whether the event was read for this chunk.
func (it *item) read() bool { return it.resumed == nil && it.group == nil }

// timed reports whether the chunk brought the event, or a notice, to its end.
func (it *item) timed() bool { return it.Outcome != operator.Queued && it.Outcome != operator.Tick }

func (w *worker) count(it *item) {
	if it.late && it.resumed == nil {
		w.step.late++
	}
	w.step.counts[effects[it.Outcome].counted]++
}

// early takes records in log order through decoding, event time and the stages
// before the waves. Where features read predictions it stops before a key's
// events need more than KeyWaves waves: a hot key delays but does not block.
func (w *worker) early(records []stream.Record) (int, error) {
	w.chunk++
	w.items = w.items[:0]
	var p *partition
	size := 0
	records = records[:min(len(records), w.options.ChunkEvents)]
	for i := range records {
		if i%warmKeys == 0 {
			w.warm(records[i:min(len(records), i+warmKeys)])
		}
		r := &records[i]
		if p == nil || p.id != r.Partition {
			if p = w.partitions[r.Partition]; p == nil {
				return 0, fmt.Errorf("record of %v, which is not assigned", r.Partition)
			}
		}
		k := w.ahead[i%warmKeys]
		if k == nil {
			k = p.keys.Cached(r.Key)
		}
		size += len(r.Value)
		if i > 0 && size > chunkBytesMax || k != nil && w.plan.Feedback && k.Chunk == w.chunk && int(k.Count) >= w.options.KeyWaves {
			return i, nil
		}
		w.items = append(w.items, item{partition: p, Event: output.Event{
			Event:  operator.Event{Record: r, Row: &w.rows[i], Time: never, Watermark: never, Index: int32(len(w.items)), Kept: p},
			Origin: &p.origin,
		}})
		it := &w.items[len(w.items)-1]
		it.Row.Reset()
		newest := p.newest
		w.admit(it)
		p.moved = p.moved || p.newest != newest
		w.step.touch(p)
		if p.groups.Due(it.Watermark) {
			if done, err := w.endGroups(p); err != nil || !done {
				return i, err
			}
			it = &w.items[len(w.items)-1]
		}
		if w.plan.keys.Keyed && it.Watermark != never {
			if p.fired != int64(r.Offset) && p.keys.Awaits(it.Watermark, firingsMax) {
				w.stopAt(it)
				return i, nil
			}
			w.mark(p, it)
		}
		if it.Outcome == operator.Tick {
			return i, nil
		}
		p.next, p.heard, p.idle = r.Offset+1, w.now, false
		if it.Alive() {
			w.judge(it)
		}
		if it.Alive() && !w.plan.Stateless() {
			if err := w.link(it.Index, it, k); err != nil {
				return 0, err
			}
		}
		if err := w.stages(it); err != nil {
			return 0, err
		}
		composed, err := w.compose(p, it.Watermark, r.Offset)
		if size += composed; err != nil {
			return 0, err
		}
	}
	return len(records), nil
}

// stages runs those before the waves.
func (w *worker) stages(it *item) error {
	for s := 0; s < w.plan.Waves && it.Alive(); s++ {
		if err := w.run(&w.plan.Stages[s], it); err != nil {
			return err
		}
	}
	return nil
}

// warmKeys are looked at ahead: a few times what a processor has loads under
// way, and few enough that their cells stay in its cache.
const warmKeys = 128

// warm looks up the keys of the events to come, and reads of their cells. What
// is kept of many keys is nowhere near each other: to wait for memory for all of
// them at once, rather than one by one, saves much of what an event costs.
func (w *worker) warm(records []stream.Record) {
	var p *partition
	for i := range records {
		r := &records[i]
		if p == nil || p.id != r.Partition {
			p = w.partitions[r.Partition]
		}
		w.ahead[i] = nil
		if p != nil {
			w.ahead[i] = p.keys.Cached(r.Key)
		}
	}
	w.warmed += keyed.Warm(w.ahead[:len(records)])
}

// stopAt ends the chunk before an event at which very many timers are due. As
// the first of a chunk the event only serves as their position: nothing is done
// about it yet.
func (w *worker) stopAt(it *item) {
	if it.Index > 0 {
		w.items = w.items[:it.Index]
		return
	}
	it.Outcome = operator.Tick
	w.mark(it.partition, it)
}

// chunkBytesMax bounds the input of a chunk.
const chunkBytesMax = 1 << 20

// admit decodes the event and finds its key, time and watermark.
func (w *worker) admit(it *item) {
	r, plan, p := it.Record, w.plan, it.partition
	if w.idling {
		it.Watermark, it.Outcome = p.watermark(plan.Time.Lateness), operator.Tick
		return
	}
	if len(r.Headers) > 0 && !w.returned(it) || plan.Sources != nil && !w.hear(it) {
		return
	}
	if len(r.Value) > plan.MaxBytes && !it.point.Judged {
		it.fail("decode", fmt.Errorf("value of %d bytes is over max_bytes of %d", len(r.Value), plan.MaxBytes))
		return
	}
	if err := w.scanners[it.source].Scan(r.Value, it.Row); err != nil {
		it.fail("decode", err)
		return
	}
	if plan.Copy == nil && plan.Sources == nil {
		w.keyBuf = it.Row.AppendKey(w.keyBuf[:0], plan.Key)
		if string(w.keyBuf) != string(r.Key) {
			it.fail("key", fmt.Errorf("field %s is %q but the record was written with key %q: produce with --key %s, or set input.repartition", plan.Key.Name, w.keyBuf, r.Key, plan.Key.Name))
			return
		}
	}
	t, err := r.Time.UnixMicro(), error(nil)
	if !it.point.Judged {
		t, err = plan.Time.Of(it.Row, r.Time)
	}
	if err != nil {
		it.fail("time", err)
		return
	}
	it.Time = t
	if plan.Sources == nil {
		before := p.watermark(plan.Time.Lateness)
		p.newest = max(p.newest, t)
		it.Watermark = p.watermark(plan.Time.Lateness)
		it.announce = plan.Copy != nil && watermark.Passes(before, it.Watermark)
	}
	w.setMeta(it)
	if it.point.Judged {
		w.rerun(it)
	}
}

// judge looks at whether the event was seen before, or comes late.
func (w *worker) judge(it *item) {
	if p, t := it.partition, it.Time; p.ids != nil && !it.point.Seen {
		w.keyBuf = it.Row.AppendKey(w.keyBuf[:0], w.plan.Dedupe.Slot)
		if p.ids.Seen(value.Text(w.keyBuf), t, p.newest) {
			it.Become(operator.Duplicate)
			return
		}
	}
	if it.Time < it.Watermark && !it.point.Judged && !w.appended(it) {
		w.late(it)
	}
}

// appended reports whether the event's time is that of its append, so that it is not
// late: producers who append at once come in another order than their clocks.
func (w *worker) appended(it *item) bool {
	return w.plan.Sources != nil && w.plan.Sources[it.source].Appended || w.plan.Time.Appended && !header.Written(it.Record.Headers)
}

func (w *worker) late(it *item) {
	it.late = true
	switch w.plan.Time.Late {
	case operator.LateDead:
		it.fail("late", fmt.Errorf("event time is %v before the watermark", time.Duration(it.Watermark-it.Time)*time.Microsecond))
	case operator.LateDrop:
		it.Become(operator.Late)
	case operator.LateTopic:
		it.Become(operator.Diverted)
	}
}

func (w *worker) setMeta(it *item) {
	m, r := &w.plan.Meta, it.Record
	it.Row.SetInt(m.Time, it.Time)
	from := deadletter.Position{Partition: r.Partition, Offset: r.Offset}
	if it.Return != nil {
		from = it.Return.Origin
	} else if it.Place != nil {
		from = *it.Place
	}
	it.Row.SetInt(m.Partition, int64(from.Index))
	it.Row.SetInt(m.Offset, int64(from.Offset))
	it.Row.SetText(m.Key, value.Text(r.Key))
	it.Row.SetText(m.ID, w.step.ID(r))
	if m.Topic != nil {
		it.Row.SetText(*m.Topic, w.plan.Sources[it.source].Topic)
	}
}

// link appends the item to the chain of its key, whose state is k where that is
// in memory.
func (w *worker) link(i int32, it *item, k *keyed.Key) (err error) {
	p := it.partition
	if k == nil {
		if k, err = p.keys.Get(it.Record.Key); err != nil {
			return err
		}
	}
	if k.Chunk != w.chunk {
		k.Chunk, k.Tail, k.Count = w.chunk, i, 0
	} else {
		w.items[k.Tail].next = i
		k.Tail = i
	}
	k.Count++
	it.key = k
	if w.plan.keys.Featureless() || it.group != nil {
		return nil
	}
	if it.resumed == nil { // else that was done in its place
		it.ended = p.keys.Come(k, it.Time, it.Watermark)
		k.Observe(&w.plan.keys, 0, it.ended, it.Time)
	}
	w.touch(p, k)
	return nil
}

// waves takes the living items through the remaining stages: the first event
// of each key, then the second, and so on, where features read predictions; all
// at once where none does.
func (w *worker) waves(ctx context.Context) error {
	w.active = w.active[:0]
	for i := range w.items {
		it := &w.items[i]
		first := !w.plan.Feedback || it.key == nil || w.firstOfKey(int32(i), it)
		if first && (it.Alive() || w.plan.Feedback && it.key != nil) {
			w.active = append(w.active, int32(i))
		}
	}
	for len(w.active) > 0 {
		if err := w.wave(ctx); err != nil {
			return err
		}
		if !w.plan.Feedback {
			return nil
		}
		following := w.active[:0]
		for _, i := range w.active {
			if next := w.items[i].next; next != 0 {
				following = append(following, next)
			}
		}
		w.active = following
	}
	return nil
}

// firstOfKey reports whether the item starts its key's chain. Chains are made
// in log order, so count is taken down from the front.
func (w *worker) firstOfKey(i int32, it *item) bool {
	if it.key.Count < 0 || it.key.Chunk != w.chunk {
		return false
	}
	it.key.Count = -1
	return true
}

// wave runs the stages after the early ones over the active items.
func (w *worker) wave(ctx context.Context) error {
	if err := w.parkedBehind(); err != nil {
		return err
	}
	for _, i := range w.active {
		if it := &w.items[i]; it.key != nil && it.Outcome != operator.Queued && it.group == nil && (it.resumed == nil || it.resumed.Entry.Behind) {
			it.key.Observe(&w.plan.keys, 1, it.ended, it.Time)
		}
	}
	for s := w.plan.Waves; s < len(w.plan.Stages); s++ {
		stage := &w.plan.Stages[s]
		if op, ok := stage.Operator.(operator.Batched); ok {
			if err := w.ask(ctx, op, stage); err != nil {
				return err
			}
			continue
		}
		for _, i := range w.active {
			if it := &w.items[i]; it.Alive() {
				if err := w.run(stage, it); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// run does what an operator does, unless it asks for many events at once, to one event.
// The error returned is not the event's.
func (w *worker) run(stage *operator.Placed, it *item) error {
	if !it.takes(stage) {
		return nil
	}
	err := stage.Run(&it.Event.Event)
	if err == nil {
		return nil
	}
	if fatal := operator.FatalOf(err); fatal != nil {
		return fatal
	}
	it.failAt(stage, err)
	return nil
}
