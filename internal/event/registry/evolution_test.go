package registry

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	generic "github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
)

// An evolution is the next version of a schema, and an event of it. The version before has
//
//	id long, amount double, note optional string
//
// and the pipeline reads these. A want is the slots, or a part of the reason of the dead letter.
type evolution struct {
	name string

	avro  string // fields `name type`, with ; between them
	value map[string]any
	want  string

	proto     string // the body of the message
	event     string // JSON of an event, of Protobuf and of JSON
	wantProto string
	wantJSON  string
}

const (
	evolvedFields = `id "long"; amount "double"; note ["null","string"]`
	evolvedProto  = `int64 id = 1; double amount = 2; optional string note = 3;`
	whole         = `7 1.5 "n"`
	bare          = `7 1.5 absent`
)

type record = map[string]any

// not has the dead letter of a schema that does not fit name both ids.
func not(reason string) string {
	return "byte 1: schema id 2, the version after schema id 1, does not fit: " + reason
}

var evolutions = []evolution{
	{name: "a field is added at the end", avro: evolvedFields + `; more "string"`, value: record{"id": int64(7), "amount": 1.5, "note": "n", "more": "m"}, want: whole,
		proto: evolvedProto + `string more = 4;`, event: `{"id":7,"amount":1.5,"note":"n","more":"m"}`, wantProto: whole, wantJSON: whole},
	{name: "a field is added in front", avro: `more "string"; ` + evolvedFields, value: record{"id": int64(7), "amount": 1.5, "note": nil, "more": "m"}, want: bare,
		proto: `string more = 9; ` + evolvedProto, event: `{"more":"m","id":7,"amount":1.5}`, wantProto: bare, wantJSON: bare},
	{name: "a record is added", avro: `device {"type":"record","name":"D","fields":[{"name":"id","type":"string"}]}; ` + evolvedFields, value: record{"id": int64(7), "amount": 1.5, "note": "n", "device": record{"id": "x"}}, want: whole,
		proto: evolvedProto + `message D { string id = 1; } D device = 4;`, event: `{"device":{"id":"x"},"id":7,"amount":1.5,"note":"n"}`, wantProto: whole, wantJSON: whole},
	{name: "a list is added", avro: `tags {"type":"array","items":"string"}; ` + evolvedFields, value: record{"id": int64(7), "amount": 1.5, "note": "n", "tags": []string{"a"}}, want: whole,
		proto: evolvedProto + `repeated string tags = 4;`, event: `{"tags":["a"],"id":7,"amount":1.5,"note":"n"}`, wantProto: whole, wantJSON: whole},
	{name: "a map is added", avro: `tags {"type":"map","values":"string"}; ` + evolvedFields, value: record{"id": int64(7), "amount": 1.5, "note": "n", "tags": map[string]string{"a": "b"}}, want: whole,
		proto: evolvedProto + `map<string,string> tags = 4;`, event: `{"tags":{"a":"b"},"id":7,"amount":1.5,"note":"n"}`, wantProto: whole, wantJSON: whole},
	{name: "an enum is added", avro: `kind {"type":"enum","name":"K","symbols":["A","B"]}; ` + evolvedFields, value: record{"id": int64(7), "amount": 1.5, "note": "n", "kind": "B"}, want: whole,
		proto: evolvedProto + `enum K { A = 0; B = 1; } K kind = 4;`, event: `{"kind":"B","id":7,"amount":1.5,"note":"n"}`, wantProto: whole, wantJSON: whole},
	{name: "the optional field is removed", avro: `id "long"; amount "double"`, value: record{"id": int64(7), "amount": 1.5}, want: bare,
		proto: `int64 id = 1; double amount = 2;`, event: `{"id":7,"amount":1.5}`, wantProto: bare, wantJSON: bare},
	{name: "a required field is removed", avro: `id "long"; note ["null","string"]`, value: record{"id": int64(7), "note": "n"}, want: not(`field "amount" is required: the schema has no such field`),
		proto: `int64 id = 1; optional string note = 3;`, event: `{"id":7,"note":"n"}`, wantProto: not(`field "amount" is required: the schema has no such field`), wantJSON: `field "amount" at byte 23: absent but required: want number`},
	{name: "the optional field has another name", avro: `id "long"; amount "double"; text ["null","string"]`, value: record{"id": int64(7), "amount": 1.5, "text": "n"}, want: bare,
		proto: `int64 id = 1; double amount = 2; optional string text = 3;`, event: `{"id":7,"amount":1.5,"text":"n"}`, wantProto: bare, wantJSON: bare},
	{name: "a required field has another name", avro: `id "long"; sum "double"; note ["null","string"]`, value: record{"id": int64(7), "sum": 1.5, "note": "n"}, want: not(`field "amount" is required`),
		proto: `int64 id = 1; double sum = 2; optional string note = 3;`, event: `{"id":7,"sum":1.5,"note":"n"}`, wantProto: not(`field "amount" is required`), wantJSON: `absent but required`},
	{name: "the fields have another order", avro: `note ["null","string"]; amount "double"; id "long"`, value: record{"id": int64(7), "amount": 1.5, "note": "n"}, want: whole,
		proto: `optional string note = 3; double amount = 2; int64 id = 1;`, event: `{"note":"n","amount":1.5,"id":7}`, wantProto: whole, wantJSON: whole},
	{name: "the int is smaller", avro: `id "int"; amount "double"; note ["null","string"]`, value: record{"id": int32(7), "amount": 1.5, "note": "n"}, want: whole,
		proto: `int32 id = 1; double amount = 2; optional string note = 3;`, event: `{"id":7,"amount":1.5,"note":"n"}`, wantProto: whole, wantJSON: whole},
	{name: "the number is smaller", avro: `id "long"; amount "float"; note ["null","string"]`, value: record{"id": int64(7), "amount": float32(1.5), "note": "n"}, want: whole,
		proto: `int64 id = 1; float amount = 2; optional string note = 3;`, event: `{"id":7,"amount":1.50,"note":"n"}`, wantProto: whole, wantJSON: whole},
	{name: "the number is an int", avro: `id "long"; amount "long"; note ["null","string"]`, value: record{"id": int64(7), "amount": int64(2), "note": "n"}, want: `7 2 "n"`,
		proto: `int64 id = 1; int64 amount = 2; optional string note = 3;`, event: `{"id":7,"amount":2,"note":"n"}`, wantProto: `7 2 "n"`, wantJSON: `7 2 "n"`},
	{name: "the number is a string", avro: `id "long"; amount "string"; note ["null","string"]`, value: record{"id": int64(7), "amount": "1.5", "note": "n"}, want: not(`field "amount" is of type string in the schema: want number`),
		proto: `int64 id = 1; string amount = 2; optional string note = 3;`, event: `{"id":7,"amount":"1.5","note":"n"}`, wantProto: not(`field "amount" is of type string in the schema: want number`), wantJSON: `field "amount" at byte 22: `},
	{name: "the int is a string", avro: `id "string"; amount "double"; note ["null","string"]`, value: record{"id": "7", "amount": 1.5, "note": "n"}, want: not(`field "id" is of type string in the schema: want int`),
		proto: `string id = 1; double amount = 2; optional string note = 3;`, event: `{"id":"7","amount":1.5,"note":"n"}`, wantProto: not(`field "id" is of type string in the schema: want int`), wantJSON: `field "id" at byte 11: `},
	{name: "the number is a list", avro: `id "long"; amount {"type":"array","items":"double"}; note ["null","string"]`, value: record{"id": int64(7), "amount": []float64{1.5}, "note": "n"}, want: not(`field "amount" is of type array`),
		proto: `int64 id = 1; repeated double amount = 2; optional string note = 3;`, event: `{"id":7,"amount":[1.5],"note":"n"}`, wantProto: not(`field "amount" is of type repeated double`), wantJSON: `field "amount" at byte 22: `},
	{name: "a required field is optional, and there", avro: `id "long"; amount ["null","double"]; note ["null","string"]`, value: record{"id": int64(7), "amount": 1.5, "note": "n"}, want: whole,
		proto: `int64 id = 1; optional double amount = 2; optional string note = 3;`, event: `{"id":7,"amount":1.5,"note":"n"}`, wantProto: whole, wantJSON: whole},
	{name: "a required field is optional, and absent", avro: `id "long"; amount ["null","double"]; note ["null","string"]`, value: record{"id": int64(7), "amount": nil, "note": "n"}, want: `field "amount" at byte `,
		proto: `int64 id = 1; optional double amount = 2; optional string note = 3;`, event: `{"id":7,"note":"n"}`, wantProto: `field "amount" at byte `, wantJSON: `field "amount" at byte 23: absent but required`},
	{name: "the optional field is required", avro: `id "long"; amount "double"; note "string"`, value: record{"id": int64(7), "amount": 1.5, "note": "n"}, want: whole,
		proto: `int64 id = 1; double amount = 2; string note = 3;`, event: `{"id":7,"amount":1.5,"note":"n"}`, wantProto: whole, wantJSON: whole},
	{name: "the string is an enum", avro: `id "long"; amount "double"; note {"type":"enum","name":"N","symbols":["m","n"]}`, value: record{"id": int64(7), "amount": 1.5, "note": "n"}, want: whole,
		proto: `enum N { m = 0; n = 1; } int64 id = 1; double amount = 2; optional N note = 3;`, event: `{"id":7,"amount":1.5,"note":"n"}`, wantProto: whole, wantJSON: whole},
	{name: "the string is one of two types, and is it", avro: `id "long"; amount "double"; note ["null","long","string"]`, value: record{"id": int64(7), "amount": 1.5, "note": "n"}, want: whole,
		proto: `int64 id = 1; double amount = 2; oneof either { string note = 3; int64 code = 4; }`, event: `{"id":7,"amount":1.5,"note":"n"}`, wantProto: whole, wantJSON: whole},
	{name: "the string is one of two types, and is the other", avro: `id "long"; amount "double"; note ["null","long","string"]`, value: record{"id": int64(7), "amount": 1.5, "note": int64(3)}, want: `field "note" at byte `,
		proto: `int64 id = 1; double amount = 2; oneof either { string note = 3; int64 code = 4; }`, event: `{"id":7,"amount":1.5,"code":"3"}`, wantProto: bare, wantJSON: bare},
}

