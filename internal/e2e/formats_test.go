package e2e_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	generic "github.com/twmb/avro"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// paymentSchema has the fields of payments among others.
const paymentSchema = `{"type":"record","name":"Payment","fields":[{"name":"device","type":{"type":"record","name":"Device","fields":[{"name":"os","type":"string"}]}},
	{"name":"amount","type":"double"},{"name":"note","type":["null","string"]},{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"card","type":"string"}]}`

// avroPayments reads payments by a schema that it writes to a file.
func avroPayments(t *testing.T, schema string) lang.Pipeline {
	t.Helper()
	file := filepath.Join(t.TempDir(), "payment.avsc")
	if err := os.WriteFile(file, []byte(schema), 0o600); err != nil {
		t.Fatal(err)
	}
	p := payments()
	p.Input.Format.Avro = file
	return p
}

// TestEventsOfAvroAreLikeThoseOfJSON compares the outputs of the same events in both formats, of a topic that is read as it is,
// and of one that is copied.
func TestEventsOfAvroAreLikeThoseOfJSON(t *testing.T) {
	for _, copied := range []int32{0, 2} {
		plain, avro := payments(), avroPayments(t, paymentSchema)
		plain.Input.Repartition, avro.Input.Repartition = copied, copied
		var events, records []stream.Record
		for second, card := range []string{"a", "b", "a", "a", "b"} {
			event := payment(card, 40.5, second)
			record := event
			record.Value = avroPayment(t, card, 40.5, second)
			events, records = append(events, event), append(records, record)
		}
		bad := records[0]
		bad.Value = bad.Value[:3]
		want, got := run(t, plain, events...), run(t, avro, append(records, bad)...)
		for _, topic := range []string{"out", "alerts"} {
			want, got := values(t, want, topic), values(t, got, topic)
			if len(want) == 0 || !slices.Equal(want, got) {
				t.Errorf("repartition %d, %s: got %q, want %q", copied, topic, got, want)
			}
		}
		if dead := stages(t, got, "payments.dlq"); len(dead) != 1 || !strings.HasPrefix(dead[0], "decode: byte 3: the record ends too early") {
			t.Errorf("repartition %d: dead letters %q", copied, dead)
		}
	}
}

func avroPayment(t *testing.T, card string, amount float64, second int) []byte {
	t.Helper()
	value, err := generic.MustParse(paymentSchema).Encode(map[string]any{
		"device": map[string]any{"os": "linux"}, "amount": amount, "note": nil, "ts": time.UnixMilli(epoch + int64(second)*1000), "card": card,
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestSchemasOfAvroAreCheckedBeforeAnythingRuns refuses a schema that is not there, is none, or lacks fields.
func TestSchemasOfAvroAreCheckedBeforeAnythingRuns(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`{"type":"record"`, "input.format.avro: "},
		{strings.Replace(paymentSchema, `"amount"`, `"sum"`, 1), `input.fields: field "amount" is required: the schema has no such field`},
		{strings.Replace(paymentSchema, `"double"`, `"string"`, 1), `input.fields: field "amount" is of type string in the schema: want number`},
	} {
		if _, err := builtin.New(avroPayments(t, c.schema), pipeline.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.schema, err)
		}
	}
	p := avroPayments(t, paymentSchema)
	p.Input.Format.Avro += ".none"
	if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), "input.format.avro: ") {
		t.Error(err)
	}
}

// fingerprintOf returns the fingerprint of the outputs of a pipeline.
func fingerprintOf(t *testing.T, p lang.Pipeline) string {
	t.Helper()
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	return runner.Plan.Fingerprint.Outputs
}

// TestSchemaIsPartOfTheFingerprint has a file of another path be the same, and one with another schema not.
func TestSchemaIsPartOfTheFingerprint(t *testing.T) {
	one := fingerprintOf(t, avroPayments(t, paymentSchema))
	if other := fingerprintOf(t, avroPayments(t, paymentSchema)); other != one {
		t.Error("another path of the schema changes the fingerprint")
	}
	if other := fingerprintOf(t, avroPayments(t, strings.Replace(paymentSchema, `"os"`, `"system"`, 1))); other == one {
		t.Error("another schema does not change the fingerprint")
	}
}

const paymentProto = `syntax = "proto3"; package shop; import "parts/device.proto";
message Payment { Device device = 1; double amount = 2; optional string note = 3; int64 ts = 4; string card = 5; }`

// protobufPayments reads payments by a schema that it writes to files.
func protobufPayments(t *testing.T, schema, message string) lang.Pipeline {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"payment.proto": schema, "parts/device.proto": `syntax = "proto3"; package shop; message Device { string os = 1; }`} {
		file := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	p := payments()
	p.Input.Format.Protobuf = lang.Protobuf{File: filepath.Join(folder, "payment.proto"), Message: message}
	return p
}

func protobufPayment(card string, amount float64, second int) []byte {
	value := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte("\n\x05linux"))
	value = protowire.AppendFixed64(protowire.AppendTag(value, 2, protowire.Fixed64Type), math.Float64bits(amount))
	value = protowire.AppendVarint(protowire.AppendTag(value, 4, protowire.VarintType), uint64(epoch+second*1000))
	return protowire.AppendString(protowire.AppendTag(value, 5, protowire.BytesType), card)
}

// TestEventsOfProtobufAreLikeThoseOfJSON compares the outputs of the same events in both formats.
func TestEventsOfProtobufAreLikeThoseOfJSON(t *testing.T) {
	var events, records []stream.Record
	for second, card := range []string{"a", "b", "a", "a", "b"} {
		event := payment(card, 40.5, second)
		record := event
		record.Value = protobufPayment(card, 40.5, second)
		events, records = append(events, event), append(records, record)
	}
	bad := records[0]
	bad.Value = bad.Value[:3]
	want, got := run(t, payments(), events...), run(t, protobufPayments(t, paymentProto, "shop.Payment"), append(records, bad)...)
	for _, topic := range []string{"out", "alerts"} {
		want, got := values(t, want, topic), values(t, got, topic)
		if len(want) == 0 || !slices.Equal(want, got) {
			t.Errorf("%s: got %q, want %q", topic, got, want)
		}
	}
	if dead := stages(t, got, "payments.dlq"); len(dead) != 1 || !strings.HasPrefix(dead[0], "decode: byte 1: the record ends too early") {
		t.Errorf("dead letters %q", dead)
	}
}

// TestSchemasOfProtobufAreCheckedBeforeAnythingRuns refuses a schema that is not there, is none, or lacks fields.
func TestSchemasOfProtobufAreCheckedBeforeAnythingRuns(t *testing.T) {
	for _, c := range []struct{ schema, message, want string }{
		{`message {`, "", "input.format.protobuf: "},
		{paymentProto, "shop.Refund", `input.format.protobuf: `},
		{strings.Replace(paymentProto, "parts/", "../", 1), "", "is not below the folder"},
		{strings.Replace(paymentProto, "double amount", "string amount", 1), "", `input.fields: field "amount" is of type string in the schema: want number`},
	} {
		if _, err := builtin.New(protobufPayments(t, c.schema, c.message), pipeline.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.schema, err)
		}
	}
	both := protobufPayments(t, paymentProto, "")
	both.Input.Format.Avro = "payment.avsc"
	if _, err := builtin.New(both, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), "records have one format") {
		t.Error(err)
	}
}
