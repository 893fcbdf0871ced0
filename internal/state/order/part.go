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
	arrival bool    // see Log
	merger  *Merger[*held]
	now     frontiers     // behind the window
	given   fifo[*held]   // released, in order, and in no step yet
	stepped cursor        // in the newest step
	told    Key           // frontier that the loop heard of
	over    stream.Offset // records before it are over, as the loop heard
	paused  bool
	answers

	// The window is the records from the committed offset on.
	window fifo[*held]
	read   stream.Offset // after the window
	stored frontiers     // before the window
	dirty  []bool        // of its keys, whether the state has another one
	unused []*held
}

// held is a record of the window.
type held struct {
	offset stream.Offset
	record stream.Record // until it is released
	event  bool
	place  place    // of an event
	marks  Marks    // of a record that is none
	done   bool     // nothing is to be released of it, or a step has what was
	open   []string // what it waits for, beside its turn: fields of Question.By
	turn   *held    // of an ask
}

// over reports whether the record is not needed any more.
func (h *held) over() bool { return h.done && (h.turn == nil || h.turn.done) }

// restore returns a partition as its state says.
func restore(a stream.Assigned, sources []int32, arrival bool, stages Stages) (*part, error) {
	n := len(sources)
	p := &part{
		id: a.Partition, sources: sources, arrival: arrival, told: First, answers: answers{stages, map[asked]*held{}},
		over: a.Next, read: a.Next, stored: newFrontiers(n), dirty: make([]bool, n),
	}
	queues := p.answers.sources(n + 1)
	p.merger = NewMerger[*held](queues)
	for i := n; i < queues; i++ {
		p.merger.Mark(i, Last) // turns, and events without a source of their own, hold nothing back
	}
	var err error
	if p.stepped, err = loadCursor(a.State); err != nil {
		return nil, fmt.Errorf("how far %v was released: %w", p.id, err)
	}
	p.stored.most = p.stepped.most
	for i, number := range sources {
		data, err := a.State.Get(frontierKey(number))
		if err == nil && data != nil {
			r := read(data)
			p.stored.keys[i], err = r.key(), r.end(true)
		}
		if err != nil {
			return nil, fmt.Errorf("the frontier of source %d beside %v: %w", number, p.id, err)
		}
		p.merger.Mark(i, p.stored.keys[i])
	}
	p.now = frontiers{slices.Clone(p.stored.keys), p.stored.most}
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
		h.done = true
		for _, m := range h.marks {
			if at, ok := p.source(m.Key.Source); ok && p.now.raise(at, m) {
				p.merger.Mark(at, p.now.keys[at])
			}
		}
		return
	}
	if header.Value(r, header.AnswerTo) != nil {
		h.done = true
		p.answer(r)
		return
	}
	h.event, h.record = true, *r
	at, from, ok := p.place(h)
	p.now.see(h.place.key)
	if ok && p.Delay > 0 {
		if t := p.turn(h, from); !t.place.until(p.stepped.last) {
			h.turn = t
			p.waits[asked{from.Source, from.Offset}] = t
			p.merger.Push(len(p.sources)+1+at, t.place.key, t)
		}
	}
	if h.place.until(p.stepped.last) { // it was released before the restart
		h.record, h.done = stream.Record{}, true
		return
	}
	if ok {
		p.ask(h, from)
	}
	p.merger.Push(at, h.place.key, h)
}

// place gives an event its place, and returns the index of its source, and the key that its
// copy says, if it says one. An event may say none, or one that its source is past, or be of a
// source partition that was added. Then its turn is at the frontier of now. So its place is a
// function of the records before it.
func (p *part) place(h *held) (source int, from Key, ok bool) {
	r := &h.record
	c, err := ParseCopy(header.Value(r, header.Order))
	at, known := p.source(c.Key.Source)
	copied := err == nil
	if copied && known && !p.arrival && p.merger.At(at).Before(c.Key) {
		h.place = place{c.Key, -1}
		return at, c.Key, true
	}
	from = c.Key
	h.place = place{p.merger.Frontier(), r.Offset}
	if !copied {
		c = Copy{Placed: Placed{Key: h.place.key}, Appended: r.Time.UnixMicro()}
	}
	c.Key.Time, c.Forced = h.place.key.Time, !p.arrival && copied
	r.Headers = c.headers(r.Headers)
	return len(p.sources), from, copied
}

