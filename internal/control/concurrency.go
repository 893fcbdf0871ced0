package control

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// ConcurrencyOptions limits the calls in flight to an endpoint.
type ConcurrencyOptions struct {
	// Max is the maximum number of calls in flight; 0 is 16.
	Max int
	// Start is the limit before the first answers; 0 is 4, or Max if that is less.
	Start int
	// Target is the mean call time above which the limit falls; 0 is 1.5 s, half of the default
	// call timeout. Set it to half of the timeout, or to the share of a budget.
	Target time.Duration
	// Weight limits the total weight of the calls in flight, such as the tokens of prompts and
	// answers; 0 means no limit. A heavier call runs alone.
	Weight int64
}

// Resolved returns the options with defaults for those that are 0. The error joins all errors in
// the options.
func (o ConcurrencyOptions) Resolved() (ConcurrencyOptions, error) {
	if o.Max == 0 {
		o.Max = 16
	}
	if o.Start == 0 {
		o.Start = min(concurrencyStart, o.Max)
	}
	if o.Target == 0 {
		o.Target = 1500 * time.Millisecond
	}
	var list complaints
	list.check(o.Max < 0, "%d calls at a time are negative", o.Max)
	list.check(o.Start < 0, "%d calls at first are negative", o.Start)
	list.check(o.Start > o.Max && o.Max >= 0, "%d calls at first are more than the most, %d", o.Start, o.Max)
	list.check(o.Target < 0, "a target of %v is negative", o.Target)
	list.check(o.Weight < 0, "a weight of %d is negative", o.Weight)
	return o, errors.Join(list...)
}

// Concurrency finds how many concurrent calls an endpoint can handle, from 1 to Max. It is safe for
// concurrent use.
//
// It works in rounds. A round ends after as many answers as the limit, of calls that began in the
// round. Calls that began before a change say nothing about it.
//
//  1. Opening: after the first round that reached Start, the limit rises by 1, 2, 4 ...
//     up to Max. A pause between the steps lets a refusal arrive before the next one.
//  2. Overload: if the endpoint refuses a call because of load, the limit falls by a
//     quarter. Then it rises by one in each round, up to the limit that was refused. It
//     tries that limit again after 2, 4, 8 ... up to 64 rounds, until the endpoint handles
//     a whole round.
//  3. Queue: if calls take 1.75 times as long as at a lower limit, some of them wait at
//     the endpoint. The limit becomes 1.25 times the number of calls that the endpoint
//     processes concurrently. That number is the rate of answers multiplied by the
//     shorter time (Little's law). If a round at the lower limit has a lower rate of
//     answers, there was no queue: the calls have become longer, and the limit is
//     restored. In the same way, half of the limit is tried after every 32 rounds with
//     calls that take a little longer than at a lower limit.
//  4. Target: after a round with a mean time above Target, the limit falls by a
//     quarter.
//
// Rule 3 does not compare with the shortest time ever seen (as Vegas does), because calls of one
// model differ tenfold by rows and tokens. It compares the means of rounds. A round at the same or
// a lower limit replaces the reference.
type Concurrency struct {
	options ConcurrencyOptions

	mu      sync.Mutex
	limit   int
	running int
	weight  int64 // total weight of the running calls
	falls   uint64
	refused uint64

	opening  bool // the limit rises within the round
	opened   bool // the opening has ended, or the limit has fallen
	step     int  // next step of the opening
	stepped  time.Time
	ceiling  int // the limit that was refused; 0 if none was
	patience int // rounds before the ceiling is tried again
	waited   int // of these, rounds that have passed

	round round

	usual   time.Duration // mean time of a call that does not wait
	usualAt int           // the limit at which usual was measured
	trial   *trial        // current trial of a lower limit
	looked  int           // rounds since the last trial with calls that may have waited
}

// trial is the last round before the limit fell because of a queue.
type trial struct {
	limit int
	mean  time.Duration
	rate  float64 // answers per second
}

// Turn is permission to make a call. Concurrency.End must end it exactly once.
type Turn struct {
	weight int64
	round  uint64
	began  time.Time
}

const (
	concurrencyStart = 4
	patienceMax      = 64 // rounds
	roundLeast       = 16 // answers, after the opening
	lookAfter        = 32 // rounds
	pauseLeast       = 4 * time.Millisecond
	pauseMost        = 50 * time.Millisecond
)

// NewConcurrency returns a limit of Start calls.
func NewConcurrency(options ConcurrencyOptions) (*Concurrency, error) {
	o, err := options.Resolved()
	if err != nil {
		return nil, fmt.Errorf("options of a limit of concurrency: %w", err)
	}
	return &Concurrency{options: o, limit: o.Start, round: round{number: 1}}, nil
}

