package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/stream"
)

// sale is an event of the test, in any format.
type sale struct {
	card   string
	amount float64
	second int
}

// form is a way to write sales, and what an input says of it.
type form struct {
	name, input, top string // what stands in the input, and above
	record           func(sale) stream.Record
}

// forms returns ways to write sales, without the flat JSON object.
func forms(t *testing.T) []form {
	server := srfake.New()
	t.Cleanup(server.Close)
	schema := filepath.Join(t.TempDir(), "sale.avsc")
	if err := os.WriteFile(schema, []byte(paymentSchema), 0o600); err != nil {
		t.Fatal(err)
	}
	text := func(format string) func(sale) stream.Record {
		return func(s sale) stream.Record {
			return stream.Record{Value: []byte(strings.NewReplacer("CARD", s.card, "AMOUNT", fmt.Sprint(s.amount), "TS", fmt.Sprint(epoch+s.second*1000)).Replace(format))}
		}
	}
	avro := func(s sale) stream.Record { return stream.Record{Value: avroPayment(t, s.card, s.amount, s.second)} }
	const flat, nested = "fields: {card: string, amount: number, os: optional string, ts: int", "fields: {card: string, amount: number, os: {path: device.os, type: string, optional: true}, ts: int"
	return []form{
		{"path", "fields: {card: {path: who.card, type: string}, amount: number, os: {path: device.os, type: string, optional: true}, ts: int", "", text(`{"who":{"card":"CARD"},"device":{"os":"linux"},"amount":AMOUNT,"ts":TS}`)},
		{"optional path", nested, "", text(`{"card":"CARD","device":{"os":"linux"},"amount":AMOUNT,"ts":TS}`)},
		{"csv", "format: {csv: {columns: [card, amount, os, ts, extra]}}, " + flat, "", text("CARD,AMOUNT,linux,TS,")},
		{"avro", "format: {avro: " + schema + "}, " + nested, "", avro},
		{"registry", "format: schema_registry, " + nested, "schema_registry: " + server.URL() + "\n", func(s sale) stream.Record {
			return framed(t, server, stream.Record{}, sr.TypeAvro, paymentSchema, avro(s).Value)
		}},
		{"debezium", "envelope: debezium, " + flat + ", op: {from: envelope, type: string}", "", text(`{"op":"c","before":null,"after":{"card":"CARD","amount":AMOUNT,"os":"linux","ts":TS}}`)},
		{"cloudevents", "envelope: cloudevents, " + flat + ", id: {from: envelope, type: string}", "", text(`{"specversion":"1.0","id":"TS","data":{"card":"CARD","amount":AMOUNT,"os":"linux","ts":TS}}`)},
		{"binary cloudevents", "envelope: cloudevents, " + flat + ", id: {from: envelope, type: string}", "", func(s sale) stream.Record {
			r := text(`{"card":"CARD","amount":AMOUNT,"os":"linux","ts":TS}`)(s)
			r.Headers = []stream.Header{{Key: "ce_specversion", Value: []byte("1.0")}, {Key: "ce_id", Value: fmt.Append(nil, s.second)}}
			return r
		}},
	}
}

