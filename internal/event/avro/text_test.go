package avro

import (
	"strings"
	"testing"

	generic "github.com/twmb/avro"
)

const shownSchema = `{"type":"record","name":"Shown","fields":[
	{"name":"card","type":"string"},{"name":"n","type":"long"},{"name":"share","type":"double"},{"name":"on","type":"boolean"},
	{"name":"note","type":["null","string"]},{"name":"tags","type":{"type":"array","items":"string"}},{"name":"counts","type":{"type":"map","values":"int"}},
	{"name":"device","type":{"type":"record","name":"Device","fields":[{"name":"os","type":{"type":"enum","name":"OS","symbols":["IOS","WEB"]}}]}},
	{"name":"key","type":"bytes"},{"name":"nothing","type":{"type":"array","items":"null"}}]}`

func shownRecord(t *testing.T) []byte {
	t.Helper()
	record, err := generic.MustParse(shownSchema).Encode(map[string]any{
		"card": "a \"b\" <c>", "n": int64(-7), "share": 0.25, "on": true, "note": nil, "tags": []any{"x", "y"}, "counts": map[string]any{"k": int32(2)},
		"device": map[string]any{"os": "WEB"}, "key": []byte{0xff}, "nothing": []any{nil, nil},
	})
	if err != nil {
		t.Fatal(err)
	}
	return record
}

func TestRecordsAreShownAsJSON(t *testing.T) {
	schema, err := Parse(shownSchema)
	if err != nil {
		t.Fatal(err)
	}
	record := shownRecord(t)
	got, err := schema.AppendJSON([]byte("> "), record)
	const want = `> {"card":"a \"b\" <c>","n":-7,"share":0.25,"on":true,"note":null,"tags":["x","y"],"counts":{"k":2},"device":{"os":"WEB"},"key":"/w==","nothing":[null,null]}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	for n := range record {
		if got, err := schema.AppendJSON(nil, record[:n]); err == nil {
			t.Errorf("%d of %d bytes are shown as %s", n, len(record), got)
		}
	}
	if _, err := schema.AppendJSON(nil, append(record, 0)); err == nil || !strings.Contains(err.Error(), "after its last field") {
		t.Error(err)
	}
}

func TestShownTimesAndDecimals(t *testing.T) {
	schema, err := Parse(`{"type":"record","name":"T","fields":[{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},
		{"name":"day","type":{"type":"int","logicalType":"date"}},{"name":"amount","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := schema.AppendJSON(nil, []byte{0xd0, 0x0f, 2, 4, 0xff, 0x38}) // 1,000 ms, a day, -200
	if want := `{"at":"1970-01-01T00:00:01Z","day":"1970-01-02","amount":-2}`; err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// TestShownNullsAreBounded has an array of nulls, which take no bytes, however many it says there are.
func TestShownNullsAreBounded(t *testing.T) {
	schema, err := Parse(`{"type":"array","items":"null"}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := schema.AppendJSON(nil, []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
}