// avroSchema returns the schema of a record.
func avroSchema(fields string) string {
	var list []string
	for f := range strings.SplitSeq(fields, "; ") {
		name, of, _ := strings.Cut(f, " ")
		list = append(list, fmt.Sprintf(`{"name":%q,"type":%s}`, name, of))
	}
	return `{"type":"record","name":"Event","fields":[` + strings.Join(list, ",") + `]}`
}

// protoEvent returns the bytes of an event that is written as JSON.
func protoEvent(t *testing.T, schema, event string) []byte {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{"event.proto": schema})}}
	files, err := compiler.Compile(t.Context(), "event.proto")
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(files[0].Messages().ByName("Event"))
	if err := protojson.Unmarshal([]byte(event), m); err != nil {
		t.Fatal(err)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestEvolutions reads events of the next version of a schema as those of the one before.
func TestEvolutions(t *testing.T) {
	for _, c := range evolutions {
		before, after := avroSchema(evolvedFields), avroSchema(c.avro)
		b, err := generic.MustParse(after).Encode(c.value)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		proto := func(body string) string { return `syntax = "proto3"; message Event { ` + body + ` }` }
		for _, of := range []struct {
			kind          sr.SchemaType
			before, after string
			event         []byte
			want          string
		}{
			{sr.TypeAvro, before, after, prefixed(2, b), c.want},
			{sr.TypeProtobuf, proto(evolvedProto), proto(c.proto), prefixed(2, protoEvent(t, proto(c.proto), c.event), 0), c.wantProto},
			{sr.TypeJSON, `{"title":"before"}`, `{"title":"after"}`, prefixed(2, []byte(c.event)), c.wantJSON},
		} {
			server := srfake.New()
			register(t, server, "events-value", of.kind, of.before)
			server.SeedSchema("events-value", 2, 2, sr.Schema{Schema: of.after, Type: of.kind})
			got := read(t, open(t, Options{URL: server.URL()}), "id int", "amount number", "note optional string").show(t, of.event)
			if got != of.want && (of.want == whole || of.want == bare || !strings.HasPrefix(got, of.want) && !strings.Contains(got, of.want)) {
				t.Errorf("%s, %v: %s, want %s", c.name, of.kind, got, of.want)
			}
			server.Close()
		}
	}
}
