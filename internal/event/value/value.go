// Package value holds the typed slots of one event: the flat set of names that a pipeline
// introduces, and the row that carries their values between operators without boxing.
package value

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"unsafe"
)

// Kind is the kind of value that a slot holds.
type Kind uint8

// The kinds of the pipeline file. Row.Num stores Bool, Int, Number and Time. Row.Str stores the
// others.
const (
	Bool   Kind = iota + 1 // 0 or 1
	Int                    // int64
	Number                 // float64, finite
	Time                   // int64, microseconds since 1970 UTC
	String
	Bytes
	Vector  // Type.Size float32 values, little endian
	_       // reserved: stored rows may contain it
	Content // a reference to bytes outside the event; only models may read it
	Raw     // the JSON text of a value, as in the event
)

// VectorMax is the largest number of components of a Vector.
const VectorMax = 1 << 16

var kindNames = [...]string{Bool: "bool", Int: "int", Number: "number", Time: "time", String: "string", Bytes: "bytes", Vector: "numbers", Content: "content", Raw: "raw"}

// String returns the kind as the pipeline file writes it.
func (k Kind) String() string {
	switch {
	case k.IsList():
		return k.Element().String() + "[]"
	case k.IsMap():
		return "map of " + k.Element().String()
	}
	return kindNames[k]
}

// Text reports whether Row.Str stores the kind.
func (k Kind) Text() bool { return k >= String }

// Type is a kind, with its size and whether the value may be absent.
type Type struct {
	Kind     Kind
	Optional bool
	Size     int // components of a Vector; 0 for other kinds
}

// String returns the type as the pipeline file writes it.
func (t Type) String() string {
	name := t.Kind.String()
	if t.Kind == Vector {
		name = fmt.Sprintf("number[%d]", t.Size)
	}
	if t.Optional {
		return "optional " + name
	}
	return name
}

// ParseType reads a type as the pipeline file writes it: bool, int, number, string, bytes, time, or
// number[384] for a vector of that size. Each may follow "optional ".
func ParseType(text string) (Type, error) {
	return parse(text, "bool, int, number, string, bytes, time or number[384]")
}

// parse is ParseType. types lists the valid types for an error.
func parse(text, types string) (Type, error) {
	name, optional := strings.CutPrefix(text, "optional ")
	if inside, ok := strings.CutPrefix(name, "number["); ok {
		digits, closed := strings.CutSuffix(inside, "]")
		size, err := strconv.Atoi(digits)
		if err != nil || !closed || size < 1 || size > VectorMax || strconv.Itoa(size) != digits {
			return Type{}, fmt.Errorf("type %q: write number[384] for that many numbers, 1 to %d", text, VectorMax)
		}
		return Type{Kind: Vector, Optional: optional, Size: size}, nil
	}
	for kind, k := range kindNames[:Vector] {
		if k != "" && k == name {
			return Type{Kind: Kind(kind), Optional: optional}, nil
		}
	}
	return Type{}, fmt.Errorf("unknown type %q: use %s, with \"optional \" before it if the value may be absent", text, types)
}

// ReadType reads the type of a field of an event, or a text of Type.String. It accepts the types of
// ParseType, lists such as int[], maps such as map of int, and raw.
func ReadType(text string) (Type, error) {
	name, optional := strings.CutPrefix(text, "optional ")
	if name == Raw.String() {
		return Type{Kind: Raw, Optional: optional}, nil
	}
	if kind, ok := listed(name); ok {
		return Type{Kind: kind, Optional: optional}, nil
	}
	return parse(text, "bool, int, number, string, bytes, time, number[384], raw, a list such as string[] or a map such as map of int")
}

// Slot is the position of one name in a row.
type Slot struct {
	Name  string
	Type  Type
	Index int // index in Row.Num or Row.Str, by Type.Kind
	Bit   int // bit in Row.Present
}

// Schema is the flat set of names of one pipeline, in the order of their introduction.
type Schema struct {
	Slots  []Slot
	byName map[string]int
	num    int
	str    int
}

// Add introduces a name. It fails if the name exists.
func (s *Schema) Add(name string, t Type) (Slot, error) {
	if _, ok := s.byName[name]; ok {
		return Slot{}, fmt.Errorf("%q is introduced twice: a pipeline has one namespace, without shadowing", name)
	}
	if s.byName == nil {
		s.byName = map[string]int{}
	}
	slot := Slot{Name: name, Type: t, Bit: len(s.Slots)}
	if t.Kind.Text() {
		slot.Index = s.str
		s.str++
	} else {
		slot.Index = s.num
		s.num++
	}
	s.byName[name] = len(s.Slots)
	s.Slots = append(s.Slots, slot)
	return slot, nil
}

// Lookup returns the slot of a name.
func (s *Schema) Lookup(name string) (Slot, bool) {
	i, ok := s.byName[name]
	if !ok {
		return Slot{}, false
	}
	return s.Slots[i], true
}

// Finite reports whether v is neither NaN nor an infinity. Each source of numbers refuses a number
// that is not finite: features, models, lookups, functions and expressions. So no row contains one,
// and code that reads or writes rows does not check for it.
func Finite(v float64) bool { return v-v == 0 }

// Text returns a string that shares memory with b. b must not change while the string is used.
func Text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Row holds the values of one event. Strings may alias the record they came from.
type Row struct {
	Num     []uint64 // bits of bool, int64, float64 or microseconds
	Str     []string
	Present []uint64 // bit set of the slots that have a value

	Item Element // the element that a lambda currently reads

	made    int // bytes of the texts that the event's steps made
	working int // bytes of text that the current evaluation has composed
}

