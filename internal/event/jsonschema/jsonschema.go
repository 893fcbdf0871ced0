// Package jsonschema writes records as JSON, and compares their members with a JSON Schema.
package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// SchemaMax is the size limit of a schema in bytes.
const SchemaMax = 1 << 20

// Schema holds the members of records and their types from a JSON Schema. It ignores other
// keywords, such as oneOf and pattern, and members with a $ref.
type Schema struct{ root node }

var _ encode.Format = (*Schema)(nil)

// node is a schema inside a schema.
type node struct {
	never      bool     // no value fits
	types      []string // empty: any
	properties map[string]*node
	required   []string
	closed     bool     // other members are not allowed
	items      *node    // nil: any
	symbols    []string // symbols of an enum of texts
}

// Parse reads a schema.
func Parse(text string) (*Schema, error) {
	if len(text) > SchemaMax {
		return nil, fmt.Errorf("the schema has %d bytes: at most %d", len(text), SchemaMax)
	}
	s := &Schema{}
	if err := json.Unmarshal([]byte(text), &s.root); err != nil {
		return nil, fmt.Errorf("it is not a JSON Schema: %w", err)
	}
	return s, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *node) UnmarshalJSON(text []byte) error {
	if text[0] == 't' || text[0] == 'f' {
		n.never = text[0] == 'f'
		return nil
	}
	var of struct {
		Ref        *string          `json:"$ref"`
		Type       names            `json:"type"`
		Properties map[string]*node `json:"properties"`
		Required   []string         `json:"required"`
		Additional json.RawMessage  `json:"additionalProperties"`
		Patterns   json.RawMessage  `json:"patternProperties"`
		Items      json.RawMessage  `json:"items"`
		Enum       json.RawMessage  `json:"enum"`
	}
	if err := json.Unmarshal(text, &of); err != nil || of.Ref != nil {
		return err
	}
	n.types, n.properties, n.required = of.Type, of.Properties, of.Required
	if json.Unmarshal(of.Enum, &n.symbols) != nil {
		n.symbols = nil // values other than texts are not compared
	}
	n.closed = string(of.Additional) == "false" && of.Patterns == nil
	if len(of.Items) == 0 || of.Items[0] == '[' {
		return nil
	}
	n.items = &node{}
	return n.items.UnmarshalJSON(of.Items)
}

// names is one name or a list of names.
type names []string

func (n *names) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(n))
	}
	*n = names{""}
	return json.Unmarshal(text, &(*n)[0])
}

// Encoder implements encode.Format. An absent value is null, as in outputs without a format.
func (s *Schema) Encoder(fields []encode.Field) (encode.Encoder, error) {
	object := encode.ObjectOf(slices.Clone(fields))
	var f faults
	f.object(&s.root, "the schema", object)
	if len(f) > 0 {
		return nil, errors.New(strings.Join(f, "; "))
	}
	e := &Encoder{}
	e.after = e.object(nil, object)
	return e, nil
}

// AppendJSON appends a record unchanged, because it is JSON.
func (*Schema) AppendJSON(dst, record []byte) ([]byte, error) { return append(dst, record...), nil }

// faults collects the mismatches.
type faults []string

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// object compares an object with its schema. label is the name of the object.
func (f *faults) object(n *node, label string, object *encode.Object) {
	if n.never || !n.takes("object") {
		f.add("%s is of type %s: want object", label, n)
		return
	}
	for i := range object.Members {
		m := &object.Members[i]
		switch inner := n.properties[m.Name]; {
		case inner != nil && m.Object != nil:
			f.object(inner, fmt.Sprintf("property %q", m.Name), m.Object)
		case inner != nil:
			f.value(inner, m)
		case n.closed:
			f.add("field %q: %s has no property %q, and additionalProperties is false", m.Label(), label, m.Name)
		}
	}
	for _, name := range n.required {
		if object.Find(name) == nil {
			f.add("%s has a property %q that is required, and is not emitted", label, name)
		}
	}
}

// value compares a value with its schema.
func (f *faults) value(n *node, m *encode.Member) {
	of := m.Field.Slot.Type
	switch {
	case !n.fits(of.Kind):
		f.add("field %q is %s: the schema wants %s", m.Label(), m.Kind(), n)
	case of.Optional && !n.takes("null"):
		f.add("field %q may be absent, which is written as null, and the schema wants %s: write `?? ...` for a value, or add null to its types", m.Label(), n)
	}
}

// fits reports whether values of a kind have one of the types of the schema.
func (n *node) fits(kind value.Kind) bool {
	switch {
	case n.never:
		return false
	case kind == value.Bool:
		return n.takes("boolean")
	case kind == value.Int:
		return n.takes("integer") || n.takes("number")
	case kind == value.Number:
		return n.takes("number")
	case kind == value.Raw:
		return true
	case kind == value.Vector:
		return n.takes("array") && (n.items == nil || n.items.fits(value.Number))
	case kind.IsList():
		return n.takes("array") && (n.items == nil || n.items.fits(kind.Element()))
	case kind.IsMap():
		return n.takes("object")
	}
	return n.takes("string")
}

func (n *node) takes(name string) bool { return len(n.types) == 0 || slices.Contains(n.types, name) }

// String returns the types, for errors.
func (n *node) String() string {
	if n.never {
		return "no value"
	}
	return strings.Join(n.types, " or ")
}

// Encoder writes records as JSON. It is immutable after Schema.Encoder and safe for concurrent use.
type Encoder struct {
	parts []part
	after []byte // text after the last value
}

// part is a value with the text before it.
type part struct {
	before []byte
	slot   value.Slot
}

// object adds the values of an object. It returns the text after the last one.
func (e *Encoder) object(before []byte, object *encode.Object) (after []byte) {
	before = append(before, '{')
	for i := range object.Members {
		m := &object.Members[i]
		if i > 0 {
			before = append(before, ',')
		}
		before = expression.AppendName(before, m.Name)
		if m.Object != nil {
			before = e.object(before, m.Object)
			continue
		}
		e.parts, before = append(e.parts, part{before, m.Field.Slot}), nil
	}
	return append(before, '}')
}

// Append implements encode.Encoder. It never fails.
func (e *Encoder) Append(dst []byte, row *value.Row) ([]byte, error) {
	for i := range e.parts {
		p := &e.parts[i]
		dst = expression.AppendValue(append(dst, p.before...), row, &p.slot)
	}
	return append(dst, e.after...), nil
}
