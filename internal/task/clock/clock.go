// Package clock provides the time of a task. A task reads time and waits only through it. Clock
// times decide when the task acts. They never affect a result, unless they are in the log.
package clock

import "time"

// Clock tells the time, and calls functions later. It is safe for concurrent use.
type Clock interface {
	Now() time.Time

	// AfterFunc calls f on a goroutine of its own after d.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a scheduled call.
type Timer interface {
	// Stop cancels the call. It reports whether the call was still scheduled.
	Stop() bool

	// Reset schedules the call after d from now, even if it already ran or was cancelled. It
	// reports whether the call was still scheduled.
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
