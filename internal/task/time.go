package task

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/internal/task/keyed"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

// firing is a timer that was due, and what its call wrote.
type firing struct {
	item    int32 // at whose position, before it
	at      int64
	key     string
	call    *operator.Call
	timer   string
	id      string
	outputs []udf.Output
	err     error
}

// firingsMax is about how many timers fire in one chunk. Where more are due at
// one position, they take several steps, before that position's event.
const firingsMax = 4096

func (ch *chunk) mark(p *partition, it *item) {
	if p.markChunk != ch.serial {
		p.markChunk, p.marks = ch.serial, p.marks[:0]
	}
	p.marks.Add(it.Index, int64(it.Record.Offset), it.Watermark)
}

// advance moves the time of partitions on that were read to their end for Time.Idle, and
// ends what that ends. It reads the clock once: what that says becomes state, at the
// position up to which they are read.
func (w *worker) advance(ctx context.Context, stood bool) error {
	now := w.options.Clock.Now()
	for id, p := range w.partitions {
		quiet := now.Sub(p.heard)
		switch {
		case !stood || p.newest == never:
			p.heard = now
			continue
		case quiet < w.plan.Time.Idle:
			continue
		}
		p.heard, p.newest, p.moved, p.fired = now, p.newest+quiet.Microseconds(), true, -1
		at := []stream.Record{{Partition: id, Offset: p.next}}
		for w.idling = true; w.idling; w.idling = p.groups.Due(p.watermark(w.plan.Time.Lateness)) || w.plan.keys.Keyed && p.fired != int64(p.next) {
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

// keep makes s what the function keeps of the key.
func (ch *chunk) keep(p *partition, k *keyed.Key, state *keyed.Call, s *operator.State) {
	p.keys.Keep(k, state, s)
	ch.touch(p, k)
}

// fire calls the timers of a key and function whose time is until or before, at
// positions up to that of the item last. The position of a timer does not depend
// on when it is called: before the next event of its key, or else at the end of
// the chunk. It returns what the function keeps of the key after that.
func (ch *chunk) fire(p *partition, k *keyed.Key, c *operator.Call, last int32, until int64) (*keyed.Call, error) {
	state, err := p.keys.Call(k, c)
	for err == nil && p.markChunk == ch.serial {
		first, at := -1, last
		for i := range state.Keyed.Timers {
			t := &state.Keyed.Timers[i]
			if t.At > until {
				break
			}
			if item, ok := p.marks.First(t.At, t.After); ok && (item < at || item == at && first < 0) {
				first, at = i, item
			}
		}
		if first < 0 {
			break
		}
		ch.fireOne(p, k, c, state, first, at)
	}
	return state, err
}

func (ch *chunk) fireOne(p *partition, k *keyed.Key, c *operator.Call, state *keyed.Call, timer int, i int32) {
	t, before := state.Keyed.Timers[timer], state.Keyed.Without(timer)
	ch.metrics.Timers.Add(1)
	ch.fired++
	ch.keep(p, k, state, before)
	if c.Function.Timer == nil {
		return
	}
	id := header.OfTimer(c.Name, t.At, t.Name, t.SetBy, k.Name)
	effects, err := (&operator.Invocation{
		ID: id, Key: k.Name, Time: time.UnixMicro(t.At).UTC(), Offset: int64(ch.items[i].Record.Offset),
		Watermark: operator.TimeOrZero(ch.items[i].Watermark), Timer: t.Name, Topics: c.Topics, State: before,
	}).Call(c.Function)
	if effects.State != nil {
		ch.keep(p, k, state, effects.State)
	}
	if err != nil || len(effects.Outputs) > 0 {
		ch.firings = append(ch.firings, firing{i, t.At, k.Name, c, t.Name, id, effects.Outputs, err})
	}
}

// fireRest fires what is due in the chunk of keys without a later event in it,
// at most limit.
func (ch *chunk) fireRest(limit int) error {
	if !ch.plan.keys.Keyed {
		return nil
	}
	last := int32(len(ch.items) - 1)
	for _, p := range ch.building.touched {
		if p.markChunk != ch.serial {
			continue
		}
		var later []due.Entry // what is left is not due before the next chunk
		watermark := p.marks.Watermark()
		for ch.fired = 0; ch.fired < limit; {
			k, at, err := p.keys.Awaited(watermark)
			if err != nil {
				return err
			}
			if k == nil {
				break
			}
			until := watermark // a key's timers fire in the order of their positions
			if limit < math.MaxInt {
				until = at // at one position, all keys' in the order of time
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
		if limit < math.MaxInt && !p.keys.Awaits(watermark, 0) {
			p.fired = p.marks.Begin()
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

// firings are the timers that fired in a chunk.
type firings []firing

// sort puts them in the order of their outputs.
func (fs firings) sort() {
	slices.SortStableFunc(fs, func(a, b firing) int {
		return cmp.Or(cmp.Compare(a.item, b.item), cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key),
			cmp.Compare(a.call.Name, b.call.Name), cmp.Compare(a.timer, b.timer))
	})
}

// write makes the records of the timers that fired at an item's position, from the
// n-th firing on, and returns how many there are before the next item.
func (fs firings) write(to *transaction, n, item int, it *item) int {
	for ; n < len(fs) && int(fs[n].item) == item; n++ {
		f := &fs[n]
		timer := it.Event.Timer()
		if f.err == nil {
			f.err = to.Call(f.outputs, &timer, f.id, f.call.As, f.key, f.at)
		}
		if f.err != nil {
			to.DeadTimer(timer, f.key, f.timer, f.id, f.at, fmt.Errorf("%s: %w", f.call.Name, f.err))
		}
	}
	return n
}
