package observe

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/stream"
)

// Span is a span of a trace, as in OpenTelemetry.
type Span struct {
	Context
	Parent     [8]byte // zero if the span has no parent
	Name       string
	Consumer   bool // the span starts with a record of a log
	Start, End time.Time
	Attributes []Attribute
	Links      []Context // for a batch: the events in it
}

// Attribute is an attribute of a span. Its value is Text or, if Text is empty, Number.
type Attribute struct {
	Key    string
	Text   string
	Number int64
}

// DefaultShare is the share of events without a trace that get spans.
const DefaultShare = 0.1

// Tracer makes spans of some events of a pipeline: of all events that arrive with a sampled trace,
// and of a share of the events without a trace. Each event gets a span with one child span per
// phase. Events that were computed together are linked by the span of their batch. The selection of
// events and the ids depend only on the events' positions.
type Tracer struct {
	Pipeline string
	Share    float64      // from 0 to 1
	Add      func([]Span) // receives the spans of a transaction; several members may call it at once; it must not block
}

// SetTracer sets the tracer of all members; nil turns tracing off. Call it before the task runs.
func (m *Metrics) SetTracer(t *Tracer) {
	for _, s := range m.members {
		s.Tracer = t
	}
}

// traced is an event of a Way that gets spans.
type traced struct {
	event  int32 // index in Way.events
	offset stream.Offset
	Context
	parent [8]byte
	turn   Turn
}

// context returns the span of an event, and its parent if it has one.
func (t *Tracer) context(r *stream.Record) (c Context, parent [8]byte, ok bool) {
	for i := range r.Headers {
		if r.Headers[i].Key != header.TraceParent {
			continue
		}
		if c, ok = ParseContext(r.Headers[i].Value); ok {
			parent, c.Span = c.Span, spanOf(t.Pipeline, r)
			return c, parent, c.Sampled
		}
	}
	if float64(hashOf(t.Pipeline, r, 0)) >= t.Share*math.MaxUint64 {
		return Context{}, parent, false
	}
	return Context{Trace: traceOf(t.Pipeline, r), Span: spanOf(t.Pipeline, r), Sampled: true}, parent, true
}

// trace marks the newest event of w for tracing, if the tracer selects it.
func (w *Way) trace(t *Tracer, r *stream.Record, turn Turn) {
	if c, parent, ok := t.context(r); ok {
		w.traced = append(w.traced, traced{int32(len(w.events) - 1), r.Offset, c, parent, turn})
	}
}

// spans returns the spans of the marked events, which are now durable.
func (w *Way) spans(t *Tracer) []Span {
	var list []Span
	batch := -1 // index in list of the batch span of the previous events
	for _, e := range w.traced {
		p := &w.timings[w.events[e.event].timing]
		if batch < 0 || !list[batch].Start.Equal(p.Begun) {
			batch = len(list)
			list = append(list, batchSpan(t, e.Context, p))
		}
		list[batch].Links = append(list[batch].Links, e.Context)
		list = append(list, w.eventSpans(t, e, p)...)
	}
	return list
}

// batchSpan returns the span of events that were computed together. It has its own trace, with an
// id derived from the first of them.
func batchSpan(t *Tracer, first Context, p *Timing) Span {
	c := first
	binary.BigEndian.PutUint64(c.Trace[:8], ^binary.BigEndian.Uint64(first.Span[:])|1)
	binary.BigEndian.PutUint64(c.Span[:], ^binary.BigEndian.Uint64(first.Span[:])|1)
	return Span{Context: c, Name: t.Pipeline + " batch", Start: p.Begun, End: p.Made}
}

// eventSpans returns the span of an event and those of its phases. Feature computation and model
// calls alternate; the spans show them one after the other.
func (w *Way) eventSpans(t *Tracer, e traced, p *Timing) []Span {
	waited := &w.events[e.event]
	begun := p.Begun.Add(-waited.queue - waited.order)
	read := begun.Add(waited.queue)
	computed := p.Begun.Add(p.Feature)
	list := []Span{{
		Context: e.Context, Parent: e.parent, Name: t.Pipeline, Consumer: true, Start: begun, End: p.Committed,
		Attributes: []Attribute{
			{Key: "messaging.system", Text: "afterbay"}, {Key: "messaging.consumer.group.name", Text: t.Pipeline},
			{Key: "messaging.destination.name", Text: p.Topic}, {Key: "messaging.destination.partition.id", Text: fmt.Sprint(p.Partition)},
			{Key: "messaging.kafka.offset", Number: int64(e.offset)},
		},
	}}
	for phase, times := range [...][2]time.Time{
		Queue: {begun, read}, Order: {read, p.Begun}, Feature: {p.Begun, computed}, Model: {computed, computed.Add(p.Model)},
		Emit: {p.Made.Add(-p.Emit), p.Made}, Commit: {p.Made, p.Committed},
	} {
		c := e.Context
		c.Span[0] ^= byte(phase + 1) // a different id for each phase
		span := Span{Context: c, Parent: e.Span, Name: Phase(phase).String(), Start: times[0], End: times[1]}
		if Phase(phase) == Order && !e.turn.Ordered {
			continue
		}
		if Phase(phase) == Order && e.turn.For != "" {
			span.Attributes = []Attribute{{Key: "afterbay.waited_for", Text: e.turn.For}}
		}
		list = append(list, span)
	}
	return slices.Clip(list)
}
