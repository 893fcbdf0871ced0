package task

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/afterbay/afterbay/header"
	"github.com/afterbay/afterbay/merge"
	"github.com/afterbay/afterbay/observe"
	"github.com/afterbay/afterbay/silence"
	"github.com/afterbay/afterbay/step"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/value"
)

// item is one event of the chunk being computed.
type item struct {
	index     int32
	record    *stream.Record
	partition *partition
	source    int       // in the plan's Sources
	key       *keyState // nil where the pipeline keeps no state, or the event died before
	row       *value.Row
	time      int64         // event time, microseconds; never until it is known
	watermark int64         // at the record's position
	ended     silence.Ended // what the key's silence before this event ended
	next      int32         // next item of the same key; 0 is none, since an item never follows itself
	emits     uint64
	called    []called // outputs of functions
	written   int      // bytes of its outputs
	late      bool     // before the watermark
	aside     bool     // late, and to be written to a topic
	skip      bool     // left out
	repeat    bool     // seen before
	held      bool     // not to be done with in this chunk
	notice    bool     // of a source: no event
	announce  bool     // the source's watermark to all of the copies' partitions
	failure   *failure

	approximate []string // features read from windows beyond their max
}

// failure is why an event becomes a dead letter, and where.
type failure struct {
	stage string
	err   error
}

func (it *item) alive() bool { return it.failure == nil && !it.skip }

func (it *item) fail(stage string, err error) { it.failure = &failure{stage, err} }

// compute moves the step being made past the first records, as many as it
// takes at once, and returns how many.
func (w *worker) compute(ctx context.Context, records []stream.Record) (int, error) {
	start := time.Now()
	w.now = start
	w.spent = [len(observe.Hops)]time.Duration{}
	n, err := w.early(records)
	if err != nil {
		return 0, err
	}
	w.fault("model")
	if err := w.waves(ctx); err != nil {
		return 0, err
	}
	held := n == 1 && w.items[0].held
	limit := math.MaxInt
	if held {
		n, limit = 0, firingsMax
	}
	if err := w.fireRest(limit); err != nil {
		return 0, err
	}
	made := time.Now()
	w.output()
	if err := w.expire(); err != nil {
		return 0, err
	}
	w.measure(start, made, n)
	return n, nil
}

// measure notes the hops of the chunk's events up to the commit.
func (w *worker) measure(start, made time.Time, n int) {
	end := time.Now()
	for i := range w.items[:n] {
		it := &w.items[i]
		if !header.Written(it.record.Headers) {
			w.metrics.Latency.Record(observe.Queue, start.Sub(it.record.Time), 1)
		}
		w.count(it)
	}
	w.metrics.Latency.Record(observe.Feature, made.Sub(start)-w.spent[observe.Model], n)
	w.metrics.Latency.Record(observe.Model, w.spent[observe.Model], n)
	w.metrics.Latency.Record(observe.Emit, end.Sub(made), n)
	w.step.events += n
	w.pass(observe.Passage{
		Begun: start, Feature: made.Sub(start) - w.spent[observe.Model], Model: w.spent[observe.Model], Emit: end.Sub(made), Made: end,
	}, n)
}

// pass notes how the chunk's events of each partition came through.
func (w *worker) pass(p observe.Passage, n int) {
	s := w.step
	from := len(s.passages)
	for i := range w.items[:n] {
		r := w.items[i].record
		at := slices.IndexFunc(s.passages[from:], func(o observe.Passage) bool { return o.Partition == r.Partition.Index })
		if at < 0 {
			p.Topic, p.Partition, p.First = r.Partition.Topic, r.Partition.Index, int64(r.Offset)
			at = len(s.passages) - from
			s.passages = append(s.passages, p)
		}
		s.passages[from+at].Next = int64(r.Offset) + 1
	}
}

func (w *worker) count(it *item) {
	for _, c := range []struct {
		is    bool
		count *int
	}{{it.late, &w.step.late}, {it.skip && !it.notice && !it.repeat, &w.step.dropped}, {it.repeat, &w.step.repeats}, {it.notice, &w.step.notices}} {
		if c.is {
			*c.count++
		}
	}
}

