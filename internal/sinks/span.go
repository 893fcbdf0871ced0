package sinks

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// lettersMax is the approximate maximum size of the dead letters of one object; a larger object is
// split. The dead letters stay in memory until they are committed.
const lettersMax = 4 << 20

// decision is the stored state of the newest object of a partition. If From equals To, the object
// is finished.
type decision struct {
	From  stream.Offset `json:"from"`
	To    stream.Offset `json:"to"`
	Noted stream.Offset `json:"noted,omitempty"` // dead letters of offsets before it are written
	Form  []byte        `json:"form"`
}

// phase is the state of a partition's object. A commit ends the phases deciding and noting; an
// answer of the Archive ends the phase making.
type phase uint8

const (
	counting phase = iota // counting the records of the next object
	deciding              // committing where the object ends
	making                // making the object, which may be repeated
	noting                // committing that the object is made, with its dead letters
)

// mark holds the properties of a record that count for an object.
type mark struct {
	offset stream.Offset
	size   int
	at     time.Time // arrival
}

// span is an assigned partition that is written as objects.
//
//  1. Memory holds only counts, for the object and at most one more Poll. The records
//     are read from the log when the object is made. So a repeat works like the first
//     attempt.
//  2. An object is made after the commit that says where it ends. The offset is committed
//     after the object is made. So another process makes the same object, or one that
//     starts at its end.
//  3. A dead letter is committed together with a Noted past its offset, so each record
//     has at most one.
type span struct {
	assigned
	phase phase

	from   stream.Offset // committed: offset of the first record of the object
	end    stream.Offset // after the last counted record
	rest   stream.Offset // if the object was split: the records up to here form the next object; else 0
	rows   int
	bytes  int
	since  time.Time // arrival of the first record
	ahead  []mark    // records that arrived while the object was being made
	object decision

	attempts int
	due      time.Time // time of the next attempt
	busy     bool      // the object is being made
	letters  []stream.Record
	offsets  []stream.Offset // offsets of the letters' records
	sent     int             // letters in the outstanding commit
}

// newSpan restores the state of a partition.
func newSpan(a stream.Assigned) (*span, error) {
	s := &span{assigned: assigned{id: a.Partition}, from: a.Next, end: a.Next}
	data, err := a.State.Get([]byte{statekey.Object})
	if err != nil || data == nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s.object); err != nil {
		return nil, fmt.Errorf("stored state is damaged: the newest object: %w", err)
	}
	switch o := &s.object; {
	case o.To <= a.Next: // the object is made, or the offset was reset past it
		o.From, o.To, o.Noted = a.Next, a.Next, 0
	case o.From != a.Next || o.Noted > o.To:
		return nil, fmt.Errorf("stored state is damaged: the newest object is %d-%d, and the next offset %d", o.From, o.To, a.Next)
	default:
		s.phase, s.end = making, o.To
	}
	return s, nil
}

// count adds a record to the object, unless it is counted already. It reports whether the object is
// complete.
func (s *span) count(m mark, b sink.Bounds) (complete bool) {
	if m.offset < s.end {
		return false
	}
	if s.rows == 0 {
		s.since = m.at
	}
	s.rows++
	s.bytes += m.size
	s.end = m.offset + 1
	return s.rows >= b.Rows || s.bytes >= b.Bytes
}

// come counts new records, in the order of their offsets.
func (s *span) come(marks []mark, b sink.Bounds, form func([]byte) []byte) {
	for i, m := range marks {
		if s.phase != counting {
			s.ahead = append(s.ahead, marks[i:]...)
			return
		}
		if s.count(m, b) {
			s.decide(s.end, form)
		}
	}
}

// decide closes the object at to.
func (s *span) decide(to stream.Offset, form func([]byte) []byte) {
	s.object = decision{From: s.from, To: to, Form: form(s.object.Form)}
	s.phase = deciding
}

// cut shortens an object that cannot be made as one.
func (s *span) cut(at stream.Offset) {
	s.rest = max(s.rest, s.object.To)
	s.object.To = at
	s.phase = deciding
}

// made starts the next object after one that is committed.
func (s *span) made(b sink.Bounds, form func([]byte) []byte) {
	s.from = s.object.To
	s.object.From, s.object.Noted = s.from, 0
	s.attempts, s.due, s.letters, s.offsets = 0, time.Time{}, nil, nil
	s.rows, s.bytes, s.phase = 0, 0, counting
	if rest := s.rest; rest > s.from {
		s.rest = 0
		s.decide(rest, form)
		return
	}
	s.rest = 0
	ahead := s.ahead
	s.ahead = nil
	s.come(ahead, b, form)
}

// complete reports whether the object has waited long enough, and when it will have.
func (s *span) complete(now time.Time, wait time.Duration) (bool, time.Time) {
	due := s.since.Add(wait)
	return !due.After(now), due
}

// held returns the number of counted records.
func (s *span) held() int { return s.rows + len(s.ahead) }

// awaited returns false: another member can make the same object again.
func (s *span) awaited() bool { return false }

func (s *span) dirty(left bool) bool { return s.phase == noting || s.phase == deciding && !left }

// step adds the state change, the offset and as many dead letters as fit.
func (s *span) step(step *stream.Transaction, fits func(size int) bool) {
	o, next := s.object, s.from
	if s.phase == noting {
		for s.sent = 0; s.sent < len(s.letters) && fits(sizeOf(&s.letters[s.sent])); s.sent++ {
			step.Outputs = append(step.Outputs, s.letters[s.sent])
			o.Noted = s.offsets[s.sent] + 1
		}
		if s.sent == len(s.letters) {
			next = o.To
			o.From, o.Noted = o.To, 0
		}
	}
	data, err := json.Marshal(o)
	if err != nil {
		panic(err) // numbers and bytes can always be encoded
	}
	step.Changes = append(step.Changes, stream.Change{Partition: s.id, Key: []byte{statekey.Object}, Value: data})
	step.Offsets[s.id] = next
}

// committed moves to the next phase after a commit of the span.
func (s *span) committed(b sink.Bounds, form func([]byte) []byte) {
	switch s.phase {
	case deciding:
		s.phase = making
	case noting:
		if s.sent == len(s.letters) {
			s.made(b, form)
			return
		}
		if s.sent == 0 {
			return // other spans filled the transaction
		}
		s.object.Noted = s.offsets[s.sent-1] + 1
		s.letters, s.offsets = s.letters[s.sent:], s.offsets[s.sent:]
	}
}

// letters collects the dead letters of an object.
type letters struct {
	*Deliverer
	pace   stream.Pace
	noted  stream.Offset
	bytes  int
	list   []stream.Record
	offset []stream.Offset // offsets of the letters' records
}

// refuse implements Refuse.
func (l *letters) refuse(r *stream.Record, reason error) error {
	if r.Offset < l.noted {
		return nil // already written
	}
	d := &delivery{record: *r, id: sink.IDOf(r), attempts: 1, err: &sink.Refused{Err: reason}}
	if l.bytes += d.size() + letterRoom; l.bytes > lettersMax && len(l.list) > 0 {
		return &sink.Split{At: r.Offset}
	}
	l.list = append(l.list, l.letter(d, l.pace.RecordBytes))
	l.offset = append(l.offset, r.Offset)
	return nil
}
