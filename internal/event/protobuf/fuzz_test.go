package protobuf_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/protobuf"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/test/slots"
)

// everything has a field of each kind, with and without presence.
const everything = `syntax = "proto3";
package test;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Color { RED = 0; GREEN = 1; BLUE = 7; }
message Inner { string a = 1; repeated Inner more = 2; }
message Event {
  bool b = 1; int32 i32 = 2; int64 i64 = 3; uint32 u32 = 4; uint64 u64 = 5; sint32 s32 = 6; sint64 s64 = 7;
  fixed32 f32 = 8; fixed64 f64 = 9; sfixed32 sf32 = 10; sfixed64 sf64 = 11; float f = 12; double d = 13;
  string s = 14; bytes y = 15; Color c = 16; google.protobuf.Timestamp at = 17; google.protobuf.StringValue w = 18;
  google.protobuf.Int64Value wi = 19; Inner inner = 20;
  optional int32 oi = 300; optional string os = 301; optional bool ob = 302;
  oneof which { string x = 31; int64 z = 32; Inner in = 33; }
  repeated int64 li = 40; repeated string ls = 41; repeated double ld = 42; repeated bool lb = 43; repeated float v = 44; repeated sint32 unpacked = 45 [packed = false];
  repeated google.protobuf.Timestamp lt = 46; repeated Color lc = 47;
  map<string, int64> m = 50; map<string, string> ms = 51; map<string, Color> mc = 52;
}`

// wanted are its fields with types that take them. The types of those with presence are optional.
var wanted = []string{
	"b bool", "i32 int", "i64 int", "u32 int", "u64 number", "s32 number", "s64 int", "f32 int", "f64 number", "sf32 int", "sf64 int", "f number", "d number",
	"s string", "y bytes", "c string", "at optional time", "w optional string", "wi optional int", "oi optional int", "os optional string", "ob optional bool", "x optional string", "z optional int",
	"li int[]", "ls string[]", "ld number[]", "lb bool[]", "v optional number[2]", "unpacked int[]", "lt time[]", "lc string[]", "m map of int", "ms map of string", "mc map of string",
}

// FuzzScanAgreesWithDynamicpb makes messages of a seed, changes their bytes, and holds the decoder against dynamicpb.
func FuzzScanAgreesWithDynamicpb(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed, []byte{})
		f.Add(seed, []byte{byte(seed), 1, byte(seed >> 3), 0x80})
	}
	message := parse(f, everything)
	f.Fuzz(func(t *testing.T, seed uint64, changes []byte) {
		g := rand.New(rand.NewPCG(seed, 3))
		src := encoded(g, message)
		for i := 0; i+1 < len(changes) && len(src) > 0; i += 2 {
			src[int(changes[i])%len(src)] ^= changes[i+1]
		}
		if n := len(changes); n%2 == 1 && len(src) > 0 {
			src = src[:int(changes[n-1])%len(src)]
		}
		fields := slices.DeleteFunc(slices.Clone(wanted), func(string) bool { return g.IntN(3) == 0 })
		d, names := decoder(t, protobuf.Of(message), fields...)
		row := &names.NewRows(1)[0]
		err := d.Scan(src, row)
		if err != nil {
			if fault := err.(*decode.Error); fault.Offset < 0 || fault.Offset > len(src) || fault.Reason == "" {
				t.Fatalf("%x: %v", src, err)
			}
		}
		reference := dynamicpb.NewMessage(message)
		if !unmarshal(src, reference) {
			return // it looks at what is skipped here
		}
		for _, slot := range names.Slots {
			want, fits := stored(reference, slot)
			switch {
			case err == nil && !fits:
				t.Fatalf("%x: %s is taken", src, slot.Name)
			case err == nil && slots.Show(row, slot) != want:
				t.Fatalf("%x: %s is %s, want %s", src, slot.Name, slots.Show(row, slot), want)
			case !fits:
				return
			}
		}
		if err != nil && strings.Contains(err.Error(), "out of the range") {
			return // the field stands there again, and the reference looks at the last
		}
		if err != nil && !strings.Contains(err.Error(), "occurs in the record twice") && !strings.Contains(err.Error(), "invalid UTF-8") && !strings.Contains(err.Error(), "Timestamp of") {
			t.Fatalf("%x: %v, the reference takes it", src, err)
		}
	})
}

// unmarshal reports whether the reference takes a message. Version 1.36.12 panics at an entry of a map whose
// key stands there twice, the second time of another wire type.
func unmarshal(src []byte, m proto.Message) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return proto.Unmarshal(src, m) == nil
}

// encoded returns a message with some fields, in any order, some of them twice.
func encoded(g *rand.Rand, of protoreflect.MessageDescriptor) (src []byte) {
	for range 1 + g.IntN(3) {
		m := dynamicpb.NewMessage(of)
		for i := range of.Fields().Len() {
			if f := of.Fields().Get(i); g.IntN(3) == 0 && (len(src) == 0 || f.Message() == nil || f.IsList() || f.IsMap()) {
				set(g, m, f)
			}
		}
		part, err := proto.Marshal(m)
		if err != nil {
			panic(err)
		}
		src = append(src, part...)
	}
	return src
}

