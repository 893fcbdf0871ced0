package jsonschema_test

import (
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/jsonschema"
	"github.com/afterbay/afterbay/internal/test/slots"
)

// written returns the record of an event, or the error.
func written(t testing.TB, schema, event string, fields ...string) string {
	t.Helper()
	parsed, err := jsonschema.Parse(schema)
	if err != nil {
		return err.Error()
	}
	e, row, err := slots.Encoder(t, parsed, event, fields...)
	if err != nil {
		return err.Error()
	}
	made, err := e.Append([]byte("before"), row)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(string(made), "before")
}

func TestValuesAreComparedWithTheSchema(t *testing.T) {
	for _, c := range []struct{ field, of, event, want string }{
		{"int", `{"type":"integer"}`, `7`, `{"a":7}`},
		{"int", `{"type":"number"}`, `7`, `{"a":7}`},
		{"int", `{"type":"string"}`, `7`, `field "a" is int: the schema wants string`},
		{"number", `{"type":"number"}`, `0.5`, `{"a":0.5}`},
		{"number", `{"type":"integer"}`, `0.5`, `field "a" is number: the schema wants integer`},
		{"bool", `{"type":"boolean"}`, `true`, `{"a":true}`},
		{"bool", `{"type":["null","integer"]}`, `true`, `field "a" is bool: the schema wants null or integer`},
		{"string", `{"type":"string"}`, `"\u00e9"`, `{"a":"é"}`},
		{"time", `{"type":"string"}`, `"2026-01-02T03:04:05Z"`, `{"a":"2026-01-02T03:04:05.000000Z"}`},
		{"bytes", `{"type":"string"}`, `"AAE="`, `{"a":"AAE="}`},
		{"bytes", `{"type":"array"}`, `"AAE="`, `field "a" is bytes: the schema wants array`},
		{"raw", `{"type":"object"}`, `[1]`, `{"a":[1]}`},
		{"number[2]", `{"type":"array","items":{"type":"number"}}`, `[0.5,1.5]`, `{"a":[0.5,1.5]}`},
		{"number[2]", `{"type":"array","items":{"type":"integer"}}`, `[0.5,1.5]`, `field "a" is number[2]: the schema wants array`},
		{"int[]", `{"type":"array","items":{"type":"integer"}}`, `[1,2]`, `{"a":[1,2]}`},
		{"int[]", `{"type":"array","items":[{"type":"string"}]}`, `[1,2]`, `{"a":[1,2]}`},
		{"int[]", `{"type":"array","items":{"type":"string"}}`, `[1,2]`, `field "a" is int[]: the schema wants array`},
		{"map of int", `{"type":"object"}`, `{"x":1}`, `{"a":{"x":1}}`},
		{"map of int", `{"type":"array"}`, `{"x":1}`, `field "a" is map of int: the schema wants array`},
		{"optional int", `{"type":["integer","null"]}`, `null`, `{"a":null}`},
		{"optional int", `{}`, `null`, `{"a":null}`},
		{"optional int", `{"type":"integer"}`, `7`, "field \"a\" may be absent, which is written as null, and the schema wants integer: write `?? ...` for a value, or add null to its types"},
		{"int", `{"oneOf":[{"type":"string"}]}`, `7`, `{"a":7}`},
		{"int", `{"$ref":"#/definitions/b","type":"string"}`, `7`, `{"a":7}`},
		{"int", `true`, `7`, `{"a":7}`},
		{"int", `false`, `7`, `field "a" is int: the schema wants no value`},
	} {
		if got := written(t, `{"type":"object","properties":{"a":`+c.of+`}}`, `{"a":`+c.event+`}`, "a "+c.field); got != c.want {
			t.Errorf("%s as %s: %s, want %s", c.field, c.of, got, c.want)
		}
	}
}

func TestObjectsAreComparedWithTheSchema(t *testing.T) {
	const inner = `"b":{"type":"object","required":["c"],"additionalProperties":false,"properties":{"c":{"type":"integer"}}}`
	for _, c := range []struct{ schema, fields, want string }{
		{`{}`, "a int;b.c int;b.d int;e int", `{"a":1,"b":{"c":2,"d":3},"e":4}`},
		{`{"properties":{` + inner + `}}`, "b.c int", `{"b":{"c":2}}`},
		{`{"properties":{` + inner + `}}`, "b.c int;b.d int", `field "b.d": property "b" has no property "d", and additionalProperties is false`},
		{`{"properties":{` + inner + `}}`, "b.c string", `field "b.c" is string: the schema wants integer`},
		{`{"properties":{"b":{"required":["c","x"]}}}`, "b.c int", `property "b" has a property "x" that is required, and is not emitted`},
		{`{"properties":{"b":{"type":"string"}}}`, "b.c int", `property "b" is of type string: want object`},
		{`{"properties":{"b":false}}`, "b.c int", `property "b" is of type no value: want object`},
		{`{"required":["b","z"],"additionalProperties":false}`, "a int;b.c int", `field "a": the schema has no property "a", and additionalProperties is false; field "b.c": the schema has no property "b", and additionalProperties is false; the schema has a property "z" that is required, and is not emitted`},
		{`{"additionalProperties":false,"patternProperties":{"^a":{}}}`, "a int", `{"a":1}`},
		{`{"additionalProperties":{"type":"integer"}}`, "a int", `{"a":1}`},
		{`{"type":"array"}`, "a int", `the schema is of type array: want object`},
		{`{"properties":{"a\"":{"type":"integer"}}}`, "a int", `{"a":1}`},
		{`{"type":7}`, "a int", `it is not a JSON Schema: json: cannot unmarshal number`},
		{`{"properties":[]}`, "a int", `it is not a JSON Schema: json: cannot unmarshal array`},
		{`7`, "a int", `it is not a JSON Schema: json: cannot unmarshal number`},
		{`{`, "a int", `it is not a JSON Schema: unexpected end of JSON input`},
		{strings.Repeat(" ", jsonschema.SchemaMax) + `{}`, "a int", "the schema has 1048578 bytes: at most 1048576"},
	} {
		fields := strings.Split(c.fields, ";")
		event := `{"a":1,"b.c":2,"b.d":3,"e":4}`
		if c.fields == "b.c string" {
			event = `{"b.c":"x"}`
		}
		if got := written(t, c.schema, event, fields...); got != c.want && !strings.HasPrefix(got, c.want) {
			t.Errorf("%.80s: %s, want %s", c.schema, got, c.want)
		}
	}
}

// TestEncoderAllocatesNothing holds what a record costs.
func TestEncoderAllocatesNothing(t *testing.T) {
	schema, err := jsonschema.Parse(`{}`)
	if err != nil {
		t.Fatal(err)
	}
	e, row, err := slots.Encoder(t, schema, `{"a":1,"b.c":"x","b.d":null}`, "a int", "b.c string", "b.d optional number")
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
