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
//  1. An event waits for the answers of the stages that were asked about it. These
//     stages compute features by another key. Answers are records of the same
//     partition. They follow the event, because it is durable before a stage reads
//     its ask. So answers are not state: a restart of the reader reads the held
//     event and its answers again.
//  2. If a stage has a delay, each ask has a turn of its own: the delay after the
//     ask, before all events of that time. The turn waits for the record with the
//     value of its event to count. The ask is needed until the turn is over.
//
// A waiting event holds back all events after it in the order. An unawaited event came although its
// source was said to be silent up to its time. Its place here may differ from its place in the
// topic of a stage, so no other event waits for it. It gets its place when its answers have
// arrived. In a stage, its turn gets a place when the value of its event has arrived.

// Stages says what the events of a topic wait for. With the zero value they do not wait.
type Stages struct {
	By    []string      // fields of the stages that answer; stages of other fields in an event no longer exist
	Delay time.Duration // set in the topic of a stage: each ask has its own turn this long after it; 0 means no such turns
}

// Question names an event by its source. It stands for an ask to a stage about the event, or for
// the value of the event that a stage waits for.
type Question struct {
	Source int32
	Offset int64
	By     string // field of the stage that answers; "" for the value of the event, sent to the stage
}

// Append appends the value of an answer's header.
func (q *Question) Append(to []byte) []byte {
	to = binary.AppendVarint(to, int64(q.Source))
	return append(binary.AppendVarint(to, q.Offset), q.By...)
}

// parseQuestion decodes the result of Append.
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

// AppendAsk appends one ask to the value of a copy's header: the field of the stage, and the
// partition of the stage's topic.
func AppendAsk(to []byte, by string, partition int32) []byte {
	if len(to) > 0 {
		to = append(to, ',')
	}
	to = append(append(to, by...), '/')
	return strconv.AppendInt(to, int64(partition), 10)
}

// Asks yields the asks that AppendAsk wrote to the header of a copy.
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

// AppendHome appends the value of an ask's header: the partition of its event.
func AppendHome(to []byte, home int32) []byte { return binary.AppendUvarint(to, uint64(home)) }

// HomeOf decodes the result of AppendHome.
func HomeOf(data []byte) (home int32, ok bool) {
	n, size := binary.Uvarint(data)
	return int32(n), size > 0 && n < 1<<20
}

// asked names an event that waits for answers, by its source.
type asked struct {
	source int32
	offset int64
}

// answers holds the events of a partition that wait for more than their turn.
type answers struct {
	Stages
	waits    map[asked]*held
	unplaced unplaced
}

// sources returns the number of orders for n source partitions. With a delay, the turns of each
// source have an order of their own.
func (a *answers) sources(n int) int {
	if a.Delay > 0 {
		return 2 * n
	}
	return n
}

// ask records the answers that an event waits for, from the header of its copy.
func (a *answers) ask(h *held, from Key) {
	if a.Delay > 0 || len(a.By) == 0 {
		return // with a delay its turn waits instead; without stages nothing waits
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

// turn returns the turn of an ask after the delay.
func (a *answers) turn(h *held) *held {
	k := h.place.key
	k.Time, k.Source = k.Time+a.Delay.Microseconds(), k.Source|turnBit
	return &held{offset: h.offset, bytes: h.bytes, record: h.record, event: true, timed: timed{came: h.came, holder: Nothing}, place: Place{k, h.place.moved}, open: []string{""}}
}

// turnBit is set in the source number of a turn. It sorts a turn before all events of its time.
const turnBit = math.MinInt32

// enterTurn holds a turn, with the log record at offset at as its cause. If all sources have passed
// the place of the turn, it moves to their frontier, like a forced event. Turns of moved events
// keep the order of placement of the events.
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

// answer processes an answer record. If no event waits for it, its event is in a page, was
// released, or asked a stage that no longer exists.
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
		record.done = true // an event outside pages is before its answer in the window
		return
	}
	a := &early{Question: q, value: r.Value, record: record, of: h}
	if p.spilled.unsaved = append(p.spilled.unsaved, a); kept {
		p.spilled.early[q] = a
	}
}

// come places an event or turn that waited without a place. It does nothing while answers are
// missing.
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

// gone reports whether the stage of a field no longer exists.
func (a *answers) gone(by string) bool { return by != "" && !slices.Contains(a.By, by) }

// give adds an answer to a waiting event.
func (a *answers) give(h *held, q Question, answer []byte) {
	h.record.Headers = append(slices.Clip(h.record.Headers), stream.Header{Key: header.Answer, Value: answer})
	at := slices.Index(h.open, q.By)
	if h.open = slices.Delete(h.open, at, at+1); len(h.open) == 0 {
		delete(a.waits, asked{q.Source, q.Offset})
	}
}