// set gives a field a value.
func set(g *rand.Rand, m protoreflect.Message, f protoreflect.FieldDescriptor) {
	switch {
	case f.IsList():
		for range g.IntN(4) {
			list := m.Mutable(f).List()
			if one := scalar(g, f); f.Message() == nil {
				list.Append(one)
			} else {
				fill(g, list.AppendMutable().Message())
			}
		}
	case f.IsMap():
		for range g.IntN(4) {
			m.Mutable(f).Map().Set(protoreflect.ValueOfString(word(g)).MapKey(), scalar(g, f.MapValue()))
		}
	case f.Message() != nil:
		fill(g, m.Mutable(f).Message())
	default:
		m.Set(f, scalar(g, f))
	}
}

// fill gives the scalar fields of a message values.
func fill(g *rand.Rand, m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		if f := m.Descriptor().Fields().Get(i); f.Message() == nil && !f.IsList() {
			if m.Set(f, scalar(g, f)); f.Name() == "seconds" {
				m.Set(f, protoreflect.ValueOfInt64(g.Int64N(1<<32)-1<<31))
			} else if f.Name() == "nanos" {
				m.Set(f, protoreflect.ValueOfInt32(g.Int32N(1_000_000_000)))
			}
		}
	}
}

func word(g *rand.Rand) string { return strings.Repeat(string(rune('a'+g.IntN(26))), g.IntN(5)) }

func scalar(g *rand.Rand, f protoreflect.FieldDescriptor) protoreflect.Value {
	n := int64(g.Uint64()) >> g.IntN(64)
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n&1 == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n & 7))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(g.Float32())
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(g.NormFloat64())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(word(g))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(word(g)))
	}
	return protoreflect.ValueOfInt64(n)
}

// stored returns what a slot shows for a field of a message of dynamicpb; it is not ok if the slot does not take it.
func stored(m protoreflect.Message, slot value.Slot) (text string, ok bool) {
	f := m.Descriptor().Fields().ByName(protoreflect.Name(slot.Name))
	kind := slot.Type.Kind
	of := kind.Element()
	switch {
	case f.IsMap():
		var entries []value.Entry
		ok = true
		m.Get(f).Map().Range(func(key protoreflect.MapKey, v protoreflect.Value) bool {
			e, fits := elementOf(f.MapValue(), v, of)
			ok = ok && fits && utf8.ValidString(key.String())
			entries = append(entries, value.Entry{Key: key.String(), Element: e})
			return true
		})
		return fmt.Sprintf("%q", value.AppendMap(nil, of, entries)), ok
	case kind == value.Vector:
		list := m.Get(f).List()
		numbers := []float32(nil)
		ok = list.Len() == slot.Type.Size || list.Len() == 0 && slot.Type.Optional
		for i := range list.Len() {
			one := list.Get(i).Float()
			ok = ok && value.Finite(one)
			numbers = append(numbers, float32(one))
		}
		if list.Len() == 0 {
			return "absent", ok
		}
		return fmt.Sprint(numbers), ok
	case f.IsList():
		list := m.Get(f).List()
		var all []byte
		ok = true
		for i := range list.Len() {
			e, fits := elementOf(f, list.Get(i), of)
			ok = ok && fits
			all = value.AppendElement(all, of, e)
		}
		return fmt.Sprintf("%q", all), ok
	case f.HasPresence() && !m.Has(f):
		return "absent", slot.Type.Optional
	}
	e, ok := elementOf(f, m.Get(f), kind)
	return shown(kind, e), ok
}

func elementOf(f protoreflect.FieldDescriptor, v protoreflect.Value, slot value.Kind) (e value.Element, ok bool) {
	if m := f.Message(); m != nil {
		fields := v.Message().Descriptor().Fields()
		if m.FullName() != "google.protobuf.Timestamp" {
			return elementOf(fields.ByNumber(1), v.Message().Get(fields.ByNumber(1)), slot)
		}
		seconds, nanos := v.Message().Get(fields.ByNumber(1)).Int(), v.Message().Get(fields.ByNumber(2)).Int()
		return value.Element{Num: uint64(seconds*1_000_000 + nanos/1000)}, nanos >= 0 && nanos < 1_000_000_000 && seconds >= -62_135_596_800 && seconds <= 253_402_300_799
	}
	number := func(n float64, whole int64) (value.Element, bool) {
		if slot == value.Number {
			return value.Element{Num: math.Float64bits(n)}, value.Finite(n)
		}
		return value.Element{Num: uint64(whole)}, true
	}
	switch v := v.Interface().(type) {
	case bool:
		return value.Element{Num: map[bool]uint64{true: 1}[v]}, true
	case string:
		return value.Element{Str: v}, utf8.ValidString(v)
	case []byte:
		return value.Element{Str: string(v)}, true
	case protoreflect.EnumNumber:
		if of := f.Enum().Values().ByNumber(v); of != nil {
			return value.Element{Str: string(of.Name())}, true
		}
		return value.Element{Str: fmt.Sprint(v)}, true
	case int32:
		return number(float64(v), int64(v))
	case int64:
		return number(float64(v), v)
	case uint32:
		return number(float64(v), int64(v))
	case uint64:
		return number(float64(v), int64(v))
	case float32:
		return number(float64(v), 0)
	case float64:
		return number(v, 0)
	}
	return e, false
}

func shown(kind value.Kind, e value.Element) string {
	var names value.Schema
	slot, err := names.Add("f", value.Type{Kind: kind})
	if err != nil {
		panic(err)
	}
	row := &names.NewRows(1)[0]
	row.SetElement(slot, e)
	return slots.Show(row, slot)
}
