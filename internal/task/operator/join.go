package operator

import (
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/packed"
)

// Join makes pairs of events of two inputs. Package join stores the events.
type Join struct {
	Name   string          // prefix of the names that it introduces
	Left   int             // index of the left input among the sources of the plan; the other source is the right input
	On     [2][]value.Slot // slots of the left and of the right, each string or int: a pair has equal values
	Before time.Duration   // most time that the right event of a pair is before the left
	Within time.Duration   // most time that the right event of a pair is after the left
	Match  Match
	Inner  bool // left events without a right event are dropped
	Most   JoinMax

	Matched value.Slot
	Count   *value.Slot // for MatchLast: the number of right events
	Fields  []JoinField // fields of right events
}

// JoinMax holds the limits of a join per partition.
type JoinMax struct {
	Rows    int // waiting events
	Bytes   int // stored bytes of the waiting events
	Matches int // matches of one event
}

// JoinField is a field of a right event, and the slot for it in the left event.
type JoinField struct{ Field, Slot value.Slot }

// Match says which pairs of a left event continue.
type Match uint8

// The kinds of Match.
const (
	MatchFirst Match = iota // the pair with the earliest right event
	MatchLast               // the pair with the latest right event
	MatchEach               // all pairs
)

// OnText returns the join key of an event: the text that the events of a pair have in common. It
// returns false if the event lacks a value of the key. Such an event has no pair.
func (j *Join) OnText(row *value.Row, right bool) (on string, ok bool) {
	slots, text := j.On[0], []byte(nil)
	if right {
		slots = j.On[1]
	}
	for _, slot := range slots {
		if !row.Has(slot) {
			return "", false
		}
		if len(slots) == 1 {
			return string(row.AppendKey(nil, slot)), true
		}
		text = packed.AppendText(text, row.AppendKey(nil, slot))
	}
	return string(text), true
}

// Label implements Operator.
func (j *Join) Label() (kind, name string) { return "join", j.Name }

// Run implements Operator.
func (j *Join) Run(e *Event) error { return e.Kept.Join(e, j) }

// Makes implements Operator.
func (j *Join) Makes() []value.Slot {
	slots := []value.Slot{j.Matched}
	if j.Count != nil {
		slots = append(slots, *j.Count)
	}
	for _, f := range j.Fields {
		slots = append(slots, f.Slot)
	}
	return slots
}

// texts returns nil, because the texts of a right event were counted when it was read.
func (j *Join) texts() []value.Slot { return nil }
