package operator

import (
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Object is a JSON object that is made of an event: the value of a record, or an element of a list.
// Compute runs first, because it can fail.
type Object struct {
	Compute []Assign   // expressions of the values
	Members [][]string // path of names of each value
	Before  [][]byte   // text before each value: `"name":`, the comma, and braces of objects that end or begin there
	Values  []value.Slot
	After   []byte // the braces of the objects that end with the last value
}

// least returns a lower bound of the size of the texts in any format, in bytes.
func (o *Object) least(row *value.Row) (size int) {
	for i := range o.Values {
		slot := &o.Values[i]
		switch kind := slot.Type.Kind; {
		case !kind.Text() || !row.Has(*slot):
		case kind.IsList() || kind.IsMap():
			size += len(row.Text(*slot)) / 8 // a number may take one byte
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
				least /= 2 // in JSON a number takes at least two bytes, with its comma
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
