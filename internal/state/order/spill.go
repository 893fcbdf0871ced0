package order

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// If the window of a partition exceeds its limit of bytes, its held events become state.
//
//  1. A spill writes the held records from the front of the window as one run:
//     entries in the order of their turns, in pages. It is part of a transaction.
//     Its records leave the window, so a restart reads only later records.
//  2. A page is read back when the turn of its first entry comes. The transaction
//     with its last entry deletes it.
//  3. The committed offset stays that of the oldest record with a pending turn. So
//     repartitioners and tools see which records wait.
//  4. An answer to an event in a page becomes state too, under its question.
//  5. An event without a place is never in a page: see unplaced.go.

// page is a part of a run: some entries, stored in one or more state keys.
type page struct {
	run         stream.Offset // name of the run: offset of the first record after it
	number      int           // index in the run
	size        int           // in bytes
	last        bool          // it is the last of the run
	first, turn Place         // places of its first and last entry
	low         stream.Offset // least offset of its records
	data        []byte        // until its transaction is durable
	came        time.Time     // when one of its entries was read; zero if before a restart
}

const (
	pageBytes  = 32 << 10 // a page ends with the entry that exceeds this size
	pieceBytes = 64 << 10 // most bytes in one key
)

// pieces returns how many keys size bytes take.
func pieces(size int) int { return (size + pieceBytes - 1) / pieceBytes }

// spilled is the part of a partition that is state.
type spilled struct {
	view    stream.View
	pages   []*page             // not read back yet, by first
	open    []*page             // read back, or all of its entries are released
	turns   turns               // entries of open pages that are not released
	low     stream.Offset       // least offset of a page's record that no transaction has; maxOffset without one
	told    bool                // the state may contain answers
	early   map[Question]*early // answers to events of pages that are not read back
	unsaved []*early            // answers to events of pages that no transaction has
	saved   []Question          // answers in early that the newest transaction has
	writing []*page             // pages of the newest transaction
	written int                 // entries written since they were last counted
}

// early is an answer to an event of a page.
type early struct {
	Question
	value   []byte
	record  *held // record in the window, until a transaction has it
	of      *held // its event, if that was read back
	inState bool
}

const maxOffset = stream.Offset(1<<63 - 1)

func (s *spilled) empty() bool { return len(s.pages)+len(s.open) == 0 }

// turns is a heap by place.
type turns []*held

// Len implements heap.Interface.
func (t turns) Len() int { return len(t) }

// Less implements heap.Interface.
func (t turns) Less(i, j int) bool { return t[i].place.compare(t[j].place) < 0 }

// Swap implements heap.Interface.
func (t turns) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

// Push implements heap.Interface.
func (t *turns) Push(h any) { *t = append(*t, h.(*held)) }

// Pop implements heap.Interface.
func (t *turns) Pop() any {
	last := len(*t) - 1
	h := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	return h
}

// key returns the state key of a piece of a page.
func (g *page) key(piece int) []byte {
	k := binary.BigEndian.AppendUint64([]byte{statekey.Page}, uint64(g.run))
	k = binary.BigEndian.AppendUint32(k, uint32(g.number))
	return binary.BigEndian.AppendUint32(k, uint32(piece))
}

func runKey(run stream.Offset) []byte {
	return binary.BigEndian.AppendUint64([]byte{statekey.Run}, uint64(run))
}

func (q *Question) key() []byte { return q.Append([]byte{statekey.Early}) }

// spill removes records from the front of the window until it has at most most bytes, or until it
// has written room bytes. It appends the changes that store their held events, and returns the rest
// of room.
func (p *part) spill(to []stream.Change, most, room int64) ([]stream.Change, int64) {
	var list []*held
	window, n := p.window.rest(), 0
	for ; n < len(window) && p.bytes > most && room > 0; n++ {
		h := window[n]
		p.leave(h)
		for _, t := range []*held{h, h.turn} {
			if t == nil || !t.event || t.done || t.spilled {
				continue
			}
			t.spilled = true
			if room -= t.bytes; t.later {
				to = p.keep(to, t)
				p.spilled.written++
			} else {
				to, list = p.unplaced.drop(to, t), append(list, t)
			}
		}
	}
	p.window.drop(n)
	if len(list) == 0 {
		return to, room
	}
	p.merger.Filter(func(h *held) bool { return !h.spilled })
	for id, h := range p.waits {
		if h.spilled && !h.read {
			delete(p.waits, id)
		}
	}
	slices.SortFunc(list, func(a, b *held) int { return a.place.compare(b.place) })
	return p.write(to, list), room
}

