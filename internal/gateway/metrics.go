package gateway

import (
	"iter"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/afterbay/afterbay/internal/observe"
)

// Metrics holds the counters of a Gateway. They are safe to read at any time.
type Metrics struct {
	Connections atomic.Int64  // open connections
	Opened      atomic.Uint64 // accepted connections
	Full        atomic.Uint64 // connections rejected because there were too many
	Forbidden   atomic.Uint64 // requests rejected because of their token or origin

	Accepted   atomic.Uint64 // events appended to the log
	Refused    atomic.Uint64 // events answered with backpressure
	Overloaded atomic.Uint64 // of these, events rejected because too many bytes were being appended
	Bad        atomic.Uint64 // messages and events answered with an error
	Failures   atomic.Uint64 // failed appends
	Pending    atomic.Int64  // events of connections that have no result yet
	Results    atomic.Uint64 // results sent
	Resumes    atomic.Uint64 // connections that resumed from a cursor
	Gaps       atomic.Uint64 // gaps reported to clients
	Unreadable atomic.Uint64 // records of the results topic that are not results
	Closed     CloseCodes    // connections ended by the gateway, by close code

	Append observe.Histogram // duration of appends of events
}

// CloseCodes counts ended connections by close code.
type CloseCodes struct {
	protocol [16]atomic.Uint64   // codes of RFC 6455, from 1000
	own      [1000]atomic.Uint64 // codes of the gateway, from 4000
}

// breaches are the codes with which the library ends a connection that breaks RFC 6455 or sends a
// message that is too large. The library never uses them to answer a client's close.
var breaches = []closeCode{closeProtocol, 1007, 1009}

const closeProtocol closeCode = 1002

// at returns the counter of a code; nil if it has none.
func (c *CloseCodes) at(code int) *atomic.Uint64 {
	switch {
	case code >= 1000 && code < 1000+len(c.protocol):
		return &c.protocol[code-1000]
	case code >= 4000 && code < 4000+len(c.own):
		return &c.own[code-4000]
	}
	return nil
}

func (c *CloseCodes) add(code closeCode) { c.at(int(code)).Add(1) }

// All returns every close code that the gateway uses, with the number of connections that it ended.
func (c *CloseCodes) All() iter.Seq2[int, uint64] {
	return func(yield func(int, uint64) bool) {
		for _, code := range slices.AppendSeq(slices.Clone(breaches), maps.Keys(closeReasons)) {
			if !yield(int(code), c.Of(int(code))) {
				return
			}
		}
	}
}

// Of returns how many connections ended with a code from 1000 to 1015 or 4000 to 4999; 0 for other
// codes.
func (c *CloseCodes) Of(code int) uint64 {
	if n := c.at(code); n != nil {
		return n.Load()
	}
	return 0
}
