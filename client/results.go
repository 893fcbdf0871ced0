package client

import (
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// patience is how long the reader blocks if the application does not take results. It is less than
// the time after which the gateway closes the connection of a client that does not read.
const patience = 5 * time.Second

// attemptsMost is the maximum number of events with a remembered current attempt,
// to filter partial results.
const attemptsMost = 4096

// Gap is an error: results are missing between two that were received. They are no longer retained,
// or their log was lost.
type Gap struct {
	// After is the seq of the newest result before the gap, 0 if the client received none. Next is
	// the seq of the first result after the gap, 0 if it is not yet known.
	After, Next uint64
}

// Error names the results that are missing.
func (g *Gap) Error() string {
	if g.Next == 0 {
		return fmt.Sprintf("results after %d are missing: they are no longer retained", g.After)
	}
	return fmt.Sprintf("results between %d and %d are missing", g.After, g.Next)
}

// item is a result or a gap that waits for the application.
type item struct {
	result *Result
	err    error
}

// inbox tracks which results the client has received.
type inbox struct {
	cursor   string // position after the newest result; empty before the first connection
	seq      uint64 // seq of the newest result; 0 if unknown
	attempts map[string]int
}

// take passes a result to the application unless it already has it. It returns false if there is no
// room: the result must then be received again.
func (c *Client) take(l *link, r *Result) bool {
	in := &c.inbox
	if in.seq != 0 && r.Seq <= in.seq {
		c.metrics.Repeats.Add(1)
		return true
	}
	if in.seq != 0 && r.Seq > in.seq+1 {
		if !c.push(l, item{err: &Gap{After: in.seq, Next: r.Seq}}) {
			return false
		}
		c.metrics.Gaps.Add(1)
		in.seq = r.Seq - 1
	}
	if in.current(r) && !c.push(l, item{result: r}) {
		return false
	}
	in.note(r)
	in.seq, in.cursor = r.Seq, r.Cursor
	c.metrics.Results.Add(1)
	return true
}

// skip passes a gap that the gateway reported to the application.
func (c *Client) skip(l *link, g *wire.Gap) bool {
	in := &c.inbox
	if !c.push(l, item{err: &Gap{After: in.seq}}) {
		return false
	}
	c.metrics.Gaps.Add(1)
	in.seq, in.cursor = 0, g.Earliest
	clear(in.attempts)
	return true
}

// current reports whether a result is still valid. A partial result is not if a later attempt has
// begun. A result without an attempt number is always valid.
func (in *inbox) current(r *Result) bool {
	return r.Status != wire.StatusPartial || r.Attempt == 0 || r.Attempt >= in.attempts[r.EventID]
}

func (in *inbox) note(r *Result) {
	known := in.attempts[r.EventID]
	switch {
	case r.Status != wire.StatusPartial:
		delete(in.attempts, r.EventID)
	case r.Attempt > known:
		if known == 0 && len(in.attempts) >= attemptsMost {
			for id := range in.attempts { // an arbitrary one
				delete(in.attempts, id)
				break
			}
		}
		in.attempts[r.EventID] = r.Attempt
	}
}

// push passes an item to the application. It waits up to patience for room.
func (c *Client) push(l *link, i item) bool {
	select {
	case c.results <- i:
		return true
	default:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case c.results <- i:
		return true
	case <-timer.C:
	case <-l.closing:
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.results <- i: // no later call of taken would report this room
		return true
	default:
	}
	c.metrics.Behind.Add(1)
	c.behind, l.dropping = true, true
	return false
}

// taken runs after the application took an item. If results were dropped and there is room again,
// it starts a new connection to receive them.
func (c *Client) taken() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.behind && len(c.results) <= cap(c.results)/2 {
		c.behind = false
		if c.link != nil {
			c.link.reopen()
		}
	}
}
