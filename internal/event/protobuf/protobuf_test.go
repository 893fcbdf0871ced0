package protobuf_test

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/protobuf"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/test/slots"
)

// opener opens files of texts.
func opener(files map[string]string) func(string) (io.ReadCloser, error) {
	return func(name string) (io.ReadCloser, error) {
		text, ok := files[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}
}

// parse returns the message Event of a file, by dynamicpb's own types.
func parse(t testing.TB, text string) protoreflect.MessageDescriptor {
	t.Helper()
	var found protoreflect.MessageDescriptor
	file, err := protobuf.Parse("event.proto", opener(map[string]string{"event.proto": text}))
	if err != nil {
		t.Fatal(err)
	}
	schema, err := file.Named("test.Event")
	if err != nil {
		t.Fatal(err)
	}
	found = protobuf.Message(schema)
	return found
}

// decoder returns a decoder of fields `name type`.
func decoder(t testing.TB, schema *protobuf.Schema, fields ...string) (decode.Decoder, *value.Schema) {
	t.Helper()
	d, names, err := tryDecoder(t, schema, fields...)
	if err != nil {
		t.Fatal(err)
	}
	return d, names
}

func tryDecoder(t testing.TB, schema *protobuf.Schema, fields ...string) (decode.Decoder, *value.Schema, error) {
	t.Helper()
	list, names := slots.Of(t, fields...)
	d, err := schema.Decoder(list)
	return d, names, err
}

func TestScan(t *testing.T) {
	schema := protobuf.Of(parse(t, everything))
	for _, c := range []struct{ record, fields, shown string }{
		{"", "b bool,i64 int,s string,c string,li int[],at optional time,oi optional int", `false 0 "" "RED" "" absent absent`},
		{"", "oi int", `field "oi" at byte 0: absent but required: want int`},
		{"180718c001", "i64 int", "192"}, // the last counts
		{"28ffffffffffffffffff01", "u64 int", `field "u64" at byte 0: out of the range of int`},
		{"28ffffffffffffffffff01", "u64 number", "1.8446744073709552e+19"},
		{"72 02 61ff", "s string", `field "s" at byte 0: invalid UTF-8`},
		{"72 7f 61", "s string", `field "s" at byte 1: the record ends too early`},
		{"69 000000000000f07f", "d number", `field "d" at byte 0: out of the range of number`},
		{"8001 09", "c string", `"9"`}, {"8001 07", "c string", `"BLUE"`}, {"8001 07", "c int", "7"},
		{"8a01 05 08 01 10 e807", "at time", "1000001"},
		{"8a01 07 08 80ffffffff7f", "at time", `field "at" at byte 0: a Timestamp of 4398046510976 seconds`},
		{"8a01 00 8a01 00", "at time", `field "at" at byte 3: occurs in the record twice`},
		{"9201 00", "w string", `""`}, {"9201 03 0a0161", "w string", `"a"`},
		{"fa01 01 61 8002 05", "x optional string,z optional int", "absent 5"},
		{"8002 05 fa01 01 61", "x optional string,z optional int", `"a" absent`},
		{"fa01 01 61 8a02 00", "x optional string", "absent"},
		{"c202 02 0105 c002 07", "li int[]", fmt.Sprintf("%q", "\x01\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00")},
		{"e202 04 0000c03f", "v number[2]", "1 numbers: want number[2]"},
		{"9203 05 0a0161 1001 9203 05 0a0161 1002", "m map of int", fmt.Sprintf("%q", "\x01a\x02\x00\x00\x00\x00\x00\x00\x00")},
		{"a201 03 0a0161", "b bool", "false"}, // what is not wanted
		{"0d 01000000", "b bool", "false"},    // of another wire type than the schema has
		{"00", "b bool", "byte 0: an invalid number of a field"},
	} {
		d, names, err := tryDecoder(t, schema, strings.Split(c.fields, ",")...)
		if err != nil {
			t.Fatal(err)
		}
		src, err := hex.DecodeString(strings.ReplaceAll(c.record, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		row, got := &names.NewRows(1)[0], ""
		if err := d.Scan(src, row); err != nil {
			got = err.Error()
		} else {
			for _, slot := range names.Slots {
				got += " " + slots.Show(row, slot)
			}
		}
		if !strings.Contains(got, c.shown) {
			t.Errorf("%s of %s: got %s, want %s", c.fields, c.record, got, c.shown)
		}
	}
}

func TestTypesFit(t *testing.T) {
	schema := protobuf.Of(parse(t, everything))
	for _, c := range []struct{ field, want string }{
		{"s int", `field "s" is of type string in the schema: want int`}, {"inner string", `field "inner" is of type test.Inner in the schema`},
		{"li int", `field "li" is of type repeated int64`}, {"i64 int[]", `field "i64" is of type int64 in the schema: want int[]`},
		{"m map of string", `field "m" is of type map<string, int64>`}, {"at int", "google.protobuf.Timestamp"}, {"no int", `field "no" is required: the schema has no such field`},
		{"no optional int", ""}, {"ls number[3]", "repeated string"},
	} {
		_, _, err := tryDecoder(t, schema, c.field)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", c.field, err, c.want)
		}
	}
}

func TestPathsIntoMessagesAreRefused(t *testing.T) {
	schema := protobuf.Of(parse(t, everything))
	var names value.Schema
	slot, _ := names.Add("f", value.Type{Kind: value.String, Optional: true})
	for text, want := range map[string]string{"inner.a": "does not name a field of the message itself", "s": "", "ls[0]": "does not name a field"} {
		path, err := decode.ParsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := schema.Decoder([]decode.Field{{Name: "f", Path: path, Slot: slot}}); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestSchemasComeFromFiles(t *testing.T) {
	files := map[string]string{
		"a.proto":      `syntax = "proto3"; package shop; import "money.proto"; message First { int32 n = 1; } message Order { Money price = 1; int32 id = 2; message Line { int32 n = 1; } }`,
		"money.proto":  `syntax = "proto3"; package shop; message Money { int64 cents = 1; }`,
		"broken.proto": `syntax = "proto3"; message {`, "empty.proto": `syntax = "proto3";`, "large.proto": strings.Repeat(" ", protobuf.SchemaMax+1),
		"lost.proto": `syntax = "proto3"; import "nowhere.proto";`,
	}
	for _, c := range []struct{ file, message, want string }{
		{"a.proto", "", ""}, {"a.proto", "shop.Order", ""}, {"a.proto", "shop.Order.Line", ""}, {"a.proto", "shop.None", `no message "shop.None"`},
		{"broken.proto", "", "syntax error"}, {"empty.proto", "", "has no message"}, {"large.proto", "", "more than 1048576 bytes"}, {"lost.proto", "", "nowhere.proto"}, {"none.proto", "", "not exist"},
	} {
		var schema *protobuf.Schema
		file, err := protobuf.Parse(c.file, opener(files))
		if err == nil {
			schema, err = file.Named(c.message)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s: %v, want %s", c.file, c.message, err, c.want)
		}
		if err == nil && c.message != "" && string(protobuf.Message(schema).FullName()) != c.message {
			t.Errorf("%s: %s", c.message, protobuf.Message(schema).FullName())
		}
	}
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(parse(t, `syntax = "proto3"; package test; message Event { int32 n = 1; }`).ParentFile())}})
	if err != nil {
		t.Fatal(err)
	}
	for message, want := range map[string]string{"": "", "test.Event": "", "test.None": "no message"} {
		if _, err := protobuf.ParseSet(set, message); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", message, err)
		}
	}
	if _, err := protobuf.ParseSet(set[:5], ""); err == nil {
		t.Error(errors.New("a broken set is taken"))
	}
}

