package inspect

import (
	"time"

	"github.com/afterbay/afterbay/internal/observe"
)

// Timing is the timing of events that a pipeline computed together, in its JSON form.
type Timing struct {
	Pipeline  string `json:"pipeline"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	First     int64  `json:"first"` // offset of the first event
	Next      int64  `json:"next"`  // offset after the last event

	Begun     time.Time     `json:"begun"`
	Feature   time.Duration `json:"feature_ns"` // of the whole chunk, as are Model and Emit
	Model     time.Duration `json:"model_ns"`
	Emit      time.Duration `json:"emit_ns"`
	Made      time.Time     `json:"made"`
	Committed time.Time     `json:"committed"`

	Ordered bool          `json:"ordered,omitempty"` // events of the pipeline wait for their turn
	Turns   observe.Turns `json:"turns,omitempty"`   // how long they waited
}

// Of returns the timing with only the waiting time of the event at an offset.
func (t Timing) Of(offset int64) Timing {
	turn, known := t.Turns.At(offset)
	if t.Turns = nil; known {
		t.Turns = observe.Turns{turn}
	}
	return t
}

// NewTiming converts the timing that a pipeline observed.
func NewTiming(pipeline string, p observe.Timing) Timing {
	return Timing{
		Pipeline: pipeline, Topic: p.Topic, Partition: p.Partition, First: p.First, Next: p.Next,
		Begun: p.Begun.UTC(), Feature: p.Feature, Model: p.Model, Emit: p.Emit, Made: p.Made.UTC(), Committed: p.Committed.UTC(),
		Ordered: p.Ordered, Turns: p.Turns,
	}
}
