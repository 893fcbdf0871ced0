package protobuf_test

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/protobuf"
	"github.com/afterbay/afterbay/internal/test/slots"
)

// TestJSONHasTheValuesOfEvents reads random messages by their decoder, and as JSON: the slots are the same.
func TestJSONHasTheValuesOfEvents(t *testing.T) {
	message := parse(t, everything)
	schema := protobuf.Of(message)
	fields := strings.Split(strings.ReplaceAll(strings.Join(wanted, ","), "v optional number[2]", "v number[]"), ",")
	d, names := decoder(t, schema, fields...)
	list, ofText := slots.Of(t, fields...)
	read, compared := decode.New(list), 0
	for seed := range uint64(3000) {
		src := encoded(rand.New(rand.NewPCG(seed, 5)), message)
		row, again := &names.NewRows(1)[0], &ofText.NewRows(1)[0]
		if !unmarshal(src, dynamicpb.NewMessage(message)) || d.Scan(src, row) != nil {
			continue
		}
		compared++
		text, err := schema.AppendJSON(nil, src)
		if err == nil {
			err = read.Scan(text, again)
		}
		if err != nil {
			t.Fatalf("seed %d: %x is %s: %v", seed, src, text, err)
		}
		for i, slot := range names.Slots {
			if got, want := slots.Show(again, ofText.Slots[i]), slots.Show(row, slot); got != want {
				t.Fatalf("seed %d: %x is %s: %s is %s, want %s", seed, src, text, slot.Name, got, want)
			}
		}
	}
	if compared < 300 {
		t.Errorf("%d messages were compared", compared)
	}
}

func TestMessagesAsJSON(t *testing.T) {
	const head = `syntax = "proto3"; package test; import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/struct.proto"; import "google/protobuf/wrappers.proto"; import "google/protobuf/any.proto"; message In { int64 n = 1; Event up = 2; } enum Side { NONE = 0; BUY = 1; } message Event { `
	for _, c := range []struct{ fields, record, want string }{
		{"int64 n = 1; uint64 u = 2; string s = 3; optional bool b = 4; In in = 5;", "", `{"n":0,"u":0,"s":""}`},
		{"int64 n = 1; uint64 u = 2; In in = 5;", "08ffffffffffffffffff01 10ffffffffffffffffff01 2a020805", `{"n":-1,"u":18446744073709551615,"in":{"n":5}}`},
		{"map<int32, bool> m = 1; map<string, In> of = 2; repeated In all = 3;", "0a0408091001 0a0408101000 12070a016212020805 1a00", `{"m":{"16":false,"9":true},"of":{"b":{"n":5}},"all":[{"n":0}]}`},
		{"Side side = 1; repeated Side sides = 2; bytes b = 3;", "0801 120300 0109 1a01ff", `{"side":"BUY","sides":["NONE","BUY","9"],"b":"/w=="}`},
		{"google.protobuf.Timestamp at = 1; google.protobuf.StringValue w = 2; google.protobuf.Duration for = 3;", "0a0408011005 1200 1a020803", `{"at":"1970-01-01T00:00:01.000000005Z","w":"","for":"3s"}`},
		{"google.protobuf.Struct s = 1;", "0a0a 0a08 0a0161 1203 1a0178", `{"s":{"a":"x"}}`},
		{"google.protobuf.Any any = 1;", "0a03 0a0178", `{"any":{"type_url":"x","value":""}}`},
		{"double d = 1; float f = 2;", "09000000000000f07f 150000c03f", `{"d":null,"f":1.5}`},
		{"google.protobuf.Timestamp at = 1;", "0a0708 80ffffffff7f", "byte 0: a Timestamp of"},
		{"google.protobuf.Duration for = 1;", "0a0708 80ffffffff7f", "byte 0: a google.protobuf.Duration is not valid"},
		{"string s = 1;", "0a01ff", "byte 0: no message test.Event of Protobuf"},
		{"int64 n = 1;", "08", "byte 0: no message test.Event of Protobuf"},
		{"In in = 1;", nested(100), "byte 0: no message test.Event of Protobuf"},
		{"map<string, int64> m = 1;", "0a06 0a0161 0a0162", `{"m":{"b":0}}`},
		{"map<string, int64> m = 1;", "0a05 0a0161 0805", ``},
	} {
		src, err := hex.DecodeString(strings.ReplaceAll(c.record, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		text, err := protobuf.Of(parse(t, head+c.fields+" }")).AppendJSON([]byte("> "), src)
		got := strings.TrimPrefix(string(text), "> ")
		if err != nil {
			got = err.Error()
		}
		if c.want == "" && err == nil || !strings.HasPrefix(got, c.want) || err == nil && got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.fields, c.record, got, c.want)
		}
	}
}

// nested returns a message that stands in itself so many times.
func nested(depth int) string {
	var made []byte
	for range depth {
		for _, tag := range []byte{0x12, 0x0a} { // In.up, Event.in
			size := len(made)
			head := []byte{tag, byte(size)}
			if size > 127 {
				head = []byte{tag, byte(size&127 | 128), byte(size >> 7)}
			}
			made = append(head, made...)
		}
	}
	return hex.EncodeToString(made)
}

// TestJSONOfAMessageIsBounded has many messages of two bytes, each with a default of a long name.
func TestJSONOfAMessageIsBounded(t *testing.T) {
	schema := protobuf.Of(parse(t, `syntax = "proto3"; package test; message In { int64 `+strings.Repeat("n", 1000)+` = 1; } message Event { repeated In all = 1; }`))
	if text, err := schema.AppendJSON(nil, []byte(strings.Repeat("\x0a\x00", 5000))); err == nil || !strings.Contains(err.Error(), "its JSON has more than 4194304 bytes") {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
