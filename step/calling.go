package step

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/control"
	"github.com/afterbay/afterbay/model"
)

// Calling is how a model is called that may be slow, late or down. What cannot be
// scored at once is parked. The scores of a model share it, as do sessions.
type Calling struct {
	Endpoint   *control.Endpoint
	Backoff    control.Backoff
	Timeout    time.Duration // of a call
	Expire     time.Duration // since an event was parked, after which it is given up; 0 is never
	Open       Open          // what happens while the endpoint's breaker is open
	Journal    Journal       // of the answers to calls for parked events
	Always     bool          // all events are parked, so that every answer is kept
	Price      float64       // of an answer; 0 is unknown
	Generative bool          // the model may answer the same in another way each time
	Implied    bool          // nobody wrote it: it is for when the model is down

	answered atomic.Uint64 // calls with scores
}

// Open says what happens to events while a breaker is open.
type Open uint8

// The ways.
const (
	OpenPause    Open = iota // no more are read
	OpenPark                 // they are parked, and those behind them go on
	OpenFallback             // their scores are the fallback
)

// Journal says what answers are kept by.
type Journal uint8

// The ways.
const (
	JournalNone      Journal = iota // they are not kept
	JournalByRequest                // events that ask the same share an answer
	JournalByEvent                  // each event has its own
)

// Context returns the context of a call off the loop, which ends in time. Where answers are kept
// nobody else repeats it. The id is of the event that it is for, where each has an
// answer of its own.
func (c *Calling) Context(ctx context.Context, id string) (context.Context, context.CancelFunc) {
	ctx = model.OffLoop(ctx)
	if c.Journal != JournalNone {
		ctx = model.WithCall(ctx, model.Call{Event: id})
	}
	return context.WithTimeout(ctx, c.Timeout)
}

// Late returns why the answer to a call whose context that was comes too late, nil
// where it does not.
func (c *Calling) Late(call context.Context) error {
	if err := call.Err(); !errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return fmt.Errorf("answered after more than %v: %w", c.Timeout, context.DeadlineExceeded)
}

// Answered returns how many calls had scores.
func (c *Calling) Answered() uint64 { return c.answered.Load() }

// Outcome notes what came of a call of so many rows, of which some failed, the
// first with err; all of them where the call itself did.
func (c *Calling) Outcome(err error, rows, failed int) control.Outcome {
	switch {
	case failed < rows:
		c.answered.Add(1)
		return control.Answered
	case model.BlameOf(err) == model.BlameRows, model.BlameOf(err) == model.BlameSource:
		return control.Answered
	}
	return control.Faulted
}

// Blames reports whether a row that failed is at fault itself: the model says so,
// or it alone of a call failed. A row alone in its call is where that was said of
// it before, and the model answered others since it was tried then, the newest of
// them too: a model that is out of order for a moment is nobody's fault.
func (c *Calling) Blames(err error, rows, failed, attempts int, seen uint64) bool {
	switch model.BlameOf(err) {
	case model.BlameRows:
		return true
	case model.BlameModel:
		return failed == 1 && (rows > 1 || attempts > 0 && c.Answered() > seen && c.Endpoint.Breaker.Steady())
	}
	return false
}

// Exhausted reports whether a row that failed by its own fault, for so many times,
// is given up: what a model refuses it refuses again.
func (c *Calling) Exhausted(err error, attempts int) bool {
	return model.Refused(err) || c.Backoff.Exhausted(attempts)
}

// Place asks for a call in the place of events, and waits its turn where there is no
// room. It does not wait for the places of the session's own calls, where it has some,
// which are free when it goes on.
func (c *Calling) Place(ctx context.Context, has bool) (call control.Call, ok bool) {
	if has {
		call, admission, _ := c.Endpoint.Begin(time.Now(), 0)
		return call, admission == control.Admitted
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	call, admission := c.Endpoint.Wait(ctx, 0)
	return call, admission == control.Admitted
}
