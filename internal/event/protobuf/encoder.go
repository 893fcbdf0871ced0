package protobuf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Encoder writes messages of one type, with their fields sorted by number. It is immutable after
// Schema.Encoder and safe for concurrent use.
type Encoder struct{ parts []part }

var _ encode.Format = (*Schema)(nil)

// part is a field of a message.
type part struct {
	number protowire.Number
	tag    []byte
	field  *encode.Field // nil for a nested message
	inside []part        // fields of the nested message
	always bool          // written even if it is zero
	writer
}

// writer writes values of a kind.
type writer struct {
	slot   value.Kind
	kind   protoreflect.Kind
	inside bool                  // the value is in a wrapper, such as google.protobuf.StringValue
	item   *writer               // writes the elements of a list, or the values of a map
	packed bool                  // the list is packed
	enum   []enumName            // names of the enum, sorted
	named  protoreflect.FullName // full name of the enum
}

// enumName is a name of an enum.
type enumName struct {
	name   string
	number protoreflect.EnumNumber
}

// Encoder implements encode.Format. Fields of the schema that the emit does not write are not set.
func (s *Schema) Encoder(fields []encode.Field) (encode.Encoder, error) {
	p := planner{}
	parts := p.message(s.message, encode.ObjectOf(slices.Clone(fields)))
	if len(p.faults) > 0 {
		return nil, errors.New(strings.Join(p.faults, "; "))
	}
	return &Encoder{parts}, nil
}

// planner makes the parts of an encoder, and collects mismatches.
type planner struct{ faults []string }

func (p *planner) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// message writes an object as a message.
func (p *planner) message(of protoreflect.MessageDescriptor, object *encode.Object) (parts []part) {
	all := of.Fields()
	oneofs := map[protoreflect.FullName]string{}
	for i := range object.Members {
		m := &object.Members[i]
		f := all.ByName(protoreflect.Name(m.Name))
		if f == nil {
			p.fault("field %q: the schema has no field %q in message %s", m.Label(), m.Name, of.FullName())
			continue
		}
		if in := f.ContainingOneof(); in != nil && !in.IsSynthetic() {
			if other := oneofs[in.FullName()]; other != "" {
				p.fault("field %q: it and field %q belong to the oneof %q, and a message can have only one of them", m.Label(), other, in.Name())
			}
			oneofs[in.FullName()] = m.Label()
		}
		if one, ok := p.member(f, m); ok {
			parts = append(parts, one)
		}
	}
	for i := range all.Len() {
		if f := all.Get(i); f.Cardinality() == protoreflect.Required && object.Find(string(f.Name())) == nil {
			p.fault("the schema has a field %q that is required, and is not emitted", f.Name())
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.number, b.number) })
	return parts
}

// member writes a member of an object.
func (p *planner) member(f protoreflect.FieldDescriptor, m *encode.Member) (part, bool) {
	of := part{number: f.Number(), field: m.Field, always: f.HasPresence()}
	if m.Object != nil {
		if f.Kind() != protoreflect.MessageKind || f.IsList() || f.IsMap() {
			p.fault("field %q is part of an object: the schema wants %s", m.Label(), typeOf(f))
			return of, false
		}
		of.tag = protowire.AppendTag(nil, f.Number(), protowire.BytesType)
		of.inside = p.message(f.Message(), m.Object)
		return of, true
	}
	wire := wires[f.Kind()]
	var ok bool
	switch slot := m.Field.Slot.Type.Kind; {
	case f.IsMap():
		wire = protowire.BytesType
		ok = slot.IsMap() && f.MapKey().Kind() == protoreflect.StringKind && of.element(f.MapValue(), slot, slot.Element())
	case f.IsList() && slot == value.Vector:
		ok = of.element(f, slot, value.Number)
	case f.IsList():
		ok = slot.IsList() && of.element(f, slot, slot.Element())
	case !slot.IsList() && !slot.IsMap() && slot != value.Vector:
		of.writer, ok = writing(f, slot)
	}
	if !ok {
		p.fault("field %q is %s: the schema wants %s", m.Label(), m.Kind(), typeOf(f))
		return of, false
	}
	if m.Field.Slot.Type.Optional && (!f.HasPresence() && !f.IsList() && !f.IsMap() || f.Cardinality() == protoreflect.Required) {
		p.fault("field %q may be absent, and the schema has no presence for it: write `?? ...` for a value, or make it optional in the schema", m.Label())
		return of, false
	}
	if of.packed {
		wire = protowire.BytesType
	}
	of.tag = protowire.AppendTag(nil, f.Number(), wire)
	return of, true
}

// element makes the part write a list or a map. It reports whether elements of a kind fit.
func (p *part) element(f protoreflect.FieldDescriptor, slot, of value.Kind) bool {
	item, ok := writing(f, of)
	p.writer = writer{slot: slot, item: &item, packed: f.IsPacked()}
	return ok && !item.inside
}

// writing returns the writer for one value of a kind. ok is false if the type does not fit.
func writing(f protoreflect.FieldDescriptor, slot value.Kind) (w writer, ok bool) {
	t := targetOf(nil, f)
	w = writer{slot: slot, kind: t.kind}
	if t.inside != 0 {
		w.kind, w.inside = t.inside, true
	}
	switch w.kind {
	case protoreflect.BoolKind:
		ok = slot == value.Bool
	case protoreflect.StringKind:
		ok = slot == value.String || slot == value.Raw
	case protoreflect.BytesKind:
		ok = slot == value.Bytes
	case protoreflect.FloatKind:
		ok = slot == value.Number
	case protoreflect.DoubleKind:
		ok = slot == value.Number || slot == value.Int
	case protoreflect.MessageKind:
		ok = slot == value.Time
	case protoreflect.EnumKind:
		ok = slot == value.String
		w.named = f.Enum().FullName()
		for i := range f.Enum().Values().Len() {
			v := f.Enum().Values().Get(i)
			w.enum = append(w.enum, enumName{string(v.Name()), v.Number()})
		}
		slices.SortFunc(w.enum, func(a, b enumName) int { return strings.Compare(a.name, b.name) })
	case protoreflect.GroupKind:
	default:
		ok = slot == value.Int
	}
	return w, ok
}
