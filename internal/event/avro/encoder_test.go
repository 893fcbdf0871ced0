package avro_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	generic "github.com/twmb/avro"

	"github.com/afterbay/afterbay/internal/event/avro"
	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/test/slots"
)

// encoder is slots.Encoder of a schema.
func encoder(t testing.TB, schema, event string, fields ...string) (encode.Encoder, *value.Row, error) {
	t.Helper()
	parsed, err := avro.Parse(schema)
	if err != nil {
		t.Fatal(err)
	}
	return slots.Encoder(t, parsed, event, fields...)
}

// written returns what a generic decoder reads of an event that was encoded, or the error.
func written(t testing.TB, schema, event string, fields ...string) string {
	t.Helper()
	e, row, err := encoder(t, schema, event, fields...)
	if err != nil {
		return err.Error()
	}
	made, err := e.Append([]byte("before"), row)
	if err != nil {
		return err.Error()
	}
	var all any
	if rest, err := generic.MustParse(schema).Decode(made[len("before"):], &all); err != nil || len(rest) > 0 {
		t.Fatalf("%x: %v, %d bytes are left", made, err, len(rest))
	}
	return shown(all)
}

func shown(v any) string {
	switch v := v.(type) {
	case map[string]any:
		text := fmt.Sprint(v)
		for _, inner := range v {
			text = strings.ReplaceAll(text, fmt.Sprint(inner), shown(inner))
		}
		return strings.TrimPrefix(text, "map")
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case *big.Rat:
		return v.FloatString(4)
	}
	return fmt.Sprint(v)
}

func TestValuesAreWrittenAsTheirTypes(t *testing.T) {
	decimal := func(precision, scale int) string {
		return fmt.Sprintf(`{"type":"bytes","logicalType":"decimal","precision":%d,"scale":%d}`, precision, scale)
	}
	fixed := `{"type":"fixed","name":"F","size":%d}`
	for _, c := range []struct{ field, of, event, want string }{
		{"bool", `"boolean"`, `true`, "[a:true]"},
		{"int", `"int"`, `-2147483648`, "[a:-2147483648]"},
		{"int", `"int"`, `2147483648`, `field "a": 2147483648 is out of the range of an int of Avro, 32 bits: make the field long`},
		{"int", `"long"`, `-9223372036854775808`, "[a:-9223372036854775808]"},
		{"int", `"double"`, `9007199254740992`, "[a:9.007199254740992e+15]"},
		{"int", `"double"`, `9007199254740993`, `field "a": 9007199254740993 is not exact as a double: make the field long`},
		{"int", `"float"`, `1`, `field "a" is int: the schema wants float`},
		{"int", `{"type":"long","logicalType":"timestamp-millis"}`, `1`, `field "a" is int: the schema wants long (timestamp-millis)`},
		{"number", `"long"`, `1`, `field "a" is number: the schema wants long`},
		{"number", `"float"`, `0.1`, "[a:0.1]"},
		{"number", `"float"`, `1e39`, `field "a": 1e+39 is out of the range of a float: make the field double`},
		{"number", `"double"`, `0.1`, "[a:0.1]"},
		{"number", decimal(6, 2), `0.125`, "[a:0.1200]"},
		{"number", decimal(6, 2), `-0.001`, "[a:0.0000]"},
		{"number", decimal(6, 2), `-1.28`, "[a:-1.2800]"},
		{"number", decimal(6, 2), `9999.994`, "[a:9999.9900]"},
		{"number", decimal(6, 2), `9999.995`, `field "a": a decimal of 7 digits: the schema has room for 6`},
		{"number", decimal(40, 2), `-1e30`, "[a:-1000000000000000019884624838656.0000]"},
		{"int", decimal(40, 2), `-9223372036854775808`, "[a:-9223372036854775808.0000]"},
		{"int", decimal(3, 2), `10`, `field "a": a decimal of 4 digits: the schema has room for 3`},
		{"number", `{"type":"fixed","name":"D","size":3,"logicalType":"decimal","precision":6,"scale":1}`, `-1.5`, "[a:-1.5000]"},
		{"number", `{"type":"fixed","name":"D","size":1,"logicalType":"decimal","precision":6,"scale":1}`, `12.8`, `field "a": a decimal of 2 bytes: D (decimal) has 1`},
		{"string", `"string"`, `"é"`, "[a:é]"},
		{"string", `{"type":"enum","name":"E","symbols":["b","a"]}`, `"a"`, "[a:a]"},
		{"string", `{"type":"enum","name":"E","symbols":["b","a"]}`, `"c"`, `field "a": "c" is not a symbol of E`},
		{"raw", `"string"`, `{"x":[1]}`, `[a:{"x":[1]}]`},
		{"bytes", `"bytes"`, `"AAE="`, "[a:[0 1]]"},
		{"bytes", fmt.Sprintf(fixed, 2), `"AAE="`, "[a:[0 1]]"},
		{"bytes", fmt.Sprintf(fixed, 3), `"AAE="`, `field "a": 2 bytes: F has 3`},
		{"time", `{"type":"long","logicalType":"timestamp-millis"}`, `"1969-12-31T23:59:59.9999Z"`, "[a:1969-12-31T23:59:59.999Z]"},
		{"time", `{"type":"long","logicalType":"timestamp-micros"}`, `"2026-01-02T03:04:05.000006Z"`, "[a:2026-01-02T03:04:05.000006Z]"},
		{"time", `{"type":"long","logicalType":"timestamp-nanos"}`, `"2026-01-02T03:04:05.000006Z"`, "[a:2026-01-02T03:04:05.000006Z]"},
		{"time", `{"type":"long","logicalType":"timestamp-nanos"}`, `"2300-01-02T03:04:05Z"`, `field "a": out of the range of long (timestamp-nanos)`},
		{"time", `{"type":"int","logicalType":"date"}`, `"1969-12-31T23:00:00Z"`, "[a:1969-12-31T00:00:00Z]"},
		{"time", `"string"`, `"2026-01-02T03:04:05Z"`, "[a:2026-01-02T03:04:05.000000Z]"},
		{"time", `"long"`, `"2026-01-02T03:04:05Z"`, `field "a" is time: the schema wants long`},
		{"number[2]", `{"type":"array","items":"float"}`, `[0.5,1.5]`, "[a:[0.5 1.5]]"},
		{"number[2]", `{"type":"array","items":"double"}`, `[0.5,1.5]`, "[a:[0.5 1.5]]"},
		{"number[2]", `{"type":"array","items":"long"}`, `[0.5,1.5]`, `field "a" is number[2]: the schema wants array`},
		{"int[]", `{"type":"array","items":"int"}`, `[]`, "[a:[]]"},
		{"int[]", `{"type":"array","items":"int"}`, `[1,4294967296]`, `field "a": an element: 4294967296 is out of the range of an int of Avro, 32 bits: make the field long`},
		{"string[]", `{"type":"array","items":["null","string"]}`, `["b",""]`, `field "a" is string[]: the schema wants array`},
		{"string[]", `{"type":"array","items":"string"}`, `["b",""]`, "[a:[b ]]"},
		{"bool[]", `{"type":"array","items":"boolean"}`, `[true,false]`, "[a:[true false]]"},
		{"map of int", `{"type":"map","values":"long"}`, `{"b":2,"a":1}`, "[a:[a:1 b:2]]"},
		{"map of int", `{"type":"map","values":"long"}`, `{}`, "[a:[]]"},
		{"optional int", `["null","long"]`, `null`, "[a:<nil>]"},
		{"optional int", `["long","null"]`, `null`, "[a:<nil>]"},
		{"optional int", `["long","null"]`, `7`, "[a:7]"},
		{"optional int", `"long"`, `7`, "field \"a\" may be absent, and the schema has no null for it: write `?? ...` for a value, or make it a union with null"},
		{"int", `["null","int","long"]`, `4294967296`, "[a:4294967296]"},
		{"int", `["null","string"]`, `7`, `field "a" is int: the schema wants [null, string]`},
	} {
		if got := written(t, record("a "+c.of), `{"a":`+c.event+`}`, "a "+c.field); got != c.want {
			t.Errorf("%s as %s: %s, want %s", c.field, c.of, got, c.want)
		}
	}
}

