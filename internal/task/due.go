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

// What is due at a position comes before the event there, in the order of due.Queue:
//
//  1. Groups end in log order, before the waves: comeDue. The event of a group is an item.
//  2. Timers fire by key, behind the waves: a function may read what they make. Marks say
//     before which item each fires, and firings.sort puts their outputs in order. That is
//     the order of the queue: what a timer sets for earlier than itself is due at the next
//     position.
//  3. Silent keys end behind the chunk: expire. An event finds out itself whether its key
//     has ended.
//
// Where more is due than a chunk takes, the position is a tick first, in chunks of its own.

// firing is a timer that was due, and what its call wrote.
type firing struct {
	item    int32 // before which its outputs stand
	offset  stream.Offset
	at      int64
	key     string
	call    *operator.Call
	timer   string
	id      string
	outputs []udf.Output
	err     error
}

// firings are the timers that fired in a chunk.
type firings struct {
	list  []firing
	count int // of all, with those that wrote nothing
	bytes int // of outputs
}

// firingsMax is about how many timers fire in a transaction. Where more are due they take several.
func (tx *committer) firingsMax() int { return 4 * tx.options.ChunkEvents }

// full reports whether more fired than so many times what a chunk takes.
func (fs *firings) full(most, times int) bool {
	return fs.count >= times*most || fs.bytes >= times*chunkBytesMax
}

// stormTimes is how often the timers of a chunk may be more than it takes, as not all are
// known when it begins.
const stormTimes = 4

// storm is the error of a chunk whose timers set very many that were due in it. The chunk
// is thrown away. Its events and as many after it then have chunks of their own, in which no
// timer is due that was not known before; of one storm after the other each has twice as many.
type storm struct {
	partition stream.Partition
	until     stream.Offset
	events    int // after the chunk
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
	return fmt.Sprintf("very many timers are due up to %v@%d", s.partition, s.until)
}

// has reports whether a record is of a storm. None is of nil.
func (s *storm) has(r *stream.Record) bool {
	return s != nil && r.Partition == s.partition && r.Offset <= s.until
}

// comeDue has what is due at the last item come before it. It reports false if that is more
// than the chunk takes: the item comes again in the next one.
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

// endGroups ends the groups that are due at the last item, and puts their events before it.
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

// over reports whether more timers are due by a time than a chunk takes.
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

// fired is a position, and a time up to which all timers that are due there have fired. Those
// that are left are due at the next one.
type fired struct {
	at    stream.Offset
	until int64
}

func (f *fired) all(at stream.Offset, until int64) bool { return f.at == at && until <= f.until }

// tick ends the chunk before the last item. The only one becomes a tick, at which timers up
// to a time fire: nothing is done about the event yet.
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

// mark notes a place where timers may fire.
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

// advance moves the time of partitions on that were read to their end for Time.Idle, and
// ends what that ends. It reads the clock once: what that says becomes state, at the
// position up to which they are read.
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

// isDue reports whether a group is to end or a timer to fire by a watermark.
func (p *partition) isDue(watermark int64) bool {
	return p.due[due.Group].Until(watermark) || !p.fired.all(p.next, watermark) && p.due[due.Timer].Until(watermark)
}

// keep makes s what the function keeps of the key.
func (ch *chunk) keep(p *partition, k *keyed.Key, state *keyed.Call, s *operator.State) {
	p.keys.Keep(k, state, s)
	ch.touch(p, k)
}

// fire calls the timers of a key and function whose time is until or before, before the item
// last at the latest. The place of a timer does not depend on when it is called: before the
// next event of its key, or else at the end of the chunk. It returns what the function keeps
// of the key after that.
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

// fireRest fires what is due in the chunk of keys without a later event in it. Of a tick it
// fires what the chunk takes: the first in the order of the queue.
func (ch *chunk) fireRest() error {
	if !ch.plan.keys.Keyed {
		return nil
	}
	last, tick := int32(len(ch.items)-1), ch.ticks()
	for _, p := range ch.building.touched {
		if p.markChunk != ch.serial {
			continue
		}
		var later []due.Entry // what is left is not due before the next chunk
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
				until = at // the next one may be of another key
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

// fireKey fires the timers of all functions of a key up to a time. It returns the
// time of the next one after that, and of one up to it that is left, since it was
// set at the chunk's last event; never where there is none.
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

// sort puts the firings in the order in which they were due.
func (fs *firings) sort() {
	slices.SortStableFunc(fs.list, func(a, b firing) int {
		return cmp.Or(cmp.Compare(a.item, b.item), cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key),
			cmp.Compare(a.call.Name, b.call.Name), cmp.Compare(a.timer, b.timer))
	})
}

// write makes the records of the timers that fired before an item, from the n-th firing on,
// and returns how many there are before the next item.
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
