package task

import (
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
)

// A repartitioner copies topics that are read together, or have another key, to one
// topic, by key. That topic is the log that decides results: the order in which the
// sources meet there is not promised, but it never changes.
//
//  1. A copy is the event's bytes and headers with its event time. It says where it
//     comes from, and the watermark of that source partition.
//  2. The watermark of a partition of the repartition topic is the least one of all
//     source partitions, also of those without an event there: each broadcasts its own
//     to all partitions, in records that are no events.
//  3. A source partition without events holds the others back until it was silent for
//     idleAfter. Then its repartitioner broadcasts that it is idle. It reads the clock
//     once, and the log has what the clock said.

const (
	idleAfter = 10 * time.Second
	idleCheck = idleAfter / 10
)

// scanners returns a scanner for each source of copies, or that of the input.
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

// copy appends the copy of an event, and the broadcast of its source's watermark if that
// is due.
func (ch *chunk) copy(it *item) {
	if it.broadcast {
		ch.building.Broadcast(it.partition.id, watermarkText(it.Watermark), it.Watermark+ch.plan.Time.Lateness.Microseconds(), ch.plan.Copy.Partitions)
	}
	if ch.building.Pass(&it.Event, ch.plan.Copy.Partitions); it.Alive() {
		ch.building.Copy(&it.Event, ch.plan.Key, watermarkText(it.Watermark))
	}
}

// idle broadcasts that partitions are idle which were silent for idleAfter, so that the
// others do not wait for them. It is called after a Poll without records: all of them
// are read to their end.
func (w *worker) idle(now time.Time) {
	for _, p := range w.partitions {
		if !p.idle && now.Sub(p.heard) >= idleAfter {
			p.idle = true
			w.building.touch(p)
			w.building.Broadcast(p.id, idleText, p.newest, w.plan.Copy.Partitions)
		}
	}
}
