package control

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// ConcurrencyOptions bound the calls under way to an endpoint.
type ConcurrencyOptions struct {
	// Max is how many calls may be under way: 16 where it is 0.
	Max int
	// Start is how many may be before the first answers: 4 where it is 0, or Max if
	// that is less.
	Start int
	// Target is the mean time of a call beyond which there are too many of them:
	// 1.5 s where it is 0, half of the default timeout of a call. Set it to half
	// of the timeout, or to the share of a budget.
	Target time.Duration
	// Weight is how much the calls under way may weigh together, such as the
	// tokens of prompts and answers; 0 is no bound. A call that weighs more goes
	// alone.
	Weight int64
}

// Resolved returns the options with those that are 0 filled in, or all that is
// wrong with them.
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

// Concurrency finds how many calls an endpoint bears, from 1 to Max. It is safe for
// concurrent use.
//
// It counts in rounds, each as many answers as the limit, of calls that began in
// it: what began before a change says nothing of it.
//
//  1. Opening: after the first round that reached Start, the limit rises by 1, 2, 4 ...
//     up to Max. A pause between the steps lets a refusal arrive before the next one.
//  2. Overload: at a refusal by load the limit falls by a quarter. Then it rises by one
//     a round up to the limit that was refused, which it tries again after 2 rounds, 4,
//     8 ... up to 64, until a whole round bears it.
//  3. Queue: where calls take 1.75 times as long as at a lower limit, some wait at
//     the endpoint. The limit becomes 1.25 times the calls that the endpoint works on,
//     which are its answers a second times that shorter time (Little's law). If a round
//     at the lower limit has fewer answers a second, it was no queue: the calls have
//     become longer, and the limit is restored. Half of the limit is tried so every 32
//     rounds with calls that take a little longer than at a lower limit.
//  4. Target: after a round with a mean time above Target, the limit falls by a
//     quarter.
//
// The least time ever seen is not the measure of rule 3 (as in Vegas): calls of one
// model differ tenfold by rows and tokens. Rounds are compared by their mean, and a
// round at the same limit or a lower one replaces the measure.
type Concurrency struct {
	options ConcurrencyOptions

	mu      sync.Mutex
	limit   int
	running int
	weight  int64 // of the running
	falls   uint64
	refused uint64

	opening  bool // the limit rises within the round
	opened   bool // it did, or fell before
	step     int  // of the opening, the next
	stepped  time.Time
	ceiling  int // the limit that was refused; 0 is none
	patience int // rounds before the ceiling is tried again
	waited   int // of these

	round round

	usual   time.Duration // that a call takes where it does not wait
	usualAt int           // the limit that it was measured at
	trial   *trial        // of a lower limit
	looked  int           // rounds with calls that may have waited, since the newest trial
}

// trial is a round before the limit fell because of a queue.
type trial struct {
	limit int
	mean  time.Duration
	rate  float64 // answers a second
}

// Turn is a call that may be made. It ends once, by Concurrency.End.
type Turn struct {
	weight int64
	round  uint64
	began  time.Time
}

const (
	concurrencyStart = 4
	patienceMax      = 64 // rounds
	roundLeast       = 16 // answers once the limit has opened
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

// Begin asks for a turn. Where ok is false as many calls as may are under way: ask
// again when one of them has ended, or after wait if that is more than 0.
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

// Observe tells what came of a call, once, when it is known. The turn goes on: the
// answer may have yet to be journalled. Observe reports whether the call says
// something new: it began after the limit last changed.
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

// roundSize is how many answers make the round. The calls of the opening began at
// several limits.
func (c *Concurrency) roundSize() int {
	switch {
	case !c.opened:
		return c.limit
	case c.stepped.After(c.round.began):
		return roundLeast
	}
	return max(c.limit, roundLeast)
}

// judge ends a round.
func (c *Concurrency) judge(now time.Time) {
	mean, rate := c.round.mean(), c.round.rate(now)
	before := c.trial
	c.trial = nil
	switch {
	case c.round.took/time.Duration(c.round.ends) > c.options.Target:
		c.fall(c.limit - max(c.limit/4, 1))
		return
	case before != nil && rate < before.rate*math.Sqrt(float64(c.limit)/float64(before.limit)):
		c.usual, c.usualAt = before.mean, before.limit // the calls are longer, and none waited
		c.begin(before.limit)
		return
	case c.round.reached && c.usual > 0 && c.limit > c.usualAt && 4*mean > 5*c.usual:
		lower := int(math.Ceil(1.25 * rate * c.usual.Seconds()))
		if c.looked++; 4*mean <= 7*c.usual || 5*lower > 4*c.limit {
			lower = c.limit / 2 // the measure may be wrong
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
		if c.usual < mean/2 { // the first round, or other calls than before
			c.usual = mean
		}
	case mean > 0 && mean < c.usual && !c.stepped.After(c.round.began):
		c.usual, c.usualAt = mean, c.limit
	}
	c.rise(now, mean)
}

// rise lets more calls begin, if the round needed them and none waited.
func (c *Concurrency) rise(now time.Time, mean time.Duration) {
	limit := c.limit
	switch {
	case !c.round.reached || limit == c.options.Max:
	case !c.opened:
		c.opened, c.opening, c.step, c.stepped = true, true, 1, now
	case c.opening || 4*mean > 5*c.usual:
	default:
		if limit >= c.ceiling {
			c.ceiling = 0 // a whole round bore it
		}
		if c.waited++; limit+1 != c.ceiling || c.waited >= c.patience {
			limit++
			c.waited = 0
		}
	}
	c.begin(limit)
}

// refusedAt lowers the limit, which the endpoint refused.
func (c *Concurrency) refusedAt(limit int) {
	if c.waited = 0; limit == c.ceiling {
		c.patience = min(2*c.patience, patienceMax)
	} else {
		c.ceiling, c.patience = limit, 2
	}
	opened := c.opened
	c.fall(limit - max(limit/4, 1))
	c.opened = opened // one refusal before the opening may be that of one event
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

// ConcurrencyStats is how a limit stands.
type ConcurrencyStats struct {
	Limit   int
	Running int    // turns that did not end; more than Limit for a while after it fell
	Weight  int64  // of them
	Falls   uint64 // how often the limit fell
	Refused uint64 // turns that were asked for in vain
}

// Stats returns how the limit stands.
func (c *Concurrency) Stats() ConcurrencyStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ConcurrencyStats{Limit: c.limit, Running: c.running, Weight: c.weight, Falls: c.falls, Refused: c.refused}
}
