package order

import (
	"cmp"
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/stream"
)

// Some events wait for more than their turn: see docs/adr/0043-by.md.
//
//  1. An event that stages of other keys were asked for waits for their answers. These are
//     records of the same partition. They are behind the event, as it is durable before a
//     stage reads its ask. So they are no state: while the event is held, both are read again.
//  2. Where a stage has a delay, each ask has a turn of its own, so long after the ask and
//     before all events of that time. It waits for the record by which its event says what is
//     to be counted then. The ask is needed until the turn is over.
//
// What waits holds back all that is behind it in the order. An event that came when its source
// was said to be silent may have another place here than in the topic of a stage. So nothing
// waits for it: it has its place when its answers are there, and in a stage its turn has one when
// the event has said what is to be counted.

// Stages says what the events of a topic wait for. The zero value is nothing.
type Stages struct {
	By    []string      // the fields by which stages answer; others that an event was asked by are not there any more
	Delay time.Duration // the topic is read by a stage, whose asks have a turn of their own so long after; 0 is none
}

// Question names an event that a stage was asked for, or that a stage hears from, by its
// source.
type Question struct {
	Source int32
	Offset int64
	By     string // the field of the stage that answers; "" is what the event says to the stage
}

// Append appends the value of the header of an answer.
func (q *Question) Append(to []byte) []byte {
	to = binary.AppendVarint(to, int64(q.Source))
	return append(binary.AppendVarint(to, q.Offset), q.By...)
}

// parseQuestion reads what Append wrote.
func parseQuestion(data []byte) (q Question, err error) {
	r := read(data)
	source := r.Signed()
	q.Source, q.Offset = int32(source), r.Signed()
	if r.Bad || int64(q.Source) != source {
		return q, errDamaged
	}
	q.By = string(r.Rest)
	return q, nil
}

// AppendAsk appends to the value of the header of a copy that a stage was asked for it: by
// the field of the stage, in a partition of its topic.
func AppendAsk(to []byte, by string, partition int32) []byte {
	if len(to) > 0 {
		to = append(to, ',')
	}
	to = append(append(to, by...), '/')
	return strconv.AppendInt(to, int64(partition), 10)
}

// Asks yields what AppendAsk appended to the header of a copy.
func Asks(r *stream.Record) iter.Seq2[string, int32] {
	return func(yield func(string, int32) bool) {
		asked := header.Value(r, header.Asked)
		if asked == nil {
			return
		}
		for text := range strings.SplitSeq(string(asked), ",") {
			by, index, _ := strings.Cut(text, "/")
			n, err := strconv.ParseInt(index, 10, 32)
			if err == nil && !yield(by, int32(n)) {
				return
			}
		}
	}
}

// AppendHome appends the value of the header of an ask: the partition of its event.
func AppendHome(to []byte, home int32) []byte { return binary.AppendUvarint(to, uint64(home)) }

// HomeOf reads what AppendHome wrote.
func HomeOf(data []byte) (home int32, ok bool) {
	n, size := binary.Uvarint(data)
	return int32(n), size > 0 && n < 1<<20
}

// asked is an event that waits for answers, by its source.
type asked struct {
	source int32
	offset int64
}

// answers are the events of a partition that wait for more than their turn.
type answers struct {
	Stages
	waits    map[asked]*held
	unplaced unplaced
}

// sources returns how many kinds of keys there are, of so many source partitions: the turns
// of each have an order of their own.
func (a *answers) sources(n int) int {
	if a.Delay > 0 {
		return 2 * n
	}
	return n
}

// ask notes what an event waits for, by what its copy says of its source.
func (a *answers) ask(h *held, from Key) {
	if a.Delay > 0 || len(a.By) == 0 {
		return // its turn waits, or nothing
	}
	for by := range Asks(&h.record) {
		if slices.Contains(a.By, by) {
			h.open = append(h.open, by)
		}
	}
	if h.open != nil {
		a.waits[asked{from.Source, from.Offset}] = h
	}
}

// turn returns the turn that an ask has after the delay.
func (a *answers) turn(h *held) *held {
	k := h.place.key
	k.Time, k.Source = k.Time+a.Delay.Microseconds(), k.Source|turnBit
	return &held{offset: h.offset, bytes: h.bytes, record: h.record, event: true, timed: timed{came: h.came, holder: Nothing}, place: Place{k, h.place.moved}, open: []string{""}}
}

