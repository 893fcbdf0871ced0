package order

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// part is a partition that is assigned.
type part struct {
	id      stream.Partition
	sources []int32 // numbers, in order
	merger  *Merger[*held]
	given   fifo[*held] // released, in order, and in no step yet
	stepped cursor      // in the newest step
	told    Key         // frontier that the loop heard of
	paused  bool

	// The window is the records from the committed offset on.
	window fifo[*held]
	read   stream.Offset // after the window
	stored []Key         // frontiers before the window, by source
	dirty  []bool        // of those, whether the state has another one
	unused []*held
}

// held is a record of the window.
type held struct {
	offset stream.Offset
	record stream.Record // until it is released
	key    Key
	marks  Marks // of a record that is no event
	done   bool  // nothing is to be released of it, or a step has what was
}

// restore returns a partition as its state says.
func restore(a stream.Assigned, sources []int32) (*part, error) {
	p := &part{id: a.Partition, sources: sources, merger: NewMerger[*held](len(sources) + 1), told: First, read: a.Next, dirty: make([]bool, len(sources))}
	p.merger.Mark(len(sources), Last) // events without a source of their own hold nothing back
	var err error
	if p.stepped, err = loadCursor(a.State); err != nil {
		return nil, fmt.Errorf("how far %v was released: %w", p.id, err)
	}
	for i, number := range sources {
		at := First
		data, err := a.State.Get(frontierKey(number))
		if err == nil && data != nil {
			r := reader{data}
			at, err = r.key(), r.end(true)
		}
		if err != nil {
			return nil, fmt.Errorf("the frontier of source %d beside %v: %w", number, p.id, err)
		}
		p.stored = append(p.stored, at)
		p.merger.Mark(i, at)
	}
	return p, nil
}

// source returns the index of a source partition by its number, if there is one.
func (p *part) source(number int32) (at int, known bool) {
	return slices.BinarySearch(p.sources, number)
}

func frontierKey(source int32) []byte {
	return binary.BigEndian.AppendUint32([]byte{statekey.Source}, uint32(source))
}

// take takes in the next record.
func (p *part) take(r *stream.Record) {
	h := p.hold()
	h.offset, p.read = r.Offset, r.Offset+1
	p.window.push(h)
	if data := header.Value(r, header.Frontier); data != nil {
		h.marks, _ = ParseMarks(h.marks, data) // one that is damaged moves nothing
		for _, k := range h.marks {
			if at, ok := p.source(k.Source); ok {
				p.merger.Mark(at, k)
			}
		}
		h.done = true
		return
	}
	h.record = *r
	at, c := p.place(h)
	if h.key = c.Key; h.key.Compare(p.stepped.last) <= 0 { // it was released before the restart
		h.record, h.done = stream.Record{}, true
		return
	}
	p.merger.Push(at, h.key, h)
}

// place returns the place of an event, and the index of its source. An event may say no
// place, or one that its source is past. Then its turn comes when all sources are past the
// frontier of now. So its place is a function of the records before it.
func (p *part) place(h *held) (source int, c Copy) {
	r := &h.record
	c, err := ParseCopy(header.Value(r, header.Order))
	at, known := p.source(c.Key.Source)
	if err == nil && known && p.merger.At(at).Before(c.Key) {
		return at, c
	}
	now := p.merger.Frontier()
	c = Copy{Placed: Placed{Key: Key{now.Time, Last.Source, int64(r.Offset)}, Late: err == nil && c.Late, Forced: true}, Appended: r.Time.UnixMicro()}
	r.Headers = slices.DeleteFunc(slices.Clone(r.Headers), func(h stream.Header) bool { return h.Key == header.Order })
	r.Headers = append(r.Headers, stream.Header{Key: header.Order, Value: c.Append(nil)})
	return len(p.sources), c
}

// release appends the events whose turn it is, at most limit, and time that moved on
// behind them.
func (p *part) release(to []stream.Record, limit int) []stream.Record {
	for limit > 0 {
		_, h, ok := p.merger.Next()
		if !ok {
			break
		}
		p.merger.Pop()
		h.record.Offset = p.next()
		p.given.push(h)
		to = append(to, h.record)
		h.record = stream.Record{}
		limit--
	}
	if now := p.merger.Frontier(); limit > 0 && p.told.Before(now) {
		p.told = now
		to = append(to, stream.Record{
			Partition: p.id, Offset: p.next(), Time: time.UnixMicro(now.Time),
			Headers: []stream.Header{{Key: header.Frontier, Value: Marks{now}.Append(nil)}},
		})
	}
	return to
}

// next returns the number of the next event that is released.
func (p *part) next() stream.Offset { return p.stepped.next + stream.Offset(p.given.len()) }

// ready reports whether there is something to release.
func (p *part) ready() bool {
	_, _, ok := p.merger.Next()
	return !p.paused && (ok || p.told.Before(p.merger.Frontier()))
}

// step returns the offset to commit where the events before a number are in a step, and
// appends the changes of state.
func (p *part) step(to []stream.Change, next stream.Offset) (stream.Offset, []stream.Change, error) {
	n := int(next - p.stepped.next)
	if n < 0 || n > p.given.len() {
		return 0, to, fmt.Errorf("step of %v up to event %d, of those from %d to %d", p.id, next, p.stepped.next, p.next())
	}
	if n > 0 {
		p.stepped = cursor{next, p.given.rest()[n-1].key}
		to = append(to, stream.Change{Partition: p.id, Key: []byte{statekey.Released}, Value: p.stepped.append(nil)})
	}
	for _, h := range p.given.rest()[:n] {
		h.done = true
	}
	p.given.drop(n)
	low := p.trim()
	for i, dirty := range p.dirty {
		if dirty {
			to = append(to, stream.Change{Partition: p.id, Key: frontierKey(p.sources[i]), Value: p.stored[i].append(nil)})
			p.dirty[i] = false
		}
	}
	return low, to, nil
}

// trim takes the records off the front of the window that are done. It returns the offset
// of the first one that is left.
func (p *part) trim() stream.Offset {
	n, window := 0, p.window.rest()
	for ; n < len(window) && window[n].done; n++ {
		h := window[n]
		for _, k := range h.marks {
			if at, ok := p.source(k.Source); ok && p.stored[at].Before(k) {
				p.stored[at], p.dirty[at] = k, true
			}
		}
		p.unused = append(p.unused, h)
	}
	low := p.read
	if n < len(window) {
		low = window[n].offset
	}
	p.window.drop(n)
	return low
}

// hold returns a record of the window to fill.
func (p *part) hold() *held {
	n := len(p.unused)
	if n == 0 {
		return &held{}
	}
	h := p.unused[n-1]
	p.unused = p.unused[:n-1]
	*h = held{marks: h.marks[:0]}
	return h
}
