package output

import (
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// Ask appends the ask for an event to a stage, with the fields that it uses: it is answered
// in the partition that is the event's home. One that is too large fails the event.
func (w *Writer) Ask(e *Event, to stream.Partition, by value.Slot, fields []value.Slot, home int32, c *order.Copy) {
	r, from, start := e.Record, len(w.Headers), len(w.Bytes)
	add := func(key string, data []byte) {
		at := len(w.Bytes)
		w.Bytes = append(w.Bytes, data...)
		w.Headers = append(w.Headers, stream.Header{Key: key, Value: w.Bytes[at:len(w.Bytes):len(w.Bytes)]})
	}
	add(header.Source, header.AppendPosition(nil, r.Partition, r.Offset))
	add(header.Order, c.Append(nil))
	add(header.Ask, order.AppendHome(nil, home))
	at := len(w.Bytes)
	w.Bytes = e.Row.AppendKey(w.Bytes, by)
	key := w.Bytes[at:len(w.Bytes):len(w.Bytes)]
	at = len(w.Bytes)
	w.Bytes = append(w.Bytes, '{')
	for i := range fields {
		if !e.Row.Has(fields[i]) {
			continue
		}
		if len(w.Bytes) > at+1 {
			w.Bytes = append(w.Bytes, ',')
		}
		w.Bytes = append(append(append(w.Bytes, '"'), fields[i].Name...), '"', ':')
		w.Bytes = expression.AppendValue(w.Bytes, e.Row, &fields[i])
	}
	w.Bytes = append(w.Bytes, '}')
	ask := stream.Record{
		Partition: to, Time: time.UnixMicro(e.Time), Key: key, Value: w.Bytes[at:len(w.Bytes):len(w.Bytes)], Headers: w.headersFrom(from),
	}
	if err := w.fits(&ask); err != nil {
		w.Bytes, w.Headers = w.Bytes[:start], w.Headers[:from]
		e.Failure = &Failure{Stage: "source", Err: err}
		return
	}
	w.Outputs = append(w.Outputs, ask)
}

// Answer appends what a stage says of an event, or an event to a stage.
func (w *Writer) Answer(to stream.Partition, at time.Time, of order.Question, a *operator.Answer) {
	start, from := len(w.Bytes), len(w.Headers)
	w.Bytes = of.Append(w.Bytes)
	end := len(w.Bytes)
	w.Bytes = a.Append(w.Bytes)
	w.Headers = append(w.Headers, stream.Header{Key: header.AnswerTo, Value: w.Bytes[start:end:end]})
	w.Outputs = append(w.Outputs, stream.Record{Partition: to, Time: at, Value: w.Bytes[end:len(w.Bytes):len(w.Bytes)], Headers: w.headersFrom(from)})
}