// turnBit is set in the number of the source of a turn: it is before all events of its time.
const turnBit = math.MinInt32

// enterTurn holds a turn, as of a record of the log. One whose place all sources are past is at
// their frontier, as a forced event is. Those of events that are moved back are in the order in
// which they have their places.
func (p *part) enterTurn(t *held, at stream.Offset) {
	c, _ := ParseCopy(header.Value(&t.record, header.Order))
	source, known := p.source(c.Key.Source)
	if !known || t.place.moved >= 0 {
		source, t.place.moved = len(p.sources), at
	}
	source += len(p.sources) + 1
	from := c.Key
	from.Source |= turnBit
	place, forced := p.forced.take(from, true)
	if now := p.merger.Frontier(); !forced && !now.Before(t.place.key) {
		place, forced, source = Place{now, at}, true, len(p.sources)
	} else if !forced && t.later && t.place.moved >= 0 {
		place, forced = t.place, true
	}
	if c = (Copy{Placed: Placed{Key: c.Key}}); forced {
		t.place, c.Forced, c.Moved = place, true, place
	}
	c.Key.Time, c.Appended = t.place.key.Time, t.place.key.Time
	t.record.Headers = slices.DeleteFunc(c.headers(t.record.Headers), func(h stream.Header) bool { return h.Key == header.Ask })
	if forced {
		p.tell(from, t)
	}
	switch {
	case t.place.until(p.stepped.last):
		t.record, t.done, t.open = stream.Record{}, true, nil
		delete(p.waits, asked{c.Key.Source, c.Key.Offset})
	case !p.forced.hold(t, from, true):
		p.merger.Push(source, t.place.key, t)
	}
}

// answer takes in a record that says something of an event. One that nothing waits for is
// of an event in a page, of one that was released, or of a stage that is not there any more.
func (p *part) answer(record *held, r *stream.Record) {
	q, err := parseQuestion(header.Value(r, header.AnswerTo))
	h := p.waits[asked{q.Source, q.Offset}]
	if h == nil && err == nil {
		var failed error
		was := record.bytes
		h, failed = p.bring(q, record)
		p.bytes, p.err = p.bytes+record.bytes-was, cmp.Or(p.err, failed)
	}
	waits := err == nil && h != nil && slices.Contains(h.open, q.By)
	if waits {
		if h.stored > 0 {
			record.turn = h
		}
		p.give(h, q, r.Value)
		p.come(h, record.offset)
	}
	kept := err == nil && h == nil && !p.spilled.empty() && p.asks(q.By)
	if !kept && !(waits && h.read) {
		record.done = true // an event that is in no page is before it in the window
		return
	}
	a := &early{Question: q, value: r.Value, record: record, of: h}
	if p.spilled.unsaved = append(p.spilled.unsaved, a); kept {
		p.spilled.early[q] = a
	}
}

// come gives an event, or a turn, that waited without a place its place. It does nothing while
// answers are missing.
func (p *part) come(h *held, at stream.Offset) {
	switch {
	case !h.later || len(h.open) > 0:
		return
	case h.place == (Place{}):
		c, err := ParseCopy(header.Value(&h.record, header.Order))
		p.enter(h, c, err == nil, at)
	default:
		p.enterTurn(h, at)
	}
	h.later = false
}

// asks reports whether stages answer by a field.
func (a *answers) asks(by string) bool {
	return a.Delay > 0 && by == "" || a.Delay == 0 && slices.Contains(a.By, by)
}

// gone reports whether the stage that answers by a field is not there any more.
func (a *answers) gone(by string) bool { return by != "" && !slices.Contains(a.By, by) }

// give gives an event that waits an answer.
func (a *answers) give(h *held, q Question, answer []byte) {
	h.record.Headers = append(slices.Clip(h.record.Headers), stream.Header{Key: header.Answer, Value: answer})
	at := slices.Index(h.open, q.By)
	if h.open = slices.Delete(h.open, at, at+1); len(h.open) == 0 {
		delete(a.waits, asked{q.Source, q.Offset})
	}
}
