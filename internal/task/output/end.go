package output

import (
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

// Ends configures the records about events of gateway clients that end without a reply. Such an
// event was filtered, or became a member of a group. The zero value is for pipelines without
// clients.
type Ends struct {
	Topic   string   // topic of the ends; "" writes none
	Answers []string // topics with replies to clients, or with events that lead to replies
	Emits   uint64   // emits that write Answers, by index
}

// Answers reports whether emits, by index, or outputs of a function reply to a client.
func (w *Writer) Answers(emits uint64, outputs []udf.Output) bool {
	ends := &w.Form.Ends
	return emits&ends.Emits != 0 || slices.ContainsFunc(outputs, func(o udf.Output) bool { return slices.Contains(ends.Answers, o.Topic) })
}

// Timer returns the event for the outputs of a timer. The timer fires at time at, before the event
// at offset.
func Timer(p stream.Partition, offset stream.Offset, at int64, origin *Origin) Event {
	return Event{Event: operator.Event{Record: &stream.Record{Partition: p, Offset: offset}, Time: at, Watermark: at}, Origin: origin, timer: true}
}

// End appends the end of an event that a client sent and that is finished. It does nothing if one
// of the outputs from index from on, which are those of the event, replies to the client. If late
// is set, End records that the event was dropped as late.
func (w *Writer) End(e *Event, from int, late bool) {
	if e.Answered || header.Get(e.Record, header.ClientEvent) == "" {
		return
	}
	for i := range w.Outputs[from:] {
		switch topic := w.Outputs[from+i].Partition.Topic; {
		case topic == w.Form.DeadTopic, topic == w.Form.LateTopic, slices.Contains(w.Form.Ends.Answers, topic):
			return
		}
	}
	at := len(w.Headers)
	w.addID(w.ID(e.Record), w.Form.Ends.Topic, "", "")
	w.provenance(e)
	if late {
		w.Headers = append(w.Headers, stream.Header{Key: header.Stage, Value: []byte("late")})
	}
	w.Headers = observe.AppendContext(w.Headers, w.Form.Pipeline, e.Record)
	w.end(e, at)
}

// EndMember returns a function that appends the end of a member of a group when the group's event
// is finished. The end has the stage where that event failed. EndMember returns nil for a pipeline
// without clients.
func (w *Writer) EndMember(e *Event) func(*operator.Identity) {
	if w.Form.Ends.Topic == "" {
		return nil
	}
	of := Event{Event: operator.Event{Record: e.Record, Time: e.Time}, Origin: e.Origin, Place: e.Place, Source: e.Source, Return: e.Return}
	return func(member *operator.Identity) {
		at := len(w.Headers)
		w.addID(member.ID, w.Form.Ends.Topic, "", "")
		w.provenance(&of)
		if e.Failure != nil {
			w.Headers = append(w.Headers, stream.Header{Key: header.Stage, Value: []byte(e.Failure.Stage)})
			w.ending(e.Failure)
		}
		w.Headers = member.Client.AppendHeaders(w.Headers)
		w.end(&of, at)
	}
}

// end appends a record with the headers from index at on.
func (w *Writer) end(e *Event, at int) {
	when := e.Record.Time
	if e.Time != Never {
		when = time.UnixMicro(e.Time)
	}
	w.Outputs = append(w.Outputs, stream.Record{
		Partition: stream.Partition{Topic: w.Form.Ends.Topic, Index: e.Origin.Index}, Time: when, Headers: w.headersFrom(at),
	})
	w.carried += header.Bytes(w.Headers[at:])
}
