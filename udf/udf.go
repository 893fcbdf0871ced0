// Package udf is the interface between a pipeline and its functions written in Go. It gives a
// function the event, its named inputs and outputs, the state and timers of the event's key, and
// topics to write to.
package udf

import "time"

// Limits of one call.
const (
	StateMaxBytes = 64 << 10 // names and values of one key and function
	TimersMax     = 64       // timers of one key and function
	EmitsMax      = 1000     // outputs of one call
)

// Function is a step written in Go. Its result must depend only on its Context: no clock, no
// randomness, no I/O. The result is then the same after a crash, and for any batching, parallelism
// or log engine.
type Function struct {
	// Version is at least 1. Raise it when the behaviour of the function changes: it is part of the
	// pipeline's fingerprint.
	Version int

	// Event is called once per event. The events of one key come in log order. An error or a panic
	// rolls back the call and makes the event a dead letter.
	Event func(*Context) error

	// Timer is called for each timer that is due, in order of (time, key, name). An event moves the
	// watermark to the timer; if it comes after the event that set the timer, Timer is called
	// before it. If a timer sets another one that is due too, that one is also called. Timer has no
	// inputs and no outputs. An error rolls back the call and becomes a dead letter with the
	// timer's name as its value.
	Timer func(*Context) error

	// Keyed functions have state and timers by key.
	Keyed bool
}

// Output is a record that a function writes.
type Output struct {
	Topic string // one of the call's topics
	Name  string // suffix of the record's id: letters, digits and '_'. One output of a call per topic may have no name
	Key   string // "" means the event's key, and so its partition
	Value []byte // at most 1 MiB; not copied
	ID    string // "" derives it from the event or the timer, the topic and Name
}

// Context is one call of a function. It is valid only during the call.
type Context struct {
	ID        string
	Key       string
	Time      time.Time // of the event or timer
	Watermark time.Time // no later event is expected to be before it; zero before the first event; for a timer equal to Time
	Offset    int64     // of the event, or of the event that the timer precedes
	Timer     string    // name of the timer that is due; "" for an event

	Host
}

// Host gives a call its inputs, outputs, state and timers. The engine implements it; a test of a
// function may bring its own. A name that the call step does not declare, or a wrong type for a
// name, is a programming error: the call panics and is rolled back.
type Host interface {
	// Has reports whether an input has a value. An optional input may be absent, and then reads as
	// the zero value.
	Has(name string) bool

	// Text returns an input of type string or bytes. It is valid during the call; use strings.Clone
	// to keep it.
	Text(name string) string

	// Texts returns an input of type string[].
	Texts(name string) []string

	// Int returns an input of type int.
	Int(name string) int64

	// Number returns an input of type number, int or bool.
	Number(name string) float64

	// Bool returns an input of type bool.
	Bool(name string) bool

	// At returns an input of type time.
	At(name string) time.Time

	// SetText sets an output of type string or bytes. The call fails if a text exceeds 1 MiB, or if
	// the texts of the event exceed 4 MiB in total.
	SetText(name, v string)

	// SetInt sets an output of type int.
	SetInt(name string, v int64)

	// SetNumber sets an output of type number. The call fails if the number is not finite.
	SetNumber(name string, v float64)

	// SetBool sets an output of type bool.
	SetBool(name string, v bool)

	// SetAt sets an output of type time.
	SetAt(name string, v time.Time)

	// Get returns a value of the key's state, or nil if it is absent. The caller must not change
	// it.
	Get(name string) []byte

	// Put sets a value of the key's state; nil deletes it. Put does not copy the value.
	Put(name string, v []byte)

	// SetTimer schedules a call of Timer when the watermark reaches at, rounded up to the
	// microsecond. A key has one timer per name: a new time replaces the old one. The timer fires
	// at the partition's next event at the earliest, even if its time has passed. A timer may set
	// another one that is later by time and name; that one may fire before the same event.
	SetTimer(name string, at time.Time)

	// StopTimer cancels a timer. It does nothing if there is no such timer.
	StopTimer(name string)

	// Emit writes a record when the transaction commits, after the records that the event wrote
	// before. The call fails if two outputs to a topic have the same Name, or no Name, because
	// their ids would be equal.
	Emit(o Output)
}
