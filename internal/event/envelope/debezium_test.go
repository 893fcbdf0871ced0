package envelope_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/test/slots"
	"github.com/afterbay/afterbay/stream"
)

// fieldsOf returns fields that are written as `name type`, or `name type from path`.
func fieldsOf(t testing.TB, texts ...string) ([]decode.Field, *value.Row) {
	t.Helper()
	var short []string
	for _, text := range texts {
		head, _, _ := strings.Cut(text, " from ")
		short = append(short, head)
	}
	fields, schema := slots.Of(t, short...)
	for i, text := range texts {
		_, place, long := strings.Cut(text, " from ")
		if !long {
			continue
		}
		if fields[i].From = decode.FromEnvelope; place == "key" {
			fields[i].From = decode.FromKey
			continue
		}
		path, err := decode.ParsePath(place)
		if err != nil {
			t.Fatal(err)
		}
		fields[i].Path = path
	}
	return fields, &schema.NewRows(1)[0]
}

// read returns what a record's fields are, or the error.
func read(t testing.TB, kind envelope.Kind, format decode.Format, r *stream.Record, texts ...string) string {
	t.Helper()
	fields, row := fieldsOf(t, texts...)
	reader, err := envelope.New(kind, format, fields)
	if err == nil {
		err = reader.Scan(r, row)
	}
	if err != nil {
		return err.Error()
	}
	var got []string
	for _, f := range fields {
		got = append(got, f.Name+"="+slots.Show(row, f.Slot))
	}
	return strings.Join(got, " ")
}

var customerFields = []string{"id int", "name string", "tier optional string", "op string from op", "was optional string from before.tier", "ms optional int from source.ts_ms", "k int from key"}

func TestChangeEvents(t *testing.T) {
	const after = `{"id":7,"name":"Ann","tier":"gold"}`
	for src, want := range map[string]string{
		`{"op":"c","before":null,"after":` + after + `,"source":{"ts_ms":5}}`:          `id=7 name="Ann" tier="gold" op="c" was=absent ms=5 k=7`,
		` {"schema":{"type":"struct"} , "payload": {"op":"r","after":` + after + `}} `: `id=7 name="Ann" tier="gold" op="r" was=absent ms=absent k=7`,
		`{"before":{"id":7,"tier":"free"},"after":` + after + `,"op":"u"}`:             `id=7 name="Ann" tier="gold" op="u" was="free" ms=absent k=7`,
		`{"before":` + after + `,"after":null,"op":"d"}`:                               `id=7 name="Ann" tier="gold" op="d" was="gold" ms=absent k=7`,
		`{"op":"u","after":{"id":"7","name":"Ann"}}`:                                   `field "id" at byte 24: want int, got a string`,
		`{"payload":{"op":"u","after":{"id":7}}}`:                                      `field "name" at byte 36: absent but required: want string`,
		`{"payload":{"op":1,"after":{"id":7}}}`:                                        `field "op" at byte 17: want c, u, d or r, got 1: a truncation or a message has no row, set skipped.operations of the connector`,
		`{"op":"t"}`:                                                                   `field "op" at byte 6: want c, u, d or r, got "t": a truncation or a message has no row, set skipped.operations of the connector`,
		`{"op":"u","after":null}`:                                                      `field "op" at byte 6: it is 'u', and there is no after`,
		`{"op":"d","before":null}`:                                                     `field "op" at byte 6: it is 'd', and there is no before: set REPLICA IDENTITY so that the database logs at least the key of deleted rows`,
		`{"op":"d","before":{"id":7,"name":null}}`:                                     `field "name" at byte 34: null but required: want string; the event is a deletion, and before does not have the whole row: make the field optional, or set REPLICA IDENTITY FULL so that the database logs whole rows`,
		`{"id":7}`:                           `field "op" at byte 0: absent: the record is not a change event of Debezium. If the connector unwraps its events, remove envelope`,
		`{"payload":{"payload":{"op":"c"}}}`: `field "op" at byte 11: absent: the record is not a change event of Debezium. If the connector unwraps its events, remove envelope`,
		`{"op":"c","op":"u","after":{}}`:     `field "op" at byte 15: a second value`,
		`{"op":"c","after":{},`:              `byte 21: the record ends too early`,
		`{"payload":{"op":"c","after":[1]}}`: `byte 29: unexpected '[', want a JSON object`,
		`[1]`:                                `byte 0: want a JSON object, got an array`,
		`{"op":"c","after":` + after + `,"source":{"ts_ms":"x"}}`: `field "ms" at byte 72: want optional int, got a string`,
		``:                               envelope.ErrTombstone.Error(),
		`{"schema":null,"payload":null}`: envelope.ErrTombstone.Error(),
	} {
		r := &stream.Record{Key: []byte(`{"id":7}`), Value: []byte(src)}
		if got := read(t, envelope.Debezium, decode.JSON{}, r, customerFields...); got != want {
			t.Errorf("%s\n  got  %s\n  want %s", src, got, want)
		}
	}
}