// write appends the changes that store a run.
func (p *part) write(to []stream.Change, list []*held) []stream.Change {
	run, released := p.begin(), p.released()
	var pages []*page
	for _, h := range list {
		var g *page
		if n := len(pages); n > 0 {
			g = pages[n-1]
		}
		if g == nil || len(g.data) > pageBytes {
			g = &page{run: run, number: len(pages), first: h.place, low: h.offset}
			pages = append(pages, g)
		}
		g.data, g.turn, g.low = h.append(g.data), h.place, min(g.low, h.offset)
		g.came = h.came
	}
	pages[len(pages)-1].last = true
	index := []byte{}
	for _, g := range pages {
		g.size = len(g.data)
		index = g.append(index)
		for i := range pieces(g.size) {
			to = append(to, stream.Change{Partition: p.id, Key: g.key(i), Value: g.data[i*pieceBytes : min(len(g.data), (i+1)*pieceBytes)]})
		}
		p.shelve(g, released)
	}
	p.spilled.writing, p.spilled.written = pages, p.spilled.written+len(list)
	return append(to, stream.Change{Partition: p.id, Key: runKey(run), Value: index})
}

// shelve adds a page to the list where it belongs.
func (p *part) shelve(g *page, released Place) {
	s := &p.spilled
	if g.turn.until(released) {
		s.open = append(s.open, g)
		return
	}
	at, _ := slices.BinarySearchFunc(s.pages, g, func(a, b *page) int { return a.first.compare(b.first) })
	s.pages = slices.Insert(s.pages, at, g)
}

// released returns the place of the newest released event.
func (p *part) released() Place {
	if n := p.given.len(); n > 0 {
		return p.given.rest()[n-1].place
	}
	return p.stepped.last
}

// readBack reads the pages that are due.
func (p *part) readBack() {
	s := &p.spilled
	for len(s.pages) > 0 && p.err == nil {
		g := s.pages[0]
		if p.merger.Frontier().Before(g.first.key) || len(s.turns) > 0 && s.turns[0].place.compare(g.first) < 0 {
			return
		}
		p.err = p.openPage(g)
		s.pages[0] = nil
		s.pages = s.pages[1:]
	}
}

// openPage reads a page.
func (p *part) openPage(g *page) error {
	s := &p.spilled
	s.open = append(s.open, g)
	data := g.data
	for i := 0; i < pieces(g.size) && g.data == nil; i++ {
		piece, err := s.view.Get(g.key(i))
		if err != nil {
			return fmt.Errorf("events that %v holds in its state: %w", p.id, err)
		}
		data = append(data, piece...)
	}
	if len(data) != g.size {
		return fmt.Errorf("events that %v holds in its state: %w", p.id, errDamaged)
	}
	released := p.released()
	for r := read(data); len(r.Rest) > 0 || r.Bad; {
		h := &held{event: true, spilled: true, read: true, timed: timed{came: g.came, holder: Nothing}}
		if err := r.entry(h, p.id); err != nil {
			return fmt.Errorf("events that %v holds in its state: %w", p.id, err)
		}
		if h.place.until(released) {
			continue
		}
		h.open = slices.DeleteFunc(h.open, p.gone)
		heap.Push(&s.turns, h)
		if len(h.open) > 0 {
			if err := p.await(h); err != nil {
				return err
			}
		}
	}
	return nil
}

// await makes an event that was read back wait for its answers. Some may have arrived before.
func (p *part) await(h *held) error {
	s := &p.spilled
	k, _ := KeyOf(&h.record)
	id := asked{k.Source, k.Offset}
	p.waits[id] = h
	for _, by := range slices.Clone(h.open) {
		q := Question{k.Source, k.Offset, by}
		if a := s.early[q]; a != nil {
			delete(s.early, q)
			p.give(h, q, a.value)
			if a.of = h; a.inState {
				h.kept = append(h.kept, q)
			}
			continue
		}
		if !s.told {
			continue
		}
		value, err := s.view.Get(q.key())
		if err != nil {
			return fmt.Errorf("answers that %v holds in its state: %w", p.id, err)
		}
		if value != nil {
			p.give(h, q, value)
			h.kept = append(h.kept, q)
		}
	}
	return nil
}

// settle appends the changes of finished data. It handles the previous transaction, which is now
// durable, and the current one: pages with all entries in transactions, and answers.
func (p *part) settle(to []stream.Change) []stream.Change {
	s := &p.spilled
	for _, g := range s.writing {
		g.data = nil
	}
	s.writing = nil
	for _, q := range s.saved {
		delete(s.early, q)
	}
	s.saved = s.saved[:0]
	if s.empty() {
		return to
	}
	s.open = slices.DeleteFunc(s.open, func(g *page) bool {
		if !g.turn.until(p.stepped.last) {
			return false
		}
		for i := range pieces(g.size) {
			to = append(to, stream.Change{Partition: p.id, Key: g.key(i)})
		}
		if g.last {
			to = append(to, stream.Change{Partition: p.id, Key: runKey(g.run)})
		}
		return true
	})
	if s.empty() {
		return p.forget(to)
	}
	for _, a := range s.unsaved {
		a.record.done = true
		if a.of != nil && a.of.done {
			continue
		}
		to = append(to, stream.Change{Partition: p.id, Key: a.key(), Value: append([]byte{}, a.value...)}) // an answer may have no value
		if s.told, a.inState = true, true; a.of != nil {
			a.of.kept = append(a.of.kept, a.Question)
		} else {
			s.saved = append(s.saved, a.Question)
		}
	}
	s.unsaved = s.unsaved[:0]
	return to
}

