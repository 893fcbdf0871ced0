package control

import (
	"sync"
	"time"
)

// Abort decides when a pipeline is to stand still because too much of what it
// takes becomes dead letters: then the fault is hardly the events', and what is
// read on is only to be sent back later. It is safe for concurrent use. A nil one
// never lets it.
type Abort struct {
	share float64
	per   time.Duration

	mu      sync.Mutex // guards what follows
	slices  [abortSlices]abortSlice
	stopped *Stop
}

type abortSlice struct {
	number       int64 // of the slice of time
	events, dead int
}

// Stop is why a pipeline stands still.
type Stop struct {
	Since  time.Time     `json:"since"`
	Events int           `json:"events"` // within the time that was looked at,
	Dead   int           `json:"dead_letters"`
	Per    time.Duration `json:"-"`
}

const (
	abortSlices = 10
	abortLeast  = 10 // dead letters: fewer are no pattern
)

// NewAbort returns a controller that stops when of the events within a time more
// than a share, between 0 and 1, are dead letters, and at least 10.
func NewAbort(share float64, per time.Duration) *Abort {
	return &Abort{share: share, per: per}
}

// Count adds events that were computed at a time, and how many of them are dead
// letters. It reports whether that stops the pipeline.
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

// Stopped returns why the pipeline stands still; nil where it does not.
func (a *Abort) Stopped() *Stop {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopped
}

// Resume lets the pipeline go on, and forgets what was counted. It reports
// whether it stood still.
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
