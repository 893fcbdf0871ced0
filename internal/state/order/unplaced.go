package order

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// An unawaited event, or its turn, has no place until its answers arrive, so no page can hold it.
// If the window exceeds its limit of bytes, such an event becomes state under its own key.
//
//  1. A spill writes it, with its answers so far, under the name that answers use.
//     Its record leaves the window.
//  2. An answer brings it back. The answer's record then holds it and stays in the
//     window until the event is in a transaction, in a page, or under its key
//     again. So a restart reads the answer again, and the event gets the same place.
//  3. The transaction with the event, or with its page, deletes the key.
//
// The least offset of these events limits the committed offset. So the offset of each stays in
// memory.

// unplaced holds the events without a place that are state. It includes those that were brought
// back and are in no transaction.
type unplaced struct {
	id      stream.Partition
	view    stream.View
	offsets fifo[stream.Offset] // of their records, sorted; ^offset if the state no longer has the event
	bytes   int64               // size in state
	near    map[asked]*held     // events that were brought back, or that the newest transaction wrote or deleted
	changed []asked             // by the newest transaction
	stage   Holder              // a stage that one of them waits for: the last written one, or else the first
	first   Key                 // key of that event
	gone    []asked             // events with open answers only of stages that no longer exist
}

const (
	sizeBytes   = 4 // length of an event, stored before it
	offsetBytes = 8 // size of an offset in memory
)

// key returns the state key of a piece of an event without a place.
func (a asked) key(piece int) []byte {
	k := binary.BigEndian.AppendUint32([]byte{statekey.Unplaced}, uint32(a.source))
	k = binary.BigEndian.AppendUint64(k, uint64(a.offset))
	return binary.BigEndian.AppendUint32(k, uint32(piece))
}

// parseAsked decodes the result of key.
func parseAsked(key []byte) asked {
	return asked{int32(binary.BigEndian.Uint32(key[1:])), int64(binary.BigEndian.Uint64(key[5:]))}
}

// asked returns the name that answers use for a copied event.
func (h *held) asked() asked {
	k, _ := KeyOf(&h.record)
	return asked{k.Source, k.Offset}
}

// key returns the key of the event's place, or the key in its copy if it has no place yet.
func (h *held) key() Key {
	if h.place != (Place{}) {
		return h.place.key
	}
	k, _ := KeyOf(&h.record)
	return k
}

// remove removes the offset of an event that is no longer in the state.
func (u *unplaced) remove(at stream.Offset) {
	rest := u.offsets.rest()
	i, _ := slices.BinarySearchFunc(rest, at, func(a, b stream.Offset) int { return cmp.Compare(max(a, ^a), b) })
	rest[i] = ^at
	for u.offsets.len() > 0 && u.offsets.rest()[0] < 0 {
		u.offsets.drop(1)
	}
}

// low returns the least offset of an event, or maxOffset without events.
func (u *unplaced) low() stream.Offset {
	if u.offsets.len() == 0 {
		return maxOffset
	}
	return u.offsets.rest()[0]
}

// settle records that the newest transaction is durable.
func (u *unplaced) settle() {
	for _, id := range u.changed {
		if h := u.near[id]; h != nil && (h.spilled || h.done) {
			delete(u.near, id)
		}
	}
	u.changed = u.changed[:0]
}

// count adds the memory of these events outside the window, and their state.
func (u *unplaced) count(to *Held) {
	for _, h := range u.near {
		if h.spilled && h.later {
			to.Memory += h.bytes
		}
	}
	to.Memory, to.State = to.Memory+int64(offsetBytes*u.offsets.len()), to.State+u.bytes
}

// keep appends the changes that store an event without a place.
func (a *answers) keep(to []stream.Change, h *held) []stream.Change {
	u, id := &a.unplaced, h.asked()
	data := h.append(make([]byte, sizeBytes, sizeBytes+h.bytes))
	binary.BigEndian.PutUint32(data, uint32(len(data)))
	for i := range max(pieces(len(data)), pieces(h.stored)) {
		var piece []byte // nil deletes a piece that is no longer needed
		if from := i * pieceBytes; from < len(data) {
			piece = data[from:min(len(data), from+pieceBytes)]
		}
		to = append(to, stream.Change{Partition: u.id, Key: id.key(i), Value: piece})
	}
	if h.stored == 0 {
		u.offsets.push(h.offset)
	}
	u.bytes += int64(len(data) - h.stored)
	h.stored, u.near[id], u.changed = len(data), h, append(u.changed, id)
	u.stage, u.first = stageOf(h), h.key()
	delete(a.waits, id)
	return to
}

// drop appends the changes that delete the stored copy of an event without a place.
func (u *unplaced) drop(to []stream.Change, h *held) []stream.Change {
	if h.stored == 0 {
		return to
	}
	id := h.asked()
	for i := range pieces(h.stored) {
		to = append(to, stream.Change{Partition: u.id, Key: id.key(i)})
	}
	u.remove(h.offset)
	u.bytes -= int64(h.stored)
	h.stored, u.changed = 0, append(u.changed, id)
	return to
}

