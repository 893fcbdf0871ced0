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

// Calling is how a model is called that may be slow, late or down. What cannot be
// scored at once is queued. The scores of a model share it, as do members.
type Calling struct {
	Endpoint   *control.Endpoint
	Ready      func(ctx context.Context) error // asks whether the model is ready; nil if the model cannot say
	Backoff    control.Backoff
	Timeout    time.Duration // of a call
	Expire     time.Duration // since an event was queued, after which it is given up; 0 is never
	Open       Open          // what happens while the endpoint's breaker is open
	Journal    Journal       // of the answers to calls for queued events
	Always     bool          // all events are queued, so that every answer is kept
	Price      float64       // of an answer; 0 is unknown
	Generative bool          // the model may answer the same in another way each time
	Implied    bool          // nobody wrote it: it is for when the model is down
}

// Open says what happens to events while a breaker is open.
type Open uint8

// The ways.
const (
	OpenPause    Open = iota // no more are read
	OpenQueue                // they are queued, and those behind them go on
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
	call := model.CallOf(ctx)
	call.OffLoop = true
	if c.Journal != JournalNone {
		call.Event, call.Once = id, true
	}
	return context.WithTimeout(model.WithCall(ctx, call), c.Timeout)
}

// InPlace returns the context of a call of so many rows in the place of events. If each
// row is a request of its own, each request has the timeout: a row that is late does not
// make others late that wait for their turn. Else the call has it.
func (c *Calling) InPlace(ctx context.Context, info model.Info, rows int) (context.Context, context.CancelFunc) {
	timeout := c.Timeout
	if info.RowsMax == 1 {
		call := model.CallOf(ctx)
		call.Timeout = timeout
		ctx, timeout = model.WithCall(ctx, call), timeout*time.Duration(max(rows, 1))
	}
	return context.WithTimeout(ctx, timeout)
}

// Late returns why the answer to a call whose context that was comes too late, nil
// where it does not.
func (c *Calling) Late(call context.Context) error {
	if err := call.Err(); !errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return fmt.Errorf("answered after more than %v: %w", c.Timeout, context.DeadlineExceeded)
}

// Failure is an event that a call failed for.
type Failure struct {
	Err      error
	Outlier  *control.Outlier // nil before Judge is an event that has not failed before
	Ready    bool             // the model said after the failure that it is ready
	Attempts int              // that count against the event, after Judge
}

// Judge compares the failures of a call with the events that it answered. It sets the
// Attempts of the failures, and returns the Outcome for the endpoint.
//
// A row that is refused, and an answer that does not fit the model's outputs, are the
// event's fault. Other failures are its fault where others are answered or the model is
// ready, as control.Outlier says. A whole call of several events that fails, and an outage that
// the error itself reports, count against no event.
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

// readyTimeout bounds the question whether a model is ready.
const readyTimeout = time.Second

// Confirm reports whether a failure at a time counts against its event although no other
// event was answered: it asks the model, if that decides, whether it is ready. A model
// that cannot say is taken to be ready.
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

// works reports whether an error says that the model itself works.
func works(err error) bool {
	switch calling.BlameOf(err) {
	case model.BlameRows, model.BlameAnswer, model.BlameSource:
		return true
	}
	return false
}

// Exhausted reports whether an event that has used so many attempts is given up: what
// a model refuses it refuses again.
func (c *Calling) Exhausted(err error, attempts int) bool {
	return calling.Refused(err) || c.Backoff.Exhausted(attempts)
}

// Delay returns how long an event waits after an attempt that failed, as the backoff
// says and as long as the model asks for.
func (c *Calling) Delay(id string, attempt int, err error) time.Duration {
	return max(c.Backoff.Delay(id, attempt), calling.RetryAfter(err))
}

// Place asks for a call in the place of events, and waits its turn where there is no
// room. It does not wait for the places of the member's own calls, where it has some,
// which are free when it goes on.
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