// early takes records in log order through decoding, event time and the stages
// before the waves. Where features read predictions it stops before a key's
// events need more than KeyWaves waves: a hot key delays but does not block.
func (w *worker) early(records []stream.Record) (int, error) {
	w.chunk++
	w.items = w.items[:0]
	var p *partition
	size := 0
	for i := range records[:min(len(records), w.options.ChunkEvents)] {
		if i%warmKeys == 0 {
			w.warm(records[i:min(len(records), i+warmKeys)])
		}
		r := &records[i]
		if size += len(r.Value); i > 0 && size > chunkBytesMax {
			break
		}
		if p == nil || p.id != r.Partition {
			if p = w.partitions[r.Partition]; p == nil {
				return 0, fmt.Errorf("record of %v, which is not assigned", r.Partition)
			}
		}
		k := w.ahead[i%warmKeys]
		if k == nil {
			k = p.keys[string(r.Key)]
		}
		if k != nil && w.plan.Feedback && k.chunk == w.chunk && int(k.count) >= w.options.KeyWaves {
			break
		}
		w.items = append(w.items, item{index: int32(i), record: r, partition: p, row: &w.rows[i], time: never, watermark: never})
		it := &w.items[i]
		it.row.Reset()
		newest := p.newest
		w.admit(it)
		p.moved = p.moved || p.newest != newest
		w.step.touch(p)
		if w.plan.keyed && it.watermark != never {
			if p.fired != int64(r.Offset) && p.timers.Over(it.watermark, firingsMax) {
				w.stopAt(it)
				break
			}
			w.mark(p, it)
		}
		p.next = r.Offset + 1
		if it.alive() {
			w.judge(it)
		}
		if it.alive() && !w.plan.stateless() {
			if err := w.link(int32(i), it, k); err != nil {
				return 0, err
			}
		}
		for s := 0; s < w.plan.Waves && it.alive(); s++ {
			if err := w.run(&w.plan.Stages[s], it); err != nil {
				return 0, err
			}
		}
	}
	return len(w.items), nil
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
			w.ahead[i] = p.keys[string(r.Key)]
		}
	}
	w.warmCells(w.ahead[:len(records)])
}

// warmCells reads of the keys themselves first: where a cell's words are, and how
// many, is then known when they are asked for, so that no guess holds up the rest.
func (w *worker) warmCells(keys []*keyState) {
	for _, k := range keys {
		if k != nil {
			early, _ := k.own[0].Last()
			late, _ := k.own[1].Last()
			w.warmed += int64(k.chunk) + int64(k.count) + early + late
		}
	}
	for _, k := range keys {
		if k != nil && k.key != "" {
			w.warmed += int64(k.key[0]) + k.own[0].Warm() + k.own[1].Warm()
		}
	}
}

// stopAt ends the chunk before an event at which very many timers are due. As
// the first of a chunk the event only serves as their position: nothing is done
// about it yet.
func (w *worker) stopAt(it *item) {
	if it.index > 0 {
		w.items = w.items[:it.index]
		return
	}
	it.skip, it.held = true, true
	w.mark(it.partition, it)
}

// chunkBytesMax bounds the input of a chunk.
const chunkBytesMax = 1 << 20

// admit decodes the event and finds its key, time and watermark.
func (w *worker) admit(it *item) {
	r, plan, p := it.record, w.plan, it.partition
	if plan.Sources != nil && !w.hear(it) {
		return
	}
	if len(r.Value) > plan.MaxBytes {
		it.fail("decode", fmt.Errorf("value of %d bytes is over max_bytes of %d", len(r.Value), plan.MaxBytes))
		return
	}
	if err := w.scanners[it.source].Scan(r.Value, it.row); err != nil {
		it.fail("decode", err)
		return
	}
	if plan.Copy == nil && plan.Sources == nil {
		w.keyBuf = appendKey(w.keyBuf[:0], it.row, plan.Key)
		if string(w.keyBuf) != string(r.Key) {
			it.fail("key", fmt.Errorf("field %s is %q but the record was written with key %q: produce with --key %s, or set input.repartition", plan.Key.Name, w.keyBuf, r.Key, plan.Key.Name))
			return
		}
	}
	t, err := plan.Time.Of(it.row, r.Time)
	if err != nil {
		it.fail("time", err)
		return
	}
	it.time = t
	if plan.Sources == nil {
		before := p.watermark(plan.Time.Lateness)
		p.newest = max(p.newest, t)
		it.watermark = p.watermark(plan.Time.Lateness)
		it.announce = plan.Copy != nil && merge.Passes(before, it.watermark)
	}
	w.setMeta(it)
}

// judge looks at whether the event was seen before, or comes late.
func (w *worker) judge(it *item) {
	if p, t := it.partition, it.time; p.ids != nil {
		w.keyBuf = appendKey(w.keyBuf[:0], it.row, w.plan.Dedupe.Slot)
		if p.ids.Seen(value.Text(w.keyBuf), t, p.newest) {
			it.skip, it.repeat = true, true
			return
		}
	}
	if it.time < it.watermark {
		w.late(it)
	}
}

func (w *worker) late(it *item) {
	it.late = true
	switch w.plan.Time.Late {
	case LateDead:
		it.fail("late", fmt.Errorf("event time is %v before the watermark", time.Duration(it.watermark-it.time)*time.Microsecond))
	case LateDrop:
		it.skip = true
	case LateTopic:
		it.skip, it.aside = true, true
	case LateInclude:
	}
}