// bring returns the event in the state that an answer belongs to, or nil. If the event waits for
// the answer, the answer's record holds the event from then on.
func (a *answers) bring(q Question, record *held) (h *held, err error) {
	u, id := &a.unplaced, asked{q.Source, q.Offset}
	if u.offsets.len() == 0 {
		return nil, nil
	}
	if h = u.near[id]; h == nil {
		h, err = a.load(id)
	}
	if h == nil || !slices.Contains(h.open, q.By) {
		return h, err
	}
	if h.spilled { // records that held it are over
		again := *h
		again.spilled = false
		h = &again
	}
	u.near[id], a.waits[id] = h, h
	record.bytes += h.bytes
	return h, nil
}

// placeGone places events that wait only for stages that no longer exist. It places one, and more
// while memory is not full. Their places are after all released events. Each has its own key, so a
// restart may give other places to events that no transaction has. Window records with the offset
// of the mark hold them.
func (u *unplaced) placeGone(p *part, mark *held) {
	now := p.merger.Frontier()
	for n := 0; len(u.gone) > 0 && !now.Before(p.stepped.last.key) && (n == 0 || !p.full()); n++ {
		id := u.gone[0]
		u.gone = u.gone[1:]
		h, err := p.load(id)
		if p.err = err; h == nil {
			return
		}
		c, _ := ParseCopy(header.Value(&h.record, header.Order))
		h.later, h.place = false, PlaceAt(c.Key)
		if !now.Before(c.Key) {
			h.place.key.Time = now.Time + 1
			c.Key.Time, c.Forced, c.Moved = now.Time+1, true, h.place
			h.record.Headers = c.headers(h.record.Headers)
		}
		u.near[id] = h
		p.merger.Push(len(p.sources), h.place.key, h)
		slot := p.hold()
		slot.offset, slot.bytes, slot.done, slot.turn = mark.offset, h.bytes, true, h
		p.bytes += h.bytes
		p.window.push(slot)
	}
}

// load reads an event without a place from the state, or returns nil.
func (a *answers) load(id asked) (*held, error) {
	data, err := a.unplaced.read(id)
	if err != nil || data == nil {
		return nil, a.unplaced.damaged(err)
	}
	h := &held{event: true, later: true, stored: len(data), timed: timed{holder: Nothing}}
	r := read(data[sizeBytes:])
	if err := cmp.Or(r.entry(h, a.unplaced.id), r.end(true)); err != nil {
		return nil, a.unplaced.damaged(err)
	}
	h.bytes, h.open = sizeOf(&h.record), slices.DeleteFunc(h.open, a.gone)
	return h, nil
}

// read returns the value that keep wrote, or nil.
func (u *unplaced) read(id asked) ([]byte, error) {
	data, err := u.view.Get(id.key(0))
	if err != nil || data == nil {
		return nil, err
	}
	if len(data) < sizeBytes {
		return nil, errDamaged
	}
	size := int(binary.BigEndian.Uint32(data))
	for i := 1; i < pieces(size); i++ {
		piece, err := u.view.Get(id.key(i))
		if err != nil {
			return nil, err
		}
		data = append(data, piece...)
	}
	if len(data) != size {
		return nil, errDamaged
	}
	return data, nil
}

// damaged adds the partition to an error.
func (u *unplaced) damaged(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("an event that %v holds in its state: %w", u.id, err)
}

// find loads the list of events without a place from the state.
func (a *answers) find(view stream.View) error {
	u := &a.unplaced
	u.view = view
	var first asked // event with the least offset
	least := maxOffset
	for e, err := range view.Scan([]byte{statekey.Unplaced}) {
		if err != nil {
			return err
		}
		if n := len(asked{}.key(0)); len(e.Key) != n {
			return errDamaged
		} else if binary.BigEndian.Uint32(e.Key[n-4:]) > 0 {
			continue
		}
		if len(e.Value) < sizeBytes {
			return errDamaged
		}
		r := read(e.Value[sizeBytes:])
		r.place()
		offset, gone := stream.Offset(r.Number()), true
		for range r.Count() {
			gone = a.gone(string(r.Text())) && gone
		}
		if u.bytes += int64(binary.BigEndian.Uint32(e.Value)); r.Bad {
			return errDamaged
		}
		id := parseAsked(e.Key)
		if u.offsets.push(offset); gone {
			u.gone = append(u.gone, id)
		}
		if offset < least {
			first, least = id, offset
		}
	}
	slices.Sort(u.offsets.rest())
	if least == maxOffset {
		return nil
	}
	h, err := a.load(first)
	if h != nil && len(h.open) > 0 {
		u.stage, u.first = stageOf(h), h.key()
	}
	return err
}

// waits returns what an event without a place waits for, and its key. It takes the event at the
// front of the window, or else one in the state.
func (u *unplaced) waits(window []*held) (of Holder, first Key) {
	if len(window) > 0 {
		for _, h := range []*held{window[0], window[0].turn} {
			if h != nil && h.later && !h.spilled {
				return stageOf(h), h.key()
			}
		}
	}
	if u.offsets.len() == 0 {
		return Nothing, First
	}
	return u.stage, u.first
}

// stageOf returns the stage that an event waits for.
func stageOf(h *held) Holder { return Holder{Source: -1, By: h.open[0], Stage: true} }
