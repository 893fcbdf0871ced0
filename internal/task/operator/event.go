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
	Time      int64 // microseconds; Never until it is known
	Watermark int64 // at the record's position, likewise
	Index     int32 // its place among the events that are computed together
	Outcome   Outcome
	Kept      Kept   // beside its partition
	Emits     uint64 // that it is to be written by, by index
	Calls     []Called
	Elements  int // of lists that steps were done for

	Approximate []string // features read from windows beyond their max
	Fallback    []string // scores that are their fallback, as the model was down
}

// Called is what an operator wrote for an event: a Call, or an Each for elements.
type Called struct {
	By      Operator
	Step    string // ends the ids of the outputs, as Emit.Name
	Outputs []udf.Output
}

// Alive reports whether the event goes on.
func (e *Event) Alive() bool { return e.Outcome == Active }

// Become ends an active event. An event that has ended stays what it is: an output that
// is too large makes a dead letter of a queued event, which stays queued.
func (e *Event) Become(o Outcome) {
	if e.Outcome == Active {
		e.Outcome = o
	}
}

// Outcome is what became of an event. An event begins as Active. It ends as one of the
// others, or stays active where it passes every operator.
type Outcome uint8

// The outcomes.
const (
	Active    Outcome = iota // operators are left, or all are done
	Filtered                 // a route dropped it
	Cancelled                // its client cancelled it
	Late                     // before the watermark, and dropped
	Diverted                 // before the watermark, and written to the late topic
	Duplicate                // its id was seen before
	Collected                // member of a group, which goes on as one event
	Known                    // its group keeps nothing of it that is told of later: it had it before, or stores no events
	Joined                   // right of a join, whose lefts go on
	Recovered                // given up, and on_failure wrote something instead
	Queued                   // in the async queue, and gone on with later
	Failed                   // a dead letter, which says where and why
	Notice                   // no event: the watermark of a source, a cancel, or a redrive of another pipeline
	Tick                     // no event: a position at which time moves on
)
