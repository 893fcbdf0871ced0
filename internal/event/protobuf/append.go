package protobuf

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Append implements encode.Encoder. It allocates memory only for texts that are not UTF-8, provided
// that dst has enough capacity.
func (e *Encoder) Append(dst []byte, row *value.Row) ([]byte, error) {
	return appendParts(dst, e.parts, row)
}

func appendParts(dst []byte, parts []part, row *value.Row) (made []byte, err error) {
	for i := range parts {
		p := &parts[i]
		if p.field == nil {
			dst = append(dst, p.tag...)
			at := len(dst)
			if dst, err = appendParts(dst, p.inside, row); err != nil {
				return dst, err
			}
			dst = sized(dst, at)
			continue
		}
		if !row.Has(p.field.Slot) {
			continue
		}
		var reason string
		if dst, reason = p.append(dst, row.Element(&p.field.Slot)); reason != "" {
			return dst, &encode.Error{Field: p.field.Name(), Reason: reason}
		}
	}
	return dst, nil
}

// sized inserts at at the size of the bytes that follow.
func sized(dst []byte, at int) []byte {
	size := len(dst) - at
	var room [10]byte
	head := protowire.AppendVarint(room[:0], uint64(size))
	dst = append(dst, head...)
	copy(dst[at+len(head):], dst[at:at+size])
	copy(dst[at:], head)
	return dst
}

// append appends a field with its tag. reason says why the field cannot be written, or is "".
func (p *part) append(dst []byte, e value.Element) (made []byte, reason string) {
	switch {
	case p.item == nil:
		return p.value(dst, e)
	case e.Str == "":
		return dst, ""
	case p.slot.IsMap():
		return p.entries(dst, e.Str)
	case !p.packed && p.slot == value.Vector:
		for i := range len(e.Str) / 4 {
			if dst, reason = p.item.single(append(dst, p.tag...), value.Element{Num: math.Float64bits(float64(value.Component(e.Str, i)))}); reason != "" {
				return dst, reason
			}
		}
		return dst, ""
	case !p.packed:
		for e := range value.Elements(e.Str, p.slot.Element()) {
			if dst, reason = p.item.single(append(dst, p.tag...), e); reason != "" {
				return dst, "an element: " + reason
			}
		}
		return dst, ""
	}
	dst = append(dst, p.tag...)
	at := len(dst)
	if p.slot == value.Vector {
		dst = p.item.vector(dst, e.Str)
		return sized(dst, at), ""
	}
	for e := range value.Elements(e.Str, p.slot.Element()) {
		if dst, reason = p.item.single(dst, e); reason != "" {
			return dst, "an element: " + reason
		}
	}
	return sized(dst, at), ""
}

// value appends a field with one value. It omits a zero if the message does not distinguish it from
// a value that is not set.
func (p *part) value(dst []byte, e value.Element) (made []byte, reason string) {
	enum := p.kind == protoreflect.EnumKind
	if !p.always && !enum && e.Num == 0 && e.Str == "" {
		return dst, ""
	}
	begin := len(dst)
	dst, reason = p.single(append(dst, p.tag...), e)
	if !p.always && enum && reason == "" && dst[len(dst)-1] == 0 {
		dst = dst[:begin] // the last byte of a number other than zero is not 0
	}
	return dst, reason
}

// vector appends floats or doubles.
func (w *writer) vector(dst []byte, text string) []byte {
	if w.kind == protoreflect.FloatKind {
		return append(dst, text...) // both are little endian
	}
	for i := range len(text) / 4 {
		dst = protowire.AppendFixed64(dst, math.Float64bits(float64(value.Component(text, i))))
	}
	return dst
}

// entries appends a map, sorted by key.
func (p *part) entries(dst []byte, text string) (made []byte, reason string) {
	for e := range value.Entries(text, p.slot.Element()) {
		dst = append(dst, p.tag...)
		at := len(dst)
		dst = protowire.AppendString(append(dst, 1<<3|byte(protowire.BytesType)), encode.Valid(e.Key))
		if dst, reason = p.item.single(append(dst, 2<<3|byte(wires[p.item.kind])), e.Element); reason != "" {
			return dst, fmt.Sprintf("the entry %q: %s", clip(e.Key), reason)
		}
		dst = sized(dst, at)
	}
	return dst, ""
}

