package order

import (
	"container/heap"
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
	arrival bool    // see Options
	merger  *Merger[*held]
	now     frontiers   // behind the window
	given   fifo[*held] // released, in order, and in no step yet
	stepped cursor      // in the newest step
	heard
	waiting
	paused bool
	err    error // of the state: nothing is released any more
	answers
	spilled spilled
	found   func(ForcedTurn) // is told of each forced turn; nil is not

	// The window is the records from cursor.from on, or from the committed offset on.
	window fifo[*held]
	bytes  int64         // of its records
	most   int64         // bytes beyond which what is held becomes state; 0 is no bound
	read   stream.Offset // after the window
	stored stored        // before the window
	unused []*held
}

// stored are frontiers that are state.
type stored struct {
	frontiers
	dirty []bool        // of the keys, whether the state has another one
	added map[int32]Key // of source partitions that this reader does not know: the next one may. The state has not these
}

// heard is what the loop heard.
type heard struct {
	told   Key           // frontier
	over   stream.Offset // records before it are over
	warned bool          // the window is full
}

// waiting is what events of a partition wait for.
type waiting struct {
	waitsFor Holder
	since    time.Time // they wait for it
	looked   time.Time // at what they wait for
	first    Key       // of the event that waits
	forced   followed  // turns, in a replay
}

// held is a record of the window.
type held struct {
	offset stream.Offset
	bytes  int64         // of the record, in the window
	record stream.Record // of an event, until it is in a step
	event  bool
	sees   Key      // of an event: the frontiers know of it since it was read
	place  Place    // of an event
	marks  Marks    // of a record that is none
	done   bool     // nothing is to be released of it, or a step has what was
	open   []string // what it waits for, beside its turn: fields of Question.By
	turn   *held    // of an ask; of an answer, the event without a place that it brought back
	later  bool     // it has its place when nothing is open any more
	stored int      // bytes that the state has of it, as it had no place; 0 is none

	spilled, read bool       // a page of the state has it; it is from there
	kept          []Question // of an event: answers to it that are in state

	timed
}

// timed is how long an event is held.
type timed struct {
	came     time.Time
	released bool
	waited   time.Duration // when it was released
	holder   Holder        // what it waited for last
}

// over reports whether the record is not needed any more.
func (h *held) over() bool { return h.done && (h.turn == nil || h.turn.done || h.turn.spilled) }

// newPart returns a partition before its first record.
func newPart(id stream.Partition, sources []int32, o Options) *part {
	n := len(sources)
	p := &part{
		id: id, sources: sources, arrival: o.Arrival, answers: answers{o.Stages, map[asked]*held{}, unplaced{id: id, near: map[asked]*held{}, stage: Nothing}},
		waiting: waiting{waitsFor: Nothing}, heard: heard{told: First}, now: newFrontiers(n), stored: stored{newFrontiers(n), make([]bool, n), map[int32]Key{}},
		spilled: spilled{low: maxOffset, early: map[Question]*early{}},
	}
	queues := p.answers.sources(n + 1)
	p.merger = NewMerger[*held](queues)
	for i := n + 1; i < queues; i++ {
		p.merger.Mark(i, Last) // turns hold nothing back
	}
	return p
}

// restore returns a partition as its state says.
func restore(a stream.Assigned, sources []int32, o Options) (*part, error) {
	p := newPart(a.Partition, sources, o)
	var err error
	if p.stepped, err = loadCursor(a.State); err != nil {
		return nil, fmt.Errorf("how far %v was released: %w", p.id, err)
	}
	p.over, p.stored.most, p.read = a.Next, p.stepped.most, max(a.Next, p.stepped.from)
	p.forced.follow(o.Forced[p.id.Index], p.stepped.last)
	p.awaitForced()
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
	if err := p.find(a.State); err != nil {
		return nil, fmt.Errorf("what %v holds in its state: %w", p.id, err)
	}
	p.spilled.low = p.lowest()
	return p, nil
}

// source returns the index of a source partition by its number, if there is one.
func (p *part) source(number int32) (at int, known bool) {
	return slices.BinarySearch(p.sources, number)
}

func frontierKey(source int32) []byte {
	return binary.BigEndian.AppendUint32([]byte{statekey.Source}, uint32(source))
}

// heldBytes is what a record of the window takes beside its bytes.
const heldBytes = 256

// sizeOf returns about how many bytes a record takes in memory.
func sizeOf(r *stream.Record) int64 {
	n := heldBytes + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return int64(n)
}

