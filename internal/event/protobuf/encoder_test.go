package protobuf_test

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/afterbay/afterbay/internal/event/protobuf"
	"github.com/afterbay/afterbay/internal/test/slots"
)

// written returns as JSON what the library of Protobuf reads of an event that was encoded, or the error. The bytes are those of
// the library.
func written(t testing.TB, text, event string, fields ...string) string {
	t.Helper()
	message := parse(t, text)
	e, row, err := slots.Encoder(t, protobuf.Of(message), event, fields...)
	if err != nil {
		return err.Error()
	}
	made, err := e.Append([]byte("before"), row)
	if err != nil {
		return err.Error()
	}
	made = made[len("before"):]
	read := dynamicpb.NewMessage(message)
	if err := proto.Unmarshal(made, read); err != nil {
		t.Fatalf("%x: %v", made, err)
	}
	if again, err := (proto.MarshalOptions{Deterministic: true}).Marshal(read); err != nil || !bytes.Equal(again, made) {
		t.Errorf("%s: %x, the library writes %x, %v", event, made, again, err)
	}
	shown, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(shown), " ", "")
}

func TestValuesAreWrittenAsTheirTypes(t *testing.T) {
	const head = `syntax = "proto3"; package test; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; enum Side { NONE = 0; BUY = 1; SELL = -1; } message Event { `
	for _, c := range []struct{ field, of, event, want string }{
		{"bool", "bool a = 1;", `true`, `{"a":true}`},
		{"bool", "bool a = 1;", `false`, `{}`},
		{"bool", "optional bool a = 1;", `false`, `{"a":false}`},
		{"int", "int32 a = 1;", `-2147483648`, `{"a":-2147483648}`},
		{"int", "int32 a = 1;", `2147483648`, `field "a": 2147483648 is out of the range of int32`},
		{"int", "sint32 a = 300;", `-7`, `{"a":-7}`},
		{"int", "uint32 a = 1;", `-1`, `field "a": -1 is out of the range of uint32`},
		{"int", "fixed32 a = 1;", `4294967295`, `{"a":4294967295}`},
		{"int", "sfixed32 a = 1;", `-5`, `{"a":-5}`},
		{"int", "sfixed64 a = 1;", `-5`, `{"a":"-5"}`},
		{"int", "fixed64 a = 1;", `-5`, `field "a": -5 is out of the range of fixed64`},
		{"int", "sint64 a = 1;", `-9223372036854775808`, `{"a":"-9223372036854775808"}`},
		{"int", "uint64 a = 1;", `7`, `{"a":"7"}`},
		{"int", "double a = 1;", `7`, `{"a":7}`},
		{"int", "double a = 1;", `-9007199254740993`, `field "a": -9007199254740993 is not exact as a double: make the field int64`},
		{"int", "Side a = 1;", `1`, `field "a" is int: the schema wants test.Side`},
		{"number", "int64 a = 1;", `7`, `field "a" is number: the schema wants int64`},
		{"number", "double a = 1;", `-0.0`, `{"a":-0}`},
		{"number", "float a = 1;", `0.1`, `{"a":0.1}`},
		{"number", "float a = 1;", `1e39`, `field "a": 1e+39 is out of the range of a float: make the field double`},
		{"string", "string a = 1;", `"é"`, `{"a":"é"}`},
		{"string", "Side a = 1;", `"SELL"`, `{"a":"SELL"}`},
		{"string", "Side a = 1;", `"NONE"`, `{}`},
		{"string", "optional Side a = 1;", `"NONE"`, `{"a":"NONE"}`},
		{"string", "Side a = 1;", `""`, `field "a": "" is not a name of enum test.Side`},
		{"bytes", "bytes a = 1;", `"AAE="`, `{"a":"AAE="}`},
		{"raw", "string a = 1;", `[1]`, `{"a":"[1]"}`},
		{"time", "google.protobuf.Timestamp a = 1;", `"1969-12-31T23:59:59.5Z"`, `{"a":"1969-12-31T23:59:59.500Z"}`},
		{"time", "google.protobuf.Timestamp a = 1;", `"1970-01-01T00:00:00Z"`, `{"a":"1970-01-01T00:00:00Z"}`},
		{"time", "google.protobuf.Timestamp a = 1;", `"0000-12-31T23:59:59Z"`, `field "a": out of the years 1 to 9999`},
		{"time", "int64 a = 1;", `"1970-01-01T00:00:00Z"`, `field "a" is time: the schema wants int64`},
		{"optional int", "google.protobuf.Int64Value a = 1;", `0`, `{"a":"0"}`},
		{"optional int", "google.protobuf.Int64Value a = 1;", `5`, `{"a":"5"}`},
		{"optional int", "google.protobuf.Int64Value a = 1;", `null`, `{}`},
		{"optional string", "google.protobuf.StringValue a = 1;", `""`, `{"a":""}`},
		{"optional int", "optional int64 a = 1;", `null`, `{}`},
		{"optional int", "int64 a = 1;", `null`, "field \"a\" may be absent, and the schema has no presence for it: write `?? ...` for a value, or make it optional in the schema"},
		{"int[]", "repeated sint64 a = 1;", `[-1,0,300]`, `{"a":["-1","0","300"]}`},
		{"int[]", "repeated int32 a = 1 [packed = false];", `[-1,0]`, `{"a":[-1,0]}`},
		{"int[]", "repeated int32 a = 1;", `[1,4294967296]`, `field "a": an element: 4294967296 is out of the range of int32`},
		{"optional int[]", "repeated int32 a = 1;", `null`, `{}`},
		{"bool[]", "repeated bool a = 1;", `[true,false]`, `{"a":[true,false]}`},
		{"string[]", "repeated string a = 1;", `["","x"]`, `{"a":["","x"]}`},
		{"time[]", "repeated google.protobuf.Timestamp a = 1;", `["1970-01-01T00:00:00Z"]`, `{"a":["1970-01-01T00:00:00Z"]}`},
		{"int[]", "repeated google.protobuf.Int64Value a = 1;", `[1]`, `field "a" is int[]: the schema wants repeated google.protobuf.Int64Value`},
		{"number[2]", "repeated float a = 1;", `[0.5,1.5]`, `{"a":[0.5,1.5]}`},
		{"number[2]", "repeated double a = 1;", `[0.5,0]`, `{"a":[0.5,0]}`},
		{"number[2]", "repeated double a = 1 [packed = false];", `[0.5,0]`, `{"a":[0.5,0]}`},
		{"map of int", "map<string, int32> a = 1;", `{"b":0,"a":1}`, `{"a":{"a":1,"b":0}}`},
		{"map of string", "map<string, string> a = 1;", `{"b":"","a":"x"}`, `{"a":{"a":"x","b":""}}`},
		{"map of int", "map<int64, int32> a = 1;", `{"1":0}`, `field "a" is map of int: the schema wants map<int64, int32>`},
		{"int", "int64 b = 1;", `1`, `field "a": the schema has no field "a" in message test.Event`},
	} {
		if got := written(t, head+c.of+" }", `{"a":`+c.event+`}`, "a "+c.field); got != c.want {
			t.Errorf("%s as %s: %s, want %s", c.field, c.of, got, c.want)
		}
	}
}

