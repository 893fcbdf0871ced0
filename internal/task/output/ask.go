package output

import (
	"bytes"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// Ask appends the ask for an event to a stage, with the fields that the stage uses. The stage
// answers in partition home, the event's home. If the ask is too large, the event fails.
func (w *Writer) Ask(e *Event, to stream.Partition, by value.Slot, fields []value.Slot, home int32, c *order.Copy) {
	from, start := len(w.Headers), len(w.Bytes)
	w.placed(e.Record, c)
	at := len(w.Bytes)
	w.Bytes = order.AppendHome(w.Bytes, home)
	w.Headers = append(w.Headers, stream.Header{Key: header.Ask, Value: w.Bytes[at:len(w.Bytes):len(w.Bytes)]})
	at = len(w.Bytes)
	w.Bytes = e.Row.AppendKey(w.Bytes, by)
	key := w.Bytes[at:len(w.Bytes):len(w.Bytes)]
	at = len(w.Bytes)
	w.Bytes = operator.AppendFields(append(w.Bytes, '{'), e.Row, fields)
	w.Bytes = append(bytes.TrimSuffix(w.Bytes, []byte(",")), '}')
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

// Answer appends the answer of a stage about an event, or the values that an event returns to a
// stage.
func (w *Writer) Answer(to stream.Partition, at time.Time, of order.Question, a *operator.Answer) {
	start, from := len(w.Bytes), len(w.Headers)
	w.Between++
	w.Bytes = of.Append(w.Bytes)
	end := len(w.Bytes)
	w.Bytes = a.Append(w.Bytes)
	w.Headers = append(w.Headers, stream.Header{Key: header.AnswerTo, Value: w.Bytes[start:end:end]})
	w.Outputs = append(w.Outputs, stream.Record{Partition: to, Time: at, Value: w.Bytes[end:len(w.Bytes):len(w.Bytes)], Headers: w.headersFrom(from)})
}
