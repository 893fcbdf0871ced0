package avro

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Append implements encode.Encoder. It allocates memory only for decimals of more than 18 digits
// and for texts that are not UTF-8, provided that dst has enough capacity.
func (e *Encoder) Append(dst []byte, row *value.Row) ([]byte, error) {
	for i := range e.parts {
		p := &e.parts[i]
		if p.field == nil {
			dst = append(dst, p.before...)
			continue
		}
		if !row.Has(p.field.Slot) {
			if p.absent == nil {
				return dst, &encode.Error{Field: p.field.Name(), Reason: "absent, and the schema has no null for it"}
			}
			dst = append(dst, p.absent...)
			continue
		}
		var reason string
		if dst, reason = p.append(append(dst, p.before...), row.Element(&p.field.Slot)); reason != "" {
			return dst, &encode.Error{Field: p.field.Name(), Reason: reason}
		}
	}
	return dst, nil
}

// append appends a value. reason says why the value cannot be written, or is "".
func (w *writer) append(dst []byte, e value.Element) (made []byte, reason string) {
	switch v := int64(e.Num); w.write {
	case writeBool:
		return append(dst, byte(e.Num)), ""
	case writeInt:
		if v != int64(int32(v)) {
			return dst, fmt.Sprintf("%d is out of the range of an int of Avro, 32 bits: make the field long", v)
		}
		return binary.AppendVarint(dst, v), ""
	case writeLong:
		return binary.AppendVarint(dst, v), ""
	case writeWhole:
		if !encode.Exact(v) {
			return dst, fmt.Sprintf("%d is not exact as a double: make the field long", v)
		}
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(float64(v))), ""
	case writeFloat:
		return appendFloat(dst, math.Float64frombits(e.Num))
	case writeDouble:
		return binary.LittleEndian.AppendUint64(dst, e.Num), ""
	case writeDecimal:
		return w.decimal(dst, e)
	case writeText:
		return appendText(dst, encode.Valid(e.Str)), ""
	case writeBytes:
		return appendText(dst, e.Str), ""
	case writeSymbol:
		i, ok := slices.BinarySearchFunc(w.symbols, e.Str, func(s symbol, name string) int { return strings.Compare(s.name, name) })
		if !ok {
			return dst, fmt.Sprintf("%q is not a symbol of %s", clip(e.Str), w.of.named)
		}
		return binary.AppendVarint(dst, w.symbols[i].index), ""
	case writeFixed:
		if len(e.Str) != w.of.size {
			return dst, fmt.Sprintf("%d bytes: %s has %d", len(e.Str), w.of.named, w.of.size)
		}
		return append(dst, e.Str...), ""
	case writeTicks, writeDays, writeInstant:
		return w.time(dst, v)
	case writeFloats, writeDoubles:
		return appendVector(dst, e.Str, w.write == writeDoubles), ""
	case writeList:
		return w.list(dst, e.Str)
	default:
		return w.entries(dst, e.Str)
	}
}

// clip shortens a text for an error.
func clip(text string) string { return text[:min(len(text), 100)] }

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendVarint(dst, int64(len(text))), text...)
}

// appendFloat appends the nearest float.
func appendFloat(dst []byte, v float64) ([]byte, string) {
	of := float32(v)
	if math.IsInf(float64(of), 0) {
		return dst, fmt.Sprintf("%g is out of the range of a float: make the field double", v)
	}
	return binary.LittleEndian.AppendUint32(dst, math.Float32bits(of)), ""
}

// time appends a time. It rounds down to the unit of the type.
func (w *writer) time(dst []byte, v int64) ([]byte, string) {
	if v < leastTime || v > mostTime {
		return dst, "out of the years 0 to 9999"
	}
	switch n := int64(ticks[w.of.logical]); {
	case w.write == writeInstant:
		var room [40]byte
		text := time.UnixMicro(v).UTC().AppendFormat(room[:0], "2006-01-02T15:04:05.000000Z07:00")
		return append(binary.AppendVarint(dst, int64(len(text))), text...), ""
	case w.write == writeDays:
		return binary.AppendVarint(dst, floor(v, microsOfDay)), ""
	case n < 0:
		return binary.AppendVarint(dst, floor(v, -n)), ""
	case v > math.MaxInt64/n || v < math.MinInt64/n:
		return dst, "out of the range of " + w.of.named
	default:
		return binary.AppendVarint(dst, v*n), ""
	}
}