func TestObjectsAreMessages(t *testing.T) {
	schema := `syntax = "proto3"; package test; message Card { string id = 2; string country = 1; oneof by { int64 user = 3; string group = 4; } } message Event { Card card = 7; double amount = 1; }`
	long := strings.Repeat("x", 200)
	for _, c := range []struct{ want, fields string }{
		{`{"card":{"id":"` + long + `"},"amount":1.5}`, "card.id string;amount number"},
		{`{"card":{}}`, "card.country string"},
		{`{"card":{"user":"1"}}`, "card.user int"},
		{`field "card.group": it and field "card.user" belong to the oneof "by", and a message can have only one of them`, "card.user int;card.group string"},
		{`field "amount.of" is part of an object: the schema wants double`, "amount.of int"},
		{`field "card" is string: the schema wants test.Card`, "card string"},
	} {
		event := `{"amount":1.5,"card":"x","amount.of":1,"card.id":"` + long + `","card.country":"","card.user":1,"card.group":"g"}`
		if got := written(t, schema, event, strings.Split(c.fields, ";")...); got != c.want {
			t.Errorf("%s: %s, want %s", c.fields, got, c.want)
		}
	}
	required := `syntax = "proto2"; package test; message Event { required int64 a = 1; optional int64 b = 2; required int64 c = 3; }`
	want := "field \"c\" may be absent, and the schema has no presence for it: write `?? ...` for a value, or make it optional in the schema; the schema has a field \"a\" that is required, and is not emitted"
	if got := written(t, required, `{"b":1,"c":1}`, "b int", "c optional int"); got != want {
		t.Error(got)
	}
}

func TestEncoderAllocatesNothing(t *testing.T) {
	schema := protobuf.Of(parse(t, `syntax = "proto3"; package test; import "google/protobuf/timestamp.proto"; message Card { string id = 1; }
		message Event { Card card = 1; double amount = 2; repeated int64 list = 3; map<string, int64> map = 4; google.protobuf.Timestamp at = 5; }`))
	e, row, err := slots.Encoder(t, schema, `{"card.id":"é","amount":1.5,"list":[1,2],"map":{"x":1,"y":2},"at":"2026-01-02T03:04:05Z"}`,
		"card.id string", "amount number", "list int[]", "map map of int", "at time")
	if err != nil {
		t.Fatal(err)
	}
	room := make([]byte, 0, 200)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := e.Append(room, row); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
