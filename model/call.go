package model

import (
	"context"
	"time"
)

// Call is what the caller of a model says of a call beside its rows. The zero value says
// nothing.
type Call struct {
	// Event is the id of the event that the rows are of, for models that answer
	// the same rows in different ways; "" for others.
	Event string

	// Once says that a model outside of the process makes the call once: whether it is
	// repeated is for the caller to decide.
	Once bool

	// OffLoop says that only the rows of the call wait for it, so it may take its time.
	// The caller bounds how many calls are in flight.
	OffLoop bool

	// Timeout bounds each request of a call; 0 does not. A model of whose rows each is a
	// request of its own, by Info.RowsMax, heeds it.
	Timeout time.Duration

	// Part takes each piece of a text as it comes, with the row of the call that it is of,
	// if the model writes its texts piece by piece: in order, from one goroutine at a time
	// for a row. A piece is of use only until the call ends: an error may follow, and Answer
	// has the whole text. nil takes none.
	Part func(row int, text string)
}

type callKey struct{}

// WithCall returns a context that says what Predict is called for.
func WithCall(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf returns what WithCall said last.
func CallOf(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}
