package config

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/models/remote"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

const goodManifest = `model: tone
version: 3
kind: text
file: tone.json
sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
inputs:
  text: string
  capitals: {type: number, shape: [2, 3]}
  country: {categories: [US, "GB"]}
outputs: [bad]
batch: {size: 8, wait: 2ms, sort: true}
golden: golden.csv
limits: {text: 64KiB, rows: 16}
`

func TestManifestIsReadAsItIsWritten(t *testing.T) {
	m, err := lang.ParseManifest("model.yaml", []byte(goodManifest), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	want := model.Manifest{
		Name: "tone", Version: 3, Kind: "text", File: "tone.json", Digest: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		Inputs: []model.ManifestInput{
			{Name: "text", Type: model.String}, {Name: "capitals", Type: model.Number, Shape: []int{2, 3}}, {Name: "country", Type: model.Number, Categories: []string{"US", "GB"}},
		},
		Outputs: []model.Output{{Name: "bad", Size: 1}}, Batch: model.Policy{Size: 8, Wait: 2 * time.Millisecond, ByLength: true}, Golden: "golden.csv",
		Limits: model.Limits{TextBytes: 64 << 10, Rows: 16},
	}
	if diff := cmp.Diff(want, m.Manifest); diff != "" {
		t.Error(diff)
	}
}

func TestWrongManifestsAreRefusedWithPlaceAndNextStep(t *testing.T) {
	for _, c := range [][3]string{
		{"version: 3", "version: latest", `m.yaml:2:10: version: "latest" is not a version`},
		{"version: 3", "version: 0", "m.yaml:2:10: version: \"0\" is out of range: write a whole number from 1"},
		{"kind: text", "kind: sklearn", `m.yaml:3:7: kind: "sklearn" is not one of`},
		{"sha256: 9f", "sha256: xx", `m.yaml:5:9: sha256: "xx`},
		{"sha256", "sha25", `m.yaml:5:1: sha25: unknown word "sha25"`},
		{"text: string", "text: date", `m.yaml:7:9: inputs.text: "date" is not one of`},
		{"shape: [2, 3]", "shape: [2, -3]", `m.yaml:8:39: inputs.capitals.shape[1]: "-3" is out of range`},
		{"sort: true", "sort: maybe", `m.yaml:11:`},
		{"golden: golden.csv", "golden: ${GOLDEN}", `m.yaml:12:9: golden: the environment variable GOLDEN is not set`},
		{"rows: 16", "rows: 16, memory: 1GB", `m.yaml:13:`},
		{"outputs: [bad]\n", "", "m.yaml:1:1: `outputs` is missing"},
		{"model: tone", "---\nmodel: other\n---\nmodel: tone", "m.yaml:4:1: one of 2 documents, but the file must have one: write each model's manifest into a separate file"},
		{"  country:", "  text:", `m.yaml:9:3: inputs.text: "text" is written twice`},
	} {
		if strings.Count(goodManifest, c[0]) < 1 {
			t.Fatalf("%s is not there", c[0])
		}
		_, err := lang.ParseManifest("m.yaml", []byte(strings.Replace(goodManifest, c[0], c[1], 1)), builtin.Kinds())
		if err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s: %v, want %s", c[1], err, c[2])
		}
	}
}

