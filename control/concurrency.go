package control

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// ConcurrencyOptions bound the calls under way to an endpoint.
type ConcurrencyOptions struct {
	// Max is how many calls may be under way: 16 where it is 0.
	Max int
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
	if o.Target == 0 {
		o.Target = 1500 * time.Millisecond
	}
	var list complaints
	list.check(o.Max < 0, "%d calls at a time are negative", o.Max)
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
//  1. After a round in which the limit was reached and calls took Target or less in
//     the mean, the limit rises by one; it doubles until it has fallen once.
//  2. At a fault, and after a round whose mean is more than Target, the limit falls
//     by a quarter, and a round begins.
//
// A baseline for the time of a call instead of Target (Vegas, gradient) was not
// taken: calls of one model differ tenfold by rows and tokens, and a baseline
// follows the queue that it is to find.
type Concurrency struct {
	options ConcurrencyOptions

	mu      sync.Mutex
	limit   int
	running int
	weight  int64 // of the running
	fallen  bool  // the limit did
	round   uint64
	answers int // of the round
	took    time.Duration
	reached bool // the limit was, in the round
	falls   uint64
	refused uint64
}

// Turn is a call that may be made. It ends once, by Concurrency.End.
type Turn struct {
	weight int64
	round  uint64
	began  time.Time
}

const concurrencyStart = 4

// NewConcurrency returns a limit of 4 calls, or Max if that is less.
func NewConcurrency(options ConcurrencyOptions) (*Concurrency, error) {
	o, err := options.Resolved()
	if err != nil {
		return nil, fmt.Errorf("options of a limit of concurrency: %w", err)
	}
	return &Concurrency{options: o, limit: min(concurrencyStart, o.Max), round: 1}, nil
}

// Begin asks for a turn. Where ok is false as many calls as may are under way: ask
// again when one of them has ended.
func (c *Concurrency) Begin(now time.Time, weight int64) (turn Turn, ok bool) {
	weight = max(weight, 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	heavy := c.options.Weight > 0 && c.running > 0 && weight > c.options.Weight-c.weight
	if c.running >= c.limit || heavy {
		c.reached = c.reached || c.running >= c.limit
		c.refused++
		return Turn{}, false
	}
	c.running++
	c.weight += weight
	c.reached = c.reached || c.running >= c.limit
	return Turn{weight: weight, round: c.round, began: now}, true
}

// Observe tells what came of a call, once, when it is known. The turn goes on: the
// answer may have yet to be journalled.
func (c *Concurrency) Observe(now time.Time, turn Turn, outcome Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if turn.round != c.round || outcome == Abandoned {
		return
	}
	if outcome == Faulted {
		c.fall()
		return
	}
	c.answers++
	c.took += now.Sub(turn.began)
	switch {
	case c.answers < c.limit:
	case c.took/time.Duration(c.answers) > c.options.Target:
		c.fall()
	case c.reached && !c.fallen:
		c.begin(2 * c.limit)
	case c.reached:
		c.begin(c.limit + 1)
	default:
		c.begin(c.limit)
	}
}

// fall takes a quarter of the limit, at least one.
func (c *Concurrency) fall() {
	c.fallen = true
	c.falls++
	c.begin(c.limit - max(c.limit/4, 1))
}

// begin starts a round.
func (c *Concurrency) begin(limit int) {
	c.limit = min(max(limit, 1), c.options.Max)
	c.round++
	c.answers, c.took, c.reached = 0, 0, false
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
