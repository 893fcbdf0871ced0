package calling

import (
	"context"
	"errors"
	"time"

	"github.com/afterbay/afterbay/model"
)

// Refused reports whether an error itself blames the rows, so that equal rows fail again. Any other
// error may be temporary.
func Refused(err error) bool {
	var says interface{ Blame() model.Blame }
	return errors.As(err, &says) && says.Blame() == model.BlameRows
}

// BlameOf returns the blame of an error: the result of its method Blame, or BlameWay for the end of
// a context.
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

// Busy reports whether an error has a method Busy that returns true: the model is overloaded. The
// same call may succeed when fewer are in flight.
func Busy(err error) bool {
	var says interface{ Busy() bool }
	return errors.As(err, &says) && says.Busy()
}

// Outage reports whether an error has a method Outage that returns true: the model answers no
// request, whatever its rows. There is no connection, or the credentials are rejected. The rows are
// not at fault.
func Outage(err error) bool {
	var says interface{ Outage() bool }
	return errors.As(err, &says) && says.Outage()
}

// RetryAfter returns how long the model asks its callers to wait, from the error's method
// RetryAfter; 0 if the error does not say.
func RetryAfter(err error) time.Duration {
	var says interface{ RetryAfter() time.Duration }
	if errors.As(err, &says) {
		return says.RetryAfter()
	}
	return 0
}
