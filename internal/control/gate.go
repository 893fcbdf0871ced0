package control

import (
	"errors"
	"fmt"
	"time"
)

// The bounds of a queue that names none.
const (
	queueMax     = 2000
	retryAtLeast = time.Second
	retryAtMost  = time.Minute
)

// GateOptions are the bounds of a queue, in whatever it is counted by. The zero
// value is 2,000, 1,500 and 500.
type GateOptions struct {
	Max  int // most that the queue holds; 2,000 where 0
	High int // its source is paused from here on; three quarters of Max where 0
	Low  int // and goes on from here down; a third of High where both are 0, else 0 is an empty queue
}

// Resolved returns the bounds with those that are 0 filled in, or all that is
// wrong with them.
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
		wrong = append(wrong, fmt.Errorf("the high mark %d would never pause the source, or always: use 1 to the most that the queue holds, %d", o.High, o.Max))
	}
	if o.Low < 0 || o.Low > o.High {
		wrong = append(wrong, fmt.Errorf("the low mark %d is not from 0 to the high mark, %d: between them the source stays as it is", o.Low, o.High))
	}
	return o, errors.Join(wrong...)
}

// Gate says when the source of a bounded queue is paused: from the high mark on,
// until the queue is down at the low one. Between the marks nothing changes, so
// the farther they are apart, the rarer are switches. Where they are equal, the
// source is paused at the mark and goes on below it.
//
// A Gate reads no clock and starts nothing: its owner tells it the depth of the
// queue at a time, and does what it says. It is for one goroutine.
type Gate struct {
	marks     GateOptions
	throttled bool
	switches  int
	started   bool
	since     time.Time     // of the newest switch, or of the first Observe
	paused    time.Duration // in all, up to since
	from      int           // depth at since
	depth     int           // newest
	seen      time.Time     // when it was depth
}

// NewGate returns a gate that lets its source run at full rate.
func NewGate(o GateOptions) (*Gate, error) {
	marks, err := o.Resolved()
	if err != nil {
		return nil, fmt.Errorf("bounds of a queue: %w", err)
	}
	return &Gate{marks: marks}, nil
}

// Gate returns the gate of one of so many queues that share resolved bounds.
func (o GateOptions) Gate(queues int) *Gate {
	each := func(n int) int { return max(1, n/queues) }
	return &Gate{marks: GateOptions{Max: each(o.Max), High: each(o.High), Low: o.Low / queues}}
}

// Change is what a Gate asks of its source.
type Change int

// The changes.
const (
	Stay   Change = iota // as it is
	Pause                // every partition that the source reads, and those that it is given later
	Resume               // all of them
)

// Observe tells the gate how much is in the queue, and returns what the source
// has to do for it.
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

// Throttled says whether the source is paused: partitions that it is given
// meanwhile have to be, too.
func (g *Gate) Throttled() bool { return g.throttled }

// Marks returns the bounds that the gate keeps.
func (g *Gate) Marks() GateOptions { return g.marks }

// Room returns how much the queue can take beside what it holds, at least 0.
func (g *Gate) Room() int { return max(0, g.marks.Max-g.depth) }

// RetryAfter returns how long a source should wait that cannot be paused and was
// turned away: until the queue is down at the low mark, if it goes on as it did
// since the gate closed. It is 1 s to 1 min, and 0 where the gate is open.
func (g *Gate) RetryAfter() time.Duration {
	if !g.throttled {
		return 0
	}
	drained, took, left := g.from-g.depth, g.seen.Sub(g.since), g.depth-g.marks.Low
	if drained <= 0 || took <= 0 {
		return retryAtLeast // nothing is known yet
	}
	wait := took.Seconds() * float64(left) / float64(drained)
	if wait >= retryAtMost.Seconds() {
		return retryAtMost
	}
	return max(retryAtLeast, time.Duration(wait*float64(time.Second)))
}

// GateState is what a Gate has done.
type GateState struct {
	Throttled bool          // else the source runs at full rate
	Depth     int           // of the queue, newest
	Switches  int           // between full rate and throttled
	Since     time.Time     // when it switched last, or started
	Paused    time.Duration // how long the source was throttled, in all
}

// State returns what the gate has done until now.
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
