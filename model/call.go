package model

import (
	"context"
	"time"
)

// Call is what the caller of a model says of a call beside its rows. A model
// outside of the process that is told of one makes it once: whether it is
// repeated is for that caller to decide.
type Call struct {
	// Event is the id of the event that the rows are of, for models that answer
	// the same rows in different ways; "" for others.
	Event string
}

type callKey struct{}

// WithCall returns a context that says what Predict is called for.
func WithCall(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf returns what WithCall said; ok is false where it said nothing.
func CallOf(ctx context.Context) (c Call, ok bool) {
	c, ok = ctx.Value(callKey{}).(Call)
	return c, ok
}

type partsKey struct{}

// WithParts returns a context by which a model that writes its texts piece by piece
// hands over each as it comes, with the row of the call that it is of: in order, from
// one goroutine at a time for a row. What it hands over is of use only until the call
// ends: an error may follow, and Answer has the whole text.
func WithParts(ctx context.Context, part func(row int, text string)) context.Context {
	return context.WithValue(ctx, partsKey{}, part)
}

// PartsOf returns what WithParts took; nil where it was not called.
func PartsOf(ctx context.Context) func(row int, text string) {
	part, _ := ctx.Value(partsKey{}).(func(row int, text string))
	return part
}

type timeoutKey struct{}

// WithTimeout returns a context that bounds each request of a call. A model of whose rows
// each is a request of its own, by Info.RowsMax, heeds it.
func WithTimeout(ctx context.Context, each time.Duration) context.Context {
	return context.WithValue(ctx, timeoutKey{}, each)
}

// TimeoutOf returns what WithTimeout took, or a timeout that is shorter.
func TimeoutOf(ctx context.Context, timeout time.Duration) time.Duration {
	if each, ok := ctx.Value(timeoutKey{}).(time.Duration); ok {
		return min(each, timeout)
	}
	return timeout
}

type offLoopKey struct{}

// OffLoop returns a context that marks a call as off the loop: only its rows wait for
// it, so it may take its time. The caller bounds how many calls are in flight.
func OffLoop(ctx context.Context) context.Context {
	return context.WithValue(ctx, offLoopKey{}, true)
}

// IsOffLoop reports whether OffLoop made the context.
func IsOffLoop(ctx context.Context) bool {
	off, _ := ctx.Value(offLoopKey{}).(bool)
	return off
}