// NewRows returns n empty rows for the schema, in three allocations.
func (s *Schema) NewRows(n int) []Row {
	words := (len(s.Slots) + 63) / 64
	num, str, present := make([]uint64, n*s.num), make([]string, n*s.str), make([]uint64, n*words)
	rows := make([]Row, n)
	for i := range rows {
		rows[i] = Row{
			Num:     num[i*s.num : (i+1)*s.num : (i+1)*s.num],
			Str:     str[i*s.str : (i+1)*s.str : (i+1)*s.str],
			Present: present[i*words : (i+1)*words : (i+1)*words],
		}
	}
	return rows
}

// Reset makes every slot absent.
func (r *Row) Reset() { clear(r.Present); r.made = 0 }

// Has reports whether the slot has a value.
func (r *Row) Has(s Slot) bool { return r.Present[s.Bit>>6]>>(s.Bit&63)&1 != 0 }

// Clear makes the slot absent.
func (r *Row) Clear(s Slot) { r.Present[s.Bit>>6] &^= 1 << (s.Bit & 63) }

func (r *Row) set(s Slot) { r.Present[s.Bit>>6] |= 1 << (s.Bit & 63) }

// SetBool stores a bool.
func (r *Row) SetBool(s Slot, v bool) {
	r.Num[s.Index] = 0
	if v {
		r.Num[s.Index] = 1
	}
	r.set(s)
}

// SetInt stores an int or a time.
func (r *Row) SetInt(s Slot, v int64) { r.Num[s.Index] = uint64(v); r.set(s) }

// SetNumber stores a number, which must be Finite.
func (r *Row) SetNumber(s Slot, v float64) { r.Num[s.Index] = math.Float64bits(v); r.set(s) }

// Numbers marks n number slots as present, starting at first, and returns the slice that stores
// their values. The caller writes the values into it. The slots must be consecutive in the schema.
func (r *Row) Numbers(first Slot, n int) []float64 {
	for bit := first.Bit; bit < first.Bit+n; bit++ {
		r.Present[bit>>6] |= 1 << (bit & 63)
	}
	num := r.Num[first.Index : first.Index+n]
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(num))), n)
}

// SetVector stores the numbers of a vector. Their count must match the type, and each must be
// Finite.
func (r *Row) SetVector(s Slot, numbers []float32) {
	text := make([]byte, 0, 4*len(numbers))
	for _, v := range numbers {
		text = binary.LittleEndian.AppendUint32(text, math.Float32bits(v))
	}
	r.SetText(s, Text(text))
}

// StringBytes returns how many bytes AppendString appends.
func StringBytes(s string) int {
	n := len(s) + 1
	for size := len(s); size >= 0x80; size >>= 7 {
		n++
	}
	return n
}

// AppendString appends a string to the text of a list of strings: its length as a varint, and its
// bytes.
func AppendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// EachString yields the strings in the text of a list of strings.
func EachString(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			s, rest, ok := NextString(text)
			if !ok || !yield(s) {
				return
			}
			text = rest
		}
	}
}

// NextString returns the first string in the text of a list, and the rest of the text. The text
// must not be empty. ok is false if AppendString did not make the text.
func NextString(text string) (s, rest string, ok bool) {
	size, shift, n := 0, 0, 0
	for n < len(text)-1 && text[n] >= 0x80 {
		size |= int(text[n]&0x7f) << shift
		n, shift = n+1, shift+7
	}
	size |= int(text[n]) << shift
	if text = text[n+1:]; size < 0 || size > len(text) {
		return "", "", false
	}
	return text[:size], text[size:], true
}

// AppendVector appends the numbers of a vector.
func AppendVector[T float32 | float64](r *Row, dst []T, s Slot) []T {
	for text := r.Str[s.Index]; len(text) >= 4; text = text[4:] {
		dst = append(dst, T(Component(text, 0)))
	}
	return dst
}

// Component returns the number at index i of a vector's text. i must be in range.
func Component(text string, i int) float32 {
	text = text[4*i : 4*i+4]
	return math.Float32frombits(uint32(text[0]) | uint32(text[1])<<8 | uint32(text[2])<<16 | uint32(text[3])<<24)
}

// SetText stores a string or bytes.
func (r *Row) SetText(s Slot, v string) { r.Str[s.Index] = v; r.set(s) }

// Bool returns a bool.
func (r *Row) Bool(s Slot) bool { return r.Num[s.Index] != 0 }

// Int returns an int or a time.
func (r *Row) Int(s Slot) int64 { return int64(r.Num[s.Index]) }

// Number returns a number.
func (r *Row) Number(s Slot) float64 { return math.Float64frombits(r.Num[s.Index]) }

// Text returns a string or bytes.
func (r *Row) Text(s Slot) string { return r.Str[s.Index] }

// AppendKey appends a string, bytes or int as the key of a record.
func (r *Row) AppendKey(dst []byte, s Slot) []byte {
	if s.Type.Kind.Text() {
		return append(dst, r.Text(s)...)
	}
	return strconv.AppendInt(dst, r.Int(s), 10)
}

// Bytes returns the size of the texts of a row. It leaves out hidden slots: their names begin with
// a zero byte.
func (r *Row) Bytes(s *Schema) (n int) {
	for i := range s.Slots {
		if slot := &s.Slots[i]; slot.Type.Kind.Text() && r.Has(*slot) && slot.Name[0] != 0 {
			n += len(r.Str[slot.Index])
		}
	}
	return n
}

// AsNumber returns the slot's value as a float64. It converts an int or bool.
func (r *Row) AsNumber(s Slot) float64 {
	if s.Type.Kind == Number {
		return r.Number(s)
	}
	return float64(int64(r.Num[s.Index]))
}
