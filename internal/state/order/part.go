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

// part is an assigned partition.
type part struct {
	id      stream.Partition
	sources []int32 // numbers, sorted
	arrival bool    // see Options
	merger  *Merger[*held]
	now     frontiers   // after the window
	given   fifo[*held] // released in order, not in a transaction yet
	stepped cursor      // as of the newest transaction
	heard
	waiting
	paused bool
	err    error // error of the state: the partition releases no more events
	answers
	spilled spilled
	found   func(ForcedTurn) // called for each forced turn; may be nil

	// The window holds the records from cursor.from on, or from the committed offset on.
	window fifo[*held]
	bytes  int64         // size of the window's records
	most   int64         // limit for bytes; held events beyond it become state; 0 is unlimited
	read   stream.Offset // offset after the window
	stored stored        // frontiers before the window
	unused []*held
}

// stored holds frontiers that are stored as state.
type stored struct {
	frontiers
	dirty []bool        // by key: the stored value is outdated
	added map[int32]Key // frontiers of source partitions that only the next reader may know, not stored yet
}

// heard is the progress that the task loop has been told.
type heard struct {
	told   Key           // frontier
	over   stream.Offset // offset before which all records are finished
	warned bool          // the window is full
}

// waiting describes what the events of a partition wait for.
type waiting struct {
	waitsFor Holder
	since    time.Time // start of the wait
	looked   time.Time // time of the last check
	first    Key       // key of the waiting event
	forced   followed  // forced turns, in a replay
}

// held is a record of the window.
type held struct {
	offset stream.Offset
	bytes  int64         // size of the record in the window
	record stream.Record // of an event, until a transaction has it
	event  bool
	sees   Key      // of an event: key that the frontiers know since it was read
	place  Place    // of an event
	marks  Marks    // of a record with marks
	done   bool     // nothing of it remains to be released, or a transaction has it
	open   []string // fields of missing answers (Question.By)
	turn   *held    // of an ask: its turn; of an answer: the unplaced event that it brought back
	later  bool     // it gets its place when open is empty
	stored int      // size of its copy in state while it had no place; 0 without one

	spilled, read bool       // spilled: a page in state has it; read: it was read back from there
	kept          []Question // of an event: its answers in state

	timed
}

// timed measures how long an event is held.
type timed struct {
	came     time.Time
	released bool
	waited   time.Duration // set at release
	holder   Holder        // last reason of the wait
}

// over reports whether the record is no longer needed.
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
		p.merger.Mark(i, Last) // the queues of turns do not hold back others
	}
	return p
}

// restore returns a partition with its stored state.
func restore(a stream.Assigned, sources []int32, o Options) (*part, error) {
	p := newPart(a.Partition, sources, o)
	var err error
	if p.stepped, err = loadCursor(a.State); err != nil {
		return nil, fmt.Errorf("read the released offset of %v: %w", p.id, err)
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

// source returns the index of a source partition by number, and whether it is known.
func (p *part) source(number int32) (at int, known bool) {
	return slices.BinarySearch(p.sources, number)
}

func frontierKey(source int32) []byte {
	return binary.BigEndian.AppendUint32([]byte{statekey.Source}, uint32(source))
}

// heldBytes is the memory of a window record without its bytes.
const heldBytes = 256

// sizeOf returns the approximate memory of a record in bytes.
func sizeOf(r *stream.Record) int64 {
	n := heldBytes + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return int64(n)
}

// take processes the next record.
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

// enter places an event, with the log record at offset at as its cause, and holds it until its
// turn.
func (p *part) enter(h *held, c Copy, copied bool, at stream.Offset) {
	source, from := p.place(h, c, copied, at)
	if copied && p.Delay > 0 {
		h.turn = p.turn(h)
		h.turn.later = c.Unawaited
		p.waits[asked{from.Source, from.Offset}] = h.turn
	}
	switch {
	case h.place.until(p.stepped.last): // the event was released before the restart
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

// mark applies the marks of a record to the sources.
func (p *part) mark(h *held, data []byte) {
	h.marks, _ = ParseMarks(h.marks, data) // damaged marks have no effect
	for _, m := range h.marks {
		if at, ok := p.source(m.Key.Source); ok && p.now.raise(at, m) {
			p.merger.Mark(at, p.now.keys[at])
		}
		p.forced.pass(m)
	}
}

// place sets the place of an event. It returns the index of its source and the key in its copy.
//
// The event moves to the frontier at this log record in three cases: its copy has no key, all
// sources have passed the key, or the event is of an added source partition. A silent source may
// have passed the key of its own event. If another source has not, the event keeps its place. So
// the place depends only on the records before it. A replay gets the forced places from FindForced.
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

// release appends the events that are due, at most limit, and then the advance of time.
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

// head returns the held event with the least place, and whether all sources have reached it.
//
// After a restart, the record that moved an event of a page may be read again. Events that earlier
// records moved must be released before that event. In a replay of forced turns, places belong to
// another log, and awaitForced keeps their order.
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

// first returns the held event that is due, and whether it has all answers.
func (p *part) first() (h *held, ok bool) {
	h, ok = p.head()
	return h, ok && len(h.open) == 0
}

// frontier returns how far the release is when no event is due: all events at or before this key
// are released.
func (p *part) frontier() Key {
	if h, ok := p.head(); ok && len(h.open) > 0 {
		return h.place.key.previous()
	}
	return p.merger.Frontier()
}

// full reports whether held events must become state.
func (p *part) full() bool { return p.most > 0 && p.bytes > p.most }

// next returns the number of the next released event.
func (p *part) next() stream.Offset { return p.stepped.next + stream.Offset(p.given.len()) }

// moved reports whether the loop must be told something new: time advanced, or a transaction must
// move the window.
func (p *part) moved() bool {
	return p.told.Before(p.frontier()) || p.given.len() == 0 && p.over < p.low() || p.full() && !p.warned
}

// low returns the offset of the first record with an event that no transaction has yet.
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

// step adds the events before number next to a transaction. It returns the offset to commit, the
// state changes, and the rest of room. room limits the bytes of held events that the transaction
// may spill.
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

// trim removes finished records from the front of the window.
func (p *part) trim() {
	n, window := 0, p.window.rest()
	for ; n < len(window) && window[n].over(); n++ {
		p.leave(window[n])
		p.unused = append(p.unused, window[n])
	}
	p.window.drop(n)
}

// leave removes the first record of the window.
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

// hold returns a window record to fill. Its place and record still have old values.
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
