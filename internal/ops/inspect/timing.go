package inspect

import (
	"time"

	"github.com/afterbay/afterbay/internal/observe"
)

// Timing is how events that a pipeline computed together came through, as JSON.
type Timing struct {
	Pipeline  string `json:"pipeline"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	First     int64  `json:"first"` // offset of the first event
	Next      int64  `json:"next"`  // and of the one behind the last

	Begun     time.Time     `json:"begun"`
	Feature   time.Duration `json:"feature_ns"` // of the whole chunk, as is the model's and emit's
	Model     time.Duration `json:"model_ns"`
	Emit      time.Duration `json:"emit_ns"`
	Made      time.Time     `json:"made"`
	Committed time.Time     `json:"committed"`

	Ordered bool          `json:"ordered,omitempty"` // events of the pipeline wait for their turn
	Turns   observe.Turns `json:"turns,omitempty"`   // how they did
}

// Of returns the timing with how the event at an offset waited alone.
func (t Timing) Of(offset int64) Timing {
	turn, known := t.Turns.At(offset)
	if t.Turns = nil; known {
		t.Turns = observe.Turns{turn}
	}
	return t
}

// NewTiming returns what a pipeline observed.
func NewTiming(pipeline string, p observe.Timing) Timing {
	return Timing{
		Pipeline: pipeline, Topic: p.Topic, Partition: p.Partition, First: p.First, Next: p.Next,
		Begun: p.Begun.UTC(), Feature: p.Feature, Model: p.Model, Emit: p.Emit, Made: p.Made.UTC(), Committed: p.Committed.UTC(),
		Ordered: p.Ordered, Turns: p.Turns,
	}
}
