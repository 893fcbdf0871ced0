package operator

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Lookup finds the row of a key in a table, and reads fields of it.
type Lookup struct {
	Table  int    // in Plan.Tables
	Topic  string // of the table, for errors
	When   *expression.Program
	Key    value.Slot
	Fields []decode.Field
	Empty  []*expression.Program // by field, where there is no row; nil leaves it absent

	scanner *decode.Scanner
}

// Rows are the tables beside a partition.
type Rows interface {
	// Row returns the row of a key, a JSON object; nil where there is none. The
	// first error is the event's.
	Row(table int, key []byte) (row []byte, failure, fatal error)
	// Put makes a row that of a key. It keeps the row.
	Put(table int, key, row []byte)
}

// NewLookup returns a lookup that is ready to use.
func NewLookup(l Lookup) *Lookup {
	l.scanner = decode.New(l.Fields)
	return &l
}

// Find puts the row of an event's key into its slots. The first error is the
// event's: its key or the row are not right.
func (l *Lookup) Find(row *value.Row, rows Rows) (failure, fatal error) {
	wanted, err := Holds(l.When, row)
	if err != nil {
		return err, nil
	}
	if wanted {
		key := asText(row, l.Key)
		found, failure, fatal := rows.Row(l.Table, key)
		if failure != nil || fatal != nil {
			return failure, fatal
		}
		if found != nil {
			if err := l.scanner.Scan(found, row); err != nil {
				return fmt.Errorf("row %q of table %s: %w", clip(string(key)), l.Topic, err), nil
			}
			for i := range l.Fields {
				if err := row.Made(l.Fields[i].Slot); err != nil {
					return fmt.Errorf("row %q of table %s: %s: %w", clip(string(key)), l.Topic, l.Fields[i].Slot.Name, err), nil
				}
			}
			return nil, nil
		}
	}
	for i, f := range l.Fields {
		if l.Empty[i] == nil {
			row.Clear(f.Slot)
		} else if err := l.Empty[i].Store(row, f.Slot); err != nil {
			return fmt.Errorf("empty %s: %w", f.Slot.Name, err), nil
		}
	}
	return nil, nil
}
