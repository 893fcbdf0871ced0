package protobuf_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/event/protobuf"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/test/slots"
)

// writtenFields are the fields of everything with types that can be written: ints are no numbers, and a oneof has one.
var writtenFields = strings.Split(strings.NewReplacer("64 number", "64 int", "s32 number", "s32 int", "z optional int,", "").Replace(strings.Join(wanted, ",")), ",")

// roomFor reports whether a field has room for an int.
func roomFor(f protoreflect.FieldDescriptor, n int64) bool {
	kind := f.Kind()
	if kind == protoreflect.MessageKind {
		kind = f.Message().Fields().ByNumber(1).Kind()
	}
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return n == int64(int32(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return n == int64(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return n >= 0
	}
	return true
}

// hasRoom reports whether a field has room for the value of a slot. It clears lists and maps of enums, which
// TestValuesAreWrittenAsTheirTypes has.
func hasRoom(f protoreflect.FieldDescriptor, slot value.Slot, row *value.Row) bool {
	switch {
	case slot.Type.Kind == value.Int && row.Has(slot):
		return roomFor(f, row.Int(slot))
	case f.Kind() == protoreflect.EnumKind && slot.Type.Kind == value.String:
		return f.Enum().Values().ByName(protoreflect.Name(row.Text(slot))) != nil
	case f.Kind() == protoreflect.EnumKind || f.IsMap() && f.MapValue().Kind() == protoreflect.EnumKind:
		row.Clear(slot)
	}
	return true
}

// FuzzEncoderAgreesWithDynamicpb decodes a message of a seed, changes values of it, encodes them, and has dynamicpb read what is
// encoded: the same values, which it writes as the same bytes. A message has an error exactly if a value has no room in its field.
func FuzzEncoderAgreesWithDynamicpb(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed, []string{"", "GREEN", "é", "\x00"}[seed%4], int64(seed)<<(seed%57), float64(seed)/3)
		f.Add(seed, "\xff", -int64(seed*seed)<<(seed%50), math.Ldexp(-1, int(seed)))
	}
	message := parse(f, everything)
	fields, names := slots.Of(f, writtenFields...)
	var all []encode.Field
	for _, one := range fields {
		all = append(all, encode.Field{Path: []string{one.Name}, Slot: one.Slot})
	}
	e, err := protobuf.Of(message).Encoder(all)
	if err != nil {
		f.Fatal(err)
	}
	d, err := protobuf.Of(message).Decoder(fields)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, seed uint64, text string, n int64, x float64) {
		g := rand.New(rand.NewPCG(seed, 7))
		row := &names.NewRows(1)[0]
		if d.Scan(encoded(g, message), row) != nil {
			return // an int that is no int64, say
		}
		fit := true
		for range g.IntN(4) {
			slot := fields[g.IntN(len(fields))].Slot
			of := message.Fields().ByName(protoreflect.Name(slot.Name))
			switch kind := slot.Type.Kind; {
			case kind == value.Int:
				row.SetInt(slot, n)
			case kind == value.String:
				row.SetText(slot, strings.ToValidUTF8(text, "?"))
			case kind == value.Bytes:
				row.SetText(slot, text)
			case kind == value.Number && value.Finite(x) && of.Kind() == protoreflect.DoubleKind:
				row.SetNumber(slot, x)
			}
		}
		for _, one := range fields {
			fit = hasRoom(message.Fields().ByName(protoreflect.Name(one.Name)), one.Slot, row) && fit
		}
		made, err := e.Append(nil, row)
		if wrong, ok := errors.AsType[*encode.Error](err); fit != (err == nil) || err != nil && (!ok || wrong.Field == "" || wrong.Reason == "") {
			t.Fatalf("%v, and it has room: %v", err, fit)
		}
		if err != nil {
			return
		}
		read := dynamicpb.NewMessage(message)
		if err := proto.Unmarshal(made, read); err != nil {
			t.Fatalf("%x: %v", made, err)
		}
		for _, one := range fields {
			got, _ := stored(read, one.Slot)
			if want := slots.Show(row, one.Slot); got != want && !(want == "absent" && got == `""`) {
				t.Fatalf("%x: %s is %s, want %s", made, one.Name, got, want)
			}
		}
		if read.Has(message.Fields().ByName("x")) {
			return // the library writes the member of a oneof last
		}
		if again, err := (proto.MarshalOptions{Deterministic: true}).Marshal(read); err != nil || !bytes.Equal(again, made) {
			t.Fatalf("%x, the library writes %x, %v", made, again, err)
		}
	})
}

// BenchmarkEncoder writes ten fields.
func BenchmarkEncoder(b *testing.B) {
	const schema = `syntax = "proto3"; package test; import "google/protobuf/timestamp.proto"; enum E { y = 0; x = 1; }
		message Event { int64 a = 1; optional string b = 2; double c = 3; google.protobuf.Timestamp d = 4; string e = 5; bool f = 6; optional int64 g = 7; sint64 h = 8; E i = 9; double j = 10; }`
	e, row, err := slots.Encoder(b, protobuf.Of(parse(b, schema)),
		`{"a":123456789,"b":"some text","c":1.5,"d":"2026-01-02T03:04:05Z","e":"another text","f":true,"g":null,"h":-7,"i":"x","j":0.1}`,
		"a int", "b optional string", "c number", "d time", "e string", "f bool", "g optional int", "h int", "i string", "j number")
	if err != nil {
		b.Fatal(err)
	}
	room := make([]byte, 0, 200)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Append(room, row); err != nil {
			b.Fatal(err)
		}
	}
}
