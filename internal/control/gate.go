package control

import (
	"errors"
	"fmt"
	"time"
)

// The default bounds of a queue.
const (
	queueMax     = 2000
	retryAtLeast = time.Second
	retryAtMost  = time.Minute
)

// GateOptions holds the bounds of a queue, in any unit. The zero value is 2,000, 1,500 and 500.
type GateOptions struct {
	Max  int // capacity of the queue; 0 is 2,000
	High int // the source is paused from here on; 0 is three quarters of Max
	Low  int // the source resumes at or below this; a third of High if both are 0, otherwise 0 means an empty queue
}

// Resolved returns the bounds with defaults for those that are 0. The error joins all errors in the
// options.
func (o GateOptions) Resolved() (GateOptions, error) {
	if o.Max == 0 {
		o.Max = queueMax
	}
	if o.High == 0 {
		o.High = o.Max - o.Max/4
		if o.Low == 0 {
			o.Low = o.High / 3
		}
	}
	var wrong []error
	if o.Max < 1 {
		wrong = append(wrong, fmt.Errorf("a queue of at most %d holds nothing: use 1 or more", o.Max))
	}
	if o.High < 1 || o.High > o.Max {
		wrong = append(wrong, fmt.Errorf("the high mark %d is out of range: use 1 to max, which is %d", o.High, o.Max))
	}
	if o.Low < 0 || o.Low > o.High {
		wrong = append(wrong, fmt.Errorf("the low mark %d is out of range: use 0 to the high mark, which is %d", o.Low, o.High))
	}
	return o, errors.Join(wrong...)
}

// Gate decides when to pause the source of a bounded queue: from the high mark on, until the queue
// is down at the low mark. Between the marks nothing changes. So the farther apart they are, the
// rarer the switches. If they are equal, the source is paused at the mark and resumes below it.
//
// A Gate does not read the clock and starts no goroutine. Its owner reports the depth of the queue
// at a time, and follows the result. It is for one goroutine.
type Gate struct {
	marks     GateOptions
	throttled bool
	switches  int
	started   bool
	since     time.Time     // time of the last switch, or of the first Observe
	paused    time.Duration // total until since
	from      int           // depth at since
	depth     int           // last reported depth
	seen      time.Time     // time of depth
}

// NewGate returns a gate with a running source.
func NewGate(o GateOptions) (*Gate, error) {
	marks, err := o.Resolved()
	if err != nil {
		return nil, fmt.Errorf("bounds of a queue: %w", err)
	}
	return &Gate{marks: marks}, nil
}

// Gate returns the gate of one of several queues that share resolved bounds.
func (o GateOptions) Gate(queues int) *Gate {
	each := func(n int) int { return max(1, n/queues) }
	return &Gate{marks: GateOptions{Max: each(o.Max), High: each(o.High), Low: o.Low / queues}}
}

// Change is what the owner of a Gate must do with the source.
type Change int

// The values of Change.
const (
	Stay   Change = iota // change nothing
	Pause                // pause every partition that the source reads, and those assigned later
	Resume               // resume all of them
)

// Observe reports the depth of the queue, and returns what to do with the source.
func (g *Gate) Observe(now time.Time, depth int) Change {
	if !g.started {
		g.started, g.since, g.from = true, now, depth
	}
	g.depth, g.seen = depth, now
	throttled := g.throttled
	switch {
	case depth >= g.marks.High:
		throttled = true
	case depth <= g.marks.Low:
		throttled = false
	}
	if throttled == g.throttled {
		return Stay
	}
	if g.throttled {
		g.paused += max(0, now.Sub(g.since))
	}
	g.throttled, g.since, g.from = throttled, now, depth
	g.switches++
	if throttled {
		return Pause
	}
	return Resume
}

// Throttled reports whether the source is paused. Newly assigned partitions must then be paused
// too.
func (g *Gate) Throttled() bool { return g.throttled }

// Marks returns the bounds of the gate.
func (g *Gate) Marks() GateOptions { return g.marks }

// Room returns how much more the queue can take, at least 0.
func (g *Gate) Room() int { return max(0, g.marks.Max-g.depth) }

// RetryAfter returns how long a refused source that cannot be paused should wait. It estimates when
// the queue is down at the low mark, from its progress since the gate closed. It is 1 s to 1 min,
// and 0 if the gate is open.
func (g *Gate) RetryAfter() time.Duration {
	if !g.throttled {
		return 0
	}
	drained, took, left := g.from-g.depth, g.seen.Sub(g.since), g.depth-g.marks.Low
	if drained <= 0 || took <= 0 {
		return retryAtLeast // no progress is known yet
	}
	wait := took.Seconds() * float64(left) / float64(drained)
	if wait >= retryAtMost.Seconds() {
		return retryAtMost
	}
	return max(retryAtLeast, time.Duration(wait*float64(time.Second)))
}

// GateState is the state and the history of a Gate.
type GateState struct {
	Throttled bool          // otherwise the source runs at full rate
	Depth     int           // last reported depth
	Switches  int           // between full rate and throttled
	Since     time.Time     // time of the last switch, or of the start
	Paused    time.Duration // total time that the source was throttled
}

// State returns the state of the gate at a time.
func (g *Gate) State(now time.Time) GateState {
	s := GateState{Throttled: g.throttled, Depth: g.depth, Switches: g.switches, Since: g.since, Paused: g.paused}
	if g.throttled {
		s.Paused += max(0, now.Sub(g.since))
	}
	return s
}

// String returns full-rate or throttled.
func (s GateState) String() string {
	if s.Throttled {
		return "throttled"
	}
	return "full-rate"
}