// take takes in the next record.
func (p *part) take(r *stream.Record, now time.Time) {
	if r.Offset < p.read {
		return // its event was released, or is in a page
	}
	h := p.hold()
	h.came = now
	h.offset, p.read = r.Offset, r.Offset+1
	h.bytes = sizeOf(r)
	p.bytes += h.bytes
	p.window.push(h)
	if data := header.Value(r, header.Frontier); data != nil {
		h.done = true
		p.mark(h, data)
		p.unplaced.placeGone(p, h)
		p.awaitForced()
		return
	}
	if header.Value(r, header.AnswerTo) != nil {
		p.answer(h, r)
		return
	}
	h.event, h.record = true, *r
	c, err := ParseCopy(header.Value(r, header.Order))
	if err == nil {
		p.ask(h, c.Key)
	}
	if h.later = c.Unawaited && len(h.open) > 0; h.later {
		h.place, h.sees = Place{}, First
		if _, known := p.source(c.Key.Source); known {
			h.sees = c.Key
		}
	} else {
		p.enter(h, c, err == nil, h.offset)
		h.sees = h.place.key
	}
	p.now.see(h.sees)
	p.awaitForced()
}

// enter gives an event its place, as of a record of the log, and holds it until its turn.
func (p *part) enter(h *held, c Copy, copied bool, at stream.Offset) {
	source, from := p.place(h, c, copied, at)
	if copied && p.Delay > 0 {
		h.turn = p.turn(h)
		h.turn.later = c.Unawaited
		p.waits[asked{from.Source, from.Offset}] = h.turn
	}
	switch {
	case h.place.until(p.stepped.last): // it was released before the restart
		if h.record, h.done = (stream.Record{}), true; len(h.open) > 0 {
			delete(p.waits, asked{from.Source, from.Offset})
			h.open = nil
		}
	case !p.forced.hold(h, from, copied):
		p.merger.Push(source, h.place.key, h)
	}
	if h.turn != nil && !h.turn.later {
		p.enterTurn(h.turn, at)
	}
}

// mark takes in what marks say of the sources.
func (p *part) mark(h *held, data []byte) {
	h.marks, _ = ParseMarks(h.marks, data) // one that is damaged moves nothing
	for _, m := range h.marks {
		if at, ok := p.source(m.Key.Source); ok && p.now.raise(at, m) {
			p.merger.Mark(at, p.now.keys[at])
		}
		p.forced.pass(m)
	}
}

// place gives an event its place, and returns the index of its source, and the key that its
// copy says. An event may say none, or one that all sources are past, or be of a source partition
// that was added. Then its turn is at the frontier as of a record of the log. One that its own
// source is past, as it was silent, keeps its place while another source holds that back. So its
// place is a function of the records before it, and a replay is told it.
func (p *part) place(h *held, c Copy, copied bool, at stream.Offset) (source int, from Key) {
	r := &h.record
	source, known := p.source(c.Key.Source)
	turn, forced := p.forced.take(c.Key, copied)
	if copied && known && !forced && !p.arrival && p.merger.Frontier().Before(c.Key) {
		h.place = Place{c.Key, -1}
		return source, c.Key
	}
	from = c.Key
	h.place = Place{p.merger.Frontier(), at}
	if forced {
		h.place = turn
	}
	if !copied {
		c = Copy{Placed: Placed{Key: h.place.key}, Appended: r.Time.UnixMicro()}
	}
	c.Key.Time, c.Forced, c.Moved = h.place.key.Time, !p.arrival && copied, h.place
	r.Headers = c.headers(r.Headers)
	p.tell(from, h)
	return len(p.sources), from
}

// release appends the events whose turn it is, at most limit, and time that moved on
// behind them.
func (p *part) release(to []stream.Record, limit int, now time.Time) []stream.Record {
	for limit > 0 {
		h, ok := p.first()
		if !ok {
			break
		}
		p.pop(h)
		h.record.Offset, h.released = p.next(), true
		if !h.came.IsZero() && now.After(h.came) {
			h.waited, h.holder = now.Sub(h.came), p.waitsFor
		}
		p.given.push(h)
		to = append(to, h.record)
		limit--
	}
	if limit > 0 && p.moved() {
		now := p.frontier()
		p.told, p.over, p.warned = now, p.low(), p.full()
		r := Marks{{now, never}}.Record(p.id, time.UnixMicro(now.Time))
		r.Offset = p.next()
		to = append(to, r)
	}
	return to
}

// head returns the held event with the least place, and whether all sources have reached it. After a
// restart, the record that moved an event of a page may be read again: others that are moved by
// records before it are released first. Places of a run that is followed are of another log, and
// awaitForced keeps their order.
func (p *part) head() (h *held, due bool) {
	_, h, due = p.merger.Next()
	if p.spilled.empty() {
		return h, due
	}
	p.readBack()
	if t := p.spilled.turns; len(t) > 0 && (h == nil || t[0].place.until(h.place)) {
		h, due = t[0], !p.merger.Frontier().Before(t[0].place.key) && (t[0].place.moved < p.read || len(p.forced.to) > 0)
	}
	return h, due && p.err == nil
}

