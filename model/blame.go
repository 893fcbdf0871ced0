package model

import (
	"context"
	"errors"
)

// Blame says whose fault an error of Predict is.
type Blame int

// The blames.
const (
	BlameRows   Blame = iota // one of the rows, or nobody said
	BlameModel               // the model, which answered, but not with scores: it may be the rows
	BlameWay                 // nobody answered in time or at all: it says nothing about the rows
	BlameSource              // the place that a row names, from which something of it comes: it says nothing about the row, nor about the model
)

// Refused reports whether an error says itself that it is about the rows, so that
// the same rows fail again. One that says nothing may be of the moment.
func Refused(err error) bool {
	var says interface{ Blame() Blame }
	return errors.As(err, &says) && says.Blame() == BlameRows
}

// BlameOf returns whose fault an error is: what it says itself by a method Blame,
// and of the end of a context that nobody answered in time.
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
