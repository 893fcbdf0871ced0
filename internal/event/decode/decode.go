// Package decode reads the fields that a pipeline names from JSON records.
//
// It accepts a record if and only if encoding/json would accept all of it as one JSON object, and
// the record follows four stricter rules. It is valid UTF-8 (encoding/json replaces invalid bytes).
// Nothing nests deeper than MaxDepth. A named field occurs at most once (encoding/json takes the
// last). Names match byte for byte (encoding/json ignores case).
package decode

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/value"
)

// MaxDepth limits the nesting of objects and arrays, the record's own object included.
const MaxDepth = 64

// Field is one value of the record, with the slot that it fills.
type Field struct {
	Name string // as in the JSON, without escapes; a dot is part of the name
	Path []Part // path to the value; nil means the member of the record's object with the name
	Slot value.Slot

	From Origin

	// Verbatim makes a slot of kind string also accept a number, as written.
	Verbatim bool
}

// Origin says where in a record the value of a field stands.
type Origin uint8

// The origins. Decoders of data read fields with FromData. Package envelope reads the others.
const (
	FromData     Origin = iota
	FromEnvelope        // outside the data
	FromKey             // the key of the record
)

// Decoder reads the fields of records into their slots. It does not change other slots of the row.
// Its errors are of type *Error.
type Decoder interface {
	Scan(src []byte, row *value.Row) error
}

// Preparer is a Decoder that needs external data to read a record. Only one goroutine may use it.
type Preparer interface {
	Decoder

	// Prepare reports whether Scan can read a record, now and until the next turn. If it cannot,
	// the caller asks again after wake is called; why is the failure, if any. Another goroutine may
	// call wake. Turns count up; within a turn, the caller prepares all records before it reads
	// one.
	Prepare(src []byte, turn uint64, wake func()) (ready bool, why error)
}

// Transcoder converts records to JSON. Only one goroutine may use it.
type Transcoder interface {
	// Prepare works like that of a Preparer, for AppendJSON.
	Prepare(src []byte, turn uint64, wake func()) (ready bool, why error)
	AppendJSON(dst, src []byte) ([]byte, error)
}

// Framed reports whether a key or value begins with the id of its schema in a registry. No text or
// JSON begins like this.
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

// Error describes an error in a record.
type Error struct {
	Field  string // the named field at fault; "" if the JSON itself is invalid
	Offset int    // in bytes from the start of the record; its length if the record ends too early
	Reason string
}

// Error returns field, offset and reason.
func (e *Error) Error() string {
	if e.Field != "" {
		return fmt.Sprintf("field %q at byte %d: %s", e.Field, e.Offset, e.Reason)
	}
	return fmt.Sprintf("byte %d: %s", e.Offset, e.Reason)
}

// Scanner extracts a fixed list of fields. It is immutable after New and safe for concurrent use.
type Scanner struct {
	fields []Field
	root   object
	bits   int // number of seen bits: those of the fields and, in words after them, those of values on their paths
}

// New returns a scanner of the fields. Records with the fields in this order need no look-up. Two
// fields with the same path are a programming error: New panics.
func New(fields []Field) *Scanner {
	s := &Scanner{fields: slices.Clone(fields), bits: words(len(fields)) * 64}
	for i := range s.fields {
		s.add(i)
	}
	return s
}

func words(bits int) int { return (bits + 63) / 64 }

// Scan reads the named fields of the JSON object in src into their slots of row. It does not change
// other slots. It checks and skips members without a name. The error is an *Error; after an error
// the slots of the fields have undefined content.
//
// The kind of the slot determines the valid values:
//
//   - bool
//   - int: an integer literal within int64, without fraction or exponent
//   - number: a number within float64, rounded to nearest even
//   - string
//   - bytes: a string of standard base64 with padding
//   - time: a string in the form of RFC 3339, truncated to the microsecond
//   - a vector: a list of exactly as many numbers within float32, rounded to nearest even
//   - a list: a list of values of the kind of its elements
//   - a map: an object of such values, each name once
//   - raw: any value; the slot gets the text in one line
//
// A field that is absent or null clears an optional slot. For any other slot it is an error, as
// null is for an element.
//
// A field with a path is absent if the path ends early: a member is absent, a list is too short, or
// a value on the path is null. Any other unexpected value on the path is an error.
//
// Strings without escapes, and raw, alias src, so src must not change while the row is used. Scan
// allocates memory only for strings with escapes, bytes, lists, maps, vectors, and raw with line
// breaks.
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

// scan is the state of reading one record.
type scan struct {
	src    []byte
	row    *value.Row
	few    [4]uint64  // bits of the fields and values seen so far
	rest   []uint64   // bits that do not fit in few
	gather *gathering // the list that is being gathered from; nil if none
}

// word returns the word that contains a seen bit.
func (at *scan) word(bit int) *uint64 {
	if n := bit >> 6; n < len(at.few) {
		return &at.few[n]
	}
	return &at.rest[bit>>6-len(at.few)]
}

// twice sets a seen bit, and reports whether it was set before.
func (at *scan) twice(bit int) bool {
	word, mask := at.word(bit), uint64(1)<<(bit&63)
	set := *word&mask != 0
	*word |= mask
	return set
}

// members reads the members of an object, starting at the first, at the given depth.
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
				return i, &Error{Field: m.label, Offset: start, Reason: "occurs in the record twice"}
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

// absent clears the optional fields that were not seen. It returns an error if another field was
// not seen.
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
