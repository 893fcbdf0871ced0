// Package operator has what is done to events: one type for each operator. They are
// made when a pipeline is compiled and do not change; what is kept of keys stands beside
// the partition of an event, behind Kept.
package operator

import (
	"errors"
	"slices"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/model"
)

// Operator does one thing to an event. Tasks share it.
type Operator interface {
	// Label says which step of a file it is made of: its kind, which dead letters have,
	// and what the file names it, such as `score` and `fraud`.
	Label() (kind, name string)

	// Makes returns the slots that an event has after it.
	Makes() []value.Slot

	// Run does it to one event. An error is the event's, unless it is Fatal.
	Run(e *Event) error
}

// Batched is an operator that asks a model or service, for many events at once: in their
// place, or off the loop. Run is not called.
type Batched interface {
	Operator

	// How returns how it asks.
	How() *Batch

	// Wants reports whether it asks for an event. If not, Skip is done to it.
	Wants(e *Event) (bool, error)
	Skip(e *Event) error

	// Append appends what it asks for an event as a row. After an error nothing is appended.
	Append(rows *model.Rows, e *Event) error

	// Columns returns how many numbers and texts a row has, and how many scores its answer.
	Columns() (numbers, texts, scores int)

	// Store puts an answer into the slots that it makes.
	Store(e *Event, answer model.Answer) error
}

// Redoable is an operator that changes nothing but the row: it is done again to an event
// that is sent back behind it.
type Redoable interface {
	// Redo does it anew, or only what the row has no value of.
	Redo(e *Event, anew bool) error
}

// Kept is what is kept beside the partition of an event. The loop implements it. Its errors
// are Fatal unless they are the event's.
type Kept interface {
	// TableRow returns the row of a key in a table, by index, a JSON object: the newest, or
	// that of the event's time, as the table says; nil if the key has none.
	TableRow(e *Event, table int, key []byte) ([]byte, error)

	// PutRow makes the record that an event has of an emit the row of its key, in the table of the emit.
	PutRow(e *Event, m *Emit)

	// Count counts an event in features and reads them. If one of them refuses it, none counts it.
	Count(e *Event, f *Features) error

	// Collect adds an event to its group, where the event ends.
	Collect(e *Event, g *Group) error

	// Join has an event wait for others that it makes a pair with. It ends there; the left of
	// a pair goes on.
	Join(e *Event, j *Join) error

	// State returns what a function keeps of the event's key, after the timers that are due
	// before the event. It must not be changed.
	State(e *Event, c *Call) (key string, state *State, err error)

	// Until returns the event time at which what is kept of the event's key is forgotten, if
	// no other event of the key comes.
	Until(e *Event) int64

	// Keep makes next what the function keeps of the event's key.
	Keep(e *Event, c *Call, next *State) error
}

// Fatal is an error that is not an event's: it ends the work of a task on its partitions.
type Fatal struct{ error }

// Unwrap returns what happened.
func (f *Fatal) Unwrap() error { return f.error }

// AsFatal returns an error as Fatal; nil for nil.
func AsFatal(err error) error {
	if err == nil {
		return nil
	}
	return &Fatal{err}
}

// FatalOf returns what happened if an error is Fatal, else nil.
func FatalOf(err error) error {
	var fatal *Fatal
	if errors.As(err, &fatal) {
		return fatal.error
	}
	return nil
}

// texter is an operator of whose texts others than those of Makes count against the bound
// of an event.
type texter interface{ texts() []value.Slot }

// TextsOf returns the slots of the texts that an operator makes.
func TextsOf(o Operator) []value.Slot {
	slots := o.Makes()
	if t, ok := o.(texter); ok {
		slots = t.texts()
	}
	return slices.DeleteFunc(slices.Clone(slots), func(s value.Slot) bool { return !s.Type.Kind.Text() })
}
