package protobuf

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
)

// smallMax is the largest number of a field that is found without a map.
const smallMax = 255

// Decoder reads fields of messages of one type. It is immutable after Schema.Decoder and safe for
// concurrent use.
type Decoder struct {
	targets []target
	small   []uint16                 // for each number: index in targets plus 1; 0 means none
	large   map[protowire.Number]int // the same for larger numbers
	lists   int                      // number of targets that collect elements
}

var _ decode.Format = (*Schema)(nil)

// target is a field of the message.
type target struct {
	want   *decode.Field // nil if the target only clears other members of its oneof
	kind   protoreflect.Kind
	inside protoreflect.Kind // kind of the value in a wrapper, such as google.protobuf.StringValue; 0 without a wrapper
	wire   protowire.Type
	enum   protoreflect.EnumDescriptor
	list   int     // number of the list that collects its elements, from 1; 0 if it is no list, vector or map
	value  *target // for a map: target of its values; nil for any other field
	absent bool    // the field may be absent; otherwise it then has its default
	others []int   // other targets of its oneof
}

const timestamp = "google.protobuf.Timestamp"

// wrappers are messages with one value that may be absent.
var wrappers = map[protoreflect.FullName]bool{
	"google.protobuf.DoubleValue": true, "google.protobuf.FloatValue": true, "google.protobuf.Int64Value": true, "google.protobuf.UInt64Value": true, "google.protobuf.Int32Value": true,
	"google.protobuf.UInt32Value": true, "google.protobuf.BoolValue": true, "google.protobuf.StringValue": true, "google.protobuf.BytesValue": true,
}

// wires maps kinds of values to their wire types. All other kinds are varints.
var wires = map[protoreflect.Kind]protowire.Type{
	protoreflect.Fixed32Kind: protowire.Fixed32Type, protoreflect.Sfixed32Kind: protowire.Fixed32Type, protoreflect.FloatKind: protowire.Fixed32Type,
	protoreflect.Fixed64Kind: protowire.Fixed64Type, protoreflect.Sfixed64Kind: protowire.Fixed64Type, protoreflect.DoubleKind: protowire.Fixed64Type,
	protoreflect.StringKind: protowire.BytesType, protoreflect.BytesKind: protowire.BytesType, protoreflect.MessageKind: protowire.BytesType,
	protoreflect.GroupKind: protowire.StartGroupType,
}

// Decoder returns a decoder of the fields. The error names each field that the message cannot fill.
func (s *Schema) Decoder(fields []decode.Field) (decode.Decoder, error) {
	d := &Decoder{large: map[protowire.Number]int{}}
	fields = slices.Clone(fields)
	all := s.message.Fields()
	var faults []string
	wanted := map[protoreflect.FieldNumber]int{}
	for i := range fields {
		f := &fields[i]
		names, ok := f.Members()
		if !ok || len(names) > 1 {
			faults = append(faults, fmt.Sprintf("field %q: path %s does not name a field of the message itself: only JSON and Avro support longer paths", f.Name, f.At()))
			continue
		}
		of := all.ByName(protoreflect.Name(names[0]))
		if of == nil {
			if !f.Slot.Type.Optional {
				faults = append(faults, fmt.Sprintf("field %q is required: the schema has no such field", f.Name))
			}
			d.targets = append(d.targets, target{want: f, absent: true})
			continue
		}
		if _, twice := wanted[of.Number()]; twice {
			return nil, fmt.Errorf("field %q is wanted twice", f.Name)
		}
		if !d.add(f, of) {
			faults = append(faults, fmt.Sprintf("field %q is of type %s in the schema: want %s", f.Name, typeOf(of), f.Slot.Type.String()))
			continue
		}
		wanted[of.Number()] = len(d.targets) - 1
	}
	if len(faults) > 0 {
		return nil, errors.New(strings.Join(faults, "; "))
	}
	for number, at := range wanted {
		d.find(number, at)
	}
	for number := range wanted {
		d.oneof(all.ByNumber(number))
	}
	return d, nil
}

