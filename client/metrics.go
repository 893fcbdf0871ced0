package client

import "sync/atomic"

// Metrics holds the counters of a Client. They are safe to read at any time.
type Metrics struct {
	Connects     atomic.Uint64 // successful connections
	Resent       atomic.Uint64 // events sent again, after a broken connection or backpressure
	Backpressure atomic.Uint64 // backpressure answers
	Results      atomic.Uint64 // distinct results received
	Repeats      atomic.Uint64 // results received again
	Gaps         atomic.Uint64 // gaps between results
	Behind       atomic.Uint64 // connections that dropped results because the application did not read them
	Renewals     atomic.Uint64 // tokens renewed before they expired
	Errors       atomic.Uint64 // error frames that belong to no event
}
