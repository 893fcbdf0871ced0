package registry

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	generic "github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/afterbay/afterbay/internal/event/avro"
	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/event/jsonschema"
	"github.com/afterbay/afterbay/internal/event/protobuf"
	"github.com/afterbay/afterbay/internal/test/slots"
)

// An outputEvolution is the next version of the schema that a pipeline writes by. The version before has
//
//	id long, amount double, note optional string (null by default)
//
// and the pipeline emits these. A want is the record as JSON, or a part of what lint says, or of the dead letter.
type outputEvolution struct {
	name  string
	event string // "" is output

	avro  string // fields `name type`, with ; between them
	want  string // with Avro
	modes string // compatibility modes that take the version: b is BACKWARD, f is FORWARD

	proto, wantProto string
	json, wantJSON   string // properties of the schema, or all of it
}

const (
	output      = `{"id":7,"amount":1.5,"note":"n"}`
	outputShown = `{"amount":1.5,"id":7,"note":"n"}`
	outputAvro  = `id "long"; amount "double"; note ["null","string"] null`
	outputProto = `int64 id = 1; double amount = 2; optional string note = 3; `
	outputJSON  = `"id":{"type":"integer"},"amount":{"type":"number"},"note":{"type":["string","null"]}`
)

var outputEvolutions = []outputEvolution{
	{name: "an optional field is added", avro: outputAvro + `; more ["string","null"]`, want: `{"amount":1.5,"id":7,"more":null,"note":"n"}`, modes: "f",
		proto: outputProto + `optional string more = 4;`, wantProto: outputShown, json: outputJSON + `,"more":{"type":"string"}`, wantJSON: output},
	{name: "an optional field with a default is added", avro: outputAvro + `; more ["null","string"] null`, want: `{"amount":1.5,"id":7,"more":null,"note":"n"}`, modes: "bf",
		proto: outputProto + `repeated string more = 4;`, wantProto: outputShown, json: outputJSON + `,"more":{"type":"string","default":""}`, wantJSON: output},
	{name: "a required field is added", avro: outputAvro + `; more "string"`, want: `the schema has a field "more" of type string, which is not emitted and cannot be null`, modes: "f",
		proto: outputProto + `string more = 4;`, wantProto: outputShown,
		json: `{"required":["id","more"],"properties":{` + outputJSON + `}}`, wantJSON: `the schema has a property "more" that is required, and is not emitted`},
	{name: "a required field with a default is added", avro: outputAvro + `; more "string" ""`, want: `the schema has a field "more" of type string, which is not emitted and cannot be null`, modes: "bf",
		proto: outputProto + `string more = 4 [deprecated = true];`, wantProto: outputShown,
		json: `{"required":["more"],"properties":{"more":{"type":"string","default":""}}}`, wantJSON: `the schema has a property "more" that is required`},
	{name: "a map is added", avro: outputAvro + `; more {"type":"map","values":"long"}`, want: `the schema has a field "more" of type map, which is not emitted`, modes: "f",
		proto: outputProto + `map<string, int64> more = 4;`, wantProto: outputShown, json: outputJSON + `,"more":{"type":"object"}`, wantJSON: output},
	{name: "the optional field is removed", avro: `id "long"; amount "double"`, want: `field "note": the schema has no field "note" in record "Event"`, modes: "bf",
		proto: `int64 id = 1; double amount = 2;`, wantProto: `field "note": the schema has no field "note" in message Event`,
		json: `{"additionalProperties":false,"properties":{"id":{},"amount":{}}}`, wantJSON: `field "note": the schema has no property "note", and additionalProperties is false`},
	{name: "the optional field is removed, and others may be there", avro: `id "long"; amount "double"`, want: `field "note": the schema has no field`, modes: "bf",
		proto: `reserved 3; int64 id = 1; double amount = 2;`, wantProto: `field "note": the schema has no field`, json: `"id":{},"amount":{}`, wantJSON: output},
	{name: "a required field is removed", avro: `id "long"; note ["null","string"]`, want: `field "amount": the schema has no field "amount" in record "Event"`, modes: "b",
		proto: `int64 id = 1; optional string note = 3;`, wantProto: `field "amount": the schema has no field "amount" in message Event`,
		json: `{"additionalProperties":false,"properties":{"id":{},"note":{}}}`, wantJSON: `field "amount": the schema has no property "amount"`},
	{name: "a required field has another name", avro: `id "long"; sum "double"; note ["null","string"]`, want: `which is not emitted and cannot be null; field "amount": the schema has no field "amount"`,
		proto: `int64 id = 1; double sum = 2; optional string note = 3;`, wantProto: `field "amount": the schema has no field "amount"`,
		json: `{"required":["sum"],"properties":{` + outputJSON + `}}`, wantJSON: `the schema has a property "sum" that is required`},
	{name: "the fields have another order", avro: `note ["null","string"]; amount "double"; id "long"`, want: outputShown, modes: "bf",
		proto: `optional string note = 3; double amount = 2; int64 id = 1;`, wantProto: outputShown, json: `"note":{},"amount":{},"id":{}`, wantJSON: output},
	{name: "the int is smaller", avro: `id "int"; amount "double"; note ["null","string"]`, want: outputShown, modes: "f",
		proto: `int32 id = 1; double amount = 2; optional string note = 3;`, wantProto: outputShown, json: `"id":{"type":"integer","maximum":9}`, wantJSON: output},
	{name: "the int is smaller than a value", event: `{"id":4294967296,"amount":1.5,"note":"n"}`, avro: `id "int"; amount "double"; note ["null","string"]`, want: `field "id": 4294967296 is out of the range of an int of Avro`, modes: "f",
		proto: `int32 id = 1; double amount = 2; optional string note = 3;`, wantProto: `field "id": 4294967296 is out of the range of int32`, json: `"id":{"type":"integer","maximum":9}`, wantJSON: `{"id":4294967296,"amount":1.5,"note":"n"}`},
	{name: "the int is a number", avro: `id "double"; amount "double"; note ["null","string"]`, want: outputShown, modes: "b",
		proto: `double id = 1; double amount = 2; optional string note = 3;`, wantProto: outputShown, json: `"id":{"type":"number"}`, wantJSON: output},
	{name: "the int is a string", avro: `id "string"; amount "double"; note ["null","string"]`, want: `field "id" is int: the schema wants string`,
		proto: `string id = 1; double amount = 2; optional string note = 3;`, wantProto: `field "id" is int: the schema wants string`, json: `"id":{"type":"string"}`, wantJSON: `field "id" is int: the schema wants string`},
	{name: "the number is smaller", avro: `id "long"; amount "float"; note ["null","string"]`, want: outputShown, modes: "f",
		proto: `int64 id = 1; float amount = 2; optional string note = 3;`, wantProto: outputShown, json: `"amount":{"type":"number","multipleOf":0.5}`, wantJSON: output},
	{name: "the number is an int", avro: `id "long"; amount "long"; note ["null","string"]`, want: `field "amount" is number: the schema wants long`, modes: "f",
		proto: `int64 id = 1; int64 amount = 2; optional string note = 3;`, wantProto: `field "amount" is number: the schema wants int64`, json: `"amount":{"type":"integer"}`, wantJSON: `field "amount" is number: the schema wants integer`},
	{name: "the number is a list", avro: `id "long"; amount {"type":"array","items":"double"}; note ["null","string"]`, want: `field "amount" is number: the schema wants array`,
		proto: `int64 id = 1; repeated double amount = 2; optional string note = 3;`, wantProto: `field "amount" is number: the schema wants repeated double`, json: `"amount":{"type":"array"}`, wantJSON: `field "amount" is number: the schema wants array`},
	{name: "the optional field is required", avro: `id "long"; amount "double"; note "string"`, want: `field "note" may be absent, and the schema has no null for it`, modes: "f",
		proto: `int64 id = 1; double amount = 2; string note = 3;`, wantProto: `field "note" may be absent, and the schema has no presence for it`, json: `"note":{"type":"string"}`, wantJSON: `field "note" may be absent, which is written as null, and the schema wants string`},
	{name: "a required field is optional", avro: `id "long"; amount ["null","double"]; note ["null","string"]`, want: outputShown, modes: "b",
		proto: `int64 id = 1; optional double amount = 2; optional string note = 3;`, wantProto: outputShown, json: `"amount":{"type":["number","null"]}`, wantJSON: output},
	{name: "the string is an enum", avro: `id "long"; amount "double"; note ["null",{"type":"enum","name":"N","symbols":["m","n"]}]`, want: outputShown,
		proto: `enum N { m = 0; n = 1; } int64 id = 1; double amount = 2; optional N note = 3;`, wantProto: `{"amount":1.5,"id":7,"note":1}`, json: `"note":{"enum":["m","n",null]}`, wantJSON: output},
	{name: "the string is an enum without the value", avro: `id "long"; amount "double"; note ["null",{"type":"enum","name":"N","symbols":["m"]}]`, want: `field "note": "n" is not a symbol of N`,
		proto: `enum N { m = 0; } int64 id = 1; double amount = 2; optional N note = 3;`, wantProto: `field "note": "n" is not a name of enum Event.N`, json: `"note":{"enum":["m"]}`, wantJSON: output},
	{name: "the string is one of several types", avro: `id "long"; amount "double"; note ["null","long","string"]`, want: outputShown, modes: "b",
		proto: `int64 id = 1; double amount = 2; oneof either { string note = 3; int64 code = 4; }`, wantProto: outputShown, json: `"note":{"type":["integer","string","null"]}`, wantJSON: output},
	{name: "the string is in a record", avro: `id "long"; amount "double"; note {"type":"record","name":"N","fields":[{"name":"text","type":"string"}]}`, want: `field "note" is optional string: the schema wants N`,
		proto: `message N { string text = 1; } int64 id = 1; double amount = 2; N note = 3;`, wantProto: `field "note" is optional string: the schema wants Event.N`, json: `"note":{"type":"object"}`, wantJSON: `field "note" is optional string: the schema wants object`},
}

