// Package clock is the time of a task: all that a task reads of it, and waits for. What a clock
// says decides when something is done, and never a result, unless it is in the log.
package clock

import "time"

// Clock tells the time, and calls functions later. It is safe for concurrent use.
type Clock interface {
	Now() time.Time

	// AfterFunc calls f on a goroutine of its own after d.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a call to come.
type Timer interface {
	// Stop takes the call back. It reports whether there was one to come.
	Stop() bool

	// Reset has the call come after d from now, also where it was made or taken back.
	Reset(d time.Duration) bool
}

// System is the clock of the machine.
var System Clock = system{}

type system struct{}

// Now implements Clock.
func (system) Now() time.Time { return time.Now() }

// AfterFunc implements Clock.
func (system) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// After returns a channel that is closed after d.
func After(c Clock, d time.Duration) <-chan struct{} {
	over := make(chan struct{})
	c.AfterFunc(d, func() { close(over) })
	return over
}