// typeOf returns the type of a field in the schema.
func typeOf(of protoreflect.FieldDescriptor) string {
	name := of.Kind().String()
	switch {
	case of.IsMap():
		return "map<" + typeOf(of.MapKey()) + ", " + typeOf(of.MapValue()) + ">"
	case of.Message() != nil:
		name = string(of.Message().FullName())
	case of.Enum() != nil:
		name = string(of.Enum().FullName())
	}
	if of.IsList() {
		name = "repeated " + name
	}
	return name
}

// add adds a wanted field. It reports whether the type fits.
func (d *Decoder) add(f *decode.Field, of protoreflect.FieldDescriptor) bool {
	slot := f.Slot.Type.Kind
	t, element := targetOf(f, of), slot
	switch {
	case of.IsMap():
		if !slot.IsMap() || of.MapKey().Kind() != protoreflect.StringKind {
			return false
		}
		inner := targetOf(f, of.MapValue())
		if !inner.fits(slot.Element()) || inner.inside != 0 || of.MapValue().Message() != nil {
			return false
		}
		t.value = &inner
	case of.IsList():
		if element = slot.Element(); slot == value.Vector {
			element = value.Number
		}
		if slot != value.Vector && !slot.IsList() || !t.fits(element) {
			return false
		}
	case slot.IsList() || slot.IsMap() || slot == value.Vector || !t.fits(slot):
		return false
	}
	if of.IsMap() || of.IsList() {
		d.lists++
		t.list, t.absent = d.lists, slot == value.Vector
	}
	d.targets = append(d.targets, t)
	return true
}

func targetOf(f *decode.Field, of protoreflect.FieldDescriptor) target {
	t := target{want: f, kind: of.Kind(), wire: wires[of.Kind()], enum: of.Enum(), absent: of.HasPresence()}
	if m := of.Message(); m != nil && wrappers[m.FullName()] {
		t.inside = m.Fields().ByNumber(1).Kind()
	} else if m != nil && m.FullName() != timestamp {
		t.kind = protoreflect.GroupKind // a kind that no slot can read
	}
	return t
}

// fits reports whether a slot of a kind takes one value of the field.
func (t *target) fits(slot value.Kind) bool {
	kind := t.kind
	if t.inside != 0 {
		kind = t.inside
	}
	switch kind {
	case protoreflect.BoolKind:
		return slot == value.Bool
	case protoreflect.StringKind:
		return slot == value.String
	case protoreflect.BytesKind:
		return slot == value.Bytes
	case protoreflect.EnumKind:
		return slot == value.String || slot == value.Int
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return slot == value.Number
	case protoreflect.MessageKind:
		return slot == value.Time
	case protoreflect.GroupKind:
		return false
	}
	return slot == value.Int || slot == value.Number
}

// find makes a number lead to a target.
func (d *Decoder) find(number protowire.Number, at int) {
	if number > smallMax {
		d.large[number] = at + 1
		return
	}
	for len(d.small) <= int(number) {
		d.small = append(d.small, 0)
	}
	d.small[number] = uint16(at + 1)
}

// oneof adds the other members of a wanted field's oneof, because they clear the field.
func (d *Decoder) oneof(of protoreflect.FieldDescriptor) {
	in := of.ContainingOneof()
	if in == nil || in.IsSynthetic() {
		return
	}
	for i := range in.Fields().Len() {
		member := in.Fields().Get(i).Number()
		if member == of.Number() {
			continue
		}
		at := d.at(member)
		if at < 0 {
			at = len(d.targets)
			d.targets = append(d.targets, target{wire: wires[in.Fields().Get(i).Kind()]})
			d.find(member, at)
		}
		d.targets[at].others = append(d.targets[at].others, d.at(of.Number()))
	}
}

// at returns the index of the target for a number, or -1.
func (d *Decoder) at(number protowire.Number) int {
	if int(number) < len(d.small) {
		return int(d.small[number]) - 1
	}
	if number <= smallMax {
		return -1
	}
	return d.large[number] - 1
}
