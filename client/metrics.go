package client

import "sync/atomic"

// Metrics is what a Client counts. They may be read at any time.
type Metrics struct {
	Connects     atomic.Uint64 // connections that were made
	Resent       atomic.Uint64 // events sent again, since a connection was cut or they were not taken
	Backpressure atomic.Uint64 // answers that an event was not taken for the moment
	Results      atomic.Uint64 // results received, each once
	Repeats      atomic.Uint64 // results that had been received
	Gaps         atomic.Uint64 // gaps between results
	Behind       atomic.Uint64 // connections whose results were dropped, since the application took none
	Renewals     atomic.Uint64 // tokens brought before the one of a connection ended
	Errors       atomic.Uint64 // frames of errors that are of no event
}
