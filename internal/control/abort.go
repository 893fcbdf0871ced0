package control

import (
	"sync"
	"time"
)

// Abort decides when a pipeline must stop because too many of its events become dead letters. In
// that case the events are probably not the cause, and reading on would only produce work for a
// redrive. It is safe for concurrent use. A nil Abort never stops the pipeline.
type Abort struct {
	share float64
	per   time.Duration

	mu      sync.Mutex // guards the fields below
	slices  [abortSlices]abortSlice
	stopped *Stop
}

type abortSlice struct {
	number       int64 // number of the time slice
	events, dead int
}

// Stop says why a pipeline is stopped.
type Stop struct {
	Since  time.Time     `json:"since"`
	Events int           `json:"events"` // events within Per
	Dead   int           `json:"dead_letters"`
	Per    time.Duration `json:"-"`
}

const (
	abortSlices = 10
	abortLeast  = 10 // minimum number of dead letters
)

// NewAbort returns a controller. It stops the pipeline when more than a share (between 0 and 1) of
// the events within per are dead letters, and at least 10.
func NewAbort(share float64, per time.Duration) *Abort {
	return &Abort{share: share, per: per}
}

// Count adds events that were processed at a time, and the number of dead letters among them. It
// reports whether that stops the pipeline.
func (a *Abort) Count(now time.Time, events, dead int) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	number := now.UnixNano() / int64(a.per/abortSlices)
	at := &a.slices[number%abortSlices]
	if at.number != number {
		*at = abortSlice{number: number}
	}
	at.events += events
	at.dead += dead
	var all abortSlice
	for _, s := range a.slices {
		if s.number > number-abortSlices && s.number <= number {
			all.events += s.events
			all.dead += s.dead
		}
	}
	if a.stopped != nil || all.dead < abortLeast || float64(all.dead) <= a.share*float64(all.events) {
		return false
	}
	a.stopped = &Stop{Since: now, Events: all.events, Dead: all.dead, Per: a.per}
	return true
}

// Stopped returns why the pipeline is stopped; nil if it is not.
func (a *Abort) Stopped() *Stop {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopped
}

// Resume lets the pipeline continue, and resets the counts. It reports whether the pipeline was
// stopped.
func (a *Abort) Resume() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	stood := a.stopped != nil
	a.stopped, a.slices = nil, [abortSlices]abortSlice{}
	return stood
}
