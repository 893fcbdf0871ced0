package sinks

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// lettersMax is about the most bytes of dead letters of an object, beyond which it
// is cut: they are in memory until they are committed.
const lettersMax = 4 << 20

// decision is what is stored about the newest object of a partition. It is made
// where From is To.
type decision struct {
	From  stream.Offset `json:"from"`
	To    stream.Offset `json:"to"`
	Noted stream.Offset `json:"noted,omitempty"` // dead letters of offsets before it are written
	Form  []byte        `json:"form"`
}

// phase is what happens with the object of a partition. It goes on by a commit
// (of deciding and noting) or an answer (of making).
type phase uint8

const (
	counting phase = iota // records of the next one
	deciding              // where it ends, which is to be committed
	making                // it, which may be done again
	noting                // that it is made, which is to be committed with its dead letters
)

// mark is what counts of a record.
type mark struct {
	offset stream.Offset
	size   int
	at     time.Time // it came
}

// span is a partition that is assigned, of which records become objects.
//
//  1. Only what is counted is in memory, and of at most one Poll more: an object is
//     read from the log when it is made. So a repeat is what happens always.
//  2. An object is made after the commit that says where it ends, and the offset is
//     committed after it is made: another process makes the same one, or one that
//     begins at its end.
//  3. A dead letter is committed together with Noted beyond its offset, so there is
//     one.
type span struct {
	assigned
	phase phase

	from   stream.Offset // committed: the first record of the object
	end    stream.Offset // behind the last that is counted
	rest   stream.Offset // the object was cut: its records up to here are the next one; else 0
	rows   int
	bytes  int
	since  time.Time // the first came
	ahead  []mark    // came while an object is made
	object decision

	attempts int
	due      time.Time // of the next one
	busy     bool      // it is being made
	letters  []stream.Record
	offsets  []stream.Offset // of their records
	sent     int             // letters in the commit that is outstanding
}

// newSpan restores what is kept beside a partition.
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
	case o.To <= a.Next: // it is made, or the offset was set to one behind it
		o.From, o.To, o.Noted = a.Next, a.Next, 0
	case o.From != a.Next || o.Noted > o.To:
		return nil, fmt.Errorf("stored state is damaged: the newest object is %d-%d, and the next offset %d", o.From, o.To, a.Next)
	default:
		s.phase, s.end = making, o.To
	}
	return s, nil
}

// count takes a record into the object, unless one has it, and reports whether
// that is complete.
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

// come takes records that came, in the order of their offsets.
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

// decide ends the object.
func (s *span) decide(to stream.Offset, form func([]byte) []byte) {
	s.object = decision{From: s.from, To: to, Form: form(s.object.Form)}
	s.phase = deciding
}

// cut ends an object that cannot be made earlier.
func (s *span) cut(at stream.Offset) {
	s.rest = max(s.rest, s.object.To)
	s.object.To = at
	s.phase = deciding
}

// made goes on behind an object that is committed.
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

// complete reports whether the object is to end since it waited for long enough,
// and when to look again.
func (s *span) complete(now time.Time, wait time.Duration) (bool, time.Time) {
	due := s.since.Add(wait)
	return !due.After(now), due
}

// held is how many records are counted.
func (s *span) held() int { return s.rows + len(s.ahead) }

// awaited says no: what is being made, another member makes too.
func (s *span) awaited() bool { return false }

func (s *span) dirty(left bool) bool { return s.phase == noting || s.phase == deciding && !left }

// step appends what is to be committed, of dead letters as many as fit.
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
		panic(err) // numbers and bytes
	}
	step.Changes = append(step.Changes, stream.Change{Partition: s.id, Key: []byte{statekey.Object}, Value: data})
	step.Offsets[s.id] = next
}

// committed goes on after a commit of the span's.
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
			return // other spans filled the step
		}
		s.object.Noted = s.offsets[s.sent-1] + 1
		s.letters, s.offsets = s.letters[s.sent:], s.offsets[s.sent:]
	}
}

// letters gathers the dead letters of an object.
type letters struct {
	*Deliverer
	pace   stream.Pace
	noted  stream.Offset
	bytes  int
	list   []stream.Record
	offset []stream.Offset // of their records
}

// refuse implements Refuse.
func (l *letters) refuse(r *stream.Record, reason error) error {
	if r.Offset < l.noted {
		return nil // it is written
	}
	d := &delivery{record: *r, id: sink.IDOf(r), attempts: 1, err: &sink.Refused{Err: reason}}
	if l.bytes += d.size() + letterRoom; l.bytes > lettersMax && len(l.list) > 0 {
		return &sink.Split{At: r.Offset}
	}
	l.list = append(l.list, l.letter(d, l.pace.RecordBytes))
	l.offset = append(l.offset, r.Offset)
	return nil
}
