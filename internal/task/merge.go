package task

import (
	"context"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/task/watermark"
	"github.com/afterbay/afterbay/stream"
)

// Topics that are read together, or have another key, are first copied to one
// topic, by key. That topic is the log that decides results: the order in which
// sources meet there is not promised, but is kept for ever.
//
//  1. A copy is the event's bytes and headers with its event time, and says
//     where it comes from and the watermark of that source partition.
//  2. The watermark of the merged partition is the least of all source
//     partitions', whether or not they had an event here: each announces its
//     own everywhere as it goes, in records that are no events.
//  3. A source partition without events holds the others back until it was
//     silent for idleAfter. Then its copier announces that it is idle: the
//     clock is read once, and what it said is in the log.

const (
	idleAfter = 10 * time.Second
	idleCheck = idleAfter / 10
)

// scanners returns a scanner for each source of copies, or the one of the input.
func (p *Plan) scanners() []*decode.Scanner {
	if p.Sources == nil {
		return []*decode.Scanner{decode.New(p.Fields)}
	}
	var list []*decode.Scanner
	for _, s := range p.Sources {
		list = append(list, decode.New(s.Fields))
	}
	return list
}

// copy appends the copy of an event, and its source's announcement where that
// is due.
func (ch *chunk) copy(it *item) {
	if it.announce {
		ch.building.Announce(it.partition.id, watermark.Text(it.Watermark), it.Watermark+ch.plan.Time.Lateness.Microseconds(), ch.plan.Copy.Partitions)
	}
	if ch.building.Pass(&it.Event, ch.plan.Copy.Partitions); it.Alive() {
		ch.building.Copy(&it.Event, ch.plan.Key, watermark.Text(it.Watermark))
	}
}

// advance moves the time of partitions on that stood at their end for so long, and
// ends what that ends. The clock is read once, and what it said is state, at the
// position where they stand.
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

// idle announces the partitions that were silent for so long that the others
// are not to wait for them. It is called after a Poll that brought nothing, so
// all of them stood at their end.
func (w *worker) idle(now time.Time) {
	for _, p := range w.partitions {
		if !p.idle && now.Sub(p.heard) >= idleAfter {
			p.idle = true
			w.building.touch(p)
			w.building.Announce(p.id, watermark.Idle(), p.newest, w.plan.Copy.Partitions)
		}
	}
}
