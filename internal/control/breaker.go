package control

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Outcome is what a call shows about its endpoint. If a call has several failures, the
// greatest Outcome counts. Of the errors of internal/models/remote, Late, Unreachable, Failed and
// Malformed are Faulted, or Overloaded if the server says so. Refused and Unfit are
// Answered. The error of a context that the caller ended is Abandoned, and so is a
// failure that an Outlier explains.
type Outcome int

// The outcomes.
const (
	// Abandoned is no evidence: the caller gave the call up, or the event explains it.
	Abandoned Outcome = iota
	// Answered is an answer, even one that refuses the rows: the endpoint works.
	Answered
	// Repeated is a fault for an event that the endpoint failed for before, with no
	// other event answered since: it says the same once more, and fails only a probe.
	Repeated
	// Faulted is a fault of the endpoint or its model: no answer in time, no
	// connection, an error of the server, an answer to something else.
	Faulted
	// Overloaded is a fault that reports overload, such as a 429 response.
	Overloaded
)

// BreakerState is what a breaker does with calls.
type BreakerState int

// The states of a breaker.
const (
	Closed   BreakerState = iota // calls pass
	Open                         // no call passes
	HalfOpen                     // one call passes, the probe
)

// String returns the state as metrics name it.
func (s BreakerState) String() string { return [...]string{"closed", "open", "half-open"}[s] }

// BreakerOptions say when a breaker opens and for how long.
type BreakerOptions struct {
	// Failures is how many faults in a row open it, of calls that began after any that
	// was answered: 5 where it is 0.
	Failures int
	// Rate is the share of faults that opens it, among the calls of the last
	// Window, of which there must be Calls: 0.5 where it is 0; at most 1.
	Rate float64
	// Calls is how many make a rate: 20 where it is 0.
	Calls int
	// Window is how long a call counts for the rate: 10 s where it is 0. It is
	// kept in tenths.
	Window time.Duration
	// Probe is the time from opening to the call that tries whether the endpoint
	// works again: 30 s where it is 0.
	Probe time.Duration
}

// Resolved returns the options with those that are 0 filled in, or all that is
// wrong with them.
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
	list.check(!(o.Rate >= 0 && o.Rate <= 1), "a rate of %v is no share: want more than 0, up to 1", o.Rate)
	list.check(o.Calls < 0, "a rate of %d calls is negative", o.Calls)
	list.check(o.Window < windowTenths, "a window of %v has no tenths", o.Window)
	list.check(o.Probe < 0, "a probe after %v is negative", o.Probe)
	return o, errors.Join(list...)
}

// complaints are what is wrong with options.
type complaints []error

func (c *complaints) check(wrong bool, format string, args ...any) {
	if wrong {
		*c = append(*c, fmt.Errorf(format, args...))
	}
}

// Breaker keeps calls from an endpoint that fails, so that work waits instead of
// failing one piece after the other. All members of a process share the one of an
// endpoint and model; it is safe for concurrent use.
//
//  1. It opens after Failures faults in a row, or where the Rate of the calls that
//     ended within Window are faults. Faulted and Overloaded count. A row has the calls
//     that began after any that was answered: an answer takes the faults of earlier
//     calls back, since the endpoint worked after them.
//  2. Open, it refuses every call until Probe has passed; then it lets one through.
//     An answer closes it, a fault opens it for as long again.
//  3. A call counts only in the state that it began in: a late fault of a call from
//     before the opening does not fail the probe. A late answer takes faults back, and
//     closes the breaker if the row is then too short and no probe has ended.
//  4. A probe that is abandoned makes room for another at once. A probe without an
//     end makes room after Probe.
//
// Use an Endpoint, which asks its breaker and its Concurrency in the order that
// wastes no probe.
type Breaker struct {
	options BreakerOptions

	mu         sync.Mutex
	state      BreakerState
	since      time.Time // of the state; zero where it never opened
	generation uint64    // of the state
	probe      uint64    // the number of the newest
	probing    bool      // it is under way
	probed     time.Time // when it began
	begun      uint64    // calls
	answered   uint64    // the number of the newest call that was answered
	row        []uint64  // the numbers of the calls after it that are faults, at most Failures
	window     rateWindow
	opened     uint64
	refused    uint64
	calls      uint64 // whose outcome was told, in any state
	faulted    uint64 // of them
}

// BreakerCall is a call that a breaker let through. The zero value is none.
type BreakerCall struct{ generation, probe, number uint64 }

// probeLook is how soon to ask again while a probe is under way: its answer lets
// calls through that others wait for.
const probeLook = 100 * time.Millisecond

// NewBreaker returns a closed breaker.
func NewBreaker(options BreakerOptions) (*Breaker, error) {
	o, err := options.Resolved()
	if err != nil {
		return nil, fmt.Errorf("options of a breaker: %w", err)
	}
	return &Breaker{options: o, generation: 1}, nil
}

// Begin asks for a call. Where wait is 0 the call may be made, and Observe is to
// be told of it; else it may not, and it is time to ask again after wait.
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

// Observe tells what came of a call. Of a call more than one outcome may be told:
// Abandoned changes nothing after another.
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

// fault counts a fault of a closed breaker.
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

// takeBack removes the faults of calls that began before one that is answered. What
// opened by them closes.
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

// Steady reports whether calls pass and the row has no fault.
func (b *Breaker) Steady() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == Closed && len(b.row) == 0
}

// BreakerStats is what became of the calls of a breaker.
type BreakerStats struct {
	State   BreakerState
	Since   time.Time // when the state began; zero where it never changed
	Opened  uint64    // how often it opened, failed probes too
	Refused uint64    // calls that it let not through
	Calls   uint64    // whose outcome was told
	Faults  uint64    // of them, those of the model or the way to it
}

// Stats returns the state of the breaker and its counts. An open breaker whose
// probe is due stays open until a call is asked for.
func (b *Breaker) Stats() BreakerStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BreakerStats{State: b.state, Since: b.since, Opened: b.opened, Refused: b.refused, Calls: b.calls, Faults: b.faulted}
}

const windowTenths = 10

// rateWindow counts calls and faults by tenths of a window.
type rateWindow struct {
	start  time.Time // of tenth 0
	newest int64     // tenth
	counts [windowTenths]struct{ calls, faults int }
}

// add counts a call that ended. Callers who ask the clock and then wait for the
// mutex come out of order: an earlier one counts in the newest tenth.
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
