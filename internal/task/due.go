package task

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/internal/task/keyed"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

// Timers and ends that are due at a position come before the event there, in the order of
// due.Queue:
//
//  1. Groups end in log order, before the waves: comeDue. The event of a group is an item.
//  2. Timers fire by key, after the waves, because a function may read state that the waves make.
//     Marks say before which item each timer fires, and firings.sort puts their outputs in order.
//     This is the order of the queue. A timer that is set for a time before the firing timer is due
//     at the next position.
//  3. Silent keys expire after the chunk: expire. An event itself checks whether its key has
//     expired.
//
// If more is due than fits a chunk, the position first becomes a tick, in chunks of its own.

// firing is a timer that fired, and the outputs of its call.
type firing struct {
	item    int32 // item before which the outputs are written
	offset  stream.Offset
	at      int64
	key     string
	call    *operator.Call
	timer   string
	id      string
	outputs []udf.Output
	err     error
}

// firings holds the timers that fired in a chunk.
type firings struct {
	list  []firing
	count int // all timers, including those without outputs
	bytes int // bytes of outputs
}

// firingsMax is about how many timers fire in one transaction. More due timers take several
// transactions.
func (tx *committer) firingsMax() int { return 4 * tx.options.ChunkEvents }

// full reports whether the firings reach the given multiple of the limits of a chunk: most timers,
// or chunkBytesMax bytes of outputs.
func (fs *firings) full(most, times int) bool {
	return fs.count >= times*most || fs.bytes >= times*chunkBytesMax
}

// stormTimes is by how much the timers of a chunk may exceed its limit. Not all of them are known
// when the chunk begins.
const stormTimes = 4

// storm is the error of a chunk with too many timers that timers of the same chunk set. The chunk
// is discarded. Its events and as many after it then get chunks of their own. In such a chunk no
// timer is due that was not known before. Each consecutive storm doubles the number of events.
type storm struct {
	partition stream.Partition
	until     stream.Offset
	events    int // events after the chunk that get chunks of their own
}

const stormEventsMax = 1 << 20

func (ch *chunk) storm(p *partition, at int64) *storm {
	events := ch.options.ChunkEvents
	if before := ch.options.storm; before != nil {
		events = min(2*before.events, stormEventsMax)
	}
	return &storm{p.id, max(stream.Offset(at), p.next) + stream.Offset(events), events}
}

// Error implements error.
func (s *storm) Error() string {
	return fmt.Sprintf("more timers are due up to %v@%d than one step can run", s.partition, s.until)
}

// has reports whether a record belongs to a storm. A nil storm has no records.
func (s *storm) has(r *stream.Record) bool {
	return s != nil && r.Partition == s.partition && r.Offset <= s.until
}

// comeDue runs the ends and timers that are due at the last item, so that they come before it. It
// returns false if they exceed the limits of the chunk. The item then comes again in the next
// chunk.
func (ch *chunk) comeDue(p *partition) (done bool, err error) {
	it := &ch.items[len(ch.items)-1]
	if p.due[due.Group].Until(it.Watermark) {
		if done, err := ch.endGroups(p, *it); err != nil || !done {
			return false, err
		}
		it = &ch.items[len(ch.items)-1]
	}
	if ch.over(p, it.Record, it.Watermark) {
		ch.tick(p, it.Watermark)
		return false, nil
	}
	ch.mark(p, due.Mark{Item: it.Index, Offset: int64(it.Record.Offset), Watermark: it.Watermark, Until: it.Watermark})
	return true, nil
}

// endGroups ends the groups that are due at the last item, and inserts their events before it.
func (ch *chunk) endGroups(p *partition, it item) (done bool, err error) {
	groups, last, bytes := &p.due[due.Group], len(ch.items)-1, 0
	ch.items = ch.items[:last]
	for groups.Until(it.Watermark) {
		if before := groups.First().At - 1; ch.over(p, it.Record, before) {
			ch.items = append(ch.items, it)
			ch.tick(p, before)
			return false, nil
		}
		if bytes > chunkBytesMax || len(ch.items) >= last+ch.options.ChunkEvents {
			return false, nil
		}
		removed, err := p.come(groups.Pop())
		if err != nil {
			return false, err
		}
		bytes += removed
		ch.building.Carry(removed)
		composed, err := ch.compose(p, it.Watermark, it.Record.Offset)
		if err != nil {
			return false, err
		}
		bytes += composed
	}
	it.Index = int32(len(ch.items))
	ch.items = append(ch.items, it)
	return true, nil
}

