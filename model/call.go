package model

import (
	"context"
	"time"
)

// Call holds what the caller tells a model about a call, in addition to its rows. The zero value
// tells the model nothing.
type Call struct {
	// Event is the id of the event that the rows belong to. It is set for models that may answer
	// equal rows differently; "" for other models.
	Event string

	// Once tells a model outside the process to send the call once, without retries. The caller
	// decides about retries.
	Once bool

	// OffLoop reports that only the rows of the call wait for it, so the call may be slow. The
	// caller bounds how many calls are in flight.
	OffLoop bool

	// Timeout bounds each request of a call; 0 sets no bound. A model that sends one request per
	// row (see Info.RowsMax) honours it.
	Timeout time.Duration

	// Part receives each piece of a text as it arrives, with its row in the call, if the model
	// writes its texts in pieces. The pieces of a row arrive in order, from one goroutine at a
	// time. Treat pieces as provisional until the call ends: an error may follow, and Answer
	// returns the whole text. If Part is nil, pieces are not reported.
	Part func(row int, text string)
}

type callKey struct{}

// WithCall returns a context that carries c to Predict.
func WithCall(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf returns the Call of the innermost WithCall, or the zero value.
func CallOf(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}
