package observe

import (
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/stream"
)

// Way collects the timing of the events of a transaction until the transaction is durable. One
// goroutine owns it. The zero value is empty.
type Way struct {
	Case     int    // case of the measured route that the next events take, from 1; 0 means no case
	chunk    Timing // times of the current chunk
	begun    int64  // start of the chunk, in nanoseconds
	from, at int    // index of the chunk's first timing, and of the newest event's timing
	timings  []Timing
	events   []passed
	traced   []traced
}

// passed is a group of consecutive events of a timing with the same waiting times.
type passed struct {
	queue, order time.Duration
	timing, n    int32
	way          int // the case, from 1
}

// Turn describes how an event waited for its turn in the time order of several source partitions.
// The zero value is an event that did not wait.
type Turn struct {
	Ordered  bool          // events of the pipeline wait for their turn
	Appended int64         // append time in the source, in microseconds; 0 is unknown
	Waited   time.Duration // waiting time after it was read
	For      string        // the source partition or stage that it waited for last
}

// Chunk starts a chunk of n events. All of them have the chunk's times, which are Begun, Feature,
// Model, Emit and Made of p.
func (w *Way) Chunk(s *Member, p Timing, n int) {
	w.chunk, w.begun, w.from, w.at = p, p.Begun.UnixNano(), len(w.timings), len(w.timings)
	s.Latency.Record(Feature, p.Feature, n)
	s.Latency.Record(Model, p.Model, n)
	s.Latency.Record(Emit, p.Emit, n)
}

// Event adds an event of the chunk. If a pipeline wrote the record, its time is not the time of its
// append. Unless the turn has the append time, such an event is measured from when it was read.
func (w *Way) Event(s *Member, r *stream.Record, turn Turn) {
	if w.at == len(w.timings) || w.timings[w.at].Partition != r.Partition.Index {
		w.pass(r, turn.Ordered)
	}
	w.timings[w.at].Next = int64(r.Offset) + 1
	w.timings[w.at].events++
	e := passed{order: turn.Waited, timing: int32(w.at), n: 1, way: w.Case}
	switch {
	case turn.Appended != 0:
		e.queue = max(0, time.Duration(w.begun-turn.Appended*1000)-turn.Waited)
		s.Latency.queue.add(e.queue, 1)
	case !header.Written(r.Headers):
		e.queue = time.Duration(max(0, w.begun-r.Time.UnixNano())) // cheaper than Sub
		s.Latency.queue.add(e.queue, 1)
	}
	if turn.Ordered {
		s.Latency.order.add(e.order, 1)
		w.timings[w.at].Turns.add(w.timings[w.at].Next, turn)
	}
	if last := len(w.events) - 1; last >= 0 && w.events[last].like(&e) {
		w.events[last].n++
	} else {
		w.events = append(w.events, e)
	}
	if s.Tracer != nil {
		w.trace(s.Tracer, r, turn)
	}
}

// like reports whether two groups have the same waiting times.
func (e *passed) like(o *passed) bool {
	return e.queue == o.queue && e.order == o.order && e.timing == o.timing && e.way == o.way
}

// Queued is called instead of Event for an event that continues after the async queue. The event is
// not one of the chunk's n. It was first computed, and then queued, at the time since. The time
// from then on counts for its model phase. All earlier waiting, including for its turn, counts for
// its queue phase.
func (w *Way) Queued(s *Member, r *stream.Record, turn Turn, since time.Time) {
	chunk, begun := w.chunk, w.begun
	w.chunk.Begun, w.chunk.Model, w.begun = since, chunk.Model+max(0, chunk.Begun.Sub(since)), since.UnixNano()
	w.from, w.at = len(w.timings), len(w.timings) // a chunk of its own
	s.Latency.Record(Feature, w.chunk.Feature, 1)
	s.Latency.Record(Model, w.chunk.Model, 1)
	s.Latency.Record(Emit, w.chunk.Emit, 1)
	w.Event(s, r, turn)
	w.timings[w.at].Turns = nil
	w.chunk, w.begun = chunk, begun
}

// pass finds or adds the timing of a record's partition in the chunk.
func (w *Way) pass(r *stream.Record, ordered bool) {
	for w.at = w.from; w.at < len(w.timings); w.at++ {
		if w.timings[w.at].Partition == r.Partition.Index {
			return
		}
	}
	p := w.chunk
	p.Topic, p.Partition, p.First, p.Ordered = r.Partition.Topic, r.Partition.Index, int64(r.Offset), ordered
	w.timings = append(w.timings, p)
}

// Commit records the events, after their transaction became durable at a time.
func (w *Way) Commit(s *Member, at time.Time) {
	for i := range w.timings {
		p := &w.timings[i]
		p.Committed = at
		s.Latency.Record(Commit, at.Sub(p.Made), p.events)
	}
	since, of := time.Duration(0), int32(-1)
	for _, e := range w.events {
		p := &w.timings[e.timing]
		if e.timing != of {
			since, of = at.Sub(p.Begun), e.timing
		}
		whole := e.queue + e.order + since
		s.Latency.together.add(whole, int(e.n))
		if e.way > 0 {
			of := &s.cases[e.way-1]
			of.whole.Record(whole, int(e.n))
			if of.limit > 0 {
				if whole > of.limit {
					of.missed.Add(uint64(e.n))
				}
				continue
			}
		}
		if s.Budget.P99 > 0 && whole > s.Budget.P99 {
			s.Missed[s.Budget.culprit([phaseCount]time.Duration{e.queue, e.order, p.Feature, p.Model, p.Emit, at.Sub(p.Made)})].Add(uint64(e.n))
		}
	}
	s.Latency.queue.moveTo(&s.Latency.phases[Queue])
	s.Latency.order.moveTo(&s.Latency.phases[Order])
	s.Latency.together.moveTo(&s.Latency.whole)
	s.Trace.Add(w.timings...)
	if len(w.traced) > 0 {
		s.Tracer.Add(w.spans(s.Tracer))
	}
}

// Emptied returns an empty Way that reuses the memory of w.
func (w *Way) Emptied() Way {
	return Way{timings: w.timings[:0], events: w.events[:0], traced: w.traced[:0]}
}