// over reports whether more timers are due by a time than fit a chunk.
func (ch *chunk) over(p *partition, r *stream.Record, until int64) bool {
	if !ch.plan.keys.Keyed {
		return false
	}
	most := ch.firingsMax()
	if ch.options.storm.has(r) {
		most = 0
	}
	return !p.fired.all(r.Offset, until) && p.due[due.Timer].Over(until, most)
}

// fired is a position and a time. All timers that are due there up to this time have fired. Those
// that are left are due at the next position.
type fired struct {
	at    stream.Offset
	until int64
}

func (f *fired) all(at stream.Offset, until int64) bool { return f.at == at && until <= f.until }

// tick ends the chunk before the last item. If that is the only item, it becomes a tick, which only
// fires timers up to a time and does not process the event.
func (ch *chunk) tick(p *partition, until int64) {
	last := len(ch.items) - 1
	if last > 0 {
		ch.items = ch.items[:last]
		return
	}
	it := &ch.items[0]
	it.Index, it.Outcome = 0, operator.Tick
	ch.mark(p, due.Mark{Offset: int64(it.Record.Offset), Watermark: it.Watermark, Until: until})
}

// ticks reports whether the chunk is a tick.
func (ch *chunk) ticks() bool { return len(ch.items) == 1 && ch.items[0].Outcome == operator.Tick }

// mark adds a place where timers may fire.
func (ch *chunk) mark(p *partition, m due.Mark) {
	if !ch.plan.keys.Keyed {
		return
	}
	if p.markChunk != ch.serial {
		p.markChunk = ch.serial
		p.marks.Reset()
	}
	p.marks.Add(m)
}

