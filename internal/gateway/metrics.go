package gateway

import (
	"iter"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/afterbay/afterbay/internal/observe"
)

// Metrics is what a Gateway counts. They may be read at any time.
type Metrics struct {
	Connections atomic.Int64  // open
	Opened      atomic.Uint64 // connections that were taken in
	Full        atomic.Uint64 // connections refused, since there were too many
	Forbidden   atomic.Uint64 // requests refused for their token or origin

	Accepted   atomic.Uint64 // events that are in the log
	Refused    atomic.Uint64 // events answered with backpressure
	Overloaded atomic.Uint64 // of those, since too many were on their way into the log
	Bad        atomic.Uint64 // messages and events answered with an error
	Failures   atomic.Uint64 // appends that failed
	Pending    atomic.Int64  // events of connections that wait for their result
	Results    atomic.Uint64 // results that were sent
	Resumes    atomic.Uint64 // connections that went on after a cursor
	Gaps       atomic.Uint64 // gaps that clients were told of
	Unreadable atomic.Uint64 // records of the topic of results that are none
	Closed     CloseCodes    // connections that the gateway ended, by code

	Append observe.Histogram // time of an append of events
}

// CloseCodes counts the ends of connections.
type CloseCodes struct {
	protocol [16]atomic.Uint64   // codes of RFC 6455, from 1000
	own      [1000]atomic.Uint64 // from 4000
}

// breaches are the codes by which the library ends a connection that breaks RFC 6455,
// or sends a message that is too large. A close of the client is answered by no such.
var breaches = []closeCode{closeProtocol, 1007, 1009}

const closeProtocol closeCode = 1002

// at returns the counter of a code; nil where it has none.
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

// All returns how many connections were ended with each code that there is.
func (c *CloseCodes) All() iter.Seq2[int, uint64] {
	return func(yield func(int, uint64) bool) {
		for _, code := range slices.AppendSeq(slices.Clone(breaches), maps.Keys(closeReasons)) {
			if !yield(int(code), c.Of(int(code))) {
				return
			}
		}
	}
}

// Of returns how many connections were ended with a code from 1000 to 1015 or 4000 to
// 4999; 0 for others.
func (c *CloseCodes) Of(code int) uint64 {
	if n := c.at(code); n != nil {
		return n.Load()
	}
	return 0
}
