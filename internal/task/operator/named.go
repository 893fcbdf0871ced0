package operator

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/packed"
)

// AppendNamed appends the values of a row as they are stored: each behind its name, so that
// a pipeline which has other names by then reads it. It leaves out meta.* and slots that
// have no name of their own.
func AppendNamed(dst []byte, row *value.Row, slots []value.Slot) []byte {
	for _, slot := range slots {
		if !row.Has(slot) || slot.Name[0] == 0 || strings.HasPrefix(slot.Name, "meta.") {
			continue
		}
		dst = append(packed.AppendText(dst, slot.Name), byte(slot.Type.Kind))
		if slot.Type.Kind.Text() {
			dst = packed.AppendText(dst, row.Text(slot))
		} else {
			dst = binary.LittleEndian.AppendUint64(dst, row.Num[slot.Index])
		}
	}
	return dst
}

// EachNamed calls take with the names that AppendNamed appended and what holds their values:
// 8 bytes, or a text. It reports false if it appended something else.
func EachNamed(data []byte, take func(name []byte, kind value.Kind, held []byte)) bool {
	r := packed.Reader{Rest: data}
	for len(r.Rest) > 0 {
		name, kind := r.Text(), value.Kind(r.Byte())
		var held []byte
		if kind.Text() {
			held = r.Text()
		} else {
			held = r.Bytes(8)
		}
		if !r.Bad {
			take(name, kind, held)
		}
	}
	return !r.Bad
}

// SetNamed sets the names of a row that AppendNamed appended and that a schema has with the
// same type. Its texts are those of data. It reports false if AppendNamed appended something
// else.
func SetNamed(row *value.Row, schema *value.Schema, data []byte) bool {
	return EachNamed(data, func(name []byte, kind value.Kind, held []byte) {
		if slot, ok := schema.Lookup(value.Text(name)); ok {
			SetHeld(row, slot, kind, held)
		}
	})
}

// SetHeld sets a slot to a value of EachNamed, if it has the slot's type. A text is that of
// held.
func SetHeld(row *value.Row, slot value.Slot, kind value.Kind, held []byte) {
	switch {
	case slot.Type.Kind != kind || kind == value.Vector && len(held) != 4*slot.Type.Size:
	case kind.Text():
		row.SetText(slot, value.Text(held))
	case kind == value.Number:
		row.SetNumber(slot, math.Float64frombits(binary.LittleEndian.Uint64(held)))
	default:
		row.SetInt(slot, int64(binary.LittleEndian.Uint64(held)))
	}
}

// AppendFields appends the members of a JSON object that a row has of fields, with a comma
// behind each.
func AppendFields(dst []byte, row *value.Row, fields []value.Slot) []byte {
	for i := range fields {
		if slot := &fields[i]; row.Has(*slot) {
			dst = append(strconv.AppendQuote(dst, slot.Name), ':')
			dst = append(expression.AppendValue(dst, row, slot), ',')
		}
	}
	return dst
}
