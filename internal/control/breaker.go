package control

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Outcome is the evidence of a call about its endpoint. If a call has several failures, the
// greatest Outcome counts. Of the errors of internal/models/remote, Late, Unreachable, Failed and
// Malformed are Faulted, or Overloaded if the server says so. Refused and Unfit are Answered. The
// error of a context that the caller cancelled is Abandoned, and so is a failure that an Outlier
// explains.
type Outcome int

// The values of Outcome.
const (
	// Abandoned is no evidence: the caller cancelled the call, or the event explains the failure.
	Abandoned Outcome = iota
	// Answered is an answer, even one that refuses the rows: the endpoint works.
	Answered
	// Repeated is a fault for an event that had failed before, if the endpoint has answered no
	// other event since. It is no new evidence, and only fails a probe.
	Repeated
	// Faulted is a fault of the endpoint or its model: a timeout, no connection, an error of the
	// server, or a wrong answer.
	Faulted
	// Overloaded is a fault that reports overload, such as a 429 response.
	Overloaded
)

// BreakerState says how a breaker treats calls.
type BreakerState int

// The values of BreakerState.
const (
	Closed   BreakerState = iota // calls pass
	Open                         // no call passes
	HalfOpen                     // one call passes as a probe
)

// String returns the name of the state in metrics.
func (s BreakerState) String() string { return [...]string{"closed", "open", "half-open"}[s] }

// BreakerOptions configures when a breaker opens and for how long.
type BreakerOptions struct {
	// Failures is the number of consecutive faults that open the breaker; 0 is 5. Only faults of
	// calls that began after every answered call count.
	Failures int
	// Rate is the share of faults that opens the breaker; 0 is 0.5; at most 1. It is the share
	// among the calls of the last Window, at least Calls of them.
	Rate float64
	// Calls is the minimum number of calls for a rate; 0 is 20.
	Calls int
	// Window is how long a call counts for the rate; 0 is 10 s. Its resolution is a tenth.
	Window time.Duration
	// Probe is the time from opening to the call that tests whether the endpoint works again; 0 is
	// 30 s.
	Probe time.Duration
}

// Resolved returns the options with defaults for those that are 0. The error joins all errors in
// the options.
func (o BreakerOptions) Resolved() (BreakerOptions, error) {
	if o.Failures == 0 {
		o.Failures = 5
	}
	if o.Rate == 0 {
		o.Rate = 0.5
	}
	if o.Calls == 0 {
		o.Calls = 20
	}
	if o.Window == 0 {
		o.Window = 10 * time.Second
	}
	if o.Probe == 0 {
		o.Probe = 30 * time.Second
	}
	var list complaints
	list.check(o.Failures < 0, "%d failures in a row are negative", o.Failures)
	list.check(!(o.Rate >= 0 && o.Rate <= 1), "a rate of %v is out of range: use more than 0, up to 1", o.Rate)
	list.check(o.Calls < 0, "a rate of %d calls is negative", o.Calls)
	list.check(o.Window < windowTenths, "a window of %v is too short: its tenth must be at least 1ns", o.Window)
	list.check(o.Probe < 0, "a probe after %v is negative", o.Probe)
	return o, errors.Join(list...)
}

// complaints collects errors in options.
type complaints []error

func (c *complaints) check(wrong bool, format string, args ...any) {
	if wrong {
		*c = append(*c, fmt.Errorf(format, args...))
	}
}

// Breaker is a circuit breaker. It keeps calls away from a failing endpoint, so that work waits
// instead of failing piece by piece. All members in a process share the breaker of an endpoint and
// model. It is safe for concurrent use.
//
//  1. It opens after Failures consecutive faults, or if the share of faults among the
//     calls that ended within Window reaches Rate. Faulted and Overloaded count as faults.
//     Consecutive faults are those of calls that began after every answered call. An
//     answer removes the faults of earlier calls, because the endpoint worked after them.
//  2. While open, it refuses every call until Probe has passed. Then it lets one call
//     through. An answer closes the breaker; a fault opens it for another Probe.
//  3. A call counts only in the state that it began in. So a late fault of a call from
//     before the opening does not fail the probe. A late answer still removes faults. If
//     too few consecutive faults are left and no probe has ended, it closes the breaker.
//  4. If a probe is abandoned, another call may probe at once. If a probe does not end,
//     another call may probe after Probe.
//
// Use an Endpoint: it asks its breaker and its Concurrency in the order that wastes no probe.
type Breaker struct {
	options BreakerOptions

	mu         sync.Mutex
	state      BreakerState
	since      time.Time // start of the state; zero if the breaker has never opened
	generation uint64    // number of the state
	probe      uint64    // number of the newest probe
	probing    bool      // the newest probe is in flight
	probed     time.Time // start of the newest probe
	begun      uint64    // number of calls
	answered   uint64    // number of the newest answered call
	row        []uint64  // numbers of later calls that faulted, at most Failures
	window     rateWindow
	opened     uint64
	refused    uint64
	calls      uint64 // calls with an outcome, in any state
	faulted    uint64 // of these, faults
}

// BreakerCall is a call that a breaker let through. The zero value is no call.
type BreakerCall struct{ generation, probe, number uint64 }

