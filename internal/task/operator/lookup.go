package operator

import (
	"fmt"
	"strings"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Lookup finds the row of a key in a table, and reads its fields.
type Lookup struct {
	Table  int    // index in Plan.Tables
	Topic  string // topic of the table, for errors
	When   *expression.Program
	Key    value.Slot
	Fields []decode.Field
	Empty  []*expression.Program // value of each field if there is no row; nil leaves the field absent

	scanner *decode.Scanner
}

// NewLookup returns a lookup that is ready to use.
func NewLookup(l Lookup) *Lookup {
	l.scanner = decode.New(l.Fields)
	return &l
}

// Label implements Operator.
func (l *Lookup) Label() (kind, name string) {
	name, _, _ = strings.Cut(l.Fields[0].Slot.Name, ".")
	return "lookup", name
}

// Makes implements Operator.
func (l *Lookup) Makes() (slots []value.Slot) {
	for _, f := range l.Fields {
		slots = append(slots, f.Slot)
	}
	return slots
}

// Run implements Operator. It stores the row of an event's key in its slots.
func (l *Lookup) Run(e *Event) error {
	wanted, err := Holds(l.When, e.Row)
	if err != nil {
		return err
	}
	if wanted {
		key := asText(e.Row, l.Key)
		found, err := e.Kept.TableRow(e, l.Table, key)
		if err != nil {
			return err
		}
		if found != nil {
			return l.read(e.Row, key, found)
		}
	}
	for i, f := range l.Fields {
		if l.Empty[i] == nil {
			e.Row.Clear(f.Slot)
		} else if err := l.Empty[i].Store(e.Row, f.Slot); err != nil {
			return fmt.Errorf("empty %s: %w", f.Slot.Name, err)
		}
	}
	return nil
}

// read stores the row of a key in the slots.
func (l *Lookup) read(row *value.Row, key, found []byte) error {
	if err := l.scanner.Scan(found, row); err != nil {
		return fmt.Errorf("row %q of table %s: %w", clip(string(key)), l.Topic, err)
	}
	for i := range l.Fields {
		if err := row.Made(l.Fields[i].Slot); err != nil {
			return fmt.Errorf("row %q of table %s: %s: %w", clip(string(key)), l.Topic, l.Fields[i].Slot.Name, err)
		}
	}
	return nil
}
