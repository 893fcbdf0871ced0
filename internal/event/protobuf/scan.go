package protobuf

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Scan reads the fields of the message in src into their slots of row. It does not change other
// slots. It skips other fields without checking their bytes. A field without presence that the
// message does not contain is 0, false or empty, and a list or map is empty. The error is a
// *decode.Error; after an error the slots of the fields have undefined content.
//
// Texts and bytes alias src, so src must not change while the row is used. Scan allocates memory
// only for lists, maps, vectors and enum numbers without a name.
func (d *Decoder) Scan(src []byte, row *value.Row) error {
	r := reader{Decoder: d, src: src, row: row}
	at, reason := r.message()
	if reason == "" {
		return nil
	}
	err := &decode.Error{Offset: min(r.i, len(src)), Reason: reason}
	if at >= 0 && d.targets[at].want != nil {
		err.Field = d.targets[at].want.Name
	}
	return err
}

// reader is the state of reading one message.
type reader struct {
	*Decoder
	src   []byte
	i     int
	row   *value.Row
	lists []collected
	seen  [4]uint64
	more  []uint64 // seen bits of targets that do not fit in seen
}

// collected holds the elements of a list or map read so far.
type collected struct {
	text    []byte // for a list or vector
	count   int
	entries []value.Entry
	bytes   int // size of entries
}

func (r *reader) mark(at int, has bool) {
	var word *uint64
	if at>>6 < len(r.seen) {
		word = &r.seen[at>>6]
	} else {
		word = &r.more[at>>6-len(r.seen)]
	}
	if *word &^= 1 << (at & 63); has {
		*word |= 1 << (at & 63)
	}
}

func (r *reader) has(at int) bool {
	if at>>6 < len(r.seen) {
		return r.seen[at>>6]>>(at&63)&1 != 0
	}
	return r.more[at>>6-len(r.seen)]>>(at&63)&1 != 0
}

// message reads the message. If it refuses the message, it returns the reason and the target at
// fault, or -1.
func (r *reader) message() (at int, reason string) {
	if n := len(r.targets)>>6 + 1 - len(r.seen); n > 0 {
		r.more = make([]uint64, n)
	}
	if r.Decoder.lists > 0 {
		r.lists = make([]collected, r.Decoder.lists)
	}
	for r.i < len(r.src) {
		number, wire, n := protowire.ConsumeTag(r.src[r.i:])
		if n < 0 {
			return -1, broken(n)
		}
		start := r.i
		r.i += n
		at := r.at(number)
		if at >= 0 {
			took, reason := r.field(at, wire)
			if reason != "" {
				if reason != decode.EndOfRecord {
					r.i = start
				}
				return at, reason
			}
			if took {
				continue
			}
		}
		if n = protowire.ConsumeFieldValue(number, wire, r.src[r.i:]); n < 0 {
			return -1, broken(n)
		}
		r.i += n
	}
	return r.rest()
}

// broken returns the reason for an error code of protowire. It does not use protowire's error
// texts, because they differ between builds.
func broken(n int) string {
	reasons := [...]string{1: decode.EndOfRecord, "an invalid number of a field", "an integer of more than 64 bits", "a reserved wire type", "a group that ends without a begin", "groups are nested too deep"}
	if -n < len(reasons) {
		return reasons[-n]
	}
	return "no message of Protobuf"
}

// field reads a field after its tag. It does not take a field with another wire type, and treats it
// as unknown to the schema.
func (r *reader) field(at int, wire protowire.Type) (took bool, reason string) {
	t := &r.targets[at]
	if t.list > 0 {
		return r.element(t, wire)
	}
	if wire != t.wire {
		return false, ""
	}
	if t.want == nil {
		r.end(t)
		return false, ""
	}
	if t.kind == protoreflect.MessageKind || t.inside != 0 {
		if r.has(at) {
			return false, "occurs in the record twice"
		}
	}
	e, ok, reason := r.value(t)
	if reason != "" || !ok {
		return ok, reason
	}
	r.end(t)
	r.mark(at, true)
	r.row.SetElement(t.want.Slot, e)
	return true, ""
}