// Begin asks for a turn. If ok is false, the limit is reached: ask again when a call has ended, or
// after wait if that is more than 0.
func (c *Concurrency) Begin(now time.Time, weight int64) (turn Turn, wait time.Duration, ok bool) {
	weight = max(weight, 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running >= c.limit && c.opening {
		wait = c.open(now)
	}
	heavy := c.options.Weight > 0 && c.running > 0 && weight > c.options.Weight-c.weight
	if c.running >= c.limit || heavy {
		c.round.reached = c.round.reached || c.running >= c.limit
		c.refused++
		return Turn{}, wait, false
	}
	c.running++
	c.weight += weight
	c.round.reached = c.round.reached || c.running >= c.limit
	if c.round.began.IsZero() {
		c.round.began, c.round.all = now, 0
	}
	return Turn{weight: weight, round: c.round.number, began: now}, 0, true
}

// open takes the next step of the opening, or returns how long to wait for it.
func (c *Concurrency) open(now time.Time) (wait time.Duration) {
	if wait = c.stepped.Add(min(max(c.usual/64, pauseLeast), pauseMost)).Sub(now); wait > 0 {
		return wait
	}
	c.stepped = now
	c.limit = min(c.limit+c.step, c.options.Max)
	c.step *= 2
	c.opening = c.limit < c.options.Max
	return 0
}

// Observe reports the outcome of a call, once, as soon as it is known. The turn continues until
// End, because the answer may still have to be journalled. Observe reports whether the call is new
// evidence: it began after the last change of the limit.
func (c *Concurrency) Observe(now time.Time, turn Turn, outcome Outcome) (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if outcome == Answered {
		c.round.all++
	}
	if turn.round != c.round.number || outcome == Abandoned || outcome == Repeated {
		return false
	}
	took := now.Sub(turn.began)
	switch {
	case outcome == Overloaded:
		c.refusedAt(c.limit)
		return true
	case outcome == Answered:
		c.round.answers++
		c.round.answered += took
	case took < c.options.Target: // no sign of load
		return true
	}
	c.round.ends++
	if c.round.took += took; c.round.ends >= c.roundSize() {
		c.judge(now)
	}
	return true
}

// roundSize returns the number of answers in the round. During the opening, calls begin at several
// limits.
func (c *Concurrency) roundSize() int {
	switch {
	case !c.opened:
		return c.limit
	case c.stepped.After(c.round.began):
		return roundLeast
	}
	return max(c.limit, roundLeast)
}

// judge ends a round and adjusts the limit.
func (c *Concurrency) judge(now time.Time) {
	mean, rate := c.round.mean(), c.round.rate(now)
	before := c.trial
	c.trial = nil
	switch {
	case c.round.took/time.Duration(c.round.ends) > c.options.Target:
		c.fall(c.limit - max(c.limit/4, 1))
		return
	case before != nil && rate < before.rate*math.Sqrt(float64(c.limit)/float64(before.limit)):
		c.usual, c.usualAt = before.mean, before.limit // the calls have become longer, but did not wait
		c.begin(before.limit)
		return
	case c.round.reached && c.usual > 0 && c.limit > c.usualAt && 4*mean > 5*c.usual:
		lower := int(math.Ceil(1.25 * rate * c.usual.Seconds()))
		if c.looked++; 4*mean <= 7*c.usual || 5*lower > 4*c.limit {
			lower = c.limit / 2 // the reference may be wrong
		} else {
			c.looked = lookAfter
		}
		if c.looked >= lookAfter {
			c.looked, c.trial = 0, &trial{c.limit, mean, rate}
			c.fall(lower)
			return
		}
	case mean > 0 && (c.usual == 0 || c.limit <= c.usualAt):
		c.usual, c.usualAt = c.usual+(mean-c.usual)/4, c.limit
		if c.usual < mean/2 { // the first round, or calls that differ from earlier ones
			c.usual = mean
		}
	case mean > 0 && mean < c.usual && !c.stepped.After(c.round.began):
		c.usual, c.usualAt = mean, c.limit
	}
	c.rise(now, mean)
}

// rise raises the limit if the round reached it and no call waited.
func (c *Concurrency) rise(now time.Time, mean time.Duration) {
	limit := c.limit
	switch {
	case !c.round.reached || limit == c.options.Max:
	case !c.opened:
		c.opened, c.opening, c.step, c.stepped = true, true, 1, now
	case c.opening || 4*mean > 5*c.usual:
	default:
		if limit >= c.ceiling {
			c.ceiling = 0 // the endpoint handled a whole round
		}
		if c.waited++; limit+1 != c.ceiling || c.waited >= c.patience {
			limit++
			c.waited = 0
		}
	}
	c.begin(limit)
}

// refusedAt lowers the limit after the endpoint refused a call.
func (c *Concurrency) refusedAt(limit int) {
	if c.waited = 0; limit == c.ceiling {
		c.patience = min(2*c.patience, patienceMax)
	} else {
		c.ceiling, c.patience = limit, 2
	}
	opened := c.opened
	c.fall(limit - max(limit/4, 1))
	c.opened = opened // a single refusal before the opening may be caused by one event
}

// fall lowers the limit.
func (c *Concurrency) fall(limit int) {
	c.opened, c.opening = true, false
	c.falls++
	c.begin(limit)
}

// begin starts a round.
func (c *Concurrency) begin(limit int) {
	c.limit = min(max(limit, 1), c.options.Max)
	c.round = round{number: c.round.number + 1}
}

// End ends a turn and makes room for another.
func (c *Concurrency) End(turn Turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == 0 || c.weight < turn.weight {
		panic("control: a turn ends that did not begin")
	}
	c.running--
	c.weight -= turn.weight
}

// ConcurrencyStats holds the state and the counters of a limit.
type ConcurrencyStats struct {
	Limit   int
	Running int    // turns in progress; can exceed Limit for a while after it fell
	Weight  int64  // total weight of these turns
	Falls   uint64 // number of times that the limit fell
	Refused uint64 // requests for a turn that were refused
}

// Stats returns the state and the counters of the limit.
func (c *Concurrency) Stats() ConcurrencyStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ConcurrencyStats{Limit: c.limit, Running: c.running, Weight: c.weight, Falls: c.falls, Refused: c.refused}
}
