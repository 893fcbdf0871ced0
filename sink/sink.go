// Package sink defines the contract of sinks: destinations of the committed records of a topic.
package sink

import (
	"context"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Sink passes records to a service, one at a time.
type Sink interface {
	// Deliver passes one record to the service and returns when the service has accepted it.
	// Several goroutines call it at the same time, but calls for one record, and calls for records
	// of the same key, follow one another.
	//
	// A *Refused error is about the record, which becomes a dead letter. Any other error is about
	// the service: the engine retries until the service accepts the record. A *Later error sets the
	// earliest time of the next try. A record is also delivered again if the process dies before it
	// has stored the answer. ctx has a deadline; the call ends when ctx ends. Deliver must not
	// change or retain the record.
	Deliver(ctx context.Context, id string, r *stream.Record) error
}

// Refused is an error: the service will never accept the record.
type Refused struct{ Err error }

// Error returns the reason.
func (e *Refused) Error() string { return "refused: " + e.Err.Error() }

// Unwrap returns Err.
func (e *Refused) Unwrap() error { return e.Err }

// Later is an error: the service wants no calls for a while.
type Later struct {
	After time.Duration // the engine waits for at most one minute of it
	Err   error
}

// Error returns the text of Err.
func (e *Later) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Later) Unwrap() error { return e.Err }
