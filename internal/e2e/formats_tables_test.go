package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	generic "github.com/twmb/avro"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// levelOf returns a pipeline that looks the tier and level of customers up, in a table of a format.
func levelOf(of envelope.Kind, format lang.Format, fields ...lang.Field) lang.Pipeline {
	return lang.Pipeline{
		Name:  "orders",
		Input: lang.Input{Topic: "orders", Partitions: 1, Key: "customer", Fields: []lang.Field{{Name: "customer", Type: "int"}}},
		Steps: []lang.Step{
			&steps.Lookup{Name: "who", Table: "customers", Versions: steps.RowVersions{Envelope: of, Format: format}, Key: "customer", Fields: fields},
			&steps.Emit{Topic: "out", Names: []string{"customer", "who.tier", "who.level"}},
		},
	}
}

// schemaFile writes a schema, and returns its file.
func schemaFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const rowSchema = `{"type":"record","name":"Row","fields":[{"name":"tier","type":["null","string"]},{"name":"level","type":"long"}]}`

// TestTablesOfSchemasOfFiles looks rows up in records of Avro, in change events of Avro, and in records of Protobuf. One that is not of
// the schema is a broken row, and one without a value deletes the row.
func TestTablesOfSchemasOfFiles(t *testing.T) {
	const change = `{"type":"record","name":"Envelope","fields":[{"name":"before","type":["null",` + rowSchema + `]},{"name":"after","type":["null","Row"]},{"name":"op","type":"string"}]}`
	avro := func(schema string, of map[string]any) []byte {
		data, err := generic.MustParse(schema).Encode(of)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	row := func(tier any, level int64) map[string]any { return map[string]any{"tier": tier, "level": level} }
	message := func(tier string, level uint64) []byte {
		data := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), tier)
		return protowire.AppendVarint(protowire.AppendTag(data, 2, protowire.VarintType), level)
	}
	proto := schemaFile(t, "row.proto", `syntax = "proto3"; package shop; message Other { string a = 1; } message Row { optional string tier = 1; int64 level = 2; }`)
	for _, c := range []struct {
		of     envelope.Kind
		format lang.Format
		values [][]byte // of the keys 1, 1, 2, 2 and 3
		want   string
	}{
		{envelope.None, lang.Format{Avro: schemaFile(t, "row.avsc", rowSchema)}, [][]byte{avro(rowSchema, row("free", 1)), avro(rowSchema, row("gold", 1<<60)), avro(rowSchema, row(nil, 7)), nil, []byte(`{"tier":"x"}`)},
			`{"customer":1,"who_tier":"gold","who_level":1152921504606846976};{"customer":2,"who_tier":null,"who_level":null}`},
		{envelope.Debezium, lang.Format{Avro: schemaFile(t, "change.avsc", change)}, [][]byte{
			avro(change, map[string]any{"before": nil, "after": row("free", 1), "op": "c"}), avro(change, map[string]any{"before": nil, "after": row("gold", 2), "op": "u"}),
			avro(change, map[string]any{"before": nil, "after": row("free", 1), "op": "c"}), avro(change, map[string]any{"before": row("free", 1), "after": nil, "op": "d"}), []byte(`x`)},
			`{"customer":1,"who_tier":"gold","who_level":2};{"customer":2,"who_tier":null,"who_level":null}`},
		{envelope.None, lang.Format{Protobuf: lang.Protobuf{File: proto, Message: "shop.Row"}}, [][]byte{message("free", 1), message("gold", 1<<60), message("x", 7), {0x0a, 0}, {8}},
			`{"customer":1,"who_tier":"gold","who_level":1152921504606846976};{"customer":2,"who_tier":"","who_level":0}`},
	} {
		log := memory.New(memory.Options{})
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: "customers", Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		for i, key := range []string{"1", "1", "2", "2", "3"} {
			if err := log.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: "customers"}, Key: []byte(key), Value: c.values[i]}); err != nil {
				t.Fatal(err)
			}
		}
		runOn(t, log, levelOf(c.of, c.format, lang.Field{Name: "tier", Type: "optional string"}, lang.Field{Name: "level", Type: "int"}), orderOf("1"), orderOf("2"), orderOf("3"))
		if got := strings.Join(values(t, log, "out"), ";"); got != c.want {
			t.Errorf("%+v: %s, want %s", c.format, got, c.want)
		}
		dead := readPartition(t, log, stream.Partition{Topic: "orders.dlq"})
		if len(dead) != 1 || !strings.Contains(header.Get(&dead[0], "afterbay-error"), `row "3" of table customers: customers/0@4: byte `) {
			t.Errorf("%+v: dead letters %v", c.format, dead)
		}
	}
}

// TestTablesOfSchemasOfFilesAreChecked refuses fields that a schema does not have, and names the file of one that is no schema. Another
// schema is another fingerprint.
func TestTablesOfSchemasOfFilesAreChecked(t *testing.T) {
	file := schemaFile(t, "row.avsc", rowSchema)
	tier, level := lang.Field{Name: "tier", Type: "optional string"}, lang.Field{Name: "level", Type: "int"}
	outputs := func(format lang.Format, want string, fields ...lang.Field) string {
		t.Helper()
		runner, err := builtin.New(levelOf(envelope.None, format, fields...), pipeline.Options{})
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %s", format, err, want)
			}
			return ""
		}
		if err != nil {
			t.Fatal(err)
		}
		defer runner.Close()
		return runner.Plan.Fingerprint.Outputs
	}
	outputs(lang.Format{Avro: file}, `field "level" is of type long in the schema: want string`, tier, lang.Field{Name: "level", Type: "string"})
	outputs(lang.Format{Avro: file + "x"}, "row.avscx", tier, level)
	outputs(lang.Format{Avro: schemaFile(t, "bad.avsc", "{")}, "bad.avsc: the schema is not JSON", tier, level)
	outputs(lang.Format{Avro: file, Protobuf: lang.Protobuf{File: "x.proto"}}, "records have one format", tier, level)
	before := outputs(lang.Format{Avro: file}, "", tier, level)
	if err := os.WriteFile(file, []byte(strings.Replace(rowSchema, `"long"}`, `"long"},{"name":"more","type":"int"}`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if after := outputs(lang.Format{Avro: file}, "", tier, level); after == before {
		t.Error("another schema has the same fingerprint")
	}
}
