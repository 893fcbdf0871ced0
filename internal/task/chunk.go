package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/internal/task/group"
	"github.com/afterbay/afterbay/internal/task/join"
	"github.com/afterbay/afterbay/internal/task/keyed"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/stream"
)

// item is one event of the chunk being computed.
type item struct {
	output.Event
	partition *partition
	source    int          // in the plan's Sources
	key       *keyed.Key   // nil where the pipeline keeps no state, or the event died before
	ended     keyed.Ended  // what the key's silence before this event ended
	next      int32        // next item of the same key; 0 is none, since an item never follows itself
	late      bool         // before the watermark, whatever became of it
	forced    bool         // its turn was over when it came
	over      bool         // it ended, and is noted of its key later
	group     *group.Ended // that it is made of; nil for an event of the log
	joined    *join.Joined // likewise
	resumed   *async.Task  // what it was when it was queued; nil for a record that was read
	appended  int64        // when its source has it from, microseconds, if it is a copy; 0 is not known
	point     point        // where it goes on; its beginning for one that was neither queued nor sent back
}

// chunk is the events that are computed at once.
type chunk struct {
	admission
	serial  uint64 // counts the chunks
	items   []item
	rows    []value.Row
	active  []int32 // items of the wave
	score   scoreScratch
	firings firings
	spent   [len(observe.Phases)]time.Duration
	ahead   [warmKeys]*keyed.Key // of the events to come, where they are in memory
	rowBuf  []byte
	waits   // of copies for their turn
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
func (it *item) takes(s *operator.Placed) bool { return it.point.takes(s) && s.Guard.Holds(it.Row) }

// compute moves the step being made past the first records, as many as it
// takes at once, and returns how many.
func (ch *chunk) compute(ctx context.Context, records []stream.Record) (int, error) {
	start := ch.options.Clock.Now()
	ch.now = start
	ch.spent = [len(observe.Phases)]time.Duration{}
	for _, m := range ch.plan.Shared {
		m.Enter() // rows of this chunk are on their way to its calls
		defer m.Leave()
	}
	n, err := ch.early(records)
	if err != nil {
		return 0, err
	}
	ch.fault("model")
	if err := ch.waves(ctx); err != nil {
		return 0, err
	}
	if err := ch.fireRest(); err != nil {
		return 0, err
	}
	made := ch.options.Clock.Now()
	if err := errors.Join(ch.output(), ch.expire()); err != nil {
		return 0, err
	}
	ch.measure(start, made)
	ch.building.events += n
	return n, nil
}

// measure notes the phases of the chunk's events up to the commit. Those that are
// queued have yet to come through.
func (ch *chunk) measure(start, made time.Time) {
	end, n := ch.options.Clock.Now(), 0
	for i := range ch.items {
		if it := &ch.items[i]; it.read() && it.timed() {
			n++
		}
	}
	ch.building.way.Chunk(ch.metrics, observe.Timing{
		Begun: start, Feature: made.Sub(start) - ch.spent[observe.Model], Model: ch.spent[observe.Model], Emit: end.Sub(made), Made: end,
	}, n)
	for i := range ch.items {
		it := &ch.items[i]
		ch.building.way.Case = ch.plan.Cases.Case(it.Row)
		switch {
		case !it.timed():
		case it.resumed != nil:
			ch.building.way.Queued(ch.metrics, it.Record, ch.turn(ch.plan, it), time.UnixMicro(it.resumed.Entry.Since))
		case !it.made():
			ch.building.way.Event(ch.metrics, it.Record, ch.turn(ch.plan, it))
		}
		ch.count(&ch.items[i])
	}
}

// read reports whether the event was read for this chunk.
func (it *item) read() bool { return it.resumed == nil && !it.made() }

// made reports whether the event is made of others, and is none of the log.
func (it *item) made() bool { return it.group != nil || it.joined != nil }

// madeAt returns where the event was made of others; nil for an event of the log.
func (it *item) madeAt() *deadletter.Position {
	switch {
	case it.group != nil:
		return &deadletter.Position{Partition: it.partition.id, Offset: it.group.At}
	case it.joined != nil:
		return &deadletter.Position{Partition: it.partition.id, Offset: it.joined.At}
	}
	return nil
}

// timed reports whether the chunk brought the event, or a notice, to its end.
func (it *item) timed() bool {
	return it.Outcome != operator.Queued && it.Outcome != operator.Tick && !it.movesTime()
}

// movesTime reports whether the item is no event, but says that time moved on in the order.
func (it *item) movesTime() bool { return it.Outcome == operator.Notice && header.MovesTime(it.Record) }

func (ch *chunk) count(it *item) {
	if it.resumed == nil && it.Outcome != operator.Tick { // a tick comes again as its event
		if it.late {
			ch.building.late++
		}
		if it.forced {
			ch.building.forced++
		}
	}
	ch.building.elements += it.Elements
	ch.building.counts[effects[it.Outcome].counted]++
}

// early takes records in log order through decoding, event time and the stages
// before the waves. Where features read predictions it stops before a key's
// events need more than KeyWaves waves: a hot key delays but does not block.
func (ch *chunk) early(records []stream.Record) (int, error) {
	ch.serial++
	ch.items, ch.places = ch.items[:0], ch.places[:0]
	var p *partition
	size := 0
	records = records[:min(len(records), ch.options.ChunkEvents)]
	for i := range records {
		if i%warmKeys == 0 {
			ch.warm(records[i:min(len(records), i+warmKeys)])
		}
		r := &records[i]
		if p == nil || p.id != r.Partition {
			if p = ch.partitions[r.Partition]; p == nil {
				return 0, fmt.Errorf("record of %v, which is not assigned", r.Partition)
			}
		}
		k := ch.ahead[i%warmKeys]
		if k == nil {
			k = p.keys.Cached(r.Key)
		}
		size += len(r.Value)
		if i > 0 && (size > chunkBytesMax || ch.options.storm.has(r) || ch.options.storm.has(&records[i-1])) || k != nil && ch.plan.Feedback && k.Chunk == ch.serial && int(k.Count) >= ch.options.KeyWaves {
			return i, nil
		}
		ch.items = append(ch.items, item{partition: p, Event: output.Event{
			Event:  operator.Event{Record: r, Row: &ch.rows[i], Time: never, Watermark: never, Index: int32(len(ch.items)), Kept: p},
			Origin: &p.origin,
		}})
		it := &ch.items[len(ch.items)-1]
		it.Row.Reset()
		newest := p.newest
		ch.admit(it)
		p.moved = p.moved || p.newest != newest
		ch.building.touch(p)
		if ch.plan.closes && it.Watermark != never {
			if done, err := ch.comeDue(p); err != nil || !done {
				return i, err
			}
			it = &ch.items[len(ch.items)-1]
		}
		if it.Outcome == operator.Tick {
			return i, nil
		}
		p.next, p.heard = r.Offset+1, ch.now
		if it.movesTime() {
			p.next = r.Offset
		}
		if it.Alive() {
			ch.judge(it)
		}
		if it.Alive() && !ch.plan.Stateless() {
			if err := ch.link(it.Index, it, k); err != nil {
				return 0, err
			}
		}
		if err := ch.stages(it); err != nil {
			return 0, err
		}
		composed, err := ch.compose(p, it.Watermark, r.Offset)
		if size += composed; err != nil {
			return 0, err
		}
	}
	return len(records), nil
}

// stages runs those before the waves.
func (ch *chunk) stages(it *item) error {
	for s := 0; s < ch.plan.Waves && it.Alive(); s++ {
		if err := ch.run(&ch.plan.Stages[s], it); err != nil {
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
func (ch *chunk) warm(records []stream.Record) {
	var p *partition
	for i := range records {
		r := &records[i]
		if p == nil || p.id != r.Partition {
			p = ch.partitions[r.Partition]
		}
		ch.ahead[i] = nil
		if p != nil {
			ch.ahead[i] = p.keys.Cached(r.Key)
		}
	}
	ch.warmed += keyed.Warm(ch.ahead[:len(records)])
}

// chunkBytesMax bounds the input of a chunk.
const chunkBytesMax = 1 << 20

// link appends the item to the chain of its key, whose state is k where that is
// in memory.
func (ch *chunk) link(i int32, it *item, k *keyed.Key) (err error) {
	p := it.partition
	if k == nil {
		if k, err = p.keys.Get(it.Record.Key); err != nil {
			return err
		}
	}
	if k.Chunk != ch.serial {
		k.Chunk, k.Tail, k.Count = ch.serial, i, 0
	} else {
		ch.items[k.Tail].next = i
		k.Tail = i
	}
	k.Count++
	it.key = k
	if ch.plan.keys.Featureless() || it.made() {
		return nil
	}
	if it.resumed == nil { // else that was done in its place
		it.ended = p.keys.Come(k, it.Time, it.Watermark)
		k.Observe(&ch.plan.keys, 0, it.ended, it.Time)
	}
	ch.touch(p, k)
	return nil
}

// waves takes the living items through the remaining stages: the first event
// of each key, then the second, and so on, where features read predictions; all
// at once where none does.
func (ch *chunk) waves(ctx context.Context) error {
	ch.active = ch.active[:0]
	for i := range ch.items {
		it := &ch.items[i]
		first := !ch.plan.Feedback || it.key == nil || ch.firstOfKey(int32(i), it)
		if first && (it.Alive() || ch.plan.Feedback && it.key != nil) {
			ch.active = append(ch.active, int32(i))
		}
	}
	for len(ch.active) > 0 {
		if err := ch.wave(ctx); err != nil {
			return err
		}
		if !ch.plan.Feedback {
			return nil
		}
		following := ch.active[:0]
		for _, i := range ch.active {
			if next := ch.items[i].next; next != 0 {
				following = append(following, next)
			}
		}
		ch.active = following
	}
	return nil
}

// firstOfKey reports whether the item starts its key's chain. Chains are made
// in log order, so count is taken down from the front.
func (ch *chunk) firstOfKey(i int32, it *item) bool {
	if it.key.Count < 0 || it.key.Chunk != ch.serial {
		return false
	}
	it.key.Count = -1
	return true
}

// wave runs the stages after the early ones over the active items.
func (ch *chunk) wave(ctx context.Context) error {
	if err := ch.queueBehind(); err != nil {
		return err
	}
	for _, i := range ch.active {
		if it := &ch.items[i]; it.noted() {
			it.key.Observe(&ch.plan.keys, 1, it.ended, it.Time)
		}
	}
	for s := ch.plan.Waves; s < len(ch.plan.Stages); s++ {
		stage := &ch.plan.Stages[s]
		if op, ok := stage.Operator.(operator.Batched); ok {
			if err := ch.ask(ctx, op, stage); err != nil {
				return err
			}
			continue
		}
		for _, i := range ch.active {
			if it := &ch.items[i]; it.Alive() {
				if err := ch.run(stage, it); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// noted reports whether the wave is the turn of an event to be noted of its key.
func (it *item) noted() bool {
	return it.key != nil && it.Outcome != operator.Queued && !it.over && !it.made() && (it.resumed == nil || it.resumed.Entry.Behind)
}

// run does what an operator does, unless it asks for many events at once, to one event.
// The error returned is not the event's.
func (ch *chunk) run(stage *operator.Placed, it *item) error {
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
