package lang

import (
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Distinct reports fields that read the same value as another field.
func (s *Scope) Distinct(path string, fields []decode.Field) {
	type place struct {
		from decode.Origin
		path string
	}
	names := map[place]string{}
	for i := range fields {
		f := &fields[i]
		at := place{f.From, f.At()}
		if f.From == decode.FromKey {
			at.path = ""
		}
		if other, ok := names[at]; ok {
			s.Fail(path+"."+f.Name, "%q is the value of %q too", f.Name, other)
			s.Hint("remove one of them; a let step gives a value another name")
		}
		names[at] = f.Name
	}
}

// origins maps the words of the file to the origins of a field's value.
var origins = map[string]decode.Origin{"": decode.FromData, FromData: decode.FromData, FromEnvelope: decode.FromEnvelope, FromKey: decode.FromKey}

// Located returns where a field's value stands in records, or in the elements of a list.
func (s *Scope) Located(at string, in envelope.Kind, f Field, slot value.Slot) decode.Field {
	field := decode.Field{Name: f.Name, Slot: slot, From: origins[f.From]}
	switch kind := slot.Type.Kind; {
	case field.From == decode.FromEnvelope && in == envelope.None:
		s.Fail(at, "%q is from the envelope, and events have none", f.Name)
		s.Hint("say what the envelope is, such as envelope: debezium, or remove from")
	case field.From == decode.FromKey && (f.Path != "" || kind != value.String && kind != value.Int):
		s.Fail(at, "%q is the key of the record: it is a string or an int, without a path", f.Name)
	}
	if f.Path == "" {
		return field
	}
	var err error
	if field.Path, err = decode.ParsePath(f.Path); err != nil {
		s.Fail(at, "%v", err)
		field.Path = nil
		return field
	}
	if decode.Gathers(field.Path) && !slot.Type.Kind.IsList() {
		s.Fail(at, "path %q gathers from all elements of a list, which makes a list, and %q is of type %v", f.Path, f.Name, slot.Type)
		s.Hint("make it a list, such as number[]")
	}
	return field
}
