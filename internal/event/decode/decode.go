// Package decode reads the fields that a pipeline names out of JSON records.
//
// A record is accepted if and only if encoding/json would accept the whole of
// it as one JSON object and it keeps four rules of our own: it is valid UTF-8
// throughout (encoding/json replaces what is not), nothing nests deeper than
// MaxDepth, a named field stands in it at most once (encoding/json takes the
// last), and names match byte for byte (encoding/json ignores case).
package decode

import (
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/value"
)

// MaxDepth is how deep objects and arrays may nest, the record's own object
// included.
const MaxDepth = 64

// Field is one member of the record's object and the slot that takes it.
type Field struct {
	Name string // as in the JSON, without escapes; a dot is part of the name
	Slot value.Slot

	// Verbatim has a slot of kind string take a number too, as it is written.
	Verbatim bool
}

// Decoder reads the fields of records into their slots, and leaves the other slots of a row
// alone. Its errors are of type *Error.
type Decoder interface {
	Scan(src []byte, row *value.Row) error
}

// Format makes decoders of records.
type Format interface {
	Decoder(fields []Field) (Decoder, error)
}

// JSON is the format of records that are JSON objects.
type JSON struct{}

// Decoder returns a Scanner.
func (JSON) Decoder(fields []Field) (Decoder, error) { return New(fields), nil }

// Error says what is wrong with a record.
type Error struct {
	Field  string // the named field at fault; "" where the JSON itself is
	Offset int    // in bytes from the record's start; its length where it ends too early
	Reason string
}

// Error returns field, offset and reason.
func (e *Error) Error() string {
	if e.Field != "" {
		return fmt.Sprintf("field %q at byte %d: %s", e.Field, e.Offset, e.Reason)
	}
	return fmt.Sprintf("byte %d: %s", e.Offset, e.Reason)
}

// Scanner extracts a fixed list of top-level fields. It does not change after
// New and is safe for concurrent use.
type Scanner struct {
	fields []member
	byName map[string]int
}

// member is a field and the text that starts it in compact JSON: `"name":`. The
// text is empty for a name that JSON has to escape.
type member struct {
	Field
	start string
}

// New returns a scanner of the fields. Fields that come in this order in the
// records are found without a look-up. Two fields of one name are a programming
// error and panic.
func New(fields []Field) *Scanner {
	s := &Scanner{byName: make(map[string]int, len(fields))}
	for i, f := range fields {
		if _, ok := s.byName[f.Name]; ok {
			panic(fmt.Sprintf("decode: field %q is named twice", f.Name))
		}
		m := member{Field: f}
		if !strings.ContainsFunc(f.Name, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) {
			m.start = `"` + f.Name + `":`
		}
		s.byName[f.Name] = i
		s.fields = append(s.fields, m)
	}
	return s
}

// Scan reads the named fields of the JSON object in src into their slots of
// row, and leaves the row's other slots alone. Members that are not named are
// checked and skipped. The error is an *Error, and then the slots of the fields
// hold anything.
//
// By the kind of the slot a field must be: bool; int, an integer literal within
// int64 without fraction or exponent; number, a number within float64, rounded
// to nearest even; string; bytes, a string of standard base64 with padding;
// time, a string in the form of RFC 3339, cut to the microsecond; a vector, a list
// of as many numbers within float32, rounded to nearest even; a list, one of values of
// the kind of its elements; a map, an object of such values, each name once; raw, any
// value, of which the slot gets the text in one line. A field that is absent or
// null clears an optional slot and is an error for any other, as null is for an element.
//
// Strings without escapes and raw alias src, which therefore must not change for as
// long as the row is used. Strings with escapes, bytes, lists, maps, vectors
// and raw with line breaks are allocated; nothing else is.
func (s *Scanner) Scan(src []byte, row *value.Row) error {
	if !utf8.Valid(src) {
		return invalidUTF8(src)
	}
	i, more, reason := open(src)
	if reason != "" {
		return &Error{Offset: i, Reason: reason}
	}
	var few [4]uint64
	seen := few[:]
	if len(s.fields) > 64*len(few) {
		seen = make([]uint64, (len(s.fields)+63)/64)
	}
	next := 0
	for more {
		start := i
		var n int
		if n, i, reason = s.find(src, i, next); reason != "" {
			return &Error{Offset: i, Reason: reason}
		}
		if n < 0 {
			if i, reason = skip(src, i, 1); reason != "" {
				return &Error{Offset: i, Reason: reason}
			}
		} else {
			f := &s.fields[n].Field
			if seen[n>>6]>>(n&63)&1 != 0 {
				return &Error{Field: f.Name, Offset: start, Reason: "stands in the record twice"}
			}
			seen[n>>6] |= 1 << (n & 63)
			next = n + 1
			if i, reason = f.read(src, i, 1, row); reason != "" {
				return &Error{Field: f.Name, Offset: i, Reason: reason}
			}
		}
		if i, more, reason = after(src, i); reason != "" {
			return &Error{Offset: i, Reason: reason}
		}
	}
	if end := space(src, i); end < len(src) {
		return &Error{Offset: end, Reason: unexpected(src, end, "the end of the record")}
	}
	return s.absent(seen, row, i)
}

