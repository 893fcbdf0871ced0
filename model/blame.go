package model

import (
	"context"
	"errors"
	"time"
)

// Blame says whose fault an error of Predict is.
type Blame int

// The blames.
const (
	BlameRows   Blame = iota // one of the rows, or unknown
	BlameModel               // the model, which answered, but not with scores: it may be the rows
	BlameWay                 // no answer in time or at all: it says nothing about the rows
	BlameAnswer              // the answer to the row, which does not fit the model's outputs: another try may bring one that does
	BlameSource              // the place that a row names, from which something of it comes: it says nothing about the row, nor about the model
)

// Refused reports whether an error says itself that it is about the rows, so that
// the same rows fail again. One that says nothing may be of the moment.
func Refused(err error) bool {
	var says interface{ Blame() Blame }
	return errors.As(err, &says) && says.Blame() == BlameRows
}

// BlameOf returns what an error is to blame on: the result of its method Blame, and
// BlameWay for the end of a context.
func BlameOf(err error) Blame {
	var says interface{ Blame() Blame }
	switch {
	case errors.As(err, &says):
		return says.Blame()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return BlameWay
	}
	return BlameRows
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
