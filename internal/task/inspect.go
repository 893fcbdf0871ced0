package task

import (
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/task/keyed"
	"github.com/afterbay/afterbay/stream"
)

// Observed is an event after it was computed.
type Observed struct {
	Record      *stream.Record
	Row         *value.Row // the event's values of the plan's Schema
	Time        time.Time  // zero if unknown
	Watermark   time.Time  // watermark at the event's position; zero if the event has no time
	Late        bool       // before the watermark
	Dropped     bool       // dropped: late, a duplicate, or by a route
	Collected   bool       // a group or join collected it; an event made of it continues in its place
	Made        bool       // made of other events by a group or join: Record is not in the log
	Approximate []string   // approximate features: read from windows beyond their max
	Stage       string     // where it failed; "" if it did not fail
	Err         error
}

// Column is a name and its value.
type Column = keyed.Column

// Describe returns the features of a user key as of its newest event. See keyed.Plan.Describe.
func (p *Plan) Describe(key string, get func(stored []byte) ([]byte, error)) (columns []Column, newest time.Time, err error) {
	return p.keys.Describe(p.Stages, key, get)
}