// composing returns a pipeline whose group or join makes events, with a share of an amount. add is
// more fields.
func composing(t *testing.T, f form, kind, share, add string) lang.Pipeline {
	t.Helper()
	head, step := "input: {topic: sales, key: card, partitions: 1, time: {field: ts, unit: ms}, %s%s}}", "group: {name: made, by: card, every: 1m, values: {amount: {sum: amount}}}"
	switch kind {
	case "group":
		step = "group: {name: made, by: card, timeout: 1m, values: {amount: {sum: amount}}}"
	case "join":
		head = "inputs:\n  - {topic: sales, key: card, repartition: 2, partitions: 1, time: {field: ts, unit: ms}, %s%s}}\n  - {topic: costs, key: card, partitions: 1, time: {field: ts, unit: ms}, fields: {card: string, amount: number, ts: int}}"
		step = "join: {name: made, left: sales, right: costs, on: {card: card}, within: 1m, type: inner, match: first}"
	}
	file, err := config.Parse("p.yaml", fmt.Appendf(nil, "pipeline: shares\n"+f.top+head+"\nsteps:\n  - %s\n  - let: {share: %q}\n  - emit: {topic: shares, value: {card: card, os: os, share: share, id: meta.id, at: meta.time}}\n", f.input, add, step, share), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	return file.Pipelines[0]
}

// TestEventsThatAStepMadeGoOnInAnyFormat has each second event of a group or a join be a dead letter,
// and sends it back to a corrected file that has another field. Its value is not one of the input. The
// outputs are those of the corrected file.
func TestEventsThatAStepMadeGoOnInAnyFormat(t *testing.T) {
	engines := []string{"memory", "embedded", "kafka"}
	for i, f := range forms(t) {
		for k, kind := range []string{"windows", "group", "join"} {
			engine := engines[(i+k)%len(engines)]
			t.Run(f.name+"/"+kind+"/"+engine, func(t *testing.T) { redriveComposed(t, f, kind, engine) })
		}
	}
}

const (
	dividing  = "100.0 / made.amount"
	corrected = "made.amount == 0.0 ? 0.0 : 100.0 / made.amount"
)

// sales are events. Those of cards a and c add up to 0, by which a file without correction divides.
func (f form) sales() (list []stream.Record) {
	for _, s := range []sale{{"a", 5, 0}, {"a", -5, 1}, {"b", 40, 2}, {"c", 0, 3}, {"z", 1, 300}} {
		r := f.record(s)
		r.Partition, r.Key, r.Time = stream.Partition{Topic: "sales"}, []byte(s.card), time.UnixMilli(epoch).Add(time.Hour)
		cost := stream.Record{Partition: stream.Partition{Topic: "costs"}, Key: r.Key, Time: r.Time, Value: fmt.Appendf(nil, `{"card":%q,"amount":%v,"ts":%d}`, s.card, max(0, s.amount-5), epoch+s.second*1000)}
		list = append(list, r, cost)
	}
	return list
}

func redriveComposed(t *testing.T, f form, kind, engine string) {
	var events []stream.Record
	for _, r := range f.sales() {
		if r.Partition.Topic == "sales" || kind == "join" {
			events = append(events, r)
		}
	}
	run := func(log stream.Log, p lang.Pipeline, events []stream.Record) []string {
		answer, _ := runQueueing(t, log, p, 1, events)
		return inOrder(answer.Values("shares"))
	}
	mended := composing(t, f, kind, corrected, ", extra: optional string")
	want := run(openLog(t, "memory", ""), mended, events)

	dir := t.TempDir()
	log := openLog(t, engine, dir)
	run(log, composing(t, f, kind, dividing, ""), events)
	open := openLetters(t, log.(deadletter.Log), "shares")
	for _, l := range open {
		if l.Stage != "let" || !strings.HasSuffix(l.ID, "~made") && kind != "windows" {
			t.Errorf("letter %s: %s: %s", l.ID, l.Stage, l.Reason)
		}
	}
	if n := redriveAll(t, log, "shares"); n < 2 || n != len(open) {
		t.Fatalf("%d of %d letters were sent back", n, len(open))
	}
	if engine == "embedded" {
		closeLog(t, log)
		log = openLog(t, engine, dir)
	}
	defer closeLog(t, log)
	if d := cmp.Diff(want, run(log, mended, nil)); d != "" {
		t.Error(d)
	}
	for _, l := range openLetters(t, log.(deadletter.Log), "shares") {
		t.Errorf("letter %s: %s: %s", l.ID, l.Stage, l.Reason)
	}
}

// TestNewFieldsOfACorrectedFile has events be sent back to a file with another field. It is read of an
// event of the input. One that a group made has no value of it, which a required field says.
func TestNewFieldsOfACorrectedFile(t *testing.T) {
	before, after := divided(false), divided(true)
	before.Input.Fields = before.Input.Fields[:3]
	after.Steps[3] = &steps.Emit{Topic: "noted", Names: []string{"card", "note"}}
	event := payment("a", 0, 0)
	event.Value = append(event.Value[:len(event.Value)-1], `,"note":"gift"}`...)
	log := run(t, before, event)
	redriveAll(t, log, "payments")
	runOn(t, log, after)
	if d := cmp.Diff([]string{`{"card":"a","note":"gift"}`}, values(t, log, "noted")); d != "" {
		t.Error(d)
	}

	f := forms(t)[1]
	first, last := f.record(sale{"a", 0, 0}), f.record(sale{"z", 1, 300})
	first.Key, last.Key = []byte("a"), []byte("z")
	log = run(t, composing(t, f, "group", dividing, ""), first, last)
	redriveAll(t, log, "shares")
	runOn(t, log, composing(t, f, "group", corrected, ", extra: int"))
	want := []string{`let: share: column 7: division by zero`, `decode: the event was created before field "extra" was added, so it has no value for it: make the field optional`}
	if d := cmp.Diff(want, stages(t, log, "shares.dlq")); d != "" {
		t.Error(d)
	}
}

// TestLettersWithoutHeadersThatAreReadAreNotSentBack cuts the headers off: of a CloudEvent in binary mode, of events whose
// headers an expression reads, and of others, which go on without them.
func TestLettersWithoutHeadersThatAreReadAreNotSentBack(t *testing.T) {
	for name, c := range map[string]struct {
		of      envelope.Kind
		expr    string
		refused bool
	}{
		"binary":     {envelope.CloudEvents, "1 / (n - 7)", true},
		"expression": {envelope.None, `1 / (n - 7) + len(meta.headers["ce_specversion"] ?? "")`, true},
		"other":      {envelope.None, "1 / (n - 7)", false},
	} {
		p := lang.Pipeline{
			Name:  "cut",
			Input: lang.Input{Topic: "in", Key: "k", Partitions: 1, Envelope: c.of, Fields: []lang.Field{{Name: "k", Type: "string"}, {Name: "n", Type: "int"}, {Name: "note", Type: "string"}}},
			Steps: []lang.Step{&steps.Let{List: []lang.Binding{{Name: "x", Expr: c.expr}}}, &steps.Emit{Topic: "out", Names: []string{"k", "x"}}},
		}
		log := memory.New(memory.Options{})
		text := func(size int) string { return strings.Repeat("x", size<<10) }
		runOn(t, log, p, stream.Record{Key: []byte("a"), Value: []byte(`{"k":"a","n":7,"note":"` + text(50) + `","more":"` + text(900) + `"}`), Headers: []stream.Header{
			{Key: "ce_specversion", Value: []byte("1.0")}, {Key: "big", Value: []byte(text(130))},
		}})
		dead := readPartition(t, log, stream.Partition{Topic: "cut.dlq"})
		if len(dead) != 1 {
			t.Fatalf("%s: %d dead letters", name, len(dead))
		}
		l := deadletter.Read(dead[0])
		if why := l.Refusal(); strings.Contains(why, "its headers, which the pipeline reads") != c.refused || why != "" && !c.refused {
			t.Errorf("%s: refused for %q; %s", name, why, header.Get(&dead[0], header.Truncated))
		}
		if cut := header.Get(&dead[0], header.Truncated); !strings.Contains(cut, "headers") {
			t.Errorf("%s: cut are %q", name, cut)
		}
	}
}