func appendKey(dst []byte, row *value.Row, slot value.Slot) []byte {
	if slot.Type.Kind.Text() {
		return append(dst, row.Text(slot)...)
	}
	return strconv.AppendInt(dst, row.Int(slot), 10)
}

func (w *worker) setMeta(it *item) {
	m, r := &w.plan.Meta, it.record
	it.row.SetInt(m.Time, it.time)
	it.row.SetInt(m.Partition, int64(r.Partition.Index))
	it.row.SetInt(m.Offset, int64(r.Offset))
	it.row.SetText(m.Key, value.Text(r.Key))
	it.row.SetText(m.ID, w.id(r))
	if m.Topic != nil {
		it.row.SetText(*m.Topic, w.plan.Sources[it.source].Topic)
	}
}

// link appends the item to the chain of its key, whose state is k where that is
// in memory.
func (w *worker) link(i int32, it *item, k *keyState) (err error) {
	p := it.partition
	if k == nil {
		if k, err = p.lookup(w.plan, it.record.Key); err != nil {
			return err
		}
	}
	if k.chunk != w.chunk {
		k.chunk, k.tail, k.count = w.chunk, i, 0
	} else {
		w.items[k.tail].next = i
		k.tail = i
	}
	k.count++
	it.key = k
	if w.plan.featureless() {
		return nil
	}
	if k.newest == never {
		p.due.Push(k.key, it.time, silence.All)
	} else {
		it.ended = w.plan.terms.Ended(k.newest, it.watermark)
	}
	if it.ended == silence.All || it.ended == silence.Windows && !w.plan.terms.Outlives() {
		k.newest = never
	}
	k.newest = max(k.newest, it.time)
	k.observe(w.plan, 0, it)
	if !k.queued {
		p.queue(k, silence.Windows)
	}
	w.touch(p, k)
	return nil
}

// observe brings one of the key's cells to the event: what silence ended is
// dropped, and the event's time noted.
func (k *keyState) observe(plan *Plan, set int, it *item) {
	if k.cells[set] == nil {
		return
	}
	plan.terms.End(set, k.cells[set], it.ended)
	plan.sets()[set].Touch(k.cells[set], it.time)
}

// waves takes the living items through the remaining stages: the first event
// of each key, then the second, and so on, where features read predictions; all
// at once where none does.
func (w *worker) waves(ctx context.Context) error {
	w.active = w.active[:0]
	for i := range w.items {
		it := &w.items[i]
		first := !w.plan.Feedback || it.key == nil || w.firstOfKey(int32(i), it)
		if first && (it.alive() || w.plan.Feedback && it.key != nil) {
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
	if it.key.count < 0 || it.key.chunk != w.chunk {
		return false
	}
	it.key.count = -1
	return true
}

// wave runs the stages after the early ones over the active items.
func (w *worker) wave(ctx context.Context) error {
	for _, i := range w.active {
		if it := &w.items[i]; it.key != nil {
			it.key.observe(w.plan, 1, it)
		}
	}
	for s := w.plan.Waves; s < len(w.plan.Stages); s++ {
		stage := &w.plan.Stages[s]
		if stage.Score != nil {
			if err := w.scoreStage(ctx, stage); err != nil {
				return err
			}
			continue
		}
		for _, i := range w.active {
			if it := &w.items[i]; it.alive() {
				if err := w.run(stage, it); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// run executes a stage other than a score on one event. The error returned is
// not the event's.
func (w *worker) run(stage *step.Stage, it *item) error {
	if !stage.Guard.Holds(it.row) {
		return nil
	}
	var err error
	switch {
	case stage.Assign != nil:
		err = step.AssignAll(stage.Assign, it.row)
	case stage.Feature != nil:
		err = w.feature(stage.Feature, it)
	case stage.Emit != nil:
		err = markEmit(stage.Emit, it)
	case stage.Route != nil:
		var on bool
		on, err = stage.Route.Take(it.row)
		it.skip = !on && err == nil
	case stage.Call != nil:
		var fatal error
		if err, fatal = w.call(stage.Call, it); fatal != nil {
			return fatal
		}
	}
	if err != nil {
		it.fail(stage.Name, err)
	}
	return nil
}

// expire ends the keys that fell silent before the chunk's end. Events check
// the silence of their own key at their own position, so it makes no difference
// to any result when this runs.
func (w *worker) expire() error {
	if w.plan.featureless() {
		return nil
	}
	for _, p := range w.step.touched {
		n, err := p.expire(w.plan, expiriesMax-w.step.ended, func(k *keyState) { w.touch(p, k) })
		if err != nil {
			return err
		}
		w.step.ended += n
	}
	return nil
}
