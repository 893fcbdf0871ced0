package operator

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/udf"
)

// EmitsOf returns the emits of an operator: itself, or the emits of an Each.
func EmitsOf(o Operator) []*Emit {
	if e, ok := o.(interface{ emits() []*Emit }); ok {
		return e.emits()
	}
	return nil
}

func (m *Emit) emits() []*Emit { return []*Emit{m} }

// written collects the records of the elements of a list. They are in the order of elements, and
// for one element in the order of emits.
type written struct {
	each *Each
	list []Called
	size int
}

// writtenMax bounds the records that are made of the elements of an event, in bytes.
const writtenMax = value.TextsMax

var (
	errWritten = fmt.Errorf("the records of the elements are over the limit of %d bytes: give fewer elements to the step", writtenMax)
	errNoKey   = errors.New("the key of the record is empty")
)

// add makes the records of the row's element. The index of the element is the suffix of their ids.
func (w *written) add(row *value.Row, place int) error {
	for _, m := range w.each.Emits {
		wanted, err := m.prepare(row)
		if err != nil {
			return err
		}
		if !wanted {
			continue
		}
		made := udf.Output{Topic: m.Topic, Name: strconv.Itoa(place)}
		if m.Key != nil {
			if made.Key = string(row.AppendKey(nil, *m.Key)); made.Key == "" {
				return errNoKey
			}
		}
		size := 0
		if !m.Deletes(row) {
			if made.Value, size, err = m.AppendRecord([]byte{}, row, value.TextMax); err != nil {
				return err
			}
			if size > value.TextMax {
				return &value.Excess{Size: size}
			}
		}
		if w.size += len(made.Key) + size; w.size > writtenMax {
			return errWritten
		}
		if last := len(w.list) - 1; last >= 0 && w.list[last].Step == m.Name {
			w.list[last].Outputs = append(w.list[last].Outputs, made)
		} else {
			w.list = append(w.list, Called{w.each, m.Name, []udf.Output{made}})
		}
	}
	return nil
}
