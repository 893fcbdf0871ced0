package protobuf_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/protobuf"
	"github.com/afterbay/afterbay/internal/event/value"
)

// TestDeclaredSaysWhatFieldsCanRead compares what is declared with what decoders take.
func TestDeclaredSaysWhatFieldsCanRead(t *testing.T) {
	file, err := protobuf.Parse("m", func(name string) (io.ReadCloser, error) {
		if name != "m" {
			return nil, fmt.Errorf("no file %s", name)
		}
		return io.NopCloser(strings.NewReader(`syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
			enum E { A = 0; B = 1; } message I { string s = 1; }
			message M { string s = 1; optional string os = 2; sint64 l = 3; double d = 4; bool b = 5; bytes x = 6; E e = 7; google.protobuf.Timestamp t = 8; google.protobuf.Int64Value w = 9;
			repeated string rs = 10; repeated int32 ri = 11; map<string, double> m = 12; I i = 13; repeated I li = 14; oneof o { string p = 15; } map<int32, string> mi = 16; }`)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	schema, err := file.Named("M")
	if err != nil {
		t.Fatal(err)
	}
	list, open := schema.Declared("")
	var got []string
	for _, d := range list {
		first := value.Kind(0)
		for i, kind := range d.Kinds {
			if i == 0 {
				first = kind
			}
			if _, err := schema.Decoder([]decode.Field{{Name: d.Path[0].Name, Slot: value.Slot{Type: value.Type{Kind: kind, Optional: d.Optional}}}}); err != nil {
				t.Errorf("%s as %v: %v", decode.PathText(d.Path), kind, err)
			}
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s:%s %s", decode.PathText(d.Path), value.Type{Kind: first, Optional: d.Optional}, strings.Join(d.Symbols, " "))))
	}
	const want = "s:string|os:optional string|l:int|d:number|b:bool|x:bytes|e:string A B|t:optional time|w:optional int|rs:string[]|ri:int[]|m:map of number|i:optional|li:|p:optional string|mi:"
	if text := strings.Join(got, "|"); text != want || open {
		t.Errorf("open %v\n%s, want\n%s", open, text, want)
	}
}
