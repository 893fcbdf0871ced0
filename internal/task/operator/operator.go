// Package operator implements the operators that process events, one type for each. The compiler
// makes them, and they are immutable. Keyed state belongs to the partition of an event, and
// operators reach it through Kept.
package operator

import (
	"errors"
	"slices"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/model"
)

// Operator is one processing step of an event. Tasks share it.
type Operator interface {
	// Label identifies the step of the pipeline file that the operator is made of. It returns the
	// kind, which dead letters show, and the name in the file, such as `score` and `fraud`.
	Label() (kind, name string)

	// Makes returns the slots that an event has after it.
	Makes() []value.Slot

	// Run processes one event. An error fails the event, unless it is Fatal.
	Run(e *Event) error
}

// Batched is an operator that calls a model or service for many events at once. The calls run
// inside the loop, or outside it for queued events. The loop does not call Run.
type Batched interface {
	Operator

	// How returns the settings of the calls.
	How() *Batch

	// Wants reports whether to call for an event. If not, the loop runs Skip for it.
	Wants(e *Event) (bool, error)
	Skip(e *Event) error

	// Append appends the request for an event as a row. If it returns an error, it has appended no
	// row.
	Append(rows *model.Rows, e *Event) error

	// Columns returns how many numbers and texts a row has, and how many scores its answer has.
	Columns() (numbers, texts, scores int)

	// Store stores an answer in the slots of Makes.
	Store(e *Event, answer model.Answer) error
}

// Redoable is an operator that changes only the row. It runs again for an event that is sent back
// to a later operator.
type Redoable interface {
	// Redo runs the operator again. If anew is not set, it computes only values that the row lacks.
	Redo(e *Event, anew bool) error
}

// Kept gives operators access to the state of an event's partition. The loop implements it. Its
// errors are Fatal unless they are the event's.
type Kept interface {
	// TableRow returns the row of a key in a table, by index, as a JSON object. The table decides
	// whether that is the newest row or the row at the event's time. TableRow returns nil if the
	// key has no row.
	TableRow(e *Event, table int, key []byte) ([]byte, error)

	// PutRow stores the record that an emit makes for an event as the row of its key, in the table
	// of the emit.
	PutRow(e *Event, m *Emit)

	// Count counts an event in features and reads them. If one of them refuses the event, none of
	// them counts it.
	Count(e *Event, f *Features) error

	// Collect adds an event to its group, and ends the event.
	Collect(e *Event, g *Group) error

	// Join makes an event wait for the other events of its pairs, and ends it. The left event of a
	// pair continues.
	Join(e *Event, j *Join) error

	// State returns the state of a function for the event's key. It runs the timers that are due
	// before the event first. The caller must not change the state.
	State(e *Event, c *Call) (key string, state *State, err error)

	// Until returns the event time at which the state of the event's key expires if no other event
	// of the key comes.
	Until(e *Event) int64

	// Keep sets the state of the function for the event's key to next.
	Keep(e *Event, c *Call, next *State) error
}

// Fatal is an error that is not caused by an event. It ends the work of a task on its partitions.
type Fatal struct{ error }

// Unwrap returns the error.
func (f *Fatal) Unwrap() error { return f.error }

// AsFatal wraps an error as Fatal. It returns nil for nil.
func AsFatal(err error) error {
	if err == nil {
		return nil
	}
	return &Fatal{err}
}

// FatalOf returns the wrapped error if err is Fatal, else nil.
func FatalOf(err error) error {
	var fatal *Fatal
	if errors.As(err, &fatal) {
		return fatal.error
	}
	return nil
}

// texter is an operator with its own list of texts that count against the size limit of an event,
// instead of those of Makes.
type texter interface{ texts() []value.Slot }

// TextsOf returns the slots of the texts that an operator makes.
func TextsOf(o Operator) []value.Slot {
	slots := o.Makes()
	if t, ok := o.(texter); ok {
		slots = t.texts()
	}
	return slices.DeleteFunc(slices.Clone(slots), func(s value.Slot) bool { return !s.Type.Kind.Text() })
}