func TestServersOfModelsAreReadAsTheyAreWritten(t *testing.T) {
	const head = "model: m\nversion: 1\nkind: remote\ninputs: {text: string}\noutputs: [score]\nremote:\n  endpoint: https://host/v1\n"
	for text, want := range map[string]remote.Config{
		"  api: chat\n  token_file: token\n  header: X-API-Key\n  chat: {system: You rate., prompt: 'How {text}?', answer: 8, tokens: 100, reasons: true}\n": {
			API: "chat", TokenFile: "token", Header: "X-API-Key", Chat: &remote.ChatConfig{System: "You rate.", Prompt: "How {text}?", Answer: 8, Tokens: 100, Reasons: true},
		},
		"  api: http\n  token: KEY\n  mapping: {rows: a.b, results: c, send: {text: d.e}, read: {score: f.0, other: g}}\n": {
			API: "http", Token: "KEY", Mapping: &remote.Mapping{
				Rows: "a.b", Results: "c", Send: []remote.Place{{Name: "text", Place: "d.e"}}, Read: []remote.Place{{Name: "score", Place: "f.0"}, {Name: "other", Place: "g"}},
			},
		},
	} {
		m, err := lang.ParseManifest("m.yaml", []byte(head+text), builtin.Kinds())
		if err != nil {
			t.Fatal(err)
		}
		want.Endpoint = "https://host/v1"
		if diff := cmp.Diff(&want, m.Config); diff != "" {
			t.Error(diff)
		}
	}
	for text, want := range map[string]string{
		"  token: A\n  token_file: b\n":    "`token` and `token_file` exclude each other",
		"  api: openai\n":                  `m.yaml:8:8: remote.api: "openai" is not one of`,
		"  chat: {system: x}\n":            "m.yaml:8:3: remote.chat: `prompt` is missing",
		"  mapping: {send: {text: [a]}}\n": "m.yaml:8:",
	} {
		if _, err := lang.ParseManifest("m.yaml", []byte(head+text), builtin.Kinds()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "m.yaml")
	if err := os.WriteFile(path, []byte(head+"  token_file: secrets/key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := lang.LoadManifest(path, builtin.Kinds()); err != nil || m.Config.(*remote.Config).TokenFile != filepath.Join(filepath.Dir(path), "secrets/key") {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestManifestsHaveTheMappingOfTheirKindAlone writes that of another kind, and one without
// the kind.
func TestManifestsHaveTheMappingOfTheirKindAlone(t *testing.T) {
	for text, want := range map[string]string{
		"kind: ocr\nonnx: {pool: mean}\n":                            "m.yaml:5:1: onnx: belongs to models of kind onnx: write kind: onnx, or remove it",
		"process: {command: [a]}\n":                                  "m.yaml:4:1: process: belongs to models of kind process",
		"process: {command: [a]}\nkind: onnx\n":                      "m.yaml:4:1: process: belongs to models of kind process",
		"kind: remote\nremote: {endpoint: a}\nvoice: {seconds: 1}\n": "m.yaml:6:1: voice: belongs to models of kind voice",
	} {
		_, err := lang.ParseManifest("m.yaml", []byte("model: a\nversion: 1\ninputs: {a: number}\n"+text+"outputs: [b]\n"), builtin.Kinds())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Every word of a manifest says what it means and has an example that is valid.
func TestEveryWordOfManifestsIsExplained(t *testing.T) {
	seen := 0
	readComments(t, manifestStructs...).sections(spec.MappingOf(builtin.Kinds().ManifestFields()).Shape, func(s spec.Section) {
		for _, w := range s.Words {
			seen++
			if w.Help == "" || w.Example == "" || !w.Required && w.Absent == "" {
				t.Errorf("%s: %s lacks its meaning, example or what holds without it: %+v", s.Path, w.Name, w)
			}
			n, r := exampleNode(t, w)
			if w.Try(r, n, w.Name); len(r.Errors) > 0 {
				t.Errorf("%s: the example of %s is refused: %v", s.Path, w.Name, r.Errors)
			}
		}
	})
	if seen < 18 {
		t.Errorf("only %d words were looked at", seen)
	}
}

const tonePipeline = `pipeline: posts
input: {topic: posts, key: user, fields: {user: string, text: string, capitals: number}}
models:
  tone: {file: tone/model.yaml, version: 3, outputs: {bad: number}}
steps:
  - score: {model: tone, inputs: [text, capitals]}
  - emit: {topic: tones, value: [tone.bad]}
`

// toneFolder writes a pipeline, a manifest of its model, and golden vectors.
func toneFolder(t *testing.T, manifest string) (pipeline string) {
	t.Helper()
	dir := t.TempDir()
	file, err := os.ReadFile("../../scenario/testdata/tone.json")
	if err != nil {
		t.Fatal(err)
	}
	manifest = strings.ReplaceAll(manifest, "DIGEST", fmt.Sprintf("%x", sha256.Sum256(file)))
	if err := os.Mkdir(filepath.Join(dir, "tone"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"pipeline.yaml": tonePipeline, "tone/model.yaml": manifest, "tone/tone.json": string(file),
		"tone/golden.csv": "text,capitals,score\nbad,0,1.25\ngood and bad,1,2.75\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "pipeline.yaml")
}

const toneManifest = `model: tone
version: 3
file: tone.json
sha256: DIGEST
inputs: {text: string, capitals: number}
outputs: [bad]
golden: golden.csv
`

func TestPipelineTakesModelOfItsManifest(t *testing.T) {
	file, err := lang.Load(toneFolder(t, toneManifest), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := builtin.New(file.Pipelines[0], running.Options{}); err != nil {
		t.Fatal(file.Explain(0, err))
	}
}

func TestWhatManifestSaysWronglyIsExplainedWhereItStands(t *testing.T) {
	for _, c := range [][3]string{
		{"sha256: DIGEST", "sha256: " + strings.Repeat("ab", 32), "model.yaml:4:9: sha256: tone.json has sha256 "},
		{"version: 3", "version: 4", "pipeline.yaml:4:42: models.tone.version: 3, but its manifest says 4"},
		{"file: tone.json", "file: none.json", "model.yaml:3:7: file: stat "},
		{"inputs: {text: string, capitals: number}", "inputs: {capitals: number, text: string}", `model.yaml:5:20: inputs.capitals: the file's input 0 is "text": it has, in order: text, capitals`},
		{"inputs: {text: string, capitals: number}", "inputs: {text: string}", `model.yaml:5:1: inputs: the file has 2 inputs, 1 are named`},
		{"text: string", "text: number", `model.yaml:5:16: inputs.text: is of type number, in the file string`},
		{"outputs: [bad]", "outputs: [bad, good]", `model.yaml:6:1: outputs: the model has 1 outputs, 2 are named`},
		{"golden: golden.csv", "golden: none.csv", `model.yaml:7:9: golden: open `},
		{"golden: golden.csv", "golden: golden.csv\nkind: xgboost", `model.yaml:8:7: kind: the file is of kind text`},
		{"golden: golden.csv", "golden: golden.csv\nlimits: {text: 5}", `model.yaml:7:9: golden: golden.csv:3: a text of 12 bytes, the manifest's limit is 5`},
	} {
		file, err := lang.Load(toneFolder(t, strings.Replace(toneManifest, c[0], c[1], 1)), builtin.Kinds())
		if err != nil {
			t.Fatal(err)
		}
		_, err = builtin.New(file.Pipelines[0], running.Options{})
		if err = file.Explain(0, err); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s: %v, want %s", c[1], err, c[2])
		}
	}
	_, err := lang.Load(toneFolder(t, strings.Replace(toneManifest, "version: 3", "version: latest", 1)), builtin.Kinds())
	if err == nil || !strings.Contains(err.Error(), `model.yaml:2:10: version: "latest" is not a version`) {
		t.Errorf("a manifest that cannot be read: %v", err)
	}
}

func TestManifestIsReadAsItIsFormatted(t *testing.T) {
	want := model.Manifest{
		Name: "on", Version: 12, Kind: "text", File: "a b.json", Digest: strings.Repeat("0", 64), Trees: "best", Golden: "golden.csv",
		Inputs: []model.ManifestInput{
			{Name: "spend.sum_60s", Type: model.Number}, {Name: "1", Type: model.String}, {Name: "a: \"b\" # ${HOME} \u00e9", Type: model.Bytes},
			{Name: "null", Type: model.Number, Shape: []int{2, 3}, Categories: []string{"true", "", "x,y", "0x1F"}},
		},
		Outputs: []model.Output{{Name: "no", Size: 1}, {Name: "score", Size: 3}}, Batch: model.Policy{Size: 8, Wait: 1500 * time.Microsecond, ByLength: true}, Limits: model.Limits{TextBytes: 100, Rows: 16},
	}
	want.Inputs[3].Categories[1] = "z"
	text := lang.FormatManifest(&want)
	got, err := lang.ParseManifest("m.yaml", text, builtin.Kinds())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if diff := cmp.Diff(want, got.Manifest); diff != "" {
		t.Errorf("%s\n%s", diff, text)
	}
}

func TestPolicyIsWrittenIntoTheManifestAlone(t *testing.T) {
	const rest = "# of the fraud team\nmodel: tone # no other\n"
	for before, after := range map[string]string{
		rest + "version: 3\n":                                         rest + "version: 3\nbatch: {size: 64}\n",
		rest + "batch: {size: 8, wait: 2ms}\nversion: 3":              rest + "batch: {size: 64}\nversion: 3",
		rest + "batch:\n  size: 8\n  wait: 2ms\nlimits:\n  rows: 9\n": rest + "batch: {size: 64}\nlimits:\n  rows: 9\n",
		rest + "batch: {size: 8}":                                     rest + "batch: {size: 64}\n",
	} {
		if got := string(lang.WithPolicy([]byte(before), model.Policy{Size: 64})); got != after {
			t.Errorf("%q became %q", before, got)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(goodManifest))
	f.Add([]byte(toneManifest))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := lang.ParseManifest("m.yaml", data, builtin.Kinds())
		if err != nil {
			return
		}
		if m.Config != nil {
			return // FormatManifest does not write what belongs to them
		}
		again, err := lang.ParseManifest("m.yaml", lang.FormatManifest(&m.Manifest), builtin.Kinds())
		if err != nil {
			t.Fatalf("what was read cannot be written and read: %v\n%s", err, lang.FormatManifest(&m.Manifest))
		}
		if diff := cmp.Diff(m.Manifest, again.Manifest); diff != "" {
			t.Error(diff)
		}
	})
}
