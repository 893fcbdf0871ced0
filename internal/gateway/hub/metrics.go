package hub

import "sync/atomic"

// Metrics holds the counters of a Hub. They are safe to read at any time.
type Metrics struct {
	Passed   atomic.Uint64 // records that the partition readers have read
	Queued   atomic.Uint64 // records put into subscribers' queues, once for each queue
	Slow     atomic.Uint64 // queues that were full: their subscribers read the log instead
	Pages    atomic.Uint64 // pages read from the log for subscribers that were behind
	Scanned  atomic.Uint64 // records read for these pages, including those of other keys
	Gaps     atomic.Uint64 // gaps reported to subscribers
	Failures atomic.Uint64 // reads that failed or took too long, and are retried

	Subscribers atomic.Int64 // open subscriptions
	Replaying   atomic.Int64 // of these, subscriptions that read the log or wait to read it
}
