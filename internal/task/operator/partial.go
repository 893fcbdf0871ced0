package operator

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/udf"
)

// Partial writes the text that a model has produced so far for a queued event.
type Partial struct {
	Topic string
	Slot  value.Slot    // the text
	Every time.Duration // shortest time between the records of an event
}

// Output returns the record for a partial text: an object with the event's id and the complete text
// so far. So only the newest record of an event is needed. The name of the record is a hash of the
// attempt and the text.
func (p *Partial) Output(row *value.Row, id value.Slot, attempt int, text string) udf.Output {
	slot := p.Slot
	b := append([]byte(`{"id":`), expression.AppendValue(nil, row, &id)...)
	b = append(append(b, ','), strconv.Quote(strings.ReplaceAll(slot.Name, ".", "_"))...)
	row.SetText(slot, text)
	b = append(expression.AppendValue(append(b, ':'), row, &slot), '}')
	row.Clear(slot)
	sum := sha256.Sum256(append(strconv.AppendInt(nil, int64(attempt), 10), ":"+text...))
	return udf.Output{Topic: p.Topic, Value: b, Name: slot.Name + "@" + hex.EncodeToString(sum[:8])}
}
