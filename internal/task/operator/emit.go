package operator

import (
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Emit writes an output record. Run computes everything that can fail and stores it in slots. The
// loop later makes the record itself, in position order.
type Emit struct {
	Index  int    // index among the pipeline's emits
	Output int    // index in Plan.Outputs
	Topic  string // topic of Output
	Name   string // suffix of the default id; "" for an id from the topic alone
	When   *expression.Program
	ID     *value.Slot // nil for the default; Compute computes it too
	Key    *value.Slot // nil for the input's key and partition
	Delete *value.Slot // bool slot: if it is true, the record has no value; nil is never
	Object
	Encoder encode.Encoder // encoder of the values; nil writes the Object as JSON
	Table   int            // number of the table in Plan.Tables, from 1, that stores its records as rows; 0 if no table does
}

// Label implements Operator.
func (m *Emit) Label() (kind, name string) {
	if name = m.Topic; m.Name != "" {
		name += "#" + m.Name
	}
	return "emit", name
}

// Makes implements Operator. It returns nil, because no other step can name its slots.
func (m *Emit) Makes() []value.Slot { return nil }

func (m *Emit) texts() []value.Slot { return slotsOf(nil, m.Compute) }

// Run implements Operator.
func (m *Emit) Run(e *Event) error {
	wanted, err := m.prepare(e.Row)
	if !wanted {
		return err
	}
	e.Emits |= 1 << m.Index
	if m.Table > 0 {
		e.Kept.PutRow(e, m)
	}
	return nil
}

// Deletes reports whether the record of a row has no value.
func (m *Emit) Deletes(row *value.Row) bool { return m.Delete != nil && row.Bool(*m.Delete) }

// prepare computes the parts of a record that can fail, and reports whether to write the record.
func (m *Emit) prepare(row *value.Row) (wanted bool, err error) {
	if wanted, err = Holds(m.When, row); err != nil || !wanted {
		return false, err
	}
	if err = AssignAll(m.Compute, row); err == nil && m.ID != nil && row.Text(*m.ID) == "" {
		err = errNoID
	}
	return err == nil, err
}

// AppendRecord appends the value of the record, and returns its size. If its texts alone are over
// limit, AppendRecord returns b unchanged and their size. It returns an error if the schema cannot
// hold a value.
func (m *Emit) AppendRecord(b []byte, row *value.Row, limit int) ([]byte, int, error) {
	if m.Encoder == nil {
		b, size := m.AppendValue(b, row, limit)
		return b, size, nil
	}
	if least := m.least(row); least > limit {
		return b, least, nil
	}
	made, err := m.Encoder.Append(b, row)
	if err != nil {
		return b, 0, fmt.Errorf("the record of %s cannot be encoded: %w", m.Topic, err)
	}
	return made, len(made) - len(b), nil
}

// Readers treat an empty id as absent, and would identify outputs by their positions.
var errNoID = errors.New(`id: the text is empty: write an id that is never "", or remove "id" from the step`)
