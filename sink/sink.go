// Package sink is the contract of sinks: where committed records of a topic go.
package sink

import (
	"context"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Sink hands records to a service.
type Sink interface {
	// Deliver hands one record on and returns when the service took it. Several
	// goroutines call it at once, for one record and for all records of a key one
	// after the other. An error that is a *Refused is about the record, which
	// becomes a dead letter. Any other is about the service: the record comes
	// again until it is taken, and not before a *Later says. It comes again too
	// where the process dies before it noted the answer. The end of ctx, which has
	// a deadline, ends the call. The record must not be changed or kept.
	Deliver(ctx context.Context, id string, r *stream.Record) error
}

// Refused says that the service will not take a record, whenever it is asked.
type Refused struct{ Err error }

// Error returns why.
func (e *Refused) Error() string { return "refused: " + e.Err.Error() }

// Unwrap returns why.
func (e *Refused) Unwrap() error { return e.Err }

// Later says that a service wants no calls for a while.
type Later struct {
	After time.Duration // at most a minute of it is kept to
	Err   error
}

// Error returns what the service said.
func (e *Later) Error() string { return e.Err.Error() }

// Unwrap returns what the service said.
func (e *Later) Unwrap() error { return e.Err }
