package sequence

import (
	"iter"
	"sync/atomic"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// Metrics count what a Sequencer computed, also what it computed again after a
// commit that failed.
type Metrics struct {
	Accepted   atomic.Uint64 // events that went on to the pipeline
	Held       atomic.Uint64 // events that had to wait for an earlier one
	Rejected   atomic.Uint64 // events: by sequence, time or size
	Duplicates atomic.Uint64 // events that came again
	Conflicts  atomic.Uint64 // of another payload
	Results    atomic.Uint64 // records of the results topic
	Expired    atomic.Uint64 // events that had no outcome within the window
	Redriven   atomic.Uint64 // results of dead letters that were sent back
	Dropped    atomic.Uint64 // outcomes of events that had ended
	Unknown    atomic.Uint64 // outcomes of events that are not known, or not any more
	Foreign    atomic.Uint64 // records of the pipeline that are of no client
	Ends       Ends          // of events, each once
	Bad        atomic.Uint64 // records of the inbox that became dead letters
	Rejoined   atomic.Uint64 // members after one that died
}

// Ends counts how events ended. An event that has not ended is on its way.
type Ends struct{ ok, rejected, deadLettered, expired atomic.Uint64 }

// All returns how many events ended with each status.
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
