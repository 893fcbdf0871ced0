package sinks

import (
	"sync/atomic"

	"github.com/afterbay/afterbay/internal/observe"
)

// Metrics is what a Deliverer counts. They may be read at any time.
type Metrics struct {
	Delivered atomic.Uint64 // records that the service took
	Repeated  atomic.Uint64 // records left out, since the service took their id before
	Refused   atomic.Uint64 // records that became dead letters
	Older     atomic.Uint64 // of those delivered, records that changed nothing: the service held something newer
	Foreign   atomic.Uint64 // of those refused, records whose key the service held from another source
	Failures  atomic.Uint64 // calls that failed and are tried again
	Rejoined  atomic.Uint64 // members that were fenced and joined again
	Pauses    atomic.Uint64 // times that a partition was not read on, since as much of it is held as may be; of objects, since one is made
	Waiting   atomic.Int64  // records that are held, those that are called with among them
	Calling   atomic.Int64  // calls under way
	Resting   atomic.Bool   // the service failed so often that it is only probed

	Call  observe.Histogram // time of a call
	Fresh observe.Histogram // from the event time of a record until the service had it; of whole objects not
}
