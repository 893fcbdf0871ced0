package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

// Calling says how to call a model that may be slow, late or down. Events that cannot be scored at
// once are queued. All scores of a model share one Calling, and so do all members.
type Calling struct {
	Endpoint   *control.Endpoint
	Ready      func(ctx context.Context) error // asks whether the model is ready; nil if the model cannot answer this
	Backoff    control.Backoff
	Timeout    time.Duration // timeout of a call
	Expire     time.Duration // time in the queue after which an event is given up; 0 is never
	Open       Open          // what happens while the endpoint's breaker is open
	Journal    Journal       // journal of the answers to calls for queued events
	Always     bool          // all events are queued, so that every answer is stored
	Price      float64       // price of an answer; 0 if unknown
	Generative bool          // the model may answer the same request differently each time
	Implied    bool          // the pipeline file does not configure it: it is only for a model that is down
}

// Open says what happens to events while a breaker is open.
type Open uint8

// The values of Open.
const (
	OpenPause    Open = iota // reading stops
	OpenQueue                // events are queued, and later events continue
	OpenFallback             // events get the fallback as their score
)

// Journal says how answers are stored.
type Journal uint8

// The values of Journal.
const (
	JournalNone      Journal = iota // answers are not stored
	JournalByRequest                // events with identical requests share an answer
	JournalByEvent                  // each event has its own answer
)

// Context returns the context of a call outside the loop. It ends after Timeout. If the journal is
// on, only the dispatcher may repeat the call. id is the event id if answers are stored per event.
func (c *Calling) Context(ctx context.Context, id string) (context.Context, context.CancelFunc) {
	call := model.CallOf(ctx)
	call.OffLoop = true
	if c.Journal != JournalNone {
		call.Event, call.Once = id, true
	}
	return context.WithTimeout(model.WithCall(ctx, call), c.Timeout)
}

// InPlace returns the context of a call from inside the loop with the given number of rows. If the
// model takes one row per request, each request has the timeout, so that a late row does not delay
// the rows behind it. Otherwise the whole call has the timeout.
func (c *Calling) InPlace(ctx context.Context, info model.Info, rows int) (context.Context, context.CancelFunc) {
	timeout := c.Timeout
	if info.RowsMax == 1 {
		call := model.CallOf(ctx)
		call.Timeout = timeout
		ctx, timeout = model.WithCall(ctx, call), timeout*time.Duration(max(rows, 1))
	}
	return context.WithTimeout(ctx, timeout)
}

// Late returns an error if the answer to a call with this context came after the timeout. Otherwise
// it returns nil.
func (c *Calling) Late(call context.Context) error {
	if err := call.Err(); !errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return fmt.Errorf("answered after more than %v: %w", c.Timeout, context.DeadlineExceeded)
}

// Failure is an event that a call failed for.
type Failure struct {
	Err      error
	Outlier  *control.Outlier // before Judge: nil if the event has not failed before
	Ready    bool             // after the failure the model reported that it is ready
	Attempts int              // attempts that count against the event, after Judge
}

// Judge compares the failures of a call with the events that it answered. It sets the Attempts of
// the failures, and returns the Outcome for the endpoint.
//
// The event is at fault if the model refuses its row, or if the answer does not fit the model's
// outputs. It is also at fault if other events are answered or the model is ready, as
// control.Outlier says. No event is at fault if a whole call of several events fails, or if the
// error itself reports an outage.
func (c *Calling) Judge(call control.Call, answered int, failures []Failure) control.Outcome {
	rows, compared := answered+len(failures), []*control.Outlier(nil)
	for i := range failures {
		f := &failures[i]
		if f.Outlier == nil {
			f.Outlier = new(control.Outlier)
		}
		switch calling.BlameOf(f.Err) {
		case model.BlameSource:
			rows--
		case model.BlameRows, model.BlameAnswer:
			answered++
			f.Attempts = f.Outlier.Blame()
		default:
			compared = append(compared, f.Outlier)
		}
	}
	c.Endpoint.Count(call, answered, compared...)
	if answered == 0 && compared == nil {
		return control.Answered // only the sources of rows failed
	}
	outcome := control.Abandoned
	for i := range failures {
		f := &failures[i]
		if works(f.Err) {
			continue
		}
		if calling.Outage(f.Err) {
			outcome = max(outcome, control.Faulted)
			continue
		}
		attempts, says := f.Outlier.Compare(c.Endpoint, call, rows == 1 || answered > 0, calling.Busy(f.Err), f.Ready)
		f.Attempts, outcome = attempts, max(outcome, says)
	}
	if answered > 0 && outcome != control.Overloaded {
		return control.Answered
	}
	return outcome
}

// readyTimeout bounds the request for the readiness of a model.
const readyTimeout = time.Second

// Confirm reports whether a failure at a time counts against its event although no other event was
// answered. If readiness decides this, Confirm asks the model whether it is ready. A model without
// a readiness check counts as ready.
func (c *Calling) Confirm(ctx context.Context, call control.Call, o control.Outlier, err error, at time.Time) bool {
	if c.Ready == nil {
		return true
	}
	if err == nil || works(err) || calling.Outage(err) || !o.Unconfirmed(c.Endpoint, call) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return c.Endpoint.Readiness.Since(ctx, at, c.Ready)
}

// works reports whether an error shows that the model itself works.
func works(err error) bool {
	switch calling.BlameOf(err) {
	case model.BlameRows, model.BlameAnswer, model.BlameSource:
		return true
	}
	return false
}

// Exhausted reports whether to give up an event after a number of attempts. An event that the model
// refuses is given up at once, because the model would refuse it again.
func (c *Calling) Exhausted(err error, attempts int) bool {
	return calling.Refused(err) || c.Backoff.Exhausted(attempts)
}

// Delay returns how long an event waits after a failed attempt: the longer of the backoff and the
// time that the model asks for.
func (c *Calling) Delay(id string, attempt int, err error) time.Duration {
	return max(c.Backoff.Delay(id, attempt), calling.RetryAfter(err))
}

// Place reserves a call from inside the loop. If has is set, the member has calls of its own in
// flight, and Place returns at once. Those calls are only freed when the loop continues. Otherwise
// Place waits for a free slot, at most for Timeout.
func (c *Calling) Place(ctx context.Context, now time.Time, has bool) (call control.Call, ok bool) {
	if has {
		call, admission, _ := c.Endpoint.Begin(now, 0)
		return call, admission == control.Admitted
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	call, admission := c.Endpoint.Wait(ctx, 0)
	return call, admission == control.Admitted
}