// end clears the other members of a oneof.
func (r *reader) end(t *target) {
	for _, other := range t.others {
		r.mark(other, false)
	}
}

// value reads a value with the wire type of a target. ok is false if a closed enum does not know
// the value.
func (r *reader) value(t *target) (e value.Element, ok bool, reason string) {
	slot := t.want.Slot.Type.Kind
	if slot.IsList() || slot.IsMap() {
		slot = slot.Element()
	} else if slot == value.Vector {
		slot = value.Number
	}
	v, b, n := raw(t.wire, r.src[r.i:])
	if n < 0 {
		return e, false, broken(n)
	}
	kind := t.kind
	switch {
	case t.inside != 0:
		if v, b, reason = wrapped(b, t.inside); reason != "" {
			return e, false, reason
		}
		kind = t.inside
	case kind == protoreflect.MessageKind:
		v, reason = instant(b)
	}
	if reason == "" {
		e, ok, reason = element(kind, t.enum, slot, v, b)
	}
	if ok {
		r.i += n
	}
	return e, ok, reason
}

// raw reads the bits or the bytes of a value.
func raw(wire protowire.Type, src []byte) (v uint64, b []byte, n int) {
	switch wire {
	case protowire.VarintType:
		v, n = protowire.ConsumeVarint(src)
	case protowire.Fixed32Type:
		var v32 uint32
		v32, n = protowire.ConsumeFixed32(src)
		v = uint64(v32)
	case protowire.Fixed64Type:
		v, n = protowire.ConsumeFixed64(src)
	default:
		b, n = protowire.ConsumeBytes(src)
	}
	return v, b, n
}

// element returns the slot value for the bits or bytes of a kind. Bits of a time are microseconds.
func element(kind protoreflect.Kind, enum protoreflect.EnumDescriptor, slot value.Kind, v uint64, b []byte) (e value.Element, ok bool, reason string) {
	var whole int64
	var number float64
	switch kind {
	case protoreflect.BoolKind:
		if v != 0 {
			v = 1
		}
		return value.Element{Num: v}, true, ""
	case protoreflect.StringKind:
		if !utf8.Valid(b) {
			return e, false, "invalid UTF-8"
		}
		return value.Element{Str: value.Text(b)}, true, ""
	case protoreflect.BytesKind:
		return value.Element{Str: value.Text(b)}, true, ""
	case protoreflect.MessageKind:
		return value.Element{Num: v}, true, ""
	case protoreflect.EnumKind:
		return symbol(enum, int32(v), slot)
	case protoreflect.FloatKind:
		number = float64(math.Float32frombits(uint32(v)))
	case protoreflect.DoubleKind:
		number = math.Float64frombits(v)
	case protoreflect.Int32Kind, protoreflect.Sfixed32Kind:
		whole = int64(int32(v))
	case protoreflect.Sint32Kind:
		whole = protowire.DecodeZigZag(v & math.MaxUint32)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		whole = int64(uint32(v))
	case protoreflect.Sint64Kind:
		whole = protowire.DecodeZigZag(v)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if slot == value.Number {
			return value.Element{Num: math.Float64bits(float64(v))}, true, ""
		}
		if whole = int64(v); whole < 0 {
			return e, false, "out of the range of int"
		}
	default:
		whole = int64(v)
	}
	switch {
	case kind == protoreflect.FloatKind || kind == protoreflect.DoubleKind:
		if !value.Finite(number) {
			return e, false, "out of the range of number"
		}
		return value.Element{Num: math.Float64bits(number)}, true, ""
	case slot == value.Number:
		return value.Element{Num: math.Float64bits(float64(whole))}, true, ""
	}
	return value.Element{Num: uint64(whole)}, true, ""
}