// release appends the events whose turn it is, at most limit, and time that moved on
// behind them.
func (p *part) release(to []stream.Record, limit int) []stream.Record {
	for limit > 0 {
		h, ok := p.first()
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
	if limit > 0 && p.moved() {
		now := p.frontier()
		p.told, p.over = now, p.low()
		r := Marks{{now, never}}.Record(p.id, time.UnixMicro(now.Time))
		r.Offset = p.next()
		to = append(to, r)
	}
	return to
}

// first returns the held event whose turn it is, if it waits for nothing else.
func (p *part) first() (h *held, ok bool) {
	_, h, ok = p.merger.Next()
	return h, ok && len(h.open) == 0
}

// frontier returns the key up to which all is released that there is.
func (p *part) frontier() Key {
	if k, h, ok := p.merger.Next(); ok && len(h.open) > 0 {
		return Key{k.Time, k.Source, k.Offset - 1}
	}
	return p.merger.Frontier()
}

// next returns the number of the next event that is released.
func (p *part) next() stream.Offset { return p.stepped.next + stream.Offset(p.given.len()) }

// moved reports whether time moved on, or records are over that are not committed, and the
// loop has not heard of it.
func (p *part) moved() bool {
	return p.told.Before(p.frontier()) || p.given.len() == 0 && p.over < p.low()
}

// low returns the offset of the first record that is not done.
func (p *part) low() stream.Offset {
	for _, h := range p.window.rest() {
		if !h.over() {
			return h.offset
		}
	}
	return p.read
}

// ready reports whether there is something to release.
func (p *part) ready() bool {
	if p.paused {
		return false
	}
	_, ok := p.first()
	return ok || p.moved()
}

// step returns the offset to commit where the events before a number are in a step, and
// appends the changes of state.
func (p *part) step(to []stream.Change, next stream.Offset) (stream.Offset, []stream.Change, error) {
	n := int(next - p.stepped.next)
	if n < 0 || n > p.given.len() {
		return 0, to, fmt.Errorf("step of %v up to event %d, of those from %d to %d", p.id, next, p.stepped.next, p.next())
	}
	was := p.stepped
	if n > 0 {
		p.stepped.next, p.stepped.last = next, p.given.rest()[n-1].place
	}
	for _, h := range p.given.rest()[:n] {
		h.done = true
	}
	p.given.drop(n)
	low := p.trim()
	if p.stepped.most = p.stored.most; p.stepped != was {
		to = append(to, stream.Change{Partition: p.id, Key: []byte{statekey.Released}, Value: p.stepped.append(nil)})
	}
	for i, dirty := range p.dirty {
		if dirty {
			to = append(to, stream.Change{Partition: p.id, Key: frontierKey(p.sources[i]), Value: p.stored.keys[i].append(nil)})
			p.dirty[i] = false
		}
	}
	return low, to, nil
}

// trim takes the records off the front of the window that are done. It returns the offset
// of the first one that is left.
func (p *part) trim() stream.Offset {
	n, window := 0, p.window.rest()
	for ; n < len(window) && window[n].over(); n++ {
		h := window[n]
		if h.event {
			p.stored.see(h.place.key)
		}
		for _, m := range h.marks {
			if at, ok := p.source(m.Key.Source); ok && p.stored.raise(at, m) {
				p.dirty[at] = true
			}
		}
		p.unused = append(p.unused, h)
	}
	p.window.drop(n)
	return p.low()
}

// hold returns a record of the window to fill, whose place and record are of another.
func (p *part) hold() *held {
	n := len(p.unused)
	if n == 0 {
		return &held{}
	}
	h := p.unused[n-1]
	p.unused = p.unused[:n-1]
	h.event, h.done, h.open, h.turn, h.marks = false, false, nil, nil, h.marks[:0]
	return h
}