// probeLook is the delay before a caller asks again while a probe is in flight. An answered probe
// lets the waiting calls through.
const probeLook = 100 * time.Millisecond

// NewBreaker returns a closed breaker.
func NewBreaker(options BreakerOptions) (*Breaker, error) {
	o, err := options.Resolved()
	if err != nil {
		return nil, fmt.Errorf("options of a breaker: %w", err)
	}
	return &Breaker{options: o, generation: 1}, nil
}

// Begin asks for permission to make a call. If wait is 0, the caller may make it and must report it
// to Observe. Otherwise the caller must ask again after wait.
func (b *Breaker) Begin(now time.Time) (call BreakerCall, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == Open {
		if wait := b.options.Probe - now.Sub(b.since); wait > 0 {
			b.refused++
			return BreakerCall{}, wait
		}
		b.turn(HalfOpen, now)
	}
	if b.state == HalfOpen {
		if b.probing && now.Sub(b.probed) < b.options.Probe {
			b.refused++
			return BreakerCall{}, min(probeLook, b.options.Probe)
		}
		b.probing, b.probed = true, now
		b.probe++
	}
	b.begun++
	call = BreakerCall{generation: b.generation, number: b.begun}
	if b.probing {
		call.probe = b.probe
	}
	return call, 0
}

// Observe reports the outcome of a call. A caller may report several outcomes of one call:
// Abandoned has no effect after another one.
func (b *Breaker) Observe(now time.Time, call BreakerCall, outcome Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if outcome != Abandoned {
		b.calls++
	}
	if outcome != Abandoned && outcome != Answered {
		b.faulted++
	}
	if call.generation != b.generation {
		if outcome == Answered {
			b.takeBack(now, call.number)
		}
		return
	}
	switch {
	case outcome == Abandoned:
		b.probing = b.probing && call.probe != b.probe
	case b.state == HalfOpen:
		to := Open
		if outcome == Answered {
			to, b.window = Closed, rateWindow{}
		}
		b.row = b.row[:0]
		b.turn(to, now)
	case outcome == Answered:
		b.takeBack(now, call.number)
		b.window.add(now, b.options.Window, 0)
	case outcome != Repeated:
		b.fault(now, call.number)
	}
}

// fault counts a fault while the breaker is closed.
func (b *Breaker) fault(now time.Time, call uint64) {
	b.window.add(now, b.options.Window, 1)
	if call > b.answered {
		b.row = append(b.row, call)
	}
	calls, faults := b.window.sum()
	row := len(b.row) >= b.options.Failures
	if row || calls >= b.options.Calls && float64(faults) >= b.options.Rate*float64(calls) {
		b.turn(Open, now)
	}
}

// takeBack removes the faults of calls that began before an answered call. If these faults opened
// the breaker, it closes.
func (b *Breaker) takeBack(now time.Time, call uint64) {
	b.answered = max(b.answered, call)
	before := len(b.row)
	b.row = slices.DeleteFunc(b.row, func(fault uint64) bool { return fault < b.answered })
	if b.state != Closed && before >= b.options.Failures && len(b.row) < b.options.Failures {
		b.turn(Closed, now)
	}
}

func (b *Breaker) turn(to BreakerState, now time.Time) {
	b.state, b.since = to, now
	b.generation++
	if b.probing = false; to == Open {
		b.opened++
	}
}

// Steady reports whether the breaker is closed and has no consecutive faults.
func (b *Breaker) Steady() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == Closed && len(b.row) == 0
}

// BreakerStats holds the state and the counters of a breaker.
type BreakerStats struct {
	State   BreakerState
	Since   time.Time // start of the state; zero if it has never changed
	Opened  uint64    // number of openings, including failed probes
	Refused uint64    // refused calls
	Calls   uint64    // calls with an outcome
	Faults  uint64    // of these, faults of the model or the way to it
}

// Stats returns the state and the counters. An open breaker with a probe due stays open until a
// caller asks for a call.
func (b *Breaker) Stats() BreakerStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BreakerStats{State: b.state, Since: b.since, Opened: b.opened, Refused: b.refused, Calls: b.calls, Faults: b.faulted}
}

const windowTenths = 10

// rateWindow counts calls and faults in tenths of a window.
type rateWindow struct {
	start  time.Time // start of tenth 0
	newest int64     // number of the newest tenth
	counts [windowTenths]struct{ calls, faults int }
}

// add counts a call that ended. Callers read the clock before they lock the mutex, so times can be
// out of order: an earlier one counts in the newest tenth.
func (w *rateWindow) add(now time.Time, window time.Duration, faults int) {
	if w.start.IsZero() {
		w.start = now
	}
	tenth := int64(now.Sub(w.start) / (window / windowTenths))
	for w.newest = max(w.newest, tenth-windowTenths); w.newest < tenth; {
		w.newest++
		w.counts[w.newest%windowTenths] = struct{ calls, faults int }{}
	}
	at := &w.counts[w.newest%windowTenths]
	at.calls++
	at.faults += faults
}

func (w *rateWindow) sum() (calls, faults int) {
	for _, at := range w.counts {
		calls, faults = calls+at.calls, faults+at.faults
	}
	return calls, faults
}
