// Package encode defines the common interfaces of output formats. A format encodes slots of a row
// as the bytes of a record.
package encode

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/value"
)

// Field is one value of a record.
type Field struct {
	Path []string // names of the objects that contain the value, and of the value
	Slot value.Slot
}

// Name returns the path with dots between its names.
func (f *Field) Name() string { return strings.Join(f.Path, ".") }

// Encoder appends a record made from a row. Equal values give equal bytes. It is safe for
// concurrent use. Its errors are of type *Error; the bytes returned with an error have no meaning.
type Encoder interface {
	Append(dst []byte, row *value.Row) ([]byte, error)
}

// Format makes encoders of records.
type Format interface {
	// Encoder returns an encoder of all the fields. The error names each field that does not fit.
	Encoder(fields []Field) (Encoder, error)
}

// Error says which value cannot be encoded, and why.
type Error struct{ Field, Reason string }

// Error returns field and reason.
func (e *Error) Error() string { return fmt.Sprintf("field %q: %s", e.Field, e.Reason) }

// Object holds the members of an object in a record, in their order.
type Object struct{ Members []Member }

// Member is a member of an object: a field, or another object.
type Member struct {
	Name   string
	Field  *Field
	Object *Object
}

// ObjectOf returns the object that the fields form. No path may be the beginning of another.
func ObjectOf(fields []Field) *Object {
	root := &Object{}
	for i := range fields {
		f, at := &fields[i], root
		last := len(f.Path) - 1
		for _, name := range f.Path[:last] {
			m := at.Find(name)
			if m == nil {
				at.Members = append(at.Members, Member{Name: name, Object: &Object{}})
				m = &at.Members[len(at.Members)-1]
			}
			at = m.Object
		}
		at.Members = append(at.Members, Member{Name: f.Path[last], Field: f})
	}
	return root
}

// Find returns the member with a name, or nil.
func (o *Object) Find(name string) *Member {
	if i := slices.IndexFunc(o.Members, func(m Member) bool { return m.Name == name }); i >= 0 {
		return &o.Members[i]
	}
	return nil
}

// Label returns the name of the first field of a member, for errors.
func (m *Member) Label() string {
	for m.Object != nil {
		m = &m.Object.Members[0]
	}
	return m.Field.Name()
}

// Kind returns the kind of a member, for errors.
func (m *Member) Kind() string {
	if m.Object != nil {
		return "an object"
	}
	return m.Field.Slot.Type.String()
}

// ExactMax is the largest n such that float64 represents every integer from -n to n exactly.
const ExactMax = 1 << 53

// Exact reports whether v is in the range that float64 represents exactly.
func Exact(v int64) bool { return v >= -ExactMax && v <= ExactMax }

// Valid returns a text with U+FFFD in place of each byte that is not valid UTF-8, as JSON outputs
// have it.
func Valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		b.WriteRune(r)
	}
	return b.String()
}
