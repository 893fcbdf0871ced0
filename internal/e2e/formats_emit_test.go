package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	generic "github.com/twmb/avro"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

// decisionSchema is the schema of what payments emits to alerts: share is a float, who an enum of three.
const decisionSchema = `{"type":"record","name":"Alert","fields":[{"name":"share","type":"float"},{"name":"note","type":["null","string"]},
	{"name":"who","type":{"type":"enum","name":"Who","symbols":["a","b"]}}]}`

// encoded has payments write alerts by a schema, which it writes to a file.
func encoded(t *testing.T, schema string) lang.Pipeline {
	t.Helper()
	file := filepath.Join(t.TempDir(), "alert.avsc")
	if err := os.WriteFile(file, []byte(schema), 0o600); err != nil {
		t.Fatal(err)
	}
	p := payments()
	alerts(&p).Format.Avro = file
	return p
}

func alerts(p *lang.Pipeline) *steps.Emit { return p.Steps[len(p.Steps)-1].(*steps.Emit) }

// TestOutputsAreWrittenInTheirFormat reads what an emit wrote by its schema with a generic decoder. An output that does not fit is a
// dead letter that can be sent back, and the other outputs of its event are there.
func TestOutputsAreWrittenInTheirFormat(t *testing.T) {
	p := encoded(t, decisionSchema)
	log := memory.New(memory.Options{})
	runOn(t, log, p, payment("a", 150, 0), payment("c", 150, 1), payment("b", 50, 2), payment("b", 150, 3))
	var got []string
	for _, text := range values(t, log, "alerts") {
		var all map[string]any
		if _, err := generic.MustParse(decisionSchema).Decode([]byte(text), &all); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(all))
	}
	if want := "map[note:<nil> share:1 who:a];map[note:<nil> share:0.75 who:b]"; strings.Join(got, ";") != want {
		t.Errorf("alerts %q, want %s", got, want)
	}
	if n := len(values(t, log, "out")); n != 4 {
		t.Errorf("%d other outputs, want 4", n)
	}
	dead := readPartition(t, log, stream.Partition{Topic: "payments.dlq"})
	if len(dead) != 1 || header.Get(&dead[0], "afterbay-error") != `the record of alerts cannot be encoded: field "who": "c" is not a symbol of Who` || header.Get(&dead[0], "afterbay-stage") != "emit" || header.Get(&dead[0], "afterbay-resume") != "only; emit alerts" {
		t.Errorf("dead letters %v", dead)
	}
}

// TestFormatsOfOutputsAreCheckedBeforeAnythingRuns refuses schemas that do not fit, and readers of JSON.
func TestFormatsOfOutputsAreCheckedBeforeAnythingRuns(t *testing.T) {
	for want, change := range map[string]func(p *lang.Pipeline){
		"":                                 func(*lang.Pipeline) {},
		"steps[4].emit.format: open ":      func(p *lang.Pipeline) { alerts(p).Format.Avro += ".none" },
		`the schema has no field "reason"`: func(p *lang.Pipeline) { alerts(p).Value[0].Name = "reason" },
		"records have one format":          func(p *lang.Pipeline) { alerts(p).Format.Protobuf.File = "alert.proto" },
		`replies[0]: "alerts" is written with a format, and clients get JSON`: func(p *lang.Pipeline) { p.Replies = []string{"alerts"} },
		`sinks[0].from: "alerts" is written with a format, and this sink reads JSON`: func(p *lang.Pipeline) {
			p.Sinks = []lang.Sink{{From: "alerts", Config: reader{}}}
		},
		"write one format in all emits of the topic": func(p *lang.Pipeline) {
			p.Steps = append(p.Steps, &steps.Emit{Topic: "alerts", Name: "again", Names: []string{"card"}})
		},
	} {
		p := encoded(t, decisionSchema)
		change(&p)
		_, err := builtin.New(p, pipeline.Options{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(fmt.Sprint(err), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// reader is a sink that reads JSON.
type reader struct{ sink.Config }

func (reader) Check(sink.Topic) []error { return nil }

// passer is a sink that hands values on.
type passer struct{ reader }

func (passer) Opaque() {}

var _ sink.Opaque = passer{}

// TestValuesOfAFormatGoToSinksThatReadNone takes a sink that hands on what it gets.
func TestValuesOfAFormatGoToSinksThatReadNone(t *testing.T) {
	p := encoded(t, decisionSchema)
	p.Sinks = []lang.Sink{{From: "alerts", Config: passer{}}}
	if _, err := builtin.New(p, pipeline.Options{}); err != nil {
		t.Error(err)
	}
}

// TestChainsHaveOneFormat refuses a reader of another format than that of the writer.
func TestChainsHaveOneFormat(t *testing.T) {
	writer := encoded(t, decisionSchema)
	reading := func(format lang.Format) error {
		after := lang.Pipeline{Name: "after", Input: lang.Input{Topic: "alerts", Key: "who", Fields: []lang.Field{{Name: "who", Type: "string"}}, Format: format}}
		after.Steps = []lang.Step{&steps.Emit{Topic: "last", Names: []string{"who"}}}
		_, err := builtin.NewChain([]lang.Pipeline{writer, after}, pipeline.Options{})
		return errors.Join(err)
	}
	if err := reading(lang.Format{}); err == nil || !strings.Contains(err.Error(), `input.format: pipeline "payments" emits to "alerts" with another format`) {
		t.Error(err)
	}
	if err := reading(lang.Format{Avro: alerts(&writer).Format.Avro}); err != nil {
		t.Error(err)
	}
}

// TestSchemaOfAnOutputIsPartOfTheFingerprint has a file of another path be the same, and one with another schema not.
func TestSchemaOfAnOutputIsPartOfTheFingerprint(t *testing.T) {
	one := fingerprintOf(t, encoded(t, decisionSchema))
	if other := fingerprintOf(t, encoded(t, decisionSchema)); other != one {
		t.Error("another path of the schema changes the fingerprint")
	}
	for _, other := range []lang.Pipeline{payments(), encoded(t, strings.Replace(decisionSchema, `"float"`, `"double"`, 1))} {
		if fingerprintOf(t, other) == one {
			t.Error("another schema does not change the fingerprint")
		}
	}
}

// TestLintWarnsOfFunctionsThatWriteATopicOfAFormat has a function that writes what an emit writes as Avro.
func TestLintWarnsOfFunctionsThatWriteATopicOfAFormat(t *testing.T) {
	for topic, want := range map[string]int{"alerts": 1, "others": 0} {
		p := encoded(t, decisionSchema)
		p.Code.Functions = map[string]udf.Function{"raise": {Version: 1, Event: func(*udf.Context) error { return nil }}}
		p.Steps = append(p.Steps, &steps.Call{Go: "raise", Name: "raised", Topics: []string{topic}})
		runner, err := builtin.New(p, pipeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(strings.Join(runner.Warnings, "\n"), `a function writes "alerts" too, and the engine writes its values unchanged`); n != want {
			t.Errorf("%s: %q", topic, runner.Warnings)
		}
		runner.Close()
	}
}
