package explain_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/ops/explain"
	"github.com/afterbay/afterbay/stream"
)

// TestValuesOfASchemaAreShownAsJSON explains an output of Avro, its event of Protobuf, and a dead letter of one. Without the pipeline
// they are bytes.
func TestValuesOfASchemaAreShownAsJSON(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(folder, name)
	}
	p := lang.Pipeline{
		Name: "cards", Input: lang.Input{Topic: "payments", Partitions: 1, Key: "card", Fields: []lang.Field{{Name: "card", Type: "int"}, {Name: "at", Type: "optional time"}},
			Format: lang.Format{Protobuf: lang.Protobuf{File: write("in.proto", `syntax = "proto3"; import "google/protobuf/timestamp.proto"; message In { int64 card = 1; optional int64 more = 2; google.protobuf.Timestamp at = 3; }`)}}},
		Steps: []lang.Step{&steps.Emit{Topic: "out", Names: []string{"card"}, Format: lang.OutputFormat{Avro: write("out.avsc", `{"type":"record","name":"Out","fields":[{"name":"card","type":"long"}]}`)}}},
	}
	log, d := newLog(t)
	event := stream.Record{Partition: stream.Partition{Topic: "payments"}, Time: time.UnixMilli(1_000_000_000), Key: []byte("7"), Value: protowire.AppendVarint([]byte{8}, 7)}
	wrong := event
	wrong.Key, wrong.Value = []byte("8"), protowire.AppendVarint([]byte{8}, 9)
	computed(t, log, []lang.Pipeline{p}, []stream.Record{event, wrong})
	for topic, want := range map[string][2]string{"out": {`{"card":7}`, `{"card":7}`}, "cards.dlq": {`{"card":9}`, `{"card":9}`}} {
		all := stored(t, d, topic)
		if len(all) != 1 {
			t.Fatalf("%s has %d records", topic, len(all))
		}
		report, err := explain.Explain(t.Context(), header.Get(&all[0], header.ID), explain.Options{Directory: d, Pipelines: []lang.Pipeline{p}})
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]string{string(report.Output.Value), string(report.Event.Value)}; got != want {
			t.Errorf("%s: %q, want %q", topic, got, want)
		}
		if report, err = explain.Explain(t.Context(), header.Get(&all[0], header.ID), explain.Options{Directory: d}); err != nil || string(report.Output.Value) == want[0] {
			t.Errorf("%s without the pipeline: %s, %v", topic, report.Output.Value, err)
		}
	}
}