// outputSchema returns the schema of a record; a third word of a field is its default.
func outputSchema(fields string) string {
	var list []string
	for f := range strings.SplitSeq(fields, "; ") {
		name, of, _ := strings.Cut(f, " ")
		if of, value, ok := strings.Cut(of, " "); ok {
			list = append(list, fmt.Sprintf(`{"name":%q,"type":%s,"default":%s}`, name, of, value))
			continue
		}
		list = append(list, fmt.Sprintf(`{"name":%q,"type":%s}`, name, of))
	}
	return `{"type":"record","name":"Event","fields":[` + strings.Join(list, ",") + `]}`
}

// written returns the record of an event, or the error of the schema or of the record.
func written(t *testing.T, format encode.Format, event string) ([]byte, error) {
	t.Helper()
	e, row, err := slots.Encoder(t, format, event, "id int", "amount number", "note optional string")
	if err != nil {
		return nil, err
	}
	return e.Append(nil, row)
}

// writtenAvro returns what a generic library reads, as JSON, or the error.
func writtenAvro(t *testing.T, schema, event string) string {
	t.Helper()
	parsed, err := avro.Parse(schema)
	if err != nil {
		t.Fatal(err)
	}
	made, err := written(t, parsed, event)
	if err != nil {
		return err.Error()
	}
	var all any
	if rest, err := generic.MustParse(schema).Decode(made, &all); err != nil || len(rest) > 0 {
		t.Fatalf("%x: %v, %d bytes are left", made, err, len(rest))
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// writtenProto returns the fields that the library of Protobuf reads, as JSON, or the error.
func writtenProto(t *testing.T, schema, event string) string {
	t.Helper()
	file, err := protobuf.Parse("event.proto", func(name string) (io.ReadCloser, error) {
		if name != "event.proto" {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(strings.NewReader(schema)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := file.Named("")
	if err != nil {
		t.Fatal(err)
	}
	made, err := written(t, parsed, event)
	if err != nil {
		return err.Error()
	}
	m := dynamicpb.NewMessage(file.Messages().Get(0))
	if err := proto.Unmarshal(made, m); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		all[string(f.Name())] = v.Interface()
		return true
	})
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOutputEvolutions writes what the version before took by the next version of a schema. What does not fit is
// found by lint, or is a dead letter.
func TestOutputEvolutions(t *testing.T) {
	for _, c := range outputEvolutions {
		event := c.event
		if event == "" {
			event = output
		}
		schema := c.json
		if schema[0] != '{' {
			schema = `{"type":"object","properties":{` + schema + `}}`
		}
		byJSON, err := jsonschema.Parse(schema)
		if err != nil {
			t.Fatal(err)
		}
		made, err := written(t, byJSON, event)
		inJSON := string(made)
		if err != nil {
			inJSON = err.Error()
		}
		for kind, got := range map[string][2]string{
			"Avro":     {writtenAvro(t, outputSchema(c.avro), event), c.want},
			"Protobuf": {writtenProto(t, `syntax = "proto3"; message Event { `+c.proto+` }`, event), c.wantProto},
			"JSON":     {inJSON, c.wantJSON},
		} {
			if got[0] != got[1] && (got[1][0] == '{' || !strings.Contains(got[0], got[1])) {
				t.Errorf("%s, %s: %s, want %s", c.name, kind, got[0], got[1])
			}
		}
	}
}

// compatible answers checks of compatibility by the rules of Avro, in the mode of the subject.
func compatible(server *srfake.Registry, before string, mode sr.CompatibilityLevel) {
	server.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
		if !strings.HasPrefix(request.URL.Path, "/compatibility/") {
			return false
		}
		var of sr.Schema
		_ = json.NewDecoder(request.Body).Decode(&of)
		older, newer := generic.MustParse(before), generic.MustParse(of.Schema)
		var errs []string
		if err := generic.CheckCompatibility(older, newer); err != nil && (mode == sr.CompatBackward || mode == sr.CompatFull) {
			errs = append(errs, "it cannot read what is there: "+err.Error())
		}
		if err := generic.CheckCompatibility(newer, older); err != nil && (mode == sr.CompatForward || mode == sr.CompatFull) {
			errs = append(errs, "its records cannot be read: "+err.Error())
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"is_compatible": errs == nil, "messages": errs})
		return true
	})
}

// TestOutputEvolutionsAreJudgedByTheMode asks a registry for each next version of a schema of Avro, in each mode. What
// it refuses is an error with its reason. What it takes is not registered.
func TestOutputEvolutionsAreJudgedByTheMode(t *testing.T) {
	before := outputSchema(outputAvro)
	for _, c := range outputEvolutions {
		for mode, needs := range map[sr.CompatibilityLevel]string{sr.CompatNone: "", sr.CompatBackward: "b", sr.CompatForward: "f", sr.CompatFull: "bf"} {
			server := srfake.New()
			register(t, server, "out-value", sr.TypeAvro, before)
			compatible(server, before, mode)
			o := open(t, Options{URL: server.URL()}).Output("out", Written{Type: Avro, Text: outputSchema(c.avro)}, true)
			reached, err := o.Check(t.Context())
			takes := needs == "" || c.modes == "bf" || c.modes == needs
			if !reached || takes != (err == nil) || !takes && !strings.Contains(err.Error(), "the schema is not compatible with the newest version of subject out-value: [\"it") {
				t.Errorf("%s, %v: reached %v, %v; want it taken: %v", c.name, mode, reached, err, takes)
			}
			if newest, there := server.GetSchema("out-value", 2); there {
				t.Errorf("%s, %v: it was registered: %v", c.name, mode, newest)
			}
			server.Close()
		}
	}
}