// pop removes the head.
func (p *part) pop(h *held) {
	if h.read {
		heap.Pop(&p.spilled.turns)
	} else {
		p.merger.Pop()
	}
}

// first returns the held event whose turn it is, if it waits for nothing else.
func (p *part) first() (h *held, ok bool) {
	h, ok = p.head()
	return h, ok && len(h.open) == 0
}

// frontier returns the key up to which all is released that there is.
func (p *part) frontier() Key {
	if h, ok := p.head(); ok && len(h.open) > 0 {
		return h.place.key.previous()
	}
	return p.merger.Frontier()
}

// full reports whether what is held has to become state.
func (p *part) full() bool { return p.most > 0 && p.bytes > p.most }

// next returns the number of the next event that is released.
func (p *part) next() stream.Offset { return p.stepped.next + stream.Offset(p.given.len()) }

// moved reports whether time moved on, or a step is to move the window, and the loop has not
// heard of it.
func (p *part) moved() bool {
	return p.told.Before(p.frontier()) || p.given.len() == 0 && p.over < p.low() || p.full() && !p.warned
}

// low returns the offset of the first record with an event that is in no step.
func (p *part) low() stream.Offset {
	for _, h := range p.window.rest() {
		if h.event && !h.over() {
			return min(h.offset, p.spilled.low)
		}
	}
	return min(p.read, p.spilled.low)
}

// begin returns the offset of the first record of the window.
func (p *part) begin() stream.Offset {
	if p.window.len() > 0 {
		return p.window.rest()[0].offset
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
// appends the changes of state. What is held may take so many bytes of them. It returns how
// many are left.
func (p *part) step(to []stream.Change, next stream.Offset, room int64) (low stream.Offset, changes []stream.Change, left int64, err error) {
	n := int(next - p.stepped.next)
	if n < 0 || n > p.given.len() {
		return 0, to, room, fmt.Errorf("step of %v up to event %d, of those from %d to %d", p.id, next, p.stepped.next, p.next())
	}
	p.unplaced.settle()
	was := p.stepped
	if n > 0 {
		p.stepped.next, p.stepped.last = next, p.given.rest()[n-1].place
	}
	for _, h := range p.given.rest()[:n] {
		if h.place.moved >= 0 && isForced(&h.record) {
			p.stepped.forced++
		}
		to = p.unplaced.drop(to, h)
		h.done, h.record = true, stream.Record{}
		for _, q := range h.kept {
			to = append(to, stream.Change{Partition: p.id, Key: q.key()})
		}
	}
	p.given.drop(n)
	to = p.settle(to)
	p.trim()
	if p.warned = false; p.full() {
		to, room = p.spill(to, p.most/2, room)
	}
	p.stepped.most, p.spilled.low, p.stepped.from = p.stored.most, p.lowest(), 0
	if !p.spilled.empty() || p.unplaced.offsets.len() > 0 {
		p.stepped.from = p.begin()
	}
	if p.stepped != was {
		to = append(to, stream.Change{Partition: p.id, Key: []byte{statekey.Released}, Value: p.stepped.append(nil)})
	}
	for i, dirty := range p.stored.dirty {
		if dirty {
			to = append(to, stream.Change{Partition: p.id, Key: frontierKey(p.sources[i]), Value: p.stored.keys[i].append(nil)})
			p.stored.dirty[i] = false
		}
	}
	for number, k := range p.stored.added {
		to = append(to, stream.Change{Partition: p.id, Key: frontierKey(number), Value: k.append(nil)})
	}
	clear(p.stored.added)
	return p.low(), to, room, p.err
}

// trim takes the records off the front of the window that are over.
func (p *part) trim() {
	n, window := 0, p.window.rest()
	for ; n < len(window) && window[n].over(); n++ {
		p.leave(window[n])
		p.unused = append(p.unused, window[n])
	}
	p.window.drop(n)
}

// leave takes a record out of the window, whose front it is.
func (p *part) leave(h *held) {
	p.bytes -= h.bytes
	if h.event {
		p.stored.see(h.sees)
	}
	for _, m := range h.marks {
		if at, known := p.source(m.Key.Source); !known {
			p.stored.added[m.Key.Source] = p.stored.reached(m)
		} else if p.stored.raise(at, m) {
			p.stored.dirty[at] = true
		}
	}
}

// hold returns a record of the window to fill, whose place and record are of another.
func (p *part) hold() *held {
	n := len(p.unused)
	if n == 0 {
		return &held{timed: timed{holder: Nothing}}
	}
	h := p.unused[n-1]
	p.unused = p.unused[:n-1]
	h.event, h.done, h.open, h.turn, h.later, h.marks = false, false, nil, nil, false, h.marks[:0]
	h.timed = timed{holder: Nothing}
	return h
}
