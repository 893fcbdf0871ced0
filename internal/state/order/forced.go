package order

import (
	"iter"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/stream"
)

// A replay of the sources does not know that a source was silent for a time. So it would place each
// event at its own time. The copies of the original run record the forced events and their places.
// A place depends only on the records before it. A replay that follows these places has the same
// order.

// ForcedTurn is the place of a forced event.
type ForcedTurn struct {
	event asked
	turn  Place
}

// Event returns the source partition number of the event, and its offset there.
func (t *ForcedTurn) Event() (source int32, offset int64) {
	return t.event.source &^ turnBit, t.event.offset
}

// FindForced returns the forced turns of a partition, in order. records are all copies of the
// partition and all answers. sources are the numbers of the source partitions.
func FindForced(records iter.Seq2[stream.Record, error], stages Stages, sources []int32) (list []ForcedTurn, err error) {
	p := newPart(stream.Partition{}, sources, Options{Stages: stages})
	p.found = func(t ForcedTurn) { list = append(list, t) }
	p.awaitForced()
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		p.take(&r, time.Time{})
		for p.window = (fifo[*held]{}); p.merger.Held() > 0; { // discard: nothing is released
			p.merger.Pop()
		}
	}
	slices.SortStableFunc(list, func(a, b ForcedTurn) int { return a.turn.compare(b.turn) }) // the turns of asks come first
	return list, nil
}

// tell reports a moved event or turn to found.
func (p *part) tell(from Key, h *held) {
	if p.found != nil && isForced(&h.record) {
		p.found(ForcedTurn{asked{from.Source, from.Offset}, h.place})
	}
}

// isForced reports whether an event was moved because it came too late for its own place. A
// redriven event is moved too, but does not count as forced.
func isForced(r *stream.Record) bool {
	c, err := ParseCopy(header.Value(r, header.Order))
	return err == nil && c.Forced && header.Value(r, header.Redrive) == nil
}

// followed holds the forced turns of a replayed run. Until the event of the next forced turn has
// arrived, no event after that turn is released.
type followed struct {
	turns []ForcedTurn    // the remaining turns, in order
	to    map[asked]Place // all turns, by event
	held  map[Place]*held // events that arrived before their turn is next
	read  map[int32]int64 // by source: offset after the copies that have arrived
}

// follow starts to follow the turns after last, the last released place.
func (f *followed) follow(turns []ForcedTurn, last Place) {
	f.to, f.held, f.read = map[asked]Place{}, map[Place]*held{}, map[int32]int64{}
	for _, t := range turns {
		if f.to[t.event] = t.turn; !t.turn.until(last) {
			f.turns = append(f.turns, t)
		}
	}
}

// take returns the forced turn of an event, if it has one. copied is false if the record is not a
// copy with a place.
func (f *followed) take(from Key, copied bool) (turn Place, forced bool) {
	if len(f.to) == 0 || !copied {
		return turn, false
	}
	turn, forced = f.to[asked{from.Source, from.Offset}]
	return turn, forced
}

// hold stores a forced event with a turn that is not over, so that turns of the same time stay in
// order.
func (f *followed) hold(h *held, from Key, copied bool) bool {
	_, forced := f.take(from, copied)
	if forced = forced && !h.done && len(f.turns) > 0 && f.turns[0].turn.until(h.place); forced {
		f.held[h.place] = h
	}
	return forced
}

// pass records that all copies of a source up to its mark have arrived.
func (f *followed) pass(m Mark) {
	if len(f.turns) > 0 {
		f.read[m.Key.Source] = max(f.read[m.Key.Source], m.Key.Offset+1)
	}
}

// awaitForced enters the forced events that have arrived, in order. It blocks the release of events
// after the next forced turn. It does not wait for an event that the replay does not copy.
func (p *part) awaitForced() {
	f := &p.forced
	for ; len(f.turns) > 0; f.turns = f.turns[1:] {
		next := f.turns[0]
		if h := f.held[next.turn]; h != nil {
			delete(f.held, next.turn)
			queue := len(p.sources)
			if next.turn.key.Source < 0 { // turns have queues after those of unmoved ones
				queue += len(p.sources) + 1
			}
			p.merger.Push(queue, h.place.key, h)
		} else if source, offset := next.Event(); f.read[source] <= offset {
			p.merger.Mark(len(p.sources), next.turn.key.previous())
			return
		}
	}
	p.merger.Mark(len(p.sources), Last)
}
