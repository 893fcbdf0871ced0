package sequence

import (
	"iter"
	"sync/atomic"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// Metrics holds the counters of a Sequencer. They also count work that is repeated after a failed
// commit.
type Metrics struct {
	Accepted   atomic.Uint64 // events sent to the pipeline
	Held       atomic.Uint64 // events that had to wait for an earlier event
	Rejected   atomic.Uint64 // events rejected for their sequence, time or size, or cancelled
	Duplicates atomic.Uint64 // events sent again
	Conflicts  atomic.Uint64 // events that reuse an id with another payload
	Results    atomic.Uint64 // records written to the results topic
	Expired    atomic.Uint64 // events without an outcome within the window
	Redriven   atomic.Uint64 // results of redriven dead letters
	Dropped    atomic.Uint64 // outcomes of events that had already ended
	Unknown    atomic.Uint64 // outcomes of events that are unknown or forgotten
	Foreign    atomic.Uint64 // records of the pipeline that belong to no client
	Ends       Ends          // ended events, each once
	Bad        atomic.Uint64 // records of the inbox that became dead letters
	Rejoined   atomic.Uint64 // members that replaced a fenced one
}

// Ends counts ended events by status.
type Ends struct{ ok, rejected, deadLettered, expired atomic.Uint64 }

// All returns the number of ended events for each status.
func (e *Ends) All() iter.Seq2[wire.Status, uint64] {
	return func(yield func(wire.Status, uint64) bool) {
		for _, status := range [...]wire.Status{wire.StatusOK, wire.StatusRejected, wire.StatusDeadLettered, wire.StatusExpired} {
			if !yield(status, e.of(status).Load()) {
				return
			}
		}
	}
}

func (e *Ends) of(status wire.Status) *atomic.Uint64 {
	switch status {
	case wire.StatusRejected:
		return &e.rejected
	case wire.StatusDeadLettered:
		return &e.deadLettered
	case wire.StatusExpired:
		return &e.expired
	default:
		return &e.ok
	}
}