func TestMessagesHaveAnIndex(t *testing.T) {
	file, err := protobuf.Parse("a.proto", opener(map[string]string{"a.proto": `syntax = "proto3"; message A {} message B { message C {} message D {} }`}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		index []int
		want  string
	}{{[]int{0}, "A"}, {[]int{1}, "B"}, {[]int{1, 1}, "B.D"}, {[]int{2}, ""}, {[]int{0, 0}, ""}, {[]int{-1}, ""}, {nil, ""}} {
		schema, err := file.At(c.index...)
		if (err != nil) != (c.want == "") || err == nil && string(protobuf.Message(schema).FullName()) != c.want {
			t.Errorf("%v: %v, want %s", c.index, err, c.want)
		}
	}
}

// TestFilesMayBeDescriptors reads the base64 of a descriptor without names of JSON, whose import is another one.
func TestFilesMayBeDescriptors(t *testing.T) {
	files := map[string]string{
		"a.proto": `syntax = "proto3"; import "b.proto"; message A { message B { int32 first = 1; Other other = 2; } B one = 1; int32 two = 2; }`, "b.proto": `syntax = "proto3"; message Other { int32 a = 1; int32 b = 2; }`,
	}
	encoded := map[string]string{}
	for name := range files {
		file, err := protobuf.Parse(name, opener(files))
		if err != nil {
			t.Fatal(err)
		}
		d := protodesc.ToFileDescriptorProto(file)
		d.Name = proto.String("generated.proto")
		for _, m := range append(d.MessageType, d.MessageType[0].NestedType...) {
			for _, f := range m.Field {
				f.JsonName = nil
			}
		}
		b, err := proto.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		encoded[name] = base64.StdEncoding.EncodeToString(b)
	}
	file, err := protobuf.Parse("a.proto", opener(encoded))
	if err != nil {
		t.Fatal(err)
	}
	if schema, err := file.At(0, 0); err != nil || protobuf.Message(schema).FullName() != "A.B" {
		t.Error(schema, err)
	}
	encoded["b.proto"] = base64.StdEncoding.EncodeToString([]byte{0xff, 0xff})
	if _, err := protobuf.Parse("a.proto", opener(encoded)); err == nil {
		t.Error("a broken descriptor is taken")
	}
}

// wide returns a message type of 50 fields, a message, and 10 of its fields.
func wide(t testing.TB) (*protobuf.Schema, []byte, []string) {
	t.Helper()
	var text strings.Builder
	text.WriteString(`syntax = "proto3"; package test; message Event {`)
	kinds, types := []string{"int64", "string", "double", "int32", "bool"}, []string{"int", "string", "number", "int", "bool"}
	var fields []string
	for i := range 50 {
		name, typ, optional := fmt.Sprint("field", i), types[i%5], ""
		if i%3 == 0 {
			typ, optional = "optional "+typ, "optional "
		}
		if fmt.Fprintf(&text, "%s%s %s = %d;", optional, kinds[i%5], name, i+1); i%5 == i/10 {
			fields = append(fields, name+" "+typ)
		}
	}
	message := parse(t, text.String()+"}")
	m := dynamicpb.NewMessage(message)
	values := []any{int64(1_700_000_000_000), "a text of a field", 19.95, int32(77), true}
	for i := range 50 {
		m.Set(message.Fields().Get(i), protoreflect.ValueOf(values[i%5]))
	}
	src, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return protobuf.Of(message), src, fields
}

func TestScanAllocatesNothing(t *testing.T) {
	schema, src, fields := wide(t)
	d, names := decoder(t, schema, fields...)
	row := &names.NewRows(1)[0]
	if n := testing.AllocsPerRun(100, func() {
		if err := d.Scan(src, row); err != nil {
			t.Fatal(err)
		}
	}); n != 0 || len(fields) != 10 {
		t.Errorf("%v allocations for %d fields", n, len(fields))
	}
}

// BenchmarkScan reads 10 of 50 fields.
func BenchmarkScan(b *testing.B) {
	schema, src, fields := wide(b)
	d, names := decoder(b, schema, fields...)
	row := &names.NewRows(1)[0]
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Scan(src, row); err != nil {
			b.Fatal(err)
		}
	}
}
