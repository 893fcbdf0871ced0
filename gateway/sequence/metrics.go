package sequence

import "sync/atomic"

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
	Bad        atomic.Uint64 // records of the inbox that became dead letters
	Rejoined   atomic.Uint64 // sessions after one that died
}
