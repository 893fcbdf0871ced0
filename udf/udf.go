// Package udf is what a function written in Go sees when a pipeline calls it:
// the event, its named inputs and outputs, the state and timers of the event's
// key, and topics to write to.
package udf

import "time"

// Bounds of what one call may do.
const (
	StateMaxBytes = 64 << 10 // of the names and values of one key and function
	TimersMax     = 64       // timers of one key and function
	EmitsMax      = 1000     // outputs of one call
)

// Function is a step written in Go. Its result must depend on nothing but what
// Context gives: no clock, no randomness, no I/O. Then a crash changes nothing,
// and batches, sessions and engines make no difference.
type Function struct {
	// Version is at least 1 and goes up with what the function does: it is part
	// of the pipeline's digest.
	Version int

	// Event is called once an event; the events of one key come in log order.
	// An error, or a panic, undoes what the call did and makes the event a dead
	// letter.
	Event func(*Context) error

	// Timer is called for each timer that is due, in order of (time, key, name),
	// before the first event, after the one at which it was set, whose arrival
	// moves the watermark to it. A timer that a timer sets is among them, if it is due too.
	// It has no inputs and no outputs. After an error what the call did is undone and
	// the error is a dead letter with the timer's name as its value.
	Timer func(*Context) error

	// Keyed functions have state and timers by key.
	Keyed bool
}

// Output is a record that a function writes.
type Output struct {
	Topic string // one of the call's topics
	Name  string // ends the record's id: letters, digits and '_'. One output of a call to a topic may have none
	Key   string // "" is the event's key, and its partition with it
	Value []byte // at most 1 MiB; kept
	ID    string // "" is derived from the event or the timer, the topic and Name
}

// Context is one call of a function. It must not be kept.
type Context struct {
	ID        string
	Key       string
	Time      time.Time // of the event or timer
	Watermark time.Time // no later event is expected to be before it; zero before the first event; of a timer its Time
	Offset    int64     // of the event, or of the one that the timer is called before
	Timer     string    // name of the timer that is due; "" for an event

	Host
}

// Host is what a call may read and do. The engine implements it; a test of a function may
// have its own. A name that the call step does not give, and a type that the name does not
// have, are mistakes in the program: the call panics, which undoes what it did.
type Host interface {
	// Has reports whether an input is there: an optional one may be absent, and
	// reads as the zero value.
	Has(name string) bool

	// Text returns an input of type string or bytes. It is valid during the call;
	// strings.Clone it to keep it.
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

	// SetText sets an output of type string or bytes. One that is larger than a text or the
	// texts of an event may be, 1 MiB and 4 MiB, fails the call.
	SetText(name, v string)

	// SetInt sets an output of type int.
	SetInt(name string, v int64)

	// SetNumber sets an output of type number. One that is not finite fails the
	// call.
	SetNumber(name string, v float64)

	// SetBool sets an output of type bool.
	SetBool(name string, v bool)

	// SetAt sets an output of type time.
	SetAt(name string, v time.Time)

	// Get returns a value of the key's state, nil where there is none. It must not
	// be changed.
	Get(name string) []byte

	// Put sets a value of the key's state; nil deletes it. The value is kept.
	Put(name string, v []byte)

	// SetTimer asks for a call of Timer when the watermark reaches at, which is
	// rounded up to the microsecond. A key has one timer of a name: the new time
	// replaces the old. It is due at the next event of the partition at the
	// earliest, also where its time is reached already. One that a timer sets for after
	// itself, by time and name, may be due before the same event.
	SetTimer(name string, at time.Time)

	// StopTimer takes a timer back. It does nothing where there is none.
	StopTimer(name string)

	// Emit writes a record when the step is committed, behind those that the event
	// wrote before. The call fails if two outputs to a topic have the same Name, or none,
	// since their ids would be equal.
	Emit(o Output)
}
