package table

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/stream"
)

// brokenRow is the first byte of a row with a record that cannot be read. The reason follows it. No
// JSON begins with this byte.
const brokenRow = 0

// unwrap returns the record of a row without its envelope, or nil for a record without a row.
func (s *State) unwrap(at place, r *stream.Record) *stream.Record {
	spec := &s.specs[at.table]
	if spec.Envelope == envelope.None {
		return r
	}
	key, row, wrong, unknown := spec.Envelope.Row(r)
	if spec.Encoded != "" && decode.Framed(r.Value) {
		key, unknown = envelope.Column(r.Key)
		row, wrong = r.Value, nil // the value holds the error, which was already counted
	}
	if wrong != nil || unknown != nil {
		s.metrics.TableBadRows.Add(1)
	}
	if unknown != nil {
		if !s.warned {
			s.logger.Warn("a record of a table has a key that cannot be the key of a row; further such records are only counted", "record", fmt.Sprintf("%v@%d", r.Partition, r.Offset), "error", unknown)
		}
		s.warned = true
		return nil
	}
	if wrong != nil {
		row = fmt.Appendf([]byte{brokenRow}, "%v@%d: %v", r.Partition, r.Offset, wrong)
	}
	inner := *r
	inner.Key, inner.Value = key, row
	return &inner
}

// broken returns the error of a row with a record that could not be read, or nil for other rows.
func (s *Spec) broken(key, row []byte) error {
	if s.Envelope == envelope.None && s.Encoded == "" || len(row) == 0 || row[0] != brokenRow {
		return nil
	}
	return fmt.Errorf("row %.60q of table %s: %s", key, s.Topic, row[1:])
}
