package operator

import (
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

// Event is an event on its way through the operators of a pipeline.
type Event struct {
	Record    *stream.Record
	Row       *value.Row
	Time      int64 // microseconds; Never if it is not known yet
	Watermark int64 // at the record's position, microseconds; Never if it is not known yet
	Index     int32 // index among the events that are computed together
	Outcome   Outcome
	Kept      Kept   // state of its partition
	Emits     uint64 // set of the emits that write it, by index
	Calls     []Called
	Elements  int // number of list elements that an Each processed

	Approximate []string // features read from windows beyond their max
	Fallback    []string // scores that got their fallback because the model was down
}

// Called holds the records that an operator wrote for an event: a Call, or an Each for elements.
type Called struct {
	By      Operator
	Step    string // suffix of the ids of the outputs, like Emit.Name
	Outputs []udf.Output
}

// Alive reports whether the event continues.
func (e *Event) Alive() bool { return e.Outcome == Active }

// Become ends an active event. It does not change an event that has ended. For example, an output
// that is too large makes a dead letter of a queued event, and the event stays queued.
func (e *Event) Become(o Outcome) {
	if e.Outcome == Active {
		e.Outcome = o
	}
}

// Outcome is the outcome of an event. An event begins as Active. It stays Active if it passes every
// operator, and otherwise ends with one of the other outcomes.
type Outcome uint8

// The outcomes.
const (
	Active    Outcome = iota // operators remain, or all have run
	Filtered                 // a route dropped it
	Cancelled                // its client cancelled it
	Late                     // before the watermark, and dropped
	Diverted                 // before the watermark, and written to the late topic
	Duplicate                // its id was seen before
	Collected                // a member of a group; the group continues as one event
	Known                    // a member of a group that reports nothing more about it: the group had it already, or stores no events
	Joined                   // the right event of a join; its left events continue
	Recovered                // given up, and on_failure wrote something instead
	Queued                   // in the async queue; it continues later
	Failed                   // a dead letter, with the place and reason of its failure
	Notice                   // not an event: the watermark of a source, a cancel, or a redrive of another pipeline
	Tick                     // not an event: a position where time advances
)
