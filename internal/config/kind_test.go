package config

import (
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"

	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFilesOfAnotherKindAreNamed gives each reader what is meant for another one. One
// finding says what the file is.
func TestFilesOfAnotherKindAreNamed(t *testing.T) {
	dir := t.TempDir()
	pipeline := "pipeline: p\ninput: {topic: in, key: k, fields: {k: string}}\nsteps:\n  - emit: {topic: out, value: [k]}\n"
	files := map[string]string{
		"events.ndjson": "k: not even JSON\n",
		"events":        "\uFEFF{\"k\": \"a\", \"n\": 1}\n{\"k\": \"b\"}\n",
		"events.csv":    "k,n\na,1\n",
		"model.yaml":    "# of a model\nmodel: m\nversion: 1\n",
		"tokens.yaml":   "tokens:\n  - {name: a}\n",
		"keys.yaml":     "keys:\n  - {id: a}\n",
		"gateway.yaml":  "pipeline: {input: in}\ngateway: g\n",
		"pipeline.yaml": pipeline,
		"typo.yaml":     "model: {m: {file: m.ubj}}\n" + pipeline,
		"packed.yaml":   "\x1f\x8b\x08\x00abc",
		"wide.yaml":     "\xff\xfep\x00",
		"model.ubj":     "{L\x00\x00",
		"large.ndjson":  strings.Repeat("{\"k\": \"a\"}\n", 200_000),
	}
	load := map[string]func(string) error{
		"pipeline": func(path string) error { _, err := lang.Load(path, builtin.Kinds()); return err },
		"manifest": func(path string) error { _, err := lang.LoadManifest(path, builtin.Kinds()); return err },
		"token":    func(path string) error { _, err := LoadTokens(path); return err },
		"gateway":  func(path string) error { _, err := LoadGateway(path, builtin.Kinds()); return err },
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range [][3]string{
		{"pipeline", "events.ndjson", "this is a file of events, not a pipeline file: name a pipeline file: `afterbay init --sample "},
		{"pipeline", "events", "this is a file of events, not a pipeline file"},
		{"pipeline", "events.csv", "this is a file of events, not a pipeline file"},
		{"pipeline", "large.ndjson", "this is a file of events, not a pipeline file"},
		{"pipeline", "model.yaml", "this is a manifest file, not a pipeline file: name a pipeline file: it starts with `pipeline:`, and names the manifest as `models: {"},
		{"pipeline", "tokens.yaml", "this is a token file, not a pipeline file"},
		{"pipeline", "keys.yaml", "this is a key file, not a pipeline file"},
		{"pipeline", "gateway.yaml", "this is a gateway file, not a pipeline file"},
		{"pipeline", "packed.yaml", "this is compressed, not a pipeline file: unpack it"},
		{"pipeline", "wide.yaml", "this is UTF-16, not a pipeline file: save it as UTF-8"},
		{"pipeline", "model.ubj", "this is binary, not a pipeline file"},
		{"pipeline", "typo.yaml", `typo.yaml:1:1: model: unknown word "model": did you mean "models"?`},
		{"manifest", "pipeline.yaml", "this is a pipeline file, not a manifest file: name a manifest file: it starts with `model:`"},
		{"manifest", "events", "this is a file of events, not a manifest file"},
		{"token", "pipeline.yaml", "this is a pipeline file, not a token file: name a token file: it starts with `tokens:`"},
		{"gateway", "model.yaml", "this is a manifest file, not a gateway file"},
	} {
		err := load[c[0]](filepath.Join(dir, c[1]))
		if err == nil || !strings.Contains(err.Error(), c[2]) || strings.Contains(err.Error(), "\n") != strings.HasPrefix(c[1], "typo") {
			t.Errorf("%s as %s: %v, want %s", c[1], c[0], err, c[2])
		}
	}
	for name, is := range map[string][3]bool{"model.yaml": {true}, "typo.yaml": {}, "tokens.yaml": {false, true}, "gateway.yaml": {false, false, true}, "pipeline.yaml": {}, "events": {}} {
		path := filepath.Join(dir, name)
		if got := [3]bool{lang.IsManifest(path), IsTokens(path), IsGateway(path)}; got != is {
			t.Errorf("%s: manifest, tokens, gateway: %v, want %v", name, got, is)
		}
	}
}

// TestJSONOnOneLineIsOfItsKind has the words of each kind of file in the order of
// the alphabet, as programs write them, and events with some of these words.
func TestJSONOnOneLineIsOfItsKind(t *testing.T) {
	for _, c := range []struct {
		text string
		want *spec.Content // nil is events
	}{
		{`{"input": {"topic": "in"}, "pipeline": "p", "steps": []}`, &spec.PipelineFiles},
		{"\uFEFF \r\n{\"input\": {}, \"models\": {}, \"steps\": []}\r\n\n", &spec.PipelineFiles},
		{"{\n  \"input\": {},\n  \"pipeline\": \"p\",\n  \"steps\": []\n}\n", &spec.PipelineFiles},
		{`{"file": "m.ubj", "inputs": {}, "model": "m", "outputs": ["p"], "version": 1}`, &spec.ManifestFiles},
		{`{"cert": "c", "gateway": "g", "keys": "k", "pipeline": {}}`, &spec.GatewayFiles},
		{`{"tokens": []}`, &spec.TokenFiles},
		{`{"jwks": {}, "keys": []}`, &spec.KeysFiles},
		{`{"jwks": {}}`, &spec.KeysFiles},
		{`{"id": "a", "model": "m", "text": "hello"}`, nil},
		{`{"id": "a", "tokens": 12, "keys": 3}`, nil},
		{`{"id": "a", "steps": 9000}`, nil},
		{"{\"input\": 1, \"pipeline\": \"p\", \"steps\": 1}\n{\"input\": 2, \"pipeline\": \"p\", \"steps\": 1}\n", nil},
	} {
		for _, reader := range []*spec.Content{&spec.PipelineFiles, &spec.GatewayFiles, &spec.ManifestFiles, &spec.TokenFiles, &spec.KeysFiles} {
			want := "a file of events"
			if c.want == reader {
				want = ""
			} else if c.want != nil {
				want = "a " + c.want.Name + " file"
			}
			if is, _ := reader.Foreign("file.json", []byte(c.text)); is != want {
				t.Errorf("%s, read as a %s file: %q, want %q", c.text, reader.Name, is, want)
			}
		}
	}
}
