package operator

import (
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Object is an object of JSON that is made of an event: the value of a record, or an element
// of a list. What can fail about it is computed first, into slots.
type Object struct {
	Compute []Assign   // the values
	Members [][]string // the names that lead to each value
	Before  [][]byte   // what stands before each value: `"name":`, the comma, and braces of objects that end or begin there
	Values  []value.Slot
	After   []byte // the braces of the objects that the last value ends
}

// least returns how many bytes the texts of the values have at least in any format.
func (o *Object) least(row *value.Row) (size int) {
	for i := range o.Values {
		slot := &o.Values[i]
		switch kind := slot.Type.Kind; {
		case !kind.Text() || !row.Has(*slot):
		case kind.IsList() || kind.IsMap():
			size += len(row.Text(*slot)) / 8 // a number may have one byte
		default:
			size += len(row.Text(*slot))
		}
	}
	return size
}

// AppendValue appends the object, and returns its size. If its texts alone are over limit,
// AppendValue returns b unchanged and their size.
func (o *Object) AppendValue(b []byte, row *value.Row, limit int) ([]byte, int) {
	from := len(b)
	b = append(b, '{')
	for i := range o.Values {
		slot := &o.Values[i]
		b = append(b, o.Before[i]...)
		if slot.Type.Kind.Text() && row.Has(*slot) {
			least := len(row.Text(*slot))
			if slot.Type.Kind == value.Vector {
				least /= 2 // a number has two bytes at least, as JSON, with its comma
			}
			if size := len(b) - from + least; size > limit {
				return b[:from], size
			}
		}
		b = expression.AppendValue(b, row, slot)
	}
	b = append(append(b, o.After...), '}')
	return b, len(b) - from
}
