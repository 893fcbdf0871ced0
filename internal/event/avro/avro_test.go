package avro_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	generic "github.com/twmb/avro"

	"github.com/afterbay/afterbay/internal/event/avro"
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/test/slots"
)

// record returns the schema of a record with fields `name type`, which are written as JSON.
func record(fields ...string) string {
	var list []string
	for _, f := range fields {
		name, of, _ := strings.Cut(f, " ")
		list = append(list, fmt.Sprintf(`{"name":%q,"type":%s}`, name, of))
	}
	return `{"type":"record","name":"Event","fields":[` + strings.Join(list, ",") + `]}`
}

// decoder returns a decoder of fields `name type`.
func decoder(t testing.TB, schema string, fields ...string) (decode.Decoder, *value.Schema, error) {
	t.Helper()
	parsed, err := avro.Parse(schema)
	if err != nil {
		return nil, nil, err
	}
	list, names := slots.Of(t, fields...)
	d, err := parsed.Decoder(list)
	return d, names, err
}

// scan reads the hexadecimal bytes of a record, and shows the fields or the error.
func scan(t testing.TB, schema, record string, fields ...string) string {
	t.Helper()
	d, names, err := decoder(t, schema, fields...)
	if err != nil {
		return err.Error()
	}
	src, err := hex.DecodeString(strings.ReplaceAll(record, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	row := &names.NewRows(1)[0]
	if err := d.Scan(src, row); err != nil {
		return err.Error()
	}
	var all []string
	for _, slot := range names.Slots {
		all = append(all, slots.Show(row, slot))
	}
	return strings.Join(all, " ")
}

func TestTypesFit(t *testing.T) {
	for _, c := range []struct{ of, record, want, shown string }{
		{`"boolean"`, "01", "bool", "true"},
		{`"int"`, "03", "int", "-2"},
		{`"int"`, "03", "number", "-2"},
		{`"int"`, "8080808010", "int", `field "f" at byte 0: an int of more than 32 bits`},
		{`"long"`, "ffffffffffffffffff01", "int", "-9223372036854775808"},
		{`"long"`, "ffffffffffffffffff02", "int", `field "f" at byte 0: an integer of more than 64 bits`},
		{`"long"`, "ffffffffffffffffff", "int", `field "f" at byte 9: the record ends too early`},
		{`"float"`, "0000c03f", "number", "1.5"},
		{`"double"`, "000000000000f83f", "number", "1.5"},
		{`"double"`, "000000000000f07f", "number", `field "f" at byte 0: out of the range of number`},
		{`"string"`, "06c3a961", "string", `"éa"`},
		{`"string"`, "02ff", "string", `field "f" at byte 0: invalid UTF-8`},
		{`"string"`, "01", "string", `field "f" at byte 0: a length below 0`},
		{`"string"`, "feffffffffffffffff01 61", "string", `field "f" at byte 11: the record ends too early`},
		{`"bytes"`, "0402ff", "bytes", `"\x02\xff"`},
		{`{"type":"fixed","name":"F","size":2}`, "02ff", "bytes", `"\x02\xff"`},
		{`{"type":"enum","name":"E","symbols":["A","B"]}`, "02", "string", `"B"`},
		{`{"type":"enum","name":"E","symbols":["A","B"]}`, "04", "string", `field "f" at byte 0: symbol 2 of an enum of 2`},
		{`{"type":"long","logicalType":"timestamp-millis"}`, "02", "time", "1000"},
		{`{"type":"long","logicalType":"timestamp-millis"}`, "02", "int", "1"},
		{`{"type":"long","logicalType":"timestamp-millis"}`, "ffffffffffffffffff01", "time", `field "f" at byte 0: out of the years 0 to 9999`},
		{`{"type":"long","logicalType":"timestamp-micros"}`, "02", "time", "1"},
		{`{"type":"long","logicalType":"timestamp-nanos"}`, "01", "time", "-1"},
		{`{"type":"long","logicalType":"timestamp-nanos"}`, "ce0f", "time", "0"}, // 999
		{`{"type":"int","logicalType":"date"}`, "02", "time", "86400000000"},
		{`"string"`, "28" + hex.EncodeToString([]byte("1970-01-01T00:00:01Z")), "time", "1000000"},
		{`{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`, "04 ff85", "number", "-1.23"},
		{`{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`, "00", "number", "0"},
		{`{"type":"fixed","name":"F","size":9,"logicalType":"decimal","precision":20,"scale":0}`, "010000000000000000", "number", "1.8446744073709552e+19"},
		{`{"type":"fixed","name":"F","size":9,"logicalType":"decimal","precision":20,"scale":1}`, "ffffffffffffffffff", "number", "-0.1"},
		{`{"type":"array","items":"string"}`, "04 0261 0262 00", "string[]", `"\x01a\x01b"`},
		{`{"type":"array","items":"string"}`, "03 04 0261 0262 00", "string[]", `"\x01a\x01b"`},
		{`{"type":"array","items":"float"}`, "02 0000c03f 02 00004040 00", "number[2]", "[1.5 3]"},
		{`{"type":"array","items":"int"}`, "02 02 00", "number[2]", `field "f" at byte 3: 1 numbers: want number[2]`},
		{`{"type":"array","items":"int"}`, "feffffffffffffffff01", "number[2]", `field "f" at byte 10: more numbers than number[2]`},
		{`{"type":"array","items":"long"}`, "04 02 03 00", "int[]", `"\x01\x00\x00\x00\x00\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\xff"`},
		{`{"type":"array","items":"boolean"}`, "04 01 00 00", "bool[]", `"\x01\x00"`},
		{`{"type":"array","items":{"type":"long","logicalType":"timestamp-millis"}}`, "02 02 00", "time[]", `"\xe8\x03\x00\x00\x00\x00\x00\x00"`},
		{`{"type":"map","values":"string"}`, "04 0262 0278 0261 0279 00", "map of string", `"\x01a\x01y\x01b\x01x"`},
		{`{"type":"map","values":"string"}`, "04 0261 0278 0261 0279 00", "map of string", `field "f" at byte 10: key "a" occurs in the map twice`},
		{`{"type":"array","items":["null","long"]}`, "00", "int[]", `field "f" is of type array in the schema: want int[]`},
		{`["null","string"]`, "00", "optional string", "absent"},
		{`["null","string"]`, "00", "string", `field "f" at byte 1: null but required: want string`},
		{`["null","string"]`, "02 0261", "string", `"a"`},
		{`["null","string"]`, "04", "string", `branch 2 of a union of 2`},
		{`["int","string"]`, "02 0261", "int", `field "f" at byte 1: field "f" is of type string in the schema: want int`},
		{`"string"`, "0261", "int", `field "f" is of type string in the schema: want int`},
		{`["null","string"]`, "0261", "int", `field "f" is of type string in the schema: want int`},
		{`"null"`, "", "optional int", "absent"},
		{`{"type":"long","logicalType":"local-timestamp-millis"}`, "02", "time", `field "f" is of type long (local-timestamp-millis) in the schema: want time`},
	} {
		got := scan(t, record("f "+c.of), c.record, "f "+c.want)
		if !strings.HasSuffix(got, c.shown) {
			t.Errorf("%s of %s as %s: got %s, want %s", c.record, c.of, c.want, got, c.shown)
		}
	}
}

func TestFieldsThatAreNotWantedAreSkipped(t *testing.T) {
	const deep = `{"type":"record","name":"R","fields":[{"name":"x","type":{"type":"map","values":["null",{"type":"array","items":"long"}]}},{"name":"y","type":{"type":"fixed","name":"F","size":3}}]}`
	schema := record(`a "long"`, "b "+deep, `c "string"`, `d "R"`, `e ["null","string"]`, `g "double"`, `h "string"`, `i {"type":"array","items":"null"}`)
	const src = "02" + "02 026b 02 04 8001 02 00 00 616161" + "0461 62" + "00 626262" + "02 0263" + "000000000000f83f" + "0268" + "feffffff0f 00"
	if got := scan(t, schema, src, "h string", "a int"); got != `"h" 1` {
		t.Error(got)
	}
	if got := scan(t, schema, src+"00", "h string"); !strings.HasSuffix(got, "the record continues after its last field") {
		t.Error(got)
	}
	// Blocks that say how many bytes they have.
	if got := scan(t, record(`a {"type":"array","items":"long"}`, `b "int"`), "03 06 8001 02 00 06", "b int"); got != "3" {
		t.Error(got)
	}
}

func TestSchemasChange(t *testing.T) {
	for _, c := range []struct{ name, schema, record, shown string }{
		{"as it was", record(`id "long"`, `n ["null","double"]`), "02 02 000000000000f83f", "1 1.5"},
		{"a field is added", record(`id "long"`, `z "string"`, `n ["null","double"]`), "02 0261 00", "1 absent"},
		{"an optional field is removed", record(`id "long"`), "02", "1 absent"},
		{"fields change their order", record(`n ["double","null"]`, `id "long"`), "02 02", "1 absent"},
		{"long becomes int", record(`id "int"`, `n "int"`), "02 04", "1 2"},
		{"a required field is removed", record(`n "int"`), "04", `field "id" is required: the schema has no such field`},
		{"a type changes", record(`id "string"`, `n ["null","string"]`), "0261 00", `field "id" is of type string in the schema: want int; field "n" is of type string in the schema: want optional number`},
	} {
		if got := scan(t, c.schema, c.record, "id int", "n optional number"); got != c.shown {
			t.Errorf("%s: got %s, want %s", c.name, got, c.shown)
		}
	}
}

func TestRecordsNestToABound(t *testing.T) {
	const schema = `{"type":"record","name":"L","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","L"]}]}`
	for _, c := range []struct {
		deep  int
		shown string
	}{{1, "1"}, {avro.MaxDepth, "1"}, {avro.MaxDepth + 1, "nested deeper than 64"}} {
		if got := scan(t, schema, strings.Repeat("0202", c.deep-1)+"0200", "v int"); !strings.HasSuffix(got, c.shown) {
			t.Errorf("%d deep: %s", c.deep, got)
		}
	}
}

func TestSchemasAreBounded(t *testing.T) {
	twice := `"string"`
	for i := range 40 { // the type of the last field has 2^40 fields
		twice = fmt.Sprintf(`{"type":"record","name":"R%d","fields":[{"name":"a","type":%s},{"name":"b","type":%s}]}`, i, twice, map[bool]string{true: `"string"`, false: fmt.Sprintf(`"R%d"`, i-1)}[i == 0])
	}
	if got := scan(t, record(`a "int"`, "b "+twice), "02", "a int"); !strings.HasSuffix(got, "the record ends too early") {
		t.Error(got)
	}
	for _, c := range []struct{ schema, want string }{
		{strings.Repeat(`{"type":"array","items":`, 65) + `"int"` + strings.Repeat("}", 65), "nested deeper than 64"},
		{strings.Repeat(" ", avro.SchemaMax) + `"int"`, "at most 1048576"},
		{`{"type":"record","name":"A","fields":[{"name":"a","type":"A"}]}`, `record "A" is a part of itself`},
		{record(`a "Other"`), `unknown type "Other"`},
		{record(`a ["null",["int"]]`), "a union stands directly in a union"},
		{record(`a "int"`, `a "int"`), `two fields "a"`},
		{`{"type":"record","name":"A"}`, "no list of fields"},
		{`{"type":"fixed","name":"A","size":-1}`, "has the size -1"},
		{`{"type":"record","fields":[]}`, "has no name"},
		{`[`, "is not JSON"}, {`{"type":7}`, "7 is not a type"}, {`"int"`, "want a record"},
		{`[{"type":"fixed","name":"A","size":1},{"type":"fixed","name":"A","size":1}]`, "defined twice"},
	} {
		if got := scan(t, c.schema, ""); !strings.Contains(got, c.want) {
			t.Errorf("%.60s: got %s, want %s", c.schema, got, c.want)
		}
	}
	long := strings.Repeat("S", 1<<10)
	enum := record(`f {"type":"array","items":{"type":"enum","name":"E","symbols":["` + long + `"]}}`)
	if got := scan(t, enum, "8080 08"+strings.Repeat("00", 1<<16)+"00", "f string[]"); !strings.Contains(got, "a list of more than") {
		t.Errorf("%.100s", got)
	}
}

func TestNamesHaveNamespaces(t *testing.T) {
	const money = `{"type":"record","name":"Money","namespace":"shop","fields":[{"name":"cents","type":"long"}]}`
	parsed, err := avro.Parse(`{"type":"record","name":"shop.Order","fields":[{"name":"price","type":"Money"},{"name":"tax","type":"shop.Money"},{"name":"id","type":"int"}]}`, money)
	if err != nil {
		t.Fatal(err)
	}
	var names value.Schema
	id, _ := names.Add("id", value.Type{Kind: value.Int})
	d, err := parsed.Decoder([]decode.Field{{Name: "id", Slot: id}})
	if err != nil {
		t.Fatal(err)
	}
	row := &names.NewRows(1)[0]
	if err := d.Scan([]byte{2, 4, 6}, row); err != nil || row.Int(id) != 3 {
		t.Error(err, row.Int(id))
	}
}

// wide returns a schema of 50 fields, a record of it, and 10 fields of it. Every third field may be null.
func wide(t testing.TB) (schema string, src []byte, fields []string) {
	t.Helper()
	kinds := []string{`"long"`, `"string"`, `"double"`, `"int"`, `"boolean"`}
	types := []string{"int", "string", "number", "int", "bool"}
	values := []any{int64(1_700_000_000_000), "a text of a field", 19.95, int32(77), true}
	var list []string
	all := map[string]any{}
	for i := range 50 {
		name, k := fmt.Sprint("field", i), i%5
		of, typ := kinds[k], types[k]
		if all[name] = values[k]; i%3 == 0 {
			of, typ = `["null",`+of+`]`, "optional "+typ
		}
		if list = append(list, name+" "+of); i%5 == i/10 {
			fields = append(fields, name+" "+typ)
		}
	}
	schema = record(list...)
	src, err := generic.MustParse(schema).Encode(all)
	if err != nil {
		t.Fatal(err)
	}
	return schema, src, fields
}

func TestScanAllocatesNothing(t *testing.T) {
	schema, src, fields := wide(t)
	d, names, err := decoder(t, schema, fields...)
	if err != nil || len(fields) != 10 {
		t.Fatal(fields, err)
	}
	row := &names.NewRows(1)[0]
	if n := testing.AllocsPerRun(100, func() {
		if err := d.Scan(src, row); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got := row.Text(names.Slots[2]); got == "" && names.Slots[2].Type.Kind == value.String {
		t.Error("a text is empty")
	}
}

// BenchmarkScan reads 10 of 50 fields.
func BenchmarkScan(b *testing.B) {
	schema, src, fields := wide(b)
	d, names, err := decoder(b, schema, fields...)
	if err != nil {
		b.Fatal(err)
	}
	row := &names.NewRows(1)[0]
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Scan(src, row); err != nil {
			b.Fatal(err)
		}
	}
}

func TestEndsAreErrors(t *testing.T) {
	schema, src, fields := wide(t)
	d, names, err := decoder(t, schema, fields...)
	if err != nil {
		t.Fatal(err)
	}
	row := &names.NewRows(1)[0]
	for n := range src {
		if err := d.Scan(src[:n], row); err == nil {
			t.Fatalf("the first %d of %d bytes are taken", n, len(src))
		}
	}
}

func TestFindingsOfASchemaAreInOrder(t *testing.T) {
	for range 20 {
		_, _, err := decoder(t, `{"type":"record","name":"r","fields":[{"name":"x","type":"int"}]}`, "c int", "a int", "b int")
		const want = `field "a" is required: the schema has no such field; field "b" is required: the schema has no such field; field "c" is required: the schema has no such field`
		if err == nil || err.Error() != want {
			t.Fatal(err)
		}
	}
}
