package order

import (
	"iter"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/stream"
)

// A replay of the sources does not know that a source was silent for a time. So it would compute
// each event in its own turn. The copies of the run say which events were forced, and to where:
// that depends on the records before them alone. A replay that follows this has the same order.

// ForcedTurn says where a forced event had its turn.
type ForcedTurn struct {
	event asked
	turn  Place
}

// Event returns the number of the source partition of the event, and its offset there.
func (t *ForcedTurn) Event() (source int32, offset int64) {
	return t.event.source &^ turnBit, t.event.offset
}

// FindForced returns the forced turns of a partition, in their order. The records are all of its
// copies, and of what these wait for. sources are the numbers of the source partitions.
func FindForced(records iter.Seq2[stream.Record, error], stages Stages, sources []int32) (list []ForcedTurn, err error) {
	p := newPart(stream.Partition{}, sources, Options{Stages: stages})
	p.found = func(t ForcedTurn) { list = append(list, t) }
	p.awaitForced()
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		p.take(&r, time.Time{})
		for p.window = (fifo[*held]{}); p.merger.Held() > 0; { // nothing is released
			p.merger.Pop()
		}
	}
	slices.SortStableFunc(list, func(a, b ForcedTurn) int { return a.turn.compare(b.turn) }) // turns of asks are ahead
	return list, nil
}

// tell tells of an event, or of a turn, that is moved.
func (p *part) tell(from Key, h *held) {
	if p.found != nil && isForced(&h.record) {
		p.found(ForcedTurn{asked{from.Source, from.Offset}, h.place})
	}
}

// isForced reports whether an event has its turn in another place than its own. An event that is
// sent back, too, is moved, but is not counted as forced.
func isForced(r *stream.Record) bool {
	c, err := ParseCopy(header.Value(r, header.Order))
	return err == nil && c.Forced && header.Value(r, header.Redrive) == nil
}

// followed is the forced turns of a run that is replayed. Nothing behind the next one is released
// before its event has come.
type followed struct {
	turns []ForcedTurn    // by turn, from the next one on
	to    map[asked]Place // all of them
	held  map[Place]*held // events that have come before their turn is the next one
	read  map[int32]int64 // by source: behind the copies that have come
}

// follow begins to follow the turns behind the last one that was released.
func (f *followed) follow(turns []ForcedTurn, last Place) {
	f.to, f.held, f.read = map[asked]Place{}, map[Place]*held{}, map[int32]int64{}
	for _, t := range turns {
		if f.to[t.event] = t.turn; !t.turn.until(last) {
			f.turns = append(f.turns, t)
		}
	}
}

// take returns the turn of an event that has come, if it was forced. Its copy may say no place.
func (f *followed) take(from Key, copied bool) (turn Place, forced bool) {
	if len(f.to) == 0 || !copied {
		return turn, false
	}
	turn, forced = f.to[asked{from.Source, from.Offset}]
	return turn, forced
}

// hold holds a forced event whose turn is waited for, so that those of one time are in order.
func (f *followed) hold(h *held, from Key, copied bool) bool {
	_, forced := f.take(from, copied)
	if forced = forced && !h.done && len(f.turns) > 0 && f.turns[0].turn.until(h.place); forced {
		f.held[h.place] = h
	}
	return forced
}

// pass notes that all copies of a source up to its mark have come.
func (f *followed) pass(m Mark) {
	if len(f.turns) > 0 {
		f.read[m.Key.Source] = max(f.read[m.Key.Source], m.Key.Offset+1)
	}
}

// awaitForced takes in the forced events that have come, in order, and has nothing released that
// is behind the next one. One that the replay does not copy is not waited for.
func (p *part) awaitForced() {
	f := &p.forced
	for ; len(f.turns) > 0; f.turns = f.turns[1:] {
		next := f.turns[0]
		if h := f.held[next.turn]; h != nil {
			delete(f.held, next.turn)
			queue := len(p.sources)
			if next.turn.key.Source < 0 { // behind those that are not moved
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