// find reads the key at src[i:] and its colon, and returns the field it names,
// or -1, and the start of its value. It tries the field number next first.
func (s *Scanner) find(src []byte, i, next int) (int, int, string) {
	if next < len(s.fields) {
		start := s.fields[next].start
		if end := i + len(start); start != "" && end <= len(src) && string(src[i:end]) == start {
			return next, space(src, end), ""
		}
	}
	name, escaped, i, reason := key(src, i)
	if reason != "" {
		return 0, i, reason
	}
	var n int
	var ok bool
	if escaped {
		n, ok = s.byName[unescape(name)]
	} else {
		n, ok = s.byName[string(name)]
	}
	if !ok {
		n = -1
	}
	return n, i, ""
}

// absent clears the optional fields that were not seen, and refuses the record
// for any other.
func (s *Scanner) absent(seen []uint64, row *value.Row, end int) error {
	count := 0
	for _, word := range seen {
		count += bits.OnesCount64(word)
	}
	if count == len(s.fields) {
		return nil
	}
	for n := range s.fields {
		if seen[n>>6]>>(n&63)&1 != 0 {
			continue
		}
		f := &s.fields[n].Field
		if !f.Slot.Type.Optional {
			return &Error{Field: f.Name, Offset: end - 1, Reason: "absent but required: want " + f.Slot.Type.String()}
		}
		row.Clear(f.Slot)
	}
	return nil
}

// invalidUTF8 finds the first byte that is not UTF-8.
func invalidUTF8(src []byte) error {
	for i := 0; ; {
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size <= 1 {
			return &Error{Offset: i, Reason: "invalid UTF-8"}
		}
		i += size
	}
}

// Key returns the text of a top-level field that is a string, unescaped, or an
// integer, in its shortest form: what events of that field are keyed by. It is
// not ok where Scan would refuse the record for a required slot of kind string
// or int. The key may alias src.
func Key(src []byte, field string) (text []byte, ok bool) {
	if !utf8.Valid(src) {
		return nil, false
	}
	i, more, reason := open(src)
	for more && reason == "" {
		var name []byte
		var escaped bool
		if name, escaped, i, reason = key(src, i); reason != "" {
			return nil, false
		}
		start := i
		if i, reason = skip(src, i, 1); reason != "" {
			return nil, false
		}
		if string(name) == field && !escaped || escaped && unescape(name) == field {
			if ok {
				return nil, false
			}
			if text, ok = keyText(src, start); !ok {
				return nil, false
			}
		}
		i, more, reason = after(src, i)
	}
	if reason != "" || space(src, i) < len(src) || !ok {
		return nil, false
	}
	return text, true
}

// keyText returns the key that the valid value at src[i:] stands for.
func keyText(src []byte, i int) ([]byte, bool) {
	if src[i] == '"' {
		end, escaped, _ := text(src, i+1)
		if escaped {
			return []byte(unescape(src[i+1 : end-1])), true
		}
		return src[i+1 : end-1 : end-1], true
	}
	if !numeric(src[i]) {
		return nil, false
	}
	var n numeral
	end, _ := number(src, i, &n)
	v, reason := n.int(src[i:end])
	if v == 0 {
		return []byte("0"), reason == "" // -0 is the same key
	}
	return src[i:end:end], reason == ""
}
