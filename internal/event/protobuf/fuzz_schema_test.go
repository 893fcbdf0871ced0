package protobuf_test

import (
	"encoding/base64"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"

	"github.com/afterbay/afterbay/internal/event/protobuf"
	"github.com/afterbay/afterbay/internal/test/slots"
)

// FuzzDescriptors reads schemas that a stranger registers as a descriptor.
func FuzzDescriptors(f *testing.F) {
	for _, text := range []string{
		`syntax = "proto3"; message A { message B { int32 first = 1; } B one = 1; repeated int32 n = 2; map<string, B> m = 3; oneof x { string s = 4; } enum E { Z = 0; } E e = 5; }`,
		`syntax = "proto2"; message A { extensions 100 to 200; optional group G = 1 { required int32 n = 1; } } extend A { optional int32 x = 100; }`,
		`edition = "2023"; import "google/protobuf/timestamp.proto"; message A { google.protobuf.Timestamp at = 1; } service S { rpc M(A) returns (A); }`,
	} {
		file, err := protobuf.Parse("a.proto", opener(map[string]string{"a.proto": text}))
		if err != nil {
			f.Fatal(err)
		}
		b, err := proto.Marshal(protodesc.ToFileDescriptorProto(file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	fields, _ := slots.Of(f, "n optional int", "s optional string", "e optional string")
	f.Fuzz(func(t *testing.T, descriptor []byte) {
		file, err := protobuf.Parse("a.proto", opener(map[string]string{"a.proto": base64.StdEncoding.EncodeToString(descriptor)}))
		if err != nil {
			return
		}
		for i := range file.Messages().Len() {
			schema, err := file.At(i)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = schema.Decoder(fields)
		}
	})
}
