// Package value holds the typed slots of one event: the flat set of names that
// a pipeline introduces, and the row that carries their values from stage to
// stage without boxing them.
package value

import (
	"fmt"
	"math"
	"strings"
	"unsafe"
)

// Kind is what a slot holds.
type Kind uint8

// The kinds of the pipeline file. Bool, Int, Number and Time live in Row.Num,
// String and Bytes in Row.Str.
const (
	Bool   Kind = iota + 1 // 0 or 1
	Int                    // int64
	Number                 // float64, finite
	Time                   // int64, microseconds since 1970 UTC
	String
	Bytes
)

var kindNames = [...]string{Bool: "bool", Int: "int", Number: "number", Time: "time", String: "string", Bytes: "bytes"}

// String returns the kind as the pipeline file writes it.
func (k Kind) String() string { return kindNames[k] }

// Text reports whether the kind lives in Row.Str.
func (k Kind) Text() bool { return k >= String }

// Type is a kind that may be absent.
type Type struct {
	Kind     Kind
	Optional bool
}

// String returns the type as the pipeline file writes it.
func (t Type) String() string {
	if t.Optional {
		return "optional " + t.Kind.String()
	}
	return t.Kind.String()
}

// ParseType reads a type as the pipeline file writes it: one of bool, int,
// number, string, bytes and time, with "optional " before it or not.
func ParseType(text string) (Type, error) {
	name, optional := strings.CutPrefix(text, "optional ")
	for kind, k := range kindNames {
		if k != "" && k == name {
			return Type{Kind: Kind(kind), Optional: optional}, nil
		}
	}
	return Type{}, fmt.Errorf("unknown type %q: use bool, int, number, string, bytes or time, with \"optional \" before it where the value may be absent", text)
}

// Slot is the place of one name in a row.
type Slot struct {
	Name  string
	Type  Type
	Index int // in Row.Num or Row.Str, by Type.Kind
	Bit   int // in Row's set of present values
}

// Schema is the flat set of names of one pipeline, in the order they were
// introduced.
type Schema struct {
	Slots  []Slot
	byName map[string]int
	num    int
	str    int
}

// Add introduces a name. It is an error to introduce one twice.
func (s *Schema) Add(name string, t Type) (Slot, error) {
	if _, ok := s.byName[name]; ok {
		return Slot{}, fmt.Errorf("%q is introduced twice: names are one flat set without shadowing", name)
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

// Text views bytes as a string without copying. The bytes must not change while
// the string is used.
func Text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Row is the values of one event. Strings may alias the record they came from.
type Row struct {
	Num     []uint64 // bits of bool, int64, float64 or microseconds
	Str     []string
	Present []uint64 // bit set: which slots have a value
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
func (r *Row) Reset() { clear(r.Present) }

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

// SetNumber stores a number.
func (r *Row) SetNumber(s Slot, v float64) { r.Num[s.Index] = math.Float64bits(v); r.set(s) }

// Numbers marks n number slots as present, those that the schema got one after
// the other from first on, and returns where their values lie: what is written
// there is what they hold.
func (r *Row) Numbers(first Slot, n int) []float64 {
	for bit := first.Bit; bit < first.Bit+n; bit++ {
		r.Present[bit>>6] |= 1 << (bit & 63)
	}
	num := r.Num[first.Index : first.Index+n]
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(num))), n)
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

// AsNumber returns the slot's value as a float64: a number as it is, an int or
// bool converted.
func (r *Row) AsNumber(s Slot) float64 {
	if s.Type.Kind == Number {
		return r.Number(s)
	}
	return float64(int64(r.Num[s.Index]))
}
