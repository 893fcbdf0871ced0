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

// item is one event of the current chunk.
type item struct {
	output.Event
	partition *partition
	source    int          // index in the plan's Sources
	key       *keyed.Key   // nil if the pipeline keeps no state, or the event failed earlier
	ended     keyed.Ended  // state that expired during the key's silence before this event
	next      int32        // next item of the same key; 0 for the last, since an item never follows itself
	late      bool         // before the watermark, whatever its outcome
	forced    bool         // it arrived after its turn in the order
	over      bool         // it ended, but its key records it later
	group     *group.Ended // group that the event is made of; nil for an event of the log
	joined    *join.Joined // pair that the event is made of; nil for an event of the log
	resumed   *async.Task  // its entry in the async queue; nil for a record that was read
	appended  int64        // append time in its source, microseconds, if it is a copy; 0 if unknown
	point     point        // where processing resumes; zero for an event that was neither queued nor sent back
}

// chunk is a batch of events that are computed together.
type chunk struct {
	admission
	serial  uint64 // number of the chunk
	items   []item
	rows    []value.Row
	active  []int32 // items of the current wave
	score   scoreScratch
	firings firings
	spent   [len(observe.Phases)]time.Duration
	ahead   [warmKeys]*keyed.Key // keys of the next records, as far as they are in memory
	rowBuf  []byte
	waits   // how long copies waited for their turn
}

func (it *item) fail(stage string, err error) {
	it.Failure = &output.Failure{Stage: stage, Err: err}
	it.Become(operator.Failed)
}

// failAt makes the event a dead letter of an operator.
func (it *item) failAt(s *operator.Placed, err error) {
	it.Failure = &output.Failure{Stage: s.Kind(), At: s.At, Err: err}
	it.Become(operator.Failed)
}

// takes reports whether the event runs an operator.
func (it *item) takes(s *operator.Placed) bool { return it.point.takes(s) && s.Guard.Holds(it.Row) }

// compute processes the first records in the current transaction, up to the limits of a chunk. It
// returns the number of records that it processed.
func (ch *chunk) compute(ctx context.Context, records []stream.Record) (int, error) {
	start := ch.options.Clock.Now()
	ch.now = start
	ch.spent = [len(observe.Phases)]time.Duration{}
	for _, m := range ch.plan.Shared {
		m.Enter() // announces that this chunk will send rows to the model's calls
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

// measure records the phases of the chunk's events up to the commit. It skips events that are still
// queued.
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

// made reports whether the event is made of other events and is not in the log.
func (it *item) made() bool { return it.group != nil || it.joined != nil }

// madeAt returns the position where the event was made of others. It returns nil for an event of
// the log.
func (it *item) madeAt() *deadletter.Position {
	switch {
	case it.group != nil:
		return &deadletter.Position{Partition: it.partition.id, Offset: it.group.At}
	case it.joined != nil:
		return &deadletter.Position{Partition: it.partition.id, Offset: it.joined.At}
	}
	return nil
}

// timed reports whether the chunk finished the event or notice.
func (it *item) timed() bool {
	return it.Outcome != operator.Queued && it.Outcome != operator.Tick && !it.movesTime()
}

// movesTime reports whether the item is a mark that only advances time in the order, not an event.
func (it *item) movesTime() bool { return it.Outcome == operator.Notice && header.MovesTime(it.Record) }

func (ch *chunk) count(it *item) {
	if it.resumed == nil && it.Outcome != operator.Tick { // the event of a tick comes again
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

// early decodes records in log order and runs the operators before the waves. If features read
// predictions, early stops before any key has more than KeyWaves events in the chunk. A hot key
// then delays other keys but does not block them. early returns the number of records that it took.
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

// stages runs the operators before the waves.
func (ch *chunk) stages(it *item) error {
	for s := 0; s < ch.plan.Waves && it.Alive(); s++ {
		if err := ch.run(&ch.plan.Stages[s], it); err != nil {
			return err
		}
	}
	return nil
}

// warmKeys is how many keys warm looks up at once. It is a few times the number of loads that a
// processor keeps in flight, and small enough that their cells stay in its cache.
const warmKeys = 128

// warm looks up the keys of the next records and touches their cells. The state of many keys is
// scattered in memory. Waiting for all of it at once, instead of one key at a time, saves much of
// the cost of an event.
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

// chunkBytesMax bounds the input of a chunk, in bytes.
const chunkBytesMax = 1 << 20

// link appends the item to the chain of its key. k is the state of the key, or nil if it is not in
// memory.
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
	if it.resumed == nil { // for a queued event this was done when it was read
		it.ended = p.keys.Come(k, it.Time, it.Watermark)
		k.Observe(&ch.plan.keys, 0, it.ended, it.Time)
	}
	ch.touch(p, k)
	return nil
}

// waves takes the remaining items through the operators of the waves. If features read predictions,
// each wave takes the next event of every key. Otherwise one wave takes all items.
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

// firstOfKey reports whether the item starts the chain of its key. The first call for a key in a
// chunk returns true and marks the key: chains are built in log order.
func (ch *chunk) firstOfKey(i int32, it *item) bool {
	if it.key.Count < 0 || it.key.Chunk != ch.serial {
		return false
	}
	it.key.Count = -1
	return true
}

// wave runs the operators of the waves over the active items.
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

// noted reports whether the key of the event records the event in this wave.
func (it *item) noted() bool {
	return it.key != nil && it.Outcome != operator.Queued && !it.over && !it.made() && (it.resumed == nil || it.resumed.Entry.Behind)
}

// run runs an operator that is not Batched for one event. An error of the event makes it a dead
// letter. run returns only fatal errors.
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