// advance moves the watermark of partitions that had no record for Time.Idle, and runs the ends and
// timers that become due. stood says that all records were read. advance reads the clock once. The
// resulting watermark becomes state at the current position of the partition.
func (w *worker) advance(ctx context.Context, stood bool) error {
	now := w.options.Clock.Now()
	for id, p := range w.partitions {
		quiet := now.Sub(p.heard)
		switch {
		case !stood || p.newest == never || w.waits(id):
			p.heard = now
			continue
		case quiet < w.plan.Time.Idle:
			continue
		}
		p.heard, p.newest, p.moved = now, p.newest+quiet.Microseconds(), true
		at := []stream.Record{{Partition: id, Offset: p.next}}
		for w.idling = true; w.idling; w.idling = p.isDue(p.watermark(w.plan.Time.Lateness)) {
			if _, err := w.compute(ctx, at); err != nil {
				return err
			}
			if w.full() {
				if err := w.commit(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// isDue reports whether a group ends or a timer fires by a watermark.
func (p *partition) isDue(watermark int64) bool {
	return p.due[due.Group].Until(watermark) || !p.fired.all(p.next, watermark) && p.due[due.Timer].Until(watermark)
}

// keep stores s as the state of the function for the key.
func (ch *chunk) keep(p *partition, k *keyed.Key, state *keyed.Call, s *operator.State) {
	p.keys.Keep(k, state, s)
	ch.touch(p, k)
}

// fire runs the timers of a key and function up to the time until and up to the place of the item
// last. It may run before the next event of the key or at the end of the chunk: the place of a
// timer does not depend on this. It returns the state of the function for the key after the timers.
func (ch *chunk) fire(p *partition, k *keyed.Key, c *operator.Call, last int32, until int64) (*keyed.Call, error) {
	state, err := p.keys.Call(k, c)
	for err == nil && p.markChunk == ch.serial {
		first, at := -1, due.Mark{Item: last}
		for i := range state.Keyed.Timers {
			t := &state.Keyed.Timers[i]
			if t.At > until {
				break
			}
			if mark, ok := p.marks.First(t.At, t.After); ok && (mark.Item < at.Item || mark.Item == at.Item && first < 0) {
				first, at = i, mark
			}
		}
		if first < 0 {
			break
		}
		if most := ch.firingsMax(); ch.ticks() && ch.firings.full(most, 1) {
			break
		} else if ch.firings.full(most, stormTimes) {
			return nil, ch.storm(p, at.Offset)
		}
		ch.fireOne(p, k, c, state, first, at)
	}
	return state, err
}

func (ch *chunk) fireOne(p *partition, k *keyed.Key, c *operator.Call, state *keyed.Call, timer int, mark due.Mark) {
	t, before := state.Keyed.Timers[timer], state.Keyed.Without(timer)
	ch.metrics.Timers.Add(1)
	ch.firings.count++
	ch.building.fired++
	ch.keep(p, k, state, before)
	if c.Function.Timer == nil {
		return
	}
	id := header.OfTimer(c.Name, t.At, t.Name, t.SetBy, k.Name)
	at := operator.TimeOrZero(t.At)
	effects, err := (&operator.Invocation{
		ID: id, Key: k.Name, Time: at, Watermark: at, Offset: mark.Offset, After: t.After, Timer: t.Name, Topics: c.Topics, State: before,
	}).Call(c.Function)
	if effects.State != nil {
		ch.keep(p, k, state, effects.State)
	}
	for _, o := range effects.Outputs {
		ch.firings.bytes += len(o.Value)
	}
	if err != nil || len(effects.Outputs) > 0 {
		ch.firings.list = append(ch.firings.list, firing{mark.Item, stream.Offset(mark.Offset), t.At, k.Name, c, t.Name, id, effects.Outputs, err})
	}
}

// fireRest fires the timers that are due in the chunk and belong to keys without a later event in
// it. In a tick it fires only as many as fit the chunk, first in the order of the queue.
func (ch *chunk) fireRest() error {
	if !ch.plan.keys.Keyed {
		return nil
	}
	last, tick := int32(len(ch.items)-1), ch.ticks()
	for _, p := range ch.building.touched {
		if p.markChunk != ch.serial {
			continue
		}
		var later []due.Entry // timers that are left, and due in the next chunk
		for !tick || !ch.firings.full(ch.firingsMax(), 1) {
			until := p.marks.Until()
			k, at, err := p.keys.Awaited(until)
			if err != nil {
				return err
			}
			if k == nil {
				p.fired = fired{p.marks.Last(), until}
				break
			}
			if tick {
				until = at // the next timer may belong to another key
			}
			next, blocked, err := ch.fireKey(p, k, last, until)
			if err != nil {
				return err
			}
			if blocked != never {
				later = append(later, due.Entry{At: blocked, Key: k.Name})
			}
			if next != never {
				p.keys.Await(k, next)
			}
		}
		slices.SortFunc(later, func(a, b due.Entry) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.At, b.At)) })
		for _, entry := range slices.Compact(later) {
			p.keys.AwaitAnyway(entry)
		}
	}
	ch.firings.sort()
	return nil
}

// fireKey fires the timers of all functions of a key up to a time. next is the time of the first
// timer after until. blocked is the time of the first timer up to until that is left, because it
// was set at the last event of the chunk. Both are never if there is no such timer.
func (ch *chunk) fireKey(p *partition, k *keyed.Key, last int32, until int64) (next, blocked int64, err error) {
	next, blocked = never, never
	for _, c := range ch.plan.Calls {
		if !c.Function.Keyed {
			continue
		}
		state, err := ch.fire(p, k, c, last, until)
		if err != nil {
			return 0, 0, err
		}
		for _, t := range state.Keyed.Timers {
			into := &next
			if t.At <= until {
				into = &blocked
			}
			if *into == never || t.At < *into {
				*into = t.At
			}
		}
	}
	return next, blocked, nil
}

// sort puts the firings in the order that they were due in.
func (fs *firings) sort() {
	slices.SortStableFunc(fs.list, func(a, b firing) int {
		return cmp.Or(cmp.Compare(a.item, b.item), cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key),
			cmp.Compare(a.call.Name, b.call.Name), cmp.Compare(a.timer, b.timer))
	})
}

// write writes the records of the timers that fired before an item, from firing n on. It returns
// the index of the first firing of a later item.
func (fs *firings) write(to *transaction, n, item int, p *partition) int {
	for ; n < len(fs.list) && int(fs.list[n].item) == item; n++ {
		f := &fs.list[n]
		timer := output.Timer(p.id, f.offset, f.at, &p.origin)
		if f.err == nil {
			f.err = to.Call(f.outputs, &timer, f.id, f.call.As, f.key, f.at)
		}
		if f.err != nil {
			to.DeadTimer(timer, f.key, f.timer, f.id, fmt.Errorf("%s: %w", f.call.Name, f.err))
		}
	}
	return n
}

// reset removes all firings.
func (fs *firings) reset() {
	clear(fs.list)
	*fs = firings{list: fs.list[:0]}
}