// symbol returns the name or number of an enum value. A number without a name is its own name. In a
// closed enum, as in proto2, such a number is no value.
func symbol(enum protoreflect.EnumDescriptor, number int32, slot value.Kind) (e value.Element, ok bool, reason string) {
	of := enum.Values().ByNumber(protoreflect.EnumNumber(number))
	switch {
	case of == nil && enum.IsClosed():
		return e, false, ""
	case slot == value.Int:
		return value.Element{Num: uint64(int64(number))}, true, ""
	case of == nil:
		return value.Element{Str: strconv.Itoa(int(number))}, true, ""
	}
	return value.Element{Str: string(of.Name())}, true, ""
}

// wrapped reads the bits or the bytes of the value in a wrapper.
func wrapped(src []byte, kind protoreflect.Kind) (v uint64, b []byte, reason string) {
	for len(src) > 0 {
		number, wire, n := protowire.ConsumeTag(src)
		if n < 0 {
			return 0, nil, broken(n)
		}
		if src = src[n:]; number == 1 && wire == wires[kind] {
			v, b, n = raw(wire, src)
		} else {
			n = protowire.ConsumeFieldValue(number, wire, src)
		}
		if n < 0 {
			return 0, nil, broken(n)
		}
		src = src[n:]
	}
	return v, b, ""
}

// The range of a Timestamp: the seconds of the years 1 to 9999.
const (
	leastSecond = -62_135_596_800
	mostSecond  = 253_402_300_799
)

// instant reads a Timestamp as microseconds. It truncates further digits.
func instant(src []byte) (micros uint64, reason string) {
	var parts [3]int64
	for len(src) > 0 {
		number, wire, n := protowire.ConsumeTag(src)
		if n < 0 {
			return 0, broken(n)
		}
		if src = src[n:]; (number == 1 || number == 2) && wire == protowire.VarintType {
			var v uint64
			v, n = protowire.ConsumeVarint(src)
			parts[number&3] = int64(v)
		} else {
			n = protowire.ConsumeFieldValue(number, wire, src)
		}
		if n < 0 {
			return 0, broken(n)
		}
		src = src[n:]
	}
	seconds, nanos := parts[1], int64(int32(parts[2]))
	return uint64(seconds*1_000_000 + nanos/1000), notInstant(seconds, nanos)
}

// notInstant returns the reason why a Timestamp is invalid, or "".
func notInstant(seconds, nanos int64) string {
	if seconds < leastSecond || seconds > mostSecond || nanos < 0 || nanos > 999_999_999 {
		return fmt.Sprintf("a Timestamp of %d seconds and %d nanoseconds is outside the years 1 to 9999", seconds, nanos)
	}
	return ""
}

// element reads one element of a list or vector, several packed elements, or an entry of a map.
func (r *reader) element(t *target, wire protowire.Type) (took bool, reason string) {
	l := &r.lists[t.list-1]
	switch {
	case t.value != nil && wire == protowire.BytesType:
		return r.entry(t, l)
	case t.value == nil && wire == t.wire:
		e, ok, reason := r.value(t)
		if reason == "" && ok {
			reason = l.add(t, e)
		}
		return ok, reason
	case t.value != nil || wire != protowire.BytesType:
		return false, ""
	}
	packed, n := protowire.ConsumeBytes(r.src[r.i:])
	if n < 0 {
		return false, broken(n)
	}
	within := reader{Decoder: r.Decoder, src: packed}
	for within.i < len(packed) {
		e, ok, reason := within.value(t)
		if reason == "" && ok {
			reason = l.add(t, e)
		}
		if reason != "" {
			return false, reason
		}
		if !ok { // a closed enum does not know the value
			_, _, n := raw(t.wire, packed[within.i:])
			within.i += n
		}
	}
	r.i += n
	return true, ""
}

