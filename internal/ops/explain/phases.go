package explain

import (
	"context"
	"time"

	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/state/deadletter"
)

// Phases are the durations of the phases of an event. Events that were computed together share some
// of them.
type Phases struct {
	First      int64         `json:"first"` // offset of the first event computed together
	Next       int64         `json:"next"`  // offset after the last of them
	Queue      time.Duration `json:"queue_ns,omitempty"`
	Known      bool          `json:"queue_known"`       // Queue is known, because the arrival time of the event is
	Ordered    bool          `json:"ordered,omitempty"` // the event waited for its turn in the time order of several source partitions
	Order      time.Duration `json:"order_ns,omitempty"`
	OrderKnown bool          `json:"order_known,omitempty"` // Order is known; otherwise Queue includes it
	WaitedFor  string        `json:"waited_for,omitempty"`  // the source partition or stage that it waited for last
	Feature    time.Duration `json:"feature_ns"`            // of the whole chunk, as are the next two
	Model      time.Duration `json:"model_ns"`
	Emit       time.Duration `json:"emit_ns"`
	Commit     time.Duration `json:"commit_ns"`

	committed time.Time
}

// Total is the time from the event's append to the durable output.
func (h *Phases) Total() time.Duration {
	return h.Queue + h.Order + h.Feature + h.Model + h.Emit + h.Commit
}

// phases finds the durations for every record that a pipeline made, starting with the first.
func (e *explanation) phases(ctx context.Context) error {
	if e.Timing == nil {
		return nil
	}
	var way []*Record
	if e.report.Output != nil {
		way = append(way, e.report.Output)
	}
	way = append(append(way, e.report.Event), e.report.Upstream...)
	for i := len(way) - 2; i >= 0; i-- {
		if err := e.phasesOf(ctx, way[i], way[i+1]); err != nil {
			return err
		}
	}
	for _, r := range e.report.Became {
		if err := e.phasesOf(ctx, r, e.report.Event); err != nil {
			return err
		}
	}
	return nil
}

// phasesOf finds the durations between an event and a record made from it.
func (e *explanation) phasesOf(ctx context.Context, r, event *Record) error {
	at := r.Made.From
	if r.Made.Number != "" {
		at = r.Made.repartition() + "/" + r.Made.Number
	}
	p, err := deadletter.ParsePosition(at)
	if err != nil {
		return nil
	}
	timing, found, err := e.Timing(ctx, naming.Root(r.Made.Pipeline), p.Partition, p.Offset)
	if err != nil || !found {
		return err
	}
	h := &Phases{
		First: timing.First, Next: timing.Next, Ordered: timing.Ordered, Feature: timing.Feature, Model: timing.Model, Emit: timing.Emit,
		Commit: timing.Committed.Sub(timing.Made), committed: timing.Committed,
	}
	if turn, known := timing.Turns.At(int64(p.Offset)); known {
		h.Order, h.OrderKnown, h.WaitedFor = turn.Order, true, turn.For
	}
	switch {
	case event.Missing != "":
	case event.Made == nil: // its time is the time of its append
		h.Queue, h.Known = timing.Begun.Sub(event.Time), true
	case event.Made.Phases != nil:
		h.Queue, h.Known = timing.Begun.Sub(event.Made.Phases.committed), true
	}
	h.Queue = max(h.Queue-h.Order, 0)
	r.Made.Phases = h
	return nil
}
