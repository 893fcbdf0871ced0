package calling

import (
	"context"
	"errors"
	"time"

	"github.com/afterbay/afterbay/model"
)

// Refused reports whether an error says itself that it is about the rows, so that
// the same rows fail again. One that says nothing may be of the moment.
func Refused(err error) bool {
	var says interface{ Blame() model.Blame }
	return errors.As(err, &says) && says.Blame() == model.BlameRows
}

// BlameOf returns what an error is to blame on: the result of its method Blame, and
// BlameWay for the end of a context.
func BlameOf(err error) model.Blame {
	var says interface{ Blame() model.Blame }
	switch {
	case errors.As(err, &says):
		return says.Blame()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return model.BlameWay
	}
	return model.BlameRows
}

// Busy reports whether an error says that the model has too much to do, as a method
// Busy of it returns: the same call may succeed when fewer are under way.
func Busy(err error) bool {
	var says interface{ Busy() bool }
	return errors.As(err, &says) && says.Busy()
}

// Outage reports whether an error says that the model answers no request, whatever its
// rows, as a method Outage of it returns: there is no connection, or the credentials are
// refused. No row is at fault then.
func Outage(err error) bool {
	var says interface{ Outage() bool }
	return errors.As(err, &says) && says.Outage()
}

// RetryAfter returns how long the model asks its callers to wait, as a method
// RetryAfter of the error returns; 0 where it does not say.
func RetryAfter(err error) time.Duration {
	var says interface{ RetryAfter() time.Duration }
	if errors.As(err, &says) {
		return says.RetryAfter()
	}
	return 0
}