// add adds an element.
func (l *collected) add(t *target, e value.Element) string {
	of := t.want.Slot.Type.Kind.Element()
	if t.want.Slot.Type.Kind == value.Vector {
		one := float32(math.Float64frombits(e.Num))
		if l.count++; l.count > t.want.Slot.Type.Size {
			return "more numbers than " + t.want.Slot.Type.String()
		}
		if !value.Finite(float64(one)) {
			return "out of the range of a number of 32 bits"
		}
		l.text = binary.LittleEndian.AppendUint32(l.text, math.Float32bits(one))
		return ""
	}
	if len(l.text)+value.ElementBytes(of, e) > decode.ListMax {
		return fmt.Sprintf("a list of more than %d bytes", decode.ListMax)
	}
	l.text = value.AppendElement(l.text, of, e)
	return ""
}

// entry reads an entry of a map.
func (r *reader) entry(t *target, l *collected) (took bool, reason string) {
	b, n := protowire.ConsumeBytes(r.src[r.i:])
	if n < 0 {
		return false, broken(n)
	}
	of := t.value
	e, _, reason := element(of.kind, of.enum, t.want.Slot.Type.Kind.Element(), 0, nil)
	if reason != "" {
		return false, reason
	}
	one := value.Entry{Element: e}
	within := reader{Decoder: r.Decoder, src: b}
	for within.i < len(b) {
		number, wire, n := protowire.ConsumeTag(b[within.i:])
		if n < 0 {
			return false, broken(n)
		}
		within.i += n
		switch {
		case number == 1 && wire == protowire.BytesType:
			key, n := protowire.ConsumeBytes(b[within.i:])
			if n < 0 {
				return false, broken(n)
			}
			if !utf8.Valid(key) {
				return false, "invalid UTF-8"
			}
			one.Key = value.Text(key)
			within.i += n
			continue
		case number == 2 && wire == of.wire:
			v, ok, reason := within.value(of)
			if reason != "" {
				return false, reason
			}
			if ok {
				one.Element = v
				continue
			}
		}
		if n = protowire.ConsumeFieldValue(number, wire, b[within.i:]); n < 0 {
			return false, broken(n)
		}
		within.i += n
	}
	if l.bytes += value.StringBytes(one.Key) + value.ElementBytes(t.want.Slot.Type.Kind.Element(), one.Element); l.bytes > decode.ListMax {
		return false, fmt.Sprintf("a map of more than %d bytes", decode.ListMax)
	}
	l.entries = append(l.entries, one)
	r.i += n
	return true, ""
}

// rest sets the defaults of fields that the message does not contain, and stores the collected
// lists.
func (r *reader) rest() (at int, reason string) {
	for at := range r.targets {
		t := &r.targets[at]
		switch {
		case t.want == nil || r.has(at):
		case t.list > 0:
			if reason := r.collect(t); reason != "" {
				return at, reason
			}
		case !t.absent:
			e, _, _ := element(t.kind, t.enum, t.want.Slot.Type.Kind, 0, nil)
			r.row.SetElement(t.want.Slot, e)
		case t.want.Slot.Type.Optional:
			r.row.Clear(t.want.Slot)
		default:
			return at, "absent but required: want " + t.want.Slot.Type.String()
		}
	}
	return -1, ""
}

// collect stores a list, a vector or a map. If a key occurs several times, its last entry counts.
func (r *reader) collect(t *target) string {
	l, slot := &r.lists[t.list-1], t.want.Slot
	switch {
	case t.value != nil:
		last := make(map[string]int, len(l.entries))
		for i := range l.entries {
			last[l.entries[i].Key] = i
		}
		entries := make([]value.Entry, 0, len(last))
		for i := range l.entries {
			if last[l.entries[i].Key] == i {
				entries = append(entries, l.entries[i])
			}
		}
		r.row.SetText(slot, value.Text(value.AppendMap(nil, slot.Type.Kind.Element(), entries)))
	case slot.Type.Kind != value.Vector:
		r.row.SetText(slot, value.Text(l.text))
	case l.count == 0 && slot.Type.Optional:
		r.row.Clear(slot)
	case l.count != slot.Type.Size:
		return fmt.Sprintf("%d numbers: want %s", l.count, slot.Type.String())
	default:
		r.row.SetText(slot, value.Text(l.text))
	}
	return ""
}
