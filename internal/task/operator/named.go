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

// AppendNamed appends the stored form of the values of a row. Each value follows its name, so that
// a pipeline with other names can read it later. AppendNamed omits meta.* and slots without a name
// of their own.
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

// EachNamed calls take with each name that AppendNamed appended. held is its value: 8 bytes, or a
// text. EachNamed returns false if data is not valid.
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

// SetNamed sets the values of a row from the output of AppendNamed, for each name that the schema
// has with the same type. The texts of the row share memory with data. SetNamed returns false if
// data is not valid.
func SetNamed(row *value.Row, schema *value.Schema, data []byte) bool {
	return EachNamed(data, func(name []byte, kind value.Kind, held []byte) {
		if slot, ok := schema.Lookup(value.Text(name)); ok {
			SetHeld(row, slot, kind, held)
		}
	})
}

// SetHeld sets a slot to a value of EachNamed, if it has the slot's type. A text shares memory with
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

// AppendFields appends the given fields of a row as members of a JSON object, with a comma after
// each. It omits absent fields.
func AppendFields(dst []byte, row *value.Row, fields []value.Slot) []byte {
	for i := range fields {
		if slot := &fields[i]; row.Has(*slot) {
			dst = append(strconv.AppendQuote(dst, slot.Name), ':')
			dst = append(expression.AppendValue(dst, row, slot), ',')
		}
	}
	return dst
}
