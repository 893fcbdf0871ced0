package operator

import (
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/packed"
)

// Join makes pairs of the events of two inputs. What keeps them is package join.
type Join struct {
	Name   string          // prefix of the names that it introduces
	Left   int             // its input, among the sources of the plan; the other is the right
	On     [2][]value.Slot // of the left and of the right, each string or int: a pair has equal values
	Before time.Duration   // a right that is so much earlier than a left is a pair with it
	Within time.Duration   // likewise later
	Match  Match
	Inner  bool // lefts without a right do not go on
	Most   JoinMax

	Matched value.Slot
	Count   *value.Slot // of MatchLast: how many rights there were
	Fields  []JoinField // of rights
}

// JoinMax bounds a join beside a partition.
type JoinMax struct {
	Rows    int // that wait
	Bytes   int // of these, as they are stored
	Matches int // of one event
}

// JoinField is a field of a right, and the slot that the left gets it in.
type JoinField struct{ Field, Slot value.Slot }

// Match says which pairs of a left go on.
type Match uint8

// The kinds of Match.
const (
	MatchFirst Match = iota // that with the earliest right
	MatchLast               // that with the latest right
	MatchEach               // all
)

// OnText returns what an event has in common with the others of its pairs. It reports false
// if the event lacks a value of that: then it has no pair.
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

// texts has nothing: those of a right were counted when it was read.
func (j *Join) texts() []value.Slot { return nil }
