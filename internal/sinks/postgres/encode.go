package postgres

import (
	"encoding/binary"
	"math"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Object ids of PostgreSQL types.
const (
	boolType   = 16
	byteaType  = 17
	bigintType = 20
	textType   = 25
	doubleType = 701
	timeType   = 1184
)

func elementOf(kind value.Kind) uint32 {
	switch kind {
	case value.Bool:
		return boolType
	case value.Int:
		return bigintType
	case value.Number:
		return doubleType
	case value.Time:
		return timeType
	case value.Bytes:
		return byteaType
	}
	return textType
}

// epoch is the PostgreSQL epoch, the start of 2000, in Unix microseconds.
const epoch = 946_684_800_000_000

// array is a column of rows in PostgreSQL's binary array format.
type array struct{ bytes []byte }

// begin starts an array of n elements. It reuses the memory.
func (a *array) begin(element uint32, n int) {
	b := binary.BigEndian.AppendUint32(a.bytes[:0], 1) // number of dimensions
	b = binary.BigEndian.AppendUint32(b, 0)            // whether there are nulls
	b = binary.BigEndian.AppendUint32(b, element)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	a.bytes = binary.BigEndian.AppendUint32(b, 1) // lower bound
}

func (a *array) null() {
	a.bytes[7] = 1
	a.bytes = append(a.bytes, 0xff, 0xff, 0xff, 0xff)
}

func (a *array) int64(v int64) {
	a.bytes = binary.BigEndian.AppendUint64(append(a.bytes, 0, 0, 0, 8), uint64(v))
}

func (a *array) text(v string) {
	a.bytes = append(binary.BigEndian.AppendUint32(a.bytes, uint32(len(v))), v...)
}

// add appends a value of a row. form is the format of the column.
func (a *array) add(form form, row *value.Row, slot value.Slot) {
	if !row.Has(slot) {
		a.null()
		return
	}
	switch slot.Type.Kind {
	case value.Bool:
		v := byte(0)
		if row.Bool(slot) {
			v = 1
		}
		a.bytes = append(a.bytes, 0, 0, 0, 1, v)
	case value.Int:
		a.int64(row.Int(slot))
	case value.Time:
		a.int64(row.Int(slot) - epoch)
	case value.Number:
		a.int64(int64(math.Float64bits(row.Number(slot))))
	case value.Vector:
		a.vector(form, row.Text(slot))
	default:
		if kind := slot.Type.Kind; kind.IsList() || kind.IsMap() {
			a.elements(form, kind, row.Text(slot))
		} else {
			a.text(row.Text(slot))
		}
	}
}

// vector appends a vector of little-endian float32. pgvector uses big-endian, after the length. For
// other columns the vector becomes the text of an array.
func (a *array) vector(form form, v string) {
	n := len(v) / 4
	b := a.bytes
	if form == asVector {
		b = binary.BigEndian.AppendUint32(b, uint32(4+4*n))
		b = binary.BigEndian.AppendUint16(b, uint16(n))
		b = append(b, 0, 0)
		for i := 0; i < len(v); i += 4 {
			b = append(b, v[i+3], v[i+2], v[i+1], v[i])
		}
		a.bytes = b
		return
	}
	open, end := brackets(form)
	start := len(b)
	b = append(b, 0, 0, 0, 0, open)
	for i := 0; i < len(v); i += 4 {
		if i > 0 {
			b = append(b, ',')
		}
		number := math.Float32frombits(uint32(v[i]) | uint32(v[i+1])<<8 | uint32(v[i+2])<<16 | uint32(v[i+3])<<24)
		b = appendFloat(b, number)
	}
	b = append(b, end)
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	a.bytes = b
}

// elements appends a list or map as JSON text, or a list as array text. Elements that are not texts
// look the same in both formats.
func (a *array) elements(form form, kind value.Kind, text string) {
	start := len(a.bytes)
	b := append(a.bytes, 0, 0, 0, 0)
	if form == asJSON {
		b = expression.AppendElement(b, kind, value.Element{Str: text})
	} else {
		of := kind.Element()
		b = append(b, '{')
		for e := range value.Elements(text, of) {
			if len(b) > start+5 {
				b = append(b, ',')
			}
			if of.Text() {
				b = appendQuoted(b, e.Str)
			} else {
				b = expression.AppendElement(b, of, e)
			}
		}
		b = append(b, '}')
	}
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	a.bytes = b
}

// appendQuoted appends a text as an element of an array. The array format needs no escapes for
// control characters.
func appendQuoted(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for _, c := range []byte(text) {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

func brackets(form form) (open, end byte) {
	if form == asJSON {
		return '[', ']'
	}
	return '{', '}'
}
