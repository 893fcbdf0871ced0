package e2e_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/internal/test/reference"
	"github.com/afterbay/afterbay/stream"
)

// scored is payments with the reference's model, whose 29 inputs are named.
func scored(t *testing.T) lang.Pipeline {
	t.Helper()
	return answerPipeline(t)
}

func TestWrongPipelinesAreRefusedWithPathReasonAndHint(t *testing.T) {
	cases := []struct {
		name   string
		change func(p *lang.Pipeline)
		want   string
	}{
		{"name", func(p *lang.Pipeline) { p.Name = "a b" }, `pipeline: "a b" is not a name`},
		{"delivery", func(p *lang.Pipeline) { p.Delivery = "twice" }, `delivery: unknown mode "twice": use exactly-once`},
		{"commit interval", func(p *lang.Pipeline) { p.Commit.Interval = -1 }, `commit.interval: -1ns is out of range`},
		{"commit size", func(p *lang.Pipeline) { p.Commit.Size = 1 << 30 }, `commit.size: 1073741824 is out of range`},
		{"lag beyond bounds", func(p *lang.Pipeline) { p.Lag.Warn = time.Millisecond }, `lag.warn: 1ms is out of range: use 1s to 720h`},
		{"lag critical before warn", func(p *lang.Pipeline) { p.Lag = lang.Lag{Warn: time.Minute, Critical: time.Second} }, `lag.critical: 1s is below warn, 1m0s (a pipeline is late`},
		{"topic", func(p *lang.Pipeline) { p.Input.Topic = "a/b" }, `input.topic: "a/b" is not a topic name`},
		{"backlog without a bound", func(p *lang.Pipeline) { p.Input.Backlog.High = 5 }, `input.backlog.max: missing: how many records may wait`},
		{"marks of a backlog", func(p *lang.Pipeline) { p.Input.Backlog = lang.Backlog{Max: 10, High: 20} }, `input.backlog: the high mark 20 is out of range: use 1 to max`},
		{"partitions", func(p *lang.Pipeline) { p.Input.Partitions = 5000 }, `input.partitions: 5000 is out of range`},
		{"no key", func(p *lang.Pipeline) { p.Input.Key = "" }, `input.key: missing: name the field`},
		{"unknown key", func(p *lang.Pipeline) { p.Input.Key = "user" }, `input.key: "user" is not one of input.fields`},
		{"key of numbers", func(p *lang.Pipeline) { p.Input.Key = "amount" }, `input.key: field "amount" is of type number: a key is a string or int`},
		{"field type", func(p *lang.Pipeline) { p.Input.Fields[0].Type = "text" }, `input.fields.tx: unknown type "text"`},
		{"field name", func(p *lang.Pipeline) { p.Input.Fields[0].Name = "meta" }, `input.fields.meta: "meta" is not a name`},
		{"time unit", func(p *lang.Pipeline) { p.Input.Time.Unit = "h" }, `input.time.unit: unknown unit "h"`},
		{"time type", func(p *lang.Pipeline) { p.Input.Time.Unit = "rfc3339" }, `input.time.field: field "ts" is of type int: unit rfc3339 needs type time`},
		{"late", func(p *lang.Pipeline) { p.Input.Time.Late = "keep" }, `input.time.late: unknown policy "keep"`},
		{"constant shadows", func(p *lang.Pipeline) { p.Constants[0].Name = "amount" }, `constants.amount: "amount" is a field already`},
		{"model file", func(p *lang.Pipeline) { p.Models[0].File = "nowhere.ubj" }, `models.fraud.file: `},
		{"model version", func(p *lang.Pipeline) { p.Models[0].Version = 0 }, `models.fraud.version: 0 is not a version`},
		{"model outputs", func(p *lang.Pipeline) { p.Models[0].Outputs = nil }, `models.fraud.outputs: the model has 1 outputs, 0 are named`},
		{"no word in a step", func(p *lang.Pipeline) { p.Steps[0] = nil }, `steps[0]: a step names exactly one kind of step, and this one names none`},
		{"unknown name", func(p *lang.Pipeline) { p.Steps[0].(*steps.Let).List[0].Expr = "amuont + 1" }, `steps[0].let.where: column 1: unknown name`},
		{"type of a branch", func(p *lang.Pipeline) { p.Steps[0].(*steps.Let).List[0].Expr = `amount > 1 ? "x" : 5` }, `steps[0].let.where: column `},
		{"optional without ??", func(p *lang.Pipeline) { p.Steps[0].(*steps.Let).List[0].Expr = `region[country] + 1` }, `steps[0].let.where: column `},
		{"shadowing", func(p *lang.Pipeline) { p.Steps[0].(*steps.Let).List[0].Name = "amount" }, `steps[0].let.amount: "amount" is introduced twice`},
		{"two kinds of feature", func(p *lang.Pipeline) { p.Steps[1].(*steps.Features).List[0].Last = 3 }, `steps[1].features.spend: a feature has exactly one of windows, last and elapsed`},
		{"window", func(p *lang.Pipeline) { p.Steps[1].(*steps.Features).List[0].Windows[0] = "60s/7s" }, `steps[1].features.spend.windows[0]: `},
		{"aggregate", func(p *lang.Pipeline) { p.Steps[1].(*steps.Features).List[0].Aggregates[0] = "median" }, `steps[1].features.spend.aggregates[0]: `},
		{"sum of nothing", func(p *lang.Pipeline) { p.Steps[1].(*steps.Features).List[0].Value = "" }, `steps[1].features.spend: missing value`},
		{"value of text", func(p *lang.Pipeline) { p.Steps[1].(*steps.Features).List[0].Value = "country" }, `steps[1].features.spend.value: the expression is of type string, but number or int is needed`},
		{"feedback of nothing", func(p *lang.Pipeline) { p.Steps[1].(*steps.Features).List[3].Value = "fraud.scor" }, `steps[1].features.past.value: column 1: unknown name`},
		{"unknown model", func(p *lang.Pipeline) { p.Steps[2].(*steps.Score).Model = "froud" }, `steps[2].score.model: no model is named "froud"`},
		{"unknown input", func(p *lang.Pipeline) { p.Steps[2].(*steps.Score).Inputs[0] = "spent.*" }, `steps[2].score.inputs[0]: nothing is named "spent.*"`},
		{"input of text", func(p *lang.Pipeline) { p.Steps[2].(*steps.Score).Inputs[0] = "country" }, `steps[2].score.inputs[0]: "country" is of type string: the model takes a number here`},
		{"input from below", func(p *lang.Pipeline) { p.Steps[2].(*steps.Score).Inputs[0] = "action" }, `steps[2].score.inputs[0]: "action" is introduced below`},
		{"too few inputs", func(p *lang.Pipeline) {
			p.Steps[2].(*steps.Score).Inputs = p.Steps[2].(*steps.Score).Inputs[1:]
		}, `steps[2].score.inputs: model fraud@1 takes `},
		{"batch", func(p *lang.Pipeline) { p.Steps[2].(*steps.Score).Batch.Size = -1 }, `steps[2].score.batch.size: -1 is out of range`},
		{"emit to the input", func(p *lang.Pipeline) { p.Steps[4].(*steps.Emit).Topic = "payments" }, `steps[4].emit.topic: the pipeline reads "payments"`},
		{"emit unknown", func(p *lang.Pipeline) { p.Steps[4].(*steps.Emit).Names[0] = "tax" }, `steps[4].emit.value[0]: unknown name "tax" (did you mean tx?)`},
		{"emit twice", func(p *lang.Pipeline) { p.Steps[4].(*steps.Emit).Names[1] = "tx" }, `steps[4].emit.value[1]: the value has two entries "tx"`},
		{"emit key", func(p *lang.Pipeline) { p.Steps[4].(*steps.Emit).Key = "amount" }, `steps[4].emit.key: "amount" is of type number`},
		{"emit when", func(p *lang.Pipeline) { p.Steps[5].(*steps.Emit).When = "fraud.score" }, `steps[5].emit.when: the expression is of type number, but bool is needed`},
		{"no emit", func(p *lang.Pipeline) { p.Steps = p.Steps[:4] }, `steps: nothing is emitted`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := scored(t)
			c.change(&p)
			_, err := builtin.New(p, running.Options{})
			var errs spec.Problems
			if !errors.As(err, &errs) {
				t.Fatalf("got %v, want spec.Problems", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestEveryThingWrongIsSaidAtOnce(t *testing.T) {
	p := scored(t)
	p.Delivery, p.Input.Partitions, p.Steps[0].(*steps.Let).List[0].Expr = "twice", -1, "1 +"
	_, err := builtin.New(p, running.Options{})
	for _, want := range []string{"delivery:", "input.partitions:", "steps[0].let.where:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
}

func TestDamagedModelsAreRefused(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"truncated": func(b []byte) []byte { return b[:len(b)/2] },
		"empty":     func([]byte) []byte { return nil },
		"corrupt": func(b []byte) []byte {
			return []byte(strings.Replace(string(b), `"left_children":[`, `"left_children":[99999,`, 1))
		},
		"not one": func([]byte) []byte { return []byte(`{"a":1}`) },
	} {
		p := scored(t)
		p.Models[0].File = filepath.Join(t.TempDir(), "fraud.json")
		if err := os.WriteFile(p.Models[0].File, damage(append([]byte(nil), reference.Model()...)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := builtin.New(p, running.Options{}); err == nil || !strings.Contains(err.Error(), "models.fraud.file: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestManifestThatWasNotReadIsToldFromAModel(t *testing.T) {
	for _, name := range []string{"fraud.yaml", "fraud.yml"} {
		p := scored(t)
		p.Models[0].File = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(p.Models[0].File, []byte("model: fraud\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := builtin.New(p, running.Options{}); err == nil || !strings.Contains(err.Error(), "the manifest "+p.Models[0].File+" was not read") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInputsInAnotherOrderThanTheModelsAreRefused(t *testing.T) {
	p := scored(t)
	in := p.Steps[2].(*steps.Score).Inputs
	in[0], in[1] = in[1], in[0] // spend.* and flow.*
	_, err := builtin.New(p, running.Options{})
	if err == nil || !strings.Contains(err.Error(), "steps[2].score.inputs: the model's input 0 is") {
		t.Errorf("got %v", err)
	}
}

func TestMissingModelSuggestsNothingElseIsWrong(t *testing.T) {
	p := scored(t)
	p.Models[0].File = "nowhere.ubj"
	_, err := builtin.New(p, running.Options{})
	var errs spec.Problems
	if !errors.As(err, &errs) || len(errs) != 1 {
		t.Errorf("a missing model is one error, not: %v", err)
	}
}

func TestInputsThatTheModelCallsOtherwiseAreWarnedOf(t *testing.T) {
	warnings := func(change func(inputs []string)) []string {
		p := scored(t)
		for _, s := range p.Steps {
			if score, ok := s.(*steps.Score); ok {
				change(score.Inputs)
			}
		}
		runner, err := builtin.New(p, running.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return runner.Warnings
	}
	before := warnings(func([]string) {})
	after := warnings(func(inputs []string) {
		for i := range inputs {
			if inputs[i] == "amount" {
				inputs[i] = "ts"
			}
		}
	})
	if len(after) != len(before)+1 || !strings.Contains(after[0], "gets ts as amount") {
		t.Errorf("before %q, after %q", before, after)
	}
}

// TestBoundsOfLagChangeNoOutput sees that a pipeline is the same one to its
// state and to what it wrote, whatever is said of its lag.
func TestBoundsOfLagChangeNoOutput(t *testing.T) {
	var wrote []string
	for _, lag := range []lang.Lag{{}, {Warn: time.Second, Critical: time.Minute}} {
		runner, err := builtin.New(lang.Pipeline{
			Name: "copy", Lag: lag,
			Input: lang.Input{Topic: "in", Partitions: 1, Key: "n", Fields: []lang.Field{{Name: "n", Type: "int"}}},
			Steps: []lang.Step{&steps.Emit{Topic: "out", Names: []string{"n"}}},
		}, running.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if runner.Pipeline.Lag != lag {
			t.Errorf("%+v, want %+v", runner.Pipeline.Lag, lag)
		}
		log := memory.New(memory.Options{})
		answer, err := answers.RunAll(t.Context(), log, runner, []stream.Record{{Partition: stream.Partition{Topic: "in"}, Key: []byte("1"), Value: []byte(`{"n":1}`)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range answer[stream.Partition{Topic: "out"}] {
			wrote = append(wrote, header.Get(&r, header.Pipeline))
		}
	}
	if len(wrote) != 2 || wrote[0] == "" || wrote[0] != wrote[1] {
		t.Errorf("written by %q", wrote)
	}
}

// TestOneMistakeIsOneFinding has inputs with a field of no type, or of another name: an
// expression with that name is no second mistake.
func TestOneMistakeIsOneFinding(t *testing.T) {
	build := func(key, at, amount string) lang.Pipeline {
		return lang.Pipeline{
			Name: "p",
			Input: lang.Input{Topic: "in", Partitions: 1, Key: key, Time: lang.EventTime{Field: at, Unit: "rfc3339"}, Dedupe: &lang.Dedupe{ID: "id"}, Fields: []lang.Field{
				{Name: "user", Type: "string"}, {Name: "ts", Type: "time"}, {Name: "amount", Type: amount}, {Name: "id", Type: "string"},
			}},
			Steps: []lang.Step{
				&steps.Let{List: []lang.Binding{{Name: "big", Expr: "amount > 10"}, {Name: "twice", Expr: "amount * 2"}, {Name: "late", Expr: at + ` > ` + at}}},
				&steps.Features{List: []steps.Feature{{Name: "spend", Value: "amount", Windows: []string{"1h"}, Aggregates: []string{"sum"}}}},
				&steps.Decide{List: []lang.Binding{{Name: "action", Expr: `big && spend.sum_1h > 3 ? "a" : "b"`}}},
				&steps.Emit{Topic: "out", Names: []string{key, "action", "twice"}},
			},
		}
	}
	for want, pipeline := range map[string]lang.Pipeline{
		`input.fields.amount: unknown type "nmber"`:                             build("user", "ts", "nmber"),
		`input.key: "usr" is not one of input.fields (did you mean user?)`:      build("usr", "ts", "number"),
		`input.time.field: "tss" is not one of input.fields (did you mean ts?)`: build("user", "tss", "number"),
		"input.fields.amount: amount is a string, but 3 places need a number: steps[0].let.big, steps[0].let.twice, steps[1].features.spend.value (declare `amount: number` if the events have that type, or write float(amount) there)": build("user", "ts", "string"),
		"input.fields.amount: amount is a bool, but 2 places need a number: steps[0].let.twice, steps[1].features.spend.value (declare `amount: number`": func() lang.Pipeline {
			p := build("user", "ts", "bool")
			p.Steps[0].(*steps.Let).List = p.Steps[0].(*steps.Let).List[1:]
			p.Steps[2].(*steps.Decide).List[0].Expr = `spend.sum_1h > 3 ? "a" : "b"`
			return p
		}(),
		"steps[0].let.other: column 6: unknown name zzz": func() lang.Pipeline { // is no consequence of the type
			p := build("user", "ts", "string")
			p.Steps[0].(*steps.Let).List = append(p.Steps[0].(*steps.Let).List, lang.Binding{Name: "other", Expr: "1 +  zzz"})
			return p
		}(),
		`> compares values of one type, not string and int (compare float(amount), or in`: func() lang.Pipeline {
			p := build("user", "ts", "string")
			p.Steps[0].(*steps.Let).List = p.Steps[0].(*steps.Let).List[:1]
			p.Steps = p.Steps[:1]
			return p
		}(),
	} {
		_, err := builtin.New(pipeline, running.Options{})
		var found spec.Problems
		if !errors.As(err, &found) || len(found) != 1 && !strings.HasPrefix(want, ">") && !strings.Contains(want, "zzz") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s alone", err, want)
		}
	}
}
