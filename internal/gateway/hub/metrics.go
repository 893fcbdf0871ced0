package hub

import "sync/atomic"

// Metrics is what a Hub counts. They may be read at any time.
type Metrics struct {
	Passed   atomic.Uint64 // records that the readers of partitions passed
	Queued   atomic.Uint64 // of those, records put in queues of subscribers, each counted
	Slow     atomic.Uint64 // queues that were full, so that their subscribers read the log
	Pages    atomic.Uint64 // pages read of the log for subscribers that were behind
	Scanned  atomic.Uint64 // records read for these pages, those of other keys among them
	Gaps     atomic.Uint64 // subscribers that asked for what is not in the log
	Failures atomic.Uint64 // reads that failed, or took too long, and are tried again

	Subscribers atomic.Int64 // subscriptions that are open
	Replaying   atomic.Int64 // of those, that read the log or wait for their turn to
}
