package sinks

import (
	"sync/atomic"

	"github.com/afterbay/afterbay/internal/observe"
)

// Metrics holds the counters of a Deliverer. They are safe to read at any time.
type Metrics struct {
	Delivered atomic.Uint64 // records that the service accepted
	Repeated  atomic.Uint64 // records skipped because the service had accepted their id before
	Refused   atomic.Uint64 // records that became dead letters
	Older     atomic.Uint64 // of the delivered records, those that changed nothing because the service held a newer one
	Foreign   atomic.Uint64 // of the refused records, those with a key that the service held from another source
	Failures  atomic.Uint64 // failed calls, which are retried
	Rejoined  atomic.Uint64 // new members after a fenced one
	Pauses    atomic.Uint64 // times that a partition was paused because it held too many records or, for an Archive, because an object was being made
	Waiting   atomic.Int64  // held records, including those of calls in flight
	Calling   atomic.Int64  // calls in flight
	Resting   atomic.Bool   // the service failed so often that it is only probed

	Call  observe.Histogram // duration of calls
	Fresh observe.Histogram // time from the event time of a record until the service had it; not counted for objects
}
