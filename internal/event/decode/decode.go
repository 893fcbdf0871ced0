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
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/value"
)

// MaxDepth is how deep objects and arrays may nest, the record's own object
// included.
const MaxDepth = 64

// Field is one value of the record and the slot that takes it.
type Field struct {
	Name string // as in the JSON, without escapes; a dot is part of the name
	Path []Part // to the value; nil is the member of the record's object with the name
	Slot value.Slot

	From Origin

	// Verbatim has a slot of kind string take a number too, as it is written.
	Verbatim bool
}

// Origin says where in a record the value of a field stands.
type Origin uint8

// The origins. Decoders of data read fields of the first one. Package envelope reads the others.
const (
	FromData     Origin = iota
	FromEnvelope        // around the data
	FromKey             // the key of the record
)

// Decoder reads the fields of records into their slots, and leaves the other slots of a row
// alone. Its errors are of type *Error.
type Decoder interface {
	Scan(src []byte, row *value.Row) error
}

// Preparer is a Decoder that needs something from outside to read a record. One goroutine uses it.
type Preparer interface {
	Decoder

	// Prepare reports whether Scan can read a record, and go on to until the next turn. If it cannot,
	// the caller asks again when wake was called, and why says what failed, if anything did. Another
	// goroutine may call wake. Turns are counted up; in one, all records are prepared before one is read.
	Prepare(src []byte, turn uint64, wake func()) (ready bool, why error)
}

// Transcoder turns records into JSON. One goroutine uses it.
type Transcoder interface {
	// Prepare is that of a Preparer, before AppendJSON.
	Prepare(src []byte, turn uint64, wake func()) (ready bool, why error)
	AppendJSON(dst, src []byte) ([]byte, error)
}

// Framed reports whether a key or value begins with the id of its schema in a registry. No text or JSON does.
func Framed(data []byte) bool { return len(data) > 0 && data[0] == 0 }

// EveryTurn is a turn that never ends.
const EveryTurn = math.MaxUint64

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

// Scanner extracts a fixed list of fields. It does not change after
// New and is safe for concurrent use.
type Scanner struct {
	fields []Field
	root   object
	bits   int // of what is seen: of the fields, and in words of their own those on the way to them
}

// New returns a scanner of the fields. Fields that come in this order in the
// records are found without a look-up. Two fields of one path are a programming
// error and panic.
func New(fields []Field) *Scanner {
	s := &Scanner{fields: slices.Clone(fields), bits: words(len(fields)) * 64}
	for i := range s.fields {
		s.add(i)
	}
	return s
}

func words(bits int) int { return (bits + 63) / 64 }

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
// A field with a path is absent where the path ends early: a member is absent, a list is
// too short, or null stands on the way. Any other value on the way is an error.
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
	at := scan{src: src, row: row}
	if s.bits > 64*len(at.few) {
		at.rest = make([]uint64, words(s.bits)-len(at.few))
	}
	if more {
		var err *Error
		if i, err = s.members(&at, &s.root, i, 1); err != nil {
			return err
		}
	}
	if end := space(src, i); end < len(src) {
		return &Error{Offset: end, Reason: unexpected(src, end, "the end of the record")}
	}
	return s.absent(&at, i)
}

// scan is a record that is being read.
type scan struct {
	src    []byte
	row    *value.Row
	few    [4]uint64  // bits of what is seen
	rest   []uint64   // those for which few has no room
	gather *gathering // of the list that is being passed; nil is none
}

// word returns the word that has a bit of what is seen.
func (at *scan) word(bit int) *uint64 {
	if n := bit >> 6; n < len(at.few) {
		return &at.few[n]
	}
	return &at.rest[bit>>6-len(at.few)]
}

// twice reports whether a bit of what is seen is set, and sets it.
func (at *scan) twice(bit int) bool {
	word, mask := at.word(bit), uint64(1)<<(bit&63)
	set := *word&mask != 0
	*word |= mask
	return set
}

// members reads the members of an object from the first one on, at the given depth.
func (s *Scanner) members(at *scan, o *object, i, depth int) (int, *Error) {
	src, row, next := at.src, at.row, 0
	for more := true; more; {
		start := i
		n, end, reason := o.find(src, i, next)
		if i = end; reason != "" {
			return i, &Error{Offset: i, Reason: reason}
		}
		if n < 0 {
			if i, reason = skip(src, i, depth); reason != "" {
				return i, &Error{Offset: i, Reason: reason}
			}
		} else {
			m := &o.members[n]
			if at.twice(m.bit) {
				return i, &Error{Field: m.label, Offset: start, Reason: "stands in the record twice"}
			}
			next = n + 1
			if f := m.leaf; f != nil {
				if i, reason = f.read(src, i, depth, row); reason != "" {
					return i, &Error{Field: m.label, Offset: i, Reason: reason}
				}
			} else {
				var err *Error
				if i, err = s.value(at, m, i, depth); err != nil {
					return i, err
				}
			}
		}
		if i, more, reason = after(src, i); reason != "" {
			return i, &Error{Offset: i, Reason: reason}
		}
	}
	return i, nil
}

// absent clears the optional fields that were not seen, and refuses the record
// for any other.
func (s *Scanner) absent(at *scan, end int) error {
	count := 0
	for bit := 0; bit < len(s.fields); bit += 64 {
		count += bits.OnesCount64(*at.word(bit))
	}
	if count == len(s.fields) {
		return nil
	}
	for n := range s.fields {
		if *at.word(n)>>(n&63)&1 != 0 {
			continue
		}
		f := &s.fields[n]
		if !f.Slot.Type.Optional {
			return &Error{Field: f.Name, Offset: end - 1, Reason: f.missing()}
		}
		at.row.Clear(f.Slot)
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
