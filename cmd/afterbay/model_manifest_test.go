package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/lang"
)

// matMul is a graph of ONNX of one node, MatMul, with an input x of [n, 3] and an output
// y of [n, 2].
const matMul = "\x08\x08:6\x0a\x08\x22\x06MatMulZ\x14\x0a\x01x\x12\x0f\x0a\x0d\x08\x01\x12\x09\x0a\x03\x12\x01n\x0a\x02\x08\x03b\x14\x0a\x01y\x12\x0f\x0a\x0d\x08\x01\x12\x09\x0a\x03\x12\x01n\x0a\x02\x08\x02"

// TestGraphsOfONNXComeWithTheirManifest has a graph that only ONNX Runtime computes: each
// command that wants a model prints a manifest that can be read, and `lint` says how to get it.
func TestGraphsOfONNXComeWithTheirManifest(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // without ONNX Runtime
	write(t, "dense.onnx", matMul)
	for _, line := range []string{"model inspect dense.onnx", "model score dense.onnx", "serve --model d=dense.onnx --listen 127.0.0.1:0", "model bench dense.onnx"} {
		r := command(t, "", fields(line)...)
		_, manifest, found := strings.Cut(r.stderr, "name that file instead:\n\n")
		if r.code != exitInvalid || !found || !strings.Contains(r.stderr, "afterbay model add dense.onnx --name NAME") {
			t.Errorf("%s: exit %d: %s", line, r.code, r.stderr)
		}
		if m, err := lang.ParseManifest("dense.yaml", []byte(manifest), fileKinds()); err != nil || m.Name != "dense" || len(m.Inputs) != 1 || m.Outputs[0].Size != 2 {
			t.Errorf("%s: %v: %s", line, err, manifest)
		}
	}
	write(t, "p.yaml", scoringFile("dense.onnx", "[a, b]"))
	if r := command(t, "", "lint", "p.yaml"); r.code != exitInvalid || !strings.Contains(r.stderr, "p.yaml:4:") || !strings.Contains(r.stderr, "afterbay model add dense.onnx") {
		t.Errorf("%+v", r)
	}
	r := command(t, "", "model", "add", "dense.onnx", "--name", "d", "--version", "1")
	if _, err := os.Stat("models/d/1"); r.code == exitOK || err == nil || !strings.Contains(r.stderr, "Nothing was added") {
		t.Errorf("without the runtime: %+v", r)
	}
}

func TestModelsAreAddedVerifiedMeasuredAndListed(t *testing.T) {
	risk, err := os.ReadFile("../../scenario/testdata/risk.json")
	if err != nil {
		t.Fatal(err)
	}
	tone, err := os.ReadFile("../../scenario/testdata/tone.json")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	write(t, "risk.json", string(risk))
	write(t, "tone.json", string(tone))
	write(t, "posts.csv", "text,capitals\nbad,0\n\"good, good\",1\n,0.5\n")

	if out := must(t, "", "model", "add", "risk.json", "--name", "risk", "--version", "2", "--outputs", "score"); !strings.Contains(out, "models/risk/2/model.yaml: 64 golden vectors passed") {
		t.Error(out)
	}
	if out := must(t, "", "lint", "models/risk/2/model.yaml"); out != "models/risk/2/model.yaml: the manifest of model risk@2 is valid\n" {
		t.Errorf("lint of a manifest: %s", out)
	}
	if r := command(t, "", "model", "add", "tone.json", "--name", "tone", "--version", "1"); r.code == exitOK || !strings.Contains(r.stderr, "name a CSV file of rows with --rows") {
		t.Errorf("%+v", r)
	}
	must(t, "", "model", "add", "tone.json", "--name", "tone", "--version", "1", "--rows", "posts.csv")
	if r := command(t, "", "model", "add", "risk.json", "--name", "risk", "--version", "2"); r.code == exitOK || !strings.Contains(r.stderr, "a version is never replaced") {
		t.Errorf("%+v", r)
	}
	if r := command(t, "", "model", "add", "risk.json", "--name", "risk", "--version", "latest"); r.code != exitUsage || !strings.Contains(r.stderr, "use a number from 1") {
		t.Errorf("%+v", r)
	}
	out := must(t, "", "model", "verify", "models/risk/2/model.yaml", "models/tone/1/model.yaml")
	for _, want := range []string{
		"models/risk/2/model.yaml: risk version 2, xgboost: 64 golden vectors passed, alone, shuffled and in batches; margins differ by 0 at most",
		"models/tone/1/model.yaml: tone version 1, text: 3 golden vectors passed, alone, shuffled and in batches; scores differ by 0 at most",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%s\nlacks %s", out, want)
		}
	}
	if out := must(t, "", "model", "list"); !regexp.MustCompile(`(?m)^risk +2 +xgboost .*\ntone +1 +text `).MatchString(out) {
		t.Error(out)
	}
	for _, path := range []string{"models/risk/2/model.yaml", "models/tone/1/model.yaml"} {
		out := must(t, "", "model", "bench", path, "--duration", "20ms")
		if !strings.Contains(out, "batch: size ") || !regexp.MustCompile(`(?m)^batch: \{size: \d+`).MatchString(read(t, path)) {
			t.Errorf("%s\n%s", out, read(t, path))
		}
		must(t, "", "model", "verify", path)
	}
	if got := must(t, "text,capitals\nbad,0\n", "model", "score", "models/tone/1/model.yaml"); got != "score,prediction\n1.25,1.25\n" {
		t.Error(got)
	}
	if got := must(t, "", "model", "inspect", "models/tone/1/model.yaml"); !strings.Contains(got, "names    text, capitals\n") {
		t.Error(got)
	}
}

func TestFlippedByteOfAModelIsFound(t *testing.T) {
	risk, err := os.ReadFile("../../scenario/testdata/risk.json")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	write(t, "risk.json", string(risk))
	must(t, "", "model", "add", "risk.json", "--name", "risk", "--version", "1")
	const path = "models/risk/1/risk.json"
	flipped := []byte(read(t, path))
	flipped[len(flipped)/2] ^= 1
	write(t, path, string(flipped))
	r := command(t, "", "model", "verify", "models/risk/1/model.yaml")
	if r.code != exitInvalid || !strings.Contains(r.stderr, "model.yaml:5:9: sha256: risk.json has sha256 ") || !strings.Contains(r.stderr, "1 model of 1 not usable") {
		t.Errorf("%+v", r)
	}
	write(t, "pipeline.yaml", `pipeline: payments
input: {topic: payments, key: card, fields: {card: string, amount: number}}
models: {risk: {file: models/risk/1/model.yaml, version: 1, outputs: {score: number}}}
steps:
  - score: {model: risk, inputs: [amount]}
  - emit: {topic: decisions, value: [risk.score]}
`)
	if r := command(t, "", "lint", "pipeline.yaml"); r.code != exitInvalid || !strings.Contains(r.stdout+r.stderr, "model.yaml:5:9: sha256: ") {
		t.Errorf("%+v", r)
	}
	write(t, path, string(risk))
	if out := must(t, `{"card": "a", "amount": 500}`+"\n", "try", "pipeline.yaml"); !strings.Contains(out, `{"risk_score":0.75}`) {
		t.Error(out)
	}
}
