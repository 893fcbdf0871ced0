package value

import (
	"encoding/binary"
	"iter"
	"slices"
	"strings"
)

// List and Map combine with the kind of their elements: List|Int is int[], and Map|Int is map of
// int. The text of a list is the sequence of its elements, as AppendElement encodes them. The text
// of a map is the sequence of its entries, sorted by key, as AppendEntry encodes them. Equal lists
// and maps have equal texts.
const (
	List Kind = 1 << 6 // of bool, int, number, time, string or raw
	Map  Kind = 1 << 7 // from string to bool, int, number or string
)

// Element returns the kind of the elements of a list or map.
func (k Kind) Element() Kind { return k &^ (List | Map) }

// IsList reports whether the kind is a list.
func (k Kind) IsList() bool { return k&List != 0 }

// IsMap reports whether the kind is a map.
func (k Kind) IsMap() bool { return k&Map != 0 }

// listed reads a list type such as int[], or a map type such as map of int.
func listed(name string) (Kind, bool) {
	if of, ok := strings.CutSuffix(name, "[]"); ok {
		i := slices.Index([]string{"bool", "int", "number", "time", "string", "raw"}, of)
		if i < 0 {
			return 0, false
		}
		return List | [...]Kind{Bool, Int, Number, Time, String, Raw}[i], true
	}
	if of, ok := strings.CutPrefix(name, "map of "); ok {
		i := slices.Index([]string{"bool", "int", "number", "string"}, of)
		if i < 0 {
			return 0, false
		}
		return Map | [...]Kind{Bool, Int, Number, String}[i], true
	}
	return 0, false
}

// Element is a value of a kind. As in a Row, it is in Num or in Str.
type Element struct {
	Num uint64
	Str string
}

// Element returns the value of a slot. The slot must have one.
func (r *Row) Element(s *Slot) Element {
	if s.Type.Kind.Text() {
		return Element{Str: r.Str[s.Index]}
	}
	return Element{Num: r.Num[s.Index]}
}

// SetElement gives a slot a value of its kind.
func (r *Row) SetElement(s Slot, e Element) {
	if s.Type.Kind.Text() {
		r.SetText(s, e.Str)
	} else {
		r.SetInt(s, int64(e.Num)) // the setters of all these kinds store the same bits
	}
}

// AppendElement appends an element of a kind to the text of a list. A text follows its length, a
// bool takes one byte, and any other value takes 8 bytes, little endian.
func AppendElement(dst []byte, kind Kind, e Element) []byte {
	switch {
	case kind.Text():
		return AppendString(dst, e.Str)
	case kind == Bool:
		return append(dst, byte(e.Num))
	}
	return binary.LittleEndian.AppendUint64(dst, e.Num)
}

// ElementBytes returns how many bytes AppendElement appends.
func ElementBytes(kind Kind, e Element) int {
	switch {
	case kind.Text():
		return StringBytes(e.Str)
	case kind == Bool:
		return 1
	}
	return 8
}

// NextElement returns the first element of the text of a list, and the rest of the text. The text
// must not be empty. ok is false if AppendElement did not make the text.
func NextElement(text string, kind Kind) (e Element, rest string, ok bool) {
	switch {
	case kind.Text():
		e.Str, rest, ok = NextString(text)
		return e, rest, ok
	case kind == Bool:
		return Element{Num: uint64(text[0])}, text[1:], true
	case len(text) < 8:
		return e, "", false
	}
	for i := 7; i >= 0; i-- {
		e.Num = e.Num<<8 | uint64(text[i])
	}
	return e, text[8:], true
}

// Elements yields the elements of the text of a list.
func Elements(text string, kind Kind) iter.Seq[Element] {
	return func(yield func(Element) bool) {
		for text != "" {
			e, rest, ok := NextElement(text, kind)
			if !ok || !yield(e) {
				return
			}
			text = rest
		}
	}
}

// Entry is an entry of a map.
type Entry struct {
	Key string
	Element
}

// AppendEntry appends an entry to the text of a map. Its key must be greater than the last key.
func AppendEntry(dst []byte, kind Kind, e Entry) []byte {
	return AppendElement(AppendString(dst, e.Key), kind, e.Element)
}

// AppendMap appends the text of a map with the given entries, which need distinct keys. It sorts
// entries in place.
func AppendMap(dst []byte, kind Kind, entries []Entry) []byte {
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	for _, e := range entries {
		dst = AppendEntry(dst, kind, e)
	}
	return dst
}

// NextEntry returns the first entry of the text of a map, and the rest of the text. The text must
// not be empty. ok is false if AppendEntry did not make the text.
func NextEntry(text string, kind Kind) (e Entry, rest string, ok bool) {
	if e.Key, rest, ok = NextString(text); !ok || rest == "" {
		return e, "", false
	}
	e.Element, rest, ok = NextElement(rest, kind)
	return e, rest, ok
}

// Entries yields the entries of the text of a map, sorted by key.
func Entries(text string, kind Kind) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for text != "" {
			e, rest, ok := NextEntry(text, kind)
			if !ok || !yield(e) {
				return
			}
			text = rest
		}
	}
}

// Count returns the number of elements in the text of a list or map.
func Count(text string, kind Kind) (n int) {
	of := kind.Element()
	switch {
	case kind.IsMap():
		for range Entries(text, of) {
			n++
		}
	case of.Text():
		for range Elements(text, of) {
			n++
		}
	case of == Bool:
		n = len(text)
	default:
		n = len(text) / 8
	}
	return n
}
