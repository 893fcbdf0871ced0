package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// framedAlerts has payments write alerts with the id of their schema, which it registers.
func framedAlerts(t *testing.T, server *srfake.Registry) lang.Pipeline {
	t.Helper()
	p := encoded(t, decisionSchema)
	p.Registry.URL = server.URL()
	f := &alerts(&p).Format
	f.Registry, f.Register = true, true
	return p
}

// writtenBy has payments write alerts by a schema of a file, with its id.
func writtenBy(t *testing.T, server *srfake.Registry, file, schema string, set func(f *lang.OutputFormat, file string)) lang.Pipeline {
	t.Helper()
	p := framedAlerts(t, server)
	file = filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(file, []byte(schema), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &alerts(&p).Format
	f.Avro = ""
	set(f, file)
	return p
}

// alertProto is a file whose second message is what payments emits to alerts.
const alertProto = `syntax = "proto3"; import "google/protobuf/timestamp.proto"; message Other { google.protobuf.Timestamp at = 1; } message Alert { float share = 1; optional string note = 2; string who = 3; }`

// TestOutputsBeginWithTheIDOfTheirSchema has a second pipeline read what the first wrote, by the registry.
func TestOutputsBeginWithTheIDOfTheirSchema(t *testing.T) {
	for _, c := range []struct {
		file, schema string
		set          func(f *lang.OutputFormat, file string)
		prefix       string
	}{
		{"alert.avsc", decisionSchema, func(f *lang.OutputFormat, file string) { f.Avro = file }, ""},
		{"alert.proto", alertProto, func(f *lang.OutputFormat, file string) { f.Protobuf = lang.Protobuf{File: file, Message: "Alert"} }, "\x02\x02"},
		{"alert.json", `{"properties":{"note":{"type":["null","string"]}}}`, func(f *lang.OutputFormat, file string) { f.JSONSchema = file }, `{"who":"a","share":1}`},
	} {
		server := srfake.New()
		server.SeedSchema("other-value", 1, 258, sr.Schema{Schema: `"long"`})
		log := memory.New(memory.Options{})
		p := writtenBy(t, server, c.file, c.schema, c.set)
		runOn(t, log, p, payment("a", 150, 0), payment("b", 150, 3))
		written := values(t, log, "alerts")
		if len(written) != 2 || !strings.HasPrefix(written[0], "\x00\x00\x00\x01\x03"+c.prefix) {
			t.Errorf("%s: alerts %q", c.file, written)
		}
		after := lang.Pipeline{
			Name: "after", Registry: p.Registry,
			Input: lang.Input{Topic: "alerts", Key: "who", Fields: []lang.Field{{Name: "who", Type: "string"}, {Name: "share", Type: "number"}}, Format: lang.Format{Name: lang.FormatRegistry}},
			Steps: []lang.Step{&steps.Emit{Topic: "last", Names: []string{"who", "share"}}},
		}
		runOn(t, log, after)
		if got, want := strings.Join(values(t, log, "last"), ";"), `{"who":"a","share":1};{"who":"b","share":1}`; got != want {
			t.Errorf("%s: read %s, want %s", c.file, got, want)
		}
		server.Close()
	}
}

// TestSchemasOfARegistryAreOneText refuses files whose text a registry does not have by itself.
func TestSchemasOfARegistryAreOneText(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{"money.proto": `syntax = "proto3"; message Money {}`, "alert.proto": `syntax = "proto3"; import "money.proto"; message Alert { Money of = 4; float share = 1; optional string note = 2; string who = 3; }`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{Name: proto.String("a.proto"), MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Alert")}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "alert.pb"), set, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"alert.proto": "imports money.proto, and with schema_registry a schema is one file: copy the imported messages into it",
		"alert.pb":    "is not the text of a schema, and a registry needs the text: name the .proto file",
	} {
		p := framedAlerts(t, server)
		f := &alerts(&p).Format
		f.Avro, f.Protobuf.File = "", filepath.Join(dir, file)
		if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestAPipelineWaitsForTheSchemasOfItsOutputs runs while the registry is away, and ends and begins again meanwhile. Nothing is computed,
// and no event becomes a dead letter. The records are those of a registry that always answers, with a newer schema in the subject, too.
func TestAPipelineWaitsForTheSchemasOfItsOutputs(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	p := framedAlerts(t, server)
	events := []stream.Record{payment("a", 150, 0), payment("b", 50, 2), payment("b", 150, 3)}
	want := values(t, run(t, p, events...), "alerts")
	if _, _, err := server.RegisterSchema("alerts-value", sr.Schema{Schema: strings.Replace(decisionSchema, `"float"`, `"double"`, 1)}); err != nil {
		t.Fatal(err)
	}
	away := outage(server, "")
	log := memory.New(memory.Options{})
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	appendInput(t, log, p, events...)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- runner.Run(ctx, log) }()
	for runner.Schemas.Stats().Faults < 3 {
		time.Sleep(time.Millisecond)
	}
	if s := runner.Snapshot(); s.Counts.Events != 0 || s.Counts.DeadLetters != 0 || !strings.HasPrefix(s.Schemas.Away, "subject alerts-value: look it up: 503 Service Unavailable: the leader is elected") {
		t.Errorf("%d events, %d dead letters, %+v", s.Counts.Events, s.Counts.DeadLetters, s.Schemas)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	away.Store(false)
	runOn(t, log, p)
	if got := values(t, log, "alerts"); len(got) != 2 || !slices.Equal(got, want) {
		t.Errorf("alerts %q, want %q", got, want)
	}
	if dead := stages(t, log, "payments.dlq"); len(dead) > 0 {
		t.Errorf("dead letters %q", dead)
	}
}

// TestSchemasOfOutputsAreRegisteredOnlyIfThatIsSaid ends a pipeline whose schema is not there, before it computes anything. A replay
// registers nothing, and a run offline does not ask.
func TestSchemasOfOutputsAreRegisteredOnlyIfThatIsSaid(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	p := framedAlerts(t, server)
	lacks := `pipeline "payments": subject alerts-value does not have the schema: `
	ends := func(p lang.Pipeline, o pipeline.Options) error {
		runner, err := builtin.New(p, o)
		if err != nil {
			t.Fatal(err)
		}
		defer runner.Close()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute) // a pipeline that starts
		defer stop()
		return runner.Run(ctx, memory.New(memory.Options{}))
	}
	if err := ends(p, pipeline.Options{Notes: &pipeline.Notes{}}); err == nil || err.Error() != lacks+"a replay registers none. Run the pipeline first" {
		t.Error(err)
	}
	alerts(&p).Format.Register = false
	if err := ends(p, pipeline.Options{}); err == nil || err.Error() != lacks+"register it, or write `register: true`" {
		t.Error(err)
	}
	if server.SubjectExists("alerts-value") {
		t.Error("a schema was registered")
	}
	for want, change := range map[string]func(f *lang.OutputFormat, p *lang.Pipeline){
		"schema_registry needs a schema":       func(f *lang.OutputFormat, _ *lang.Pipeline) { f.Avro = "" },
		"json_schema needs a registry":         func(f *lang.OutputFormat, _ *lang.Pipeline) { *f = lang.OutputFormat{JSONSchema: f.Avro} },
		"records have one format":              func(f *lang.OutputFormat, _ *lang.Pipeline) { f.JSONSchema = f.Avro },
		"write schema_registry: true beside":   func(f *lang.OutputFormat, _ *lang.Pipeline) { f.Registry, f.Register = false, true },
		"Write schema_registry: https://HOST:": func(_ *lang.OutputFormat, p *lang.Pipeline) { p.Registry.URL = "" },
	} {
		p := framedAlerts(t, server)
		change(&alerts(&p).Format, &p)
		if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