func TestObjectsAreRecords(t *testing.T) {
	inner := `{"type":"record","name":"Card","fields":[{"name":"country","type":["null","string"]},{"name":"id","type":"string"}]}`
	schema := record(`note ["null","string"]`, "card "+inner, `amount "double"`)
	for _, c := range []struct{ want, fields string }{
		{"[amount:1.5 card:[country:<nil> id:x] note:<nil>]", "amount number;card.id string"},
		{"[amount:1.5 card:[country:no id:x] note:<nil>]", "card.id string;card.country optional string;amount number"},
		{`the schema has a field "id" of type string, which is not emitted and cannot be null; the schema has a field "amount" of type double, which is not emitted and cannot be null`, "card.country optional string"},
		{`field "card.sum": the schema has no field "sum" in record "Card"; field "extra": the schema has no field "extra" in record "Event"`, "card.sum int;card.id string;amount number;extra int"},
		{`field "amount.of" is part of an object: the schema wants double`, "amount.of int;card.id string"},
		{`field "card" is string: the schema wants Card; the schema has a field "amount" of type double, which is not emitted and cannot be null`, "card string"},
	} {
		event := `{"amount":1.5,"card":"x","extra":1,"amount.of":1,"card.id":"x","card.country":"no","card.sum":1}`
		if got := written(t, schema, event, strings.Split(c.fields, ";")...); got != c.want {
			t.Errorf("%s: %s, want %s", c.fields, got, c.want)
		}
	}
	optional := record("card [\"null\"," + inner + "]")
	if got := written(t, optional, `{"card.id":"x"}`, "card.id string"); got != "[card:[country:<nil> id:x]]" {
		t.Error(got)
	}
	if got := written(t, `"string"`, `{"a":1}`, "a int"); got != "the schema is of type string: want a record" {
		t.Error(got)
	}
}

// TestTextsThatAreNotUTF8AreMended writes what outputs of JSON have in their place.
func TestTextsThatAreNotUTF8AreMended(t *testing.T) {
	e, row, err := encoder(t, record(`a "string"`), `{"a":"x"}`, "a string")
	if err != nil {
		t.Fatal(err)
	}
	row.Str[0] = "a\xff\xfeb"
	made, err := e.Append(nil, row)
	if err != nil || string(made) != "\x10a\ufffd\ufffdb" {
		t.Errorf("%q, %v", made, err)
	}
}

func TestEncoderAllocatesNothing(t *testing.T) {
	e, row, err := encoder(t, record(`a "long"`, `b ["null","string"]`, `c `+`{"type":"array","items":"string"}`, `d {"type":"bytes","logicalType":"decimal","precision":12,"scale":2}`,
		`e {"type":"map","values":"double"}`, `f {"type":"enum","name":"E","symbols":["y","x"]}`, `g "string"`),
		`{"a":1,"b":"é","c":["x","y"],"d":12.25,"e":{"k":1.5},"f":"x","g":"2026-01-02T03:04:05Z"}`,
		"a int", "b optional string", "c string[]", "d number", "e map of number", "f string", "g time")
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