// floor divides and rounds down.
func floor(v, by int64) int64 {
	if v%by < 0 {
		v -= by
	}
	return v / by
}

// decimal appends a number with the scale of its type. It rounds the exact value of the number to
// nearest, half to even.
func (w *writer) decimal(dst []byte, e value.Element) ([]byte, string) {
	var room [64]byte
	var text []byte
	if w.slot == value.Int {
		text = strconv.AppendInt(room[:0], int64(e.Num), 10)
		for range w.of.scale {
			text = append(text, '0')
		}
	} else {
		text = strconv.AppendFloat(room[:0], math.Float64frombits(e.Num), 'f', w.of.scale, 64)
		if w.of.scale > 0 {
			text = slices.Delete(text, len(text)-w.of.scale-1, len(text)-w.of.scale)
		}
	}
	if digits := significant(text); w.of.digits > 0 && digits > w.of.digits {
		return dst, fmt.Sprintf("a decimal of %d digits: the schema has room for %d", digits, w.of.digits)
	}
	var small [8]byte
	of, negative := small[:], text[0] == '-'
	if v, err := strconv.ParseInt(value.Text(text), 10, 64); err == nil {
		binary.BigEndian.PutUint64(of, uint64(v))
		negative = v < 0 // not for -0
	} else {
		large, _ := new(big.Int).SetString(string(text), 10) // the text contains only digits
		of = complement(large)
	}
	for len(of) > 1 && (of[0] == 0 && of[1] < 0x80 || of[0] == 0xff && of[1] >= 0x80) {
		of = of[1:]
	}
	if w.of.kind == bytesType {
		return append(binary.AppendVarint(dst, int64(len(of))), of...), ""
	}
	if len(of) > w.of.size {
		return dst, fmt.Sprintf("a decimal of %d bytes: %s has %d", len(of), w.of.named, w.of.size)
	}
	fill := byte(0)
	if negative {
		fill = 0xff
	}
	for range w.of.size - len(of) {
		dst = append(dst, fill)
	}
	return append(dst, of...), ""
}

// significant counts the digits after leading zeros.
func significant(text []byte) int {
	return len(strings.TrimLeft(value.Text(text), "-0"))
}

// complement returns the two's complement of a number. It may begin with redundant bytes.
func complement(v *big.Int) []byte {
	size := v.BitLen()/8 + 1
	if v.Sign() < 0 {
		v = new(big.Int).Add(v, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	return v.FillBytes(make([]byte, size))
}

// appendVector appends an array of floats or doubles.
func appendVector(dst []byte, text string, double bool) []byte {
	if len(text) == 0 {
		return append(dst, 0)
	}
	dst = binary.AppendVarint(dst, int64(len(text)/4))
	if !double {
		dst = append(dst, text...) // both are little endian
		return append(dst, 0)
	}
	for i := range len(text) / 4 {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(float64(value.Component(text, i))))
	}
	return append(dst, 0)
}

// list appends an array as one block.
func (w *writer) list(dst []byte, text string) (made []byte, reason string) {
	if text == "" {
		return append(dst, 0), ""
	}
	dst = binary.AppendVarint(dst, int64(value.Count(text, w.slot)))
	for e := range value.Elements(text, w.slot.Element()) {
		if dst, reason = w.item.append(dst, e); reason != "" {
			return dst, "an element: " + reason
		}
	}
	return append(dst, 0), ""
}

// entries appends a map as one block, sorted by key.
func (w *writer) entries(dst []byte, text string) (made []byte, reason string) {
	if text == "" {
		return append(dst, 0), ""
	}
	dst = binary.AppendVarint(dst, int64(value.Count(text, w.slot)))
	for e := range value.Entries(text, w.slot.Element()) {
		if dst, reason = w.item.append(appendText(dst, encode.Valid(e.Key)), e.Element); reason != "" {
			return dst, fmt.Sprintf("the entry %q: %s", clip(e.Key), reason)
		}
	}
	return append(dst, 0), ""
}
