package registry

import (
	"strings"
	"testing"

	generic "github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/test/slots"
	"github.com/afterbay/afterbay/stream"
)

// changeSchema is what Debezium registers for a table of customers, with the converter of Avro.
const changeSchema = `{"type":"record","name":"Envelope","namespace":"shop.customers","fields":[
	{"name":"before","type":["null",{"type":"record","name":"Value","fields":[{"name":"id","type":"long"},{"name":"name","type":["null","string"]},{"name":"tier","type":["null","string"]}]}]},
	{"name":"after","type":["null","Value"]},
	{"name":"source","type":{"type":"record","name":"Source","fields":[{"name":"ts_ms","type":"long"},{"name":"db","type":"string"}]}},
	{"name":"op","type":"string"},{"name":"ts_ms","type":["null","long"]}]}`

// changed are fields of customers, of the row and of what stands around it.
func changed(t *testing.T) ([]decode.Field, *value.Row) {
	t.Helper()
	fields, names := slots.Of(t, "id int", "name string", "tier optional string", "op string", "was optional string", "ms int")
	for i, path := range map[int]string{3: "op", 4: "before.tier", 5: "source.ts_ms"} {
		of, err := decode.ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		fields[i].Path, fields[i].From = of, decode.FromEnvelope
	}
	return fields, &names.NewRows(1)[0]
}

// readChange returns what a reader of change events reads of a record, or the error.
func readChange(t *testing.T, r *envelope.Reader, fields []decode.Field, row *value.Row, record []byte) string {
	t.Helper()
	woken := make(chan struct{}, 10)
	for turn := uint64(1); ; turn++ {
		if ready, _ := r.Prepare(&stream.Record{Value: record}, turn, func() { woken <- struct{}{} }); ready {
			break
		}
		<-woken
	}
	if err := r.Scan(&stream.Record{Value: record}, row); err != nil {
		return err.Error()
	}
	var got []string
	for _, f := range fields {
		got = append(got, slots.Show(row, f.Slot))
	}
	return strings.Join(got, " ")
}

// TestChangeEventsOfARegistry reads change events of Debezium by their schemas: of Avro, and of JSON Schema.
func TestChangeEventsOfARegistry(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	avro, plain := register(t, server, "c-value", sr.TypeAvro, changeSchema), register(t, server, "j-value", sr.TypeJSON, `{"type":"object"}`)
	other := register(t, server, "o-value", sr.TypeAvro, `{"type":"record","name":"Customer","fields":[{"name":"id","type":"long"},{"name":"name","type":"string"}]}`)
	fields, row := changed(t)
	r, err := envelope.New(envelope.Debezium, open(t, Options{URL: server.URL()}), fields)
	if err != nil {
		t.Fatal(err)
	}
	image := func(id int64, name, tier any) map[string]any {
		return map[string]any{"id": id, "name": name, "tier": tier}
	}
	schema := generic.MustParse(changeSchema)
	for _, c := range []struct {
		op            string
		before, after any
		want          string
	}{
		{"c", nil, image(7, "Ann", nil), `7 "Ann" absent "c" absent 5`},
		{"r", nil, image(7, "Ann", "gold"), `7 "Ann" "gold" "r" absent 5`},
		{"u", image(7, "Ann", "free"), image(8, "Bob", "gold"), `8 "Bob" "gold" "u" "free" 5`},
		{"d", image(7, "Ann", "free"), nil, `7 "Ann" "free" "d" "free" 5`},
		{"d", image(7, nil, "free"), nil, `field "name" at byte 8: null but required: want string; the event is a deletion, and before does not have the whole row: make the field optional, or set REPLICA IDENTITY FULL so that the database logs whole rows`},
		{"u", nil, image(7, nil, nil), `field "name" at byte 9: null but required: want string`},
		{"u", image(7, "Ann", nil), nil, `null but required: want `},
		{"d", nil, image(7, "Ann", nil), `null but required: want `},
		{"t", nil, nil, `field "op" at byte 0: want c, u, d or r, got "t": a truncation or a message has no row, set skipped.operations of the connector`},
	} {
		record, err := schema.Encode(map[string]any{"before": c.before, "after": c.after, "source": map[string]any{"ts_ms": int64(5), "db": "shop"}, "op": c.op, "ts_ms": nil})
		if err != nil {
			t.Fatal(err)
		}
		if got := readChange(t, r, fields, row, prefixed(avro, record)); got != c.want && !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.op, got, c.want)
		}
	}
	for _, c := range []struct {
		record []byte
		want   string
	}{
		{prefixed(plain, []byte(`{"before":{"id":7,"name":"Ann","tier":"free"},"after":{"id":7,"name":"Bob"},"op":"u","source":{"ts_ms":5}}`)), `7 "Bob" absent "u" "free" 5`},
		{prefixed(plain, []byte(`{"before":{"id":7,"name":"Ann"},"after":null,"op":"d","source":{"ts_ms":5}}`)), `7 "Ann" absent "d" absent 5`},
		{prefixed(plain, []byte(`{"id":7}`)), `absent: the record is not a change event of Debezium`},
		{prefixed(other, []byte{14, 2, 'a'}), `absent: the record is not a change event of Debezium`},
		{nil, envelope.ErrTombstone.Error()},
		{[]byte("x"), "does not begin with the id of a schema"},
	} {
		if got := readChange(t, r, fields, row, c.record); got != c.want && !strings.Contains(got, c.want) {
			t.Errorf("%q: %s, want %s", c.record, got, c.want)
		}
	}
}

