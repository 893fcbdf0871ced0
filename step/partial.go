package step

import (
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/expression"
	"github.com/afterbay/afterbay/value"
)

// Partial writes what a model has said so far of an event that is parked.
type Partial struct {
	Topic string
	Every time.Duration // least time between the records of an event
}

// Output returns the record that shows a text so far of an attempt: an object with the
// event's id and the text, all of it, so that the newest record of an event is enough.
func (s *Score) Output(row *value.Row, id value.Slot, attempt int, text string) Output {
	slot := s.Outputs[0]
	b := append([]byte(`{"id":`), expression.AppendValue(nil, row, &id)...)
	b = append(append(b, ','), strconv.Quote(strings.ReplaceAll(slot.Name, ".", "_"))...)
	row.SetText(slot, text)
	b = append(expression.AppendValue(append(b, ':'), row, &slot), '}')
	row.Clear(slot)
	return Output{Topic: s.Partial.Topic, Value: b, ID: strings.Join([]string{row.Text(id), slot.Name, strconv.Itoa(attempt), strconv.Itoa(len(text))}, ":")}
}