// forget deletes all answers when no page is left. The remaining ones belong to events that were
// released before a restart.
func (p *part) forget(to []stream.Change) []stream.Change {
	s := &p.spilled
	for _, a := range s.unsaved {
		a.record.done = true
	}
	if clear(s.early); s.told {
		for e, err := range s.view.Scan([]byte{statekey.Early}) {
			if p.err = err; err != nil {
				return to
			}
			to = append(to, stream.Change{Partition: p.id, Key: e.Key})
		}
	}
	s.unsaved, s.told = s.unsaved[:0], false
	return to
}

// count adds the data that the partition holds.
func (p *part) count(to *Held) {
	s := &p.spilled
	for _, g := range s.open {
		to.Memory, to.State = to.Memory+int64(g.size), to.State+int64(g.size)
	}
	for _, g := range s.pages {
		to.Memory, to.State = to.Memory+int64(len(g.data)), to.State+int64(g.size)
	}
	p.unplaced.count(to)
	to.Memory, to.Spilled, s.written = to.Memory+p.bytes, to.Spilled+s.written, 0
}

// lowest returns the least offset of a record in a page that no transaction has.
func (p *part) lowest() stream.Offset {
	s, low := &p.spilled, p.unplaced.low()
	for _, g := range s.pages {
		low = min(low, g.low)
	}
	for _, list := range [][]*held{s.turns, p.given.rest()} {
		for _, h := range list {
			if h.spilled {
				low = min(low, h.offset)
			}
		}
	}
	return low
}

// find loads the list of pages in the state, and the events without a place.
func (p *part) find(view stream.View) error {
	p.spilled.view = view
	for e, err := range view.Scan([]byte{statekey.Run}) {
		if err != nil {
			return err
		}
		r := read(e.Value)
		if len(e.Key) != 9 {
			return errDamaged
		}
		run := stream.Offset(binary.BigEndian.Uint64(e.Key[1:]))
		for n := 0; len(r.Rest) > 0; n++ {
			g := &page{run: run, number: n, first: r.place(), turn: r.place(), low: stream.Offset(r.Number()), size: int(r.Number())}
			if g.last = len(r.Rest) == 0; g.turn.until(p.stepped.last) {
				continue // it was deleted
			}
			if p.spilled.told = true; !g.first.until(p.stepped.last) {
				p.shelve(g, p.stepped.last)
			} else if err := p.openPage(g); err != nil {
				return err
			}
		}
		if err := r.end(true); err != nil {
			return err
		}
	}
	return p.answers.find(view)
}

func (g *page) append(to []byte) []byte {
	to = g.turn.append(g.first.append(to))
	return binary.AppendUvarint(binary.AppendUvarint(to, uint64(g.low)), uint64(g.size))
}

func (p Place) append(to []byte) []byte { return binary.AppendVarint(p.key.append(to), int64(p.moved)) }

func (r *reader) place() Place { return Place{r.key(), stream.Offset(r.Signed())} }

// append encodes an entry of a page.
func (h *held) append(to []byte) []byte {
	to = binary.AppendUvarint(h.place.append(to), uint64(h.offset))
	to = binary.AppendUvarint(to, uint64(len(h.open)))
	for _, by := range h.open {
		to = packed.AppendText(to, by)
	}
	keyed := byte(0)
	if h.record.Key != nil {
		keyed = 1
	}
	to = binary.AppendVarint(append(to, keyed), h.record.Time.UnixMicro())
	to = packed.AppendText(packed.AppendText(to, h.record.Key), h.record.Value)
	to = binary.AppendUvarint(to, uint64(len(h.record.Headers)))
	for _, h := range h.record.Headers {
		to = packed.AppendText(packed.AppendText(to, h.Key), h.Value)
	}
	return to
}

// entry decodes the result of append.
func (r *reader) entry(h *held, p stream.Partition) error {
	h.place, h.offset = r.place(), stream.Offset(r.Number())
	for range r.Count() {
		h.open = append(h.open, string(r.Text()))
	}
	keyed := r.Byte() == 1
	h.record = stream.Record{Partition: p, Time: time.UnixMicro(r.Signed()).UTC(), Key: r.Text(), Value: r.Text()}
	if !keyed {
		h.record.Key = nil
	}
	for range r.Count() {
		h.record.Headers = append(h.record.Headers, stream.Header{Key: string(r.Text()), Value: r.Text()})
	}
	if r.Bad {
		return errDamaged
	}
	return nil
}