// TestMessagesBecomeJSON turns messages of Protobuf into JSON, by the message type that each names.
func TestMessagesBecomeJSON(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	id := register(t, server, "p-value", sr.TypeProtobuf, `syntax = "proto3"; message Key { int64 id = 1; } message Row { string tier = 1; int64 level = 2; message In { bool on = 1; } }`)
	d := open(t, Options{URL: server.URL()}).Transcoder()
	woken := make(chan struct{}, 10)
	for _, c := range []struct {
		record []byte
		want   string
	}{
		{prefixed(id, []byte{8, 7}, 0), `{"id":7}`},
		{prefixed(id, []byte{16, 9}, 1, 1), `{"tier":"","level":9}`},
		{prefixed(id, []byte{8, 1}, 2, 1, 0), `{"on":true}`},
		{prefixed(id, []byte{8}, 1, 1), "byte 7: no message Row of Protobuf"},
		{prefixed(id, nil, 1, 5), "byte 5: the schema has no message at the index [5]"},
	} {
		for turn := uint64(1); ; turn++ {
			if ready, _ := d.Prepare(c.record, turn, func() { woken <- struct{}{} }); ready {
				break
			}
			<-woken
		}
		text, err := d.AppendJSON(nil, c.record)
		if err != nil {
			text = []byte(err.Error())
		}
		if string(text) != c.want {
			t.Errorf("%x: %s, want %s", c.record, text, c.want)
		}
	}
}

// TestChangeEventsCostNoAllocation holds what a change event of Avro costs.
func TestChangeEventsCostNoAllocation(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	id := register(t, server, "c-value", sr.TypeAvro, changeSchema)
	fields, row := changed(t)
	r, err := envelope.New(envelope.Debezium, open(t, Options{URL: server.URL()}), fields)
	if err != nil {
		t.Fatal(err)
	}
	made, err := generic.MustParse(changeSchema).Encode(map[string]any{"before": nil, "after": map[string]any{"id": int64(7), "name": "Ann", "tier": nil}, "source": map[string]any{"ts_ms": int64(5), "db": "shop"}, "op": "c", "ts_ms": nil})
	if err != nil {
		t.Fatal(err)
	}
	record := stream.Record{Value: prefixed(id, made)}
	if got := readChange(t, r, fields, row, record.Value); got != `7 "Ann" absent "c" absent 5` {
		t.Fatal(got)
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := r.Scan(&record, row); err != nil {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
