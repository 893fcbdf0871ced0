package client

import (
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// patience is how long a connection is not read where the application does not
// take results: less than the gateway waits for a client that does not read.
const patience = 5 * time.Second

// attemptsMost is of how many events at a time the attempt of partial results is
// known.
const attemptsMost = 4096

// Gap says that results are missing between two that were received: they are no
// longer retained, or their log was lost.
type Gap struct {
	// After is the seq of the newest result before the gap, 0 where none was
	// received; Next the first one after it, 0 where that is not known yet.
	After, Next uint64
}

// Error says what is missing.
func (g *Gap) Error() string {
	if g.Next == 0 {
		return fmt.Sprintf("results after %d are missing: they are no longer retained", g.After)
	}
	return fmt.Sprintf("results between %d and %d are missing", g.After, g.Next)
}

// item is what waits for the application: a result or a gap.
type item struct {
	result *Result
	err    error
}

// inbox is what is known of the results that were received.
type inbox struct {
	cursor   string // after the newest result; empty before the first connection
	seq      uint64 // of it; 0 is not known
	attempts map[string]int
}

// take gives a result to the application, unless it has it. False says that there
// was no room: it is to be received again.
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

// skip gives a gap to the application that the gateway told of.
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

// current reports whether a result is not a partial one of an attempt that was
// given up: a later one has begun. One without an attempt was made once.
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
			for id := range in.attempts { // any
				delete(in.attempts, id)
				break
			}
		}
		in.attempts[r.EventID] = r.Attempt
	}
}

// push gives the application an item, and waits a while for room.
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
	case c.results <- i: // nobody would say that there is room
		return true
	default:
	}
	c.metrics.Behind.Add(1)
	c.behind, l.dropping = true, true
	return false
}

// taken is called when the application took an item. Where results were dropped
// and there is room again, another connection goes on with them.
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