// clip shortens a text for an error.
func clip(text string) string { return text[:min(len(text), 100)] }

// single appends one value, in its wrapper if it has one.
func (w *writer) single(dst []byte, e value.Element) (made []byte, reason string) {
	if !w.inside {
		return w.bare(dst, e)
	}
	at := len(dst)
	if e.Num != 0 || e.Str != "" {
		if dst, reason = w.bare(append(dst, 1<<3|byte(wires[w.kind])), e); reason != "" {
			return dst, reason
		}
	}
	return sized(dst, at), ""
}

// bare appends one value.
func (w *writer) bare(dst []byte, e value.Element) ([]byte, string) {
	switch w.kind {
	case protoreflect.BoolKind:
		return protowire.AppendVarint(dst, e.Num), ""
	case protoreflect.StringKind:
		return protowire.AppendString(dst, encode.Valid(e.Str)), ""
	case protoreflect.BytesKind:
		return protowire.AppendString(dst, e.Str), ""
	case protoreflect.DoubleKind:
		v := int64(e.Num)
		if w.slot != value.Int {
			return protowire.AppendFixed64(dst, e.Num), ""
		}
		if !encode.Exact(v) {
			return dst, fmt.Sprintf("%d is not exact as a double: make the field int64", v)
		}
		return protowire.AppendFixed64(dst, math.Float64bits(float64(v))), ""
	case protoreflect.FloatKind:
		v := math.Float64frombits(e.Num)
		of := float32(v)
		if math.IsInf(float64(of), 0) {
			return dst, fmt.Sprintf("%g is out of the range of a float: make the field double", v)
		}
		return protowire.AppendFixed32(dst, math.Float32bits(of)), ""
	case protoreflect.EnumKind:
		i, ok := slices.BinarySearchFunc(w.enum, e.Str, func(s enumName, name string) int { return strings.Compare(s.name, name) })
		if !ok {
			return dst, fmt.Sprintf("%q is not a name of enum %s", clip(e.Str), w.named)
		}
		return protowire.AppendVarint(dst, uint64(w.enum[i].number)), ""
	case protoreflect.MessageKind:
		return appendInstant(dst, int64(e.Num))
	default:
		return w.whole(dst, int64(e.Num))
	}
}

// whole appends an int.
func (w *writer) whole(dst []byte, v int64) ([]byte, string) {
	least, most := int64(math.MinInt64), int64(math.MaxInt64)
	switch w.kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		least, most = math.MinInt32, math.MaxInt32
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		least, most = 0, math.MaxUint32
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		least = 0
	}
	if v < least || v > most {
		return dst, fmt.Sprintf("%d is out of the range of %v", v, w.kind)
	}
	switch w.kind {
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		return protowire.AppendVarint(dst, protowire.EncodeZigZag(v)), ""
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return protowire.AppendFixed32(dst, uint32(v)), ""
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return protowire.AppendFixed64(dst, uint64(v)), ""
	}
	return protowire.AppendVarint(dst, uint64(v)), ""
}

// appendInstant appends a google.protobuf.Timestamp.
func appendInstant(dst []byte, micros int64) ([]byte, string) {
	const first, last = -62_135_596_800, 253_402_300_799 // seconds of the years 1 to 9999
	seconds, rest := micros/1e6, micros%1e6
	if rest < 0 {
		seconds, rest = seconds-1, rest+1e6
	}
	if seconds < first || seconds > last {
		return dst, "out of the years 1 to 9999"
	}
	at := len(dst)
	if seconds != 0 {
		dst = protowire.AppendVarint(append(dst, 1<<3), uint64(seconds))
	}
	if rest != 0 {
		dst = protowire.AppendVarint(append(dst, 2<<3), uint64(rest*1000))
	}
	return sized(dst, at), ""
}