func TestKeysOfChangeEvents(t *testing.T) {
	for key, want := range map[string]string{
		`7`: "7", `ann`: "ann", `"ann"`: "ann", `"a\u0062"`: "ab", `{"id":7}`: "7", `{"schema":{"optional":false},"payload":{"id":"a\"b"}}`: `a"b`,
		`{"schema":{},"payload":7}`: "7", `{"payload":7,"schema":{}}`: "7", ``: "", `{"payload":7}`: "7",
		`{"id":1.5}`: "unknown", `{"a":1,"b":2}`: "unknown", `{"id":null}`: "unknown", `{"id":[1]}`: "unknown", `{"id":7`: "unknown", `{}`: "unknown", `"ann`: `"ann`,
	} {
		got, _, _, unknown := envelope.Debezium.Row(&stream.Record{Key: []byte(key)})
		text := string(got)
		if unknown != nil {
			text = "unknown"
		}
		if text != want {
			t.Errorf("%s: got %s, want %s", key, text, want)
		}
	}
}

func TestRowsOfChangeEvents(t *testing.T) {
	for src, want := range map[string]string{
		`{"op":"c","after":{"a":1}}`: `{"a":1}`, `{"payload":{"op":"d","before":{"a":1}}}`: "none", ``: "none",
		`{"op":"u"}`: "wrong", `x`: "wrong",
	} {
		_, row, wrong, unknown := envelope.Debezium.Row(&stream.Record{Key: []byte("k"), Value: []byte(src)})
		got := string(row)
		switch {
		case wrong != nil:
			got = "wrong"
		case row == nil:
			got = "none"
		}
		if got != want || unknown != nil {
			t.Errorf("%s: got %s %v, want %s", src, got, unknown, want)
		}
	}
}

func TestAFieldMayBeTheKeyWithoutAnEnvelope(t *testing.T) {
	r := &stream.Record{Key: []byte("x1"), Value: []byte(`{"a":2}`)}
	if got, want := read(t, envelope.None, decode.JSON{}, r, "a int", "k string from key"), `a=2 k="x1"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := read(t, envelope.None, decode.JSON{}, r, "k int from key"), `field "k" at byte 0: the key of the record: want int, got "x1"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := read(t, envelope.None, decode.JSON{}, r, "k int from op"), `field "k": records have no envelope`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestAFlatRecordCostsNoAllocation holds what an input without an envelope costs.
func TestAFlatRecordCostsNoAllocation(t *testing.T) {
	fields, row := fieldsOf(t, "a int", "b string")
	reader, err := envelope.New(envelope.None, decode.JSON{}, fields)
	if err != nil {
		t.Fatal(err)
	}
	r := &stream.Record{Value: []byte(`{"a":2,"b":"x"}`)}
	if n := testing.AllocsPerRun(100, func() { err = errors.Join(err, reader.Scan(r, row)) }); n != 0 || err != nil {
		t.Errorf("%v allocations, %v", n, err)
	}
}
