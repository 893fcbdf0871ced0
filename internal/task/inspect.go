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
	Row         *value.Row // the values of the plan's Schema that the event has
	Time        time.Time  // zero where it is not known
	Watermark   time.Time  // at the event's position; zero where the event has no time
	Late        bool       // before the watermark
	Dropped     bool       // left out: late, seen before, or by a route
	Collected   bool       // a group or join has it: an event that is made of it goes on in its place
	Made        bool       // of others, by a group or join: Record is none of the log
	Approximate []string   // features that are approximate: read from windows beyond their max
	Stage       string     // where it failed; "" where it did not
	Err         error
}

// Column is a name and its value.
type Column = keyed.Column

// Describe returns the features of a user key as of its newest event: see
// keyed.Plan.Describe.
func (p *Plan) Describe(key string, get func(stored []byte) ([]byte, error)) (columns []Column, newest time.Time, err error) {
	return p.keys.Describe(p.Stages, key, get)
}
