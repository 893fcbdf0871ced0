package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/models"
	processkind "github.com/afterbay/afterbay/internal/models/process"
	"github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/model"
)

// readManifest reads a manifest that ends with text.
func readManifest(t *testing.T, text string) *model.Manifest {
	t.Helper()
	const file = "file: f\nsha256: 48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b\n"
	m, err := lang.ParseManifest("m.yaml", []byte("model: risk\nversion: 3\noutputs: [score]\n"+file+text), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	return &m.Manifest
}

func TestModelKindsCheckAndDescribe(t *testing.T) {
	const number, image = "inputs: {a: number}\n", "inputs: {a: bytes}\n"
	for text, want := range map[string]string{
		number + "kind: onnx\n":                                               "",
		number + "kind: onnx\nonnx: {pool: mean}\n":                           "",
		number + "kind: process\n":                                            "a model of kind process needs process: {command: [...]}",
		number + "kind: process\nprocess: {command: [python3, worker.py]}\n":  "at python3 worker.py",
		number + "kind: remote\n":                                             "a model of kind remote needs remote: {endpoint: grpc://host:port}",
		number + "kind: remote\nremote: {endpoint: 'grpc://h:1', token: T}\n": "at grpc://h:1",
		number + "kind: voice\n":                                              "a model of kind voice hears sounds: inputs: {audio: bytes}",
		image + "kind: voice\n":                                               "",
		image + "kind: ocr\n":                                                 "a model of kind ocr needs ocr: {read: {file: ..., sha256: ...}}",
		number + "kind: ocr\nocr: {read: {file: r, sha256: " + strings.Repeat("0", 64) + "}}\n": "a model of kind ocr reads images: inputs: {image: bytes}",
	} {
		m := readManifest(t, text)
		config := models.ConfigOf(m, builtin.Kinds().Models)
		got := ""
		if at := config.Describe(); at != "" {
			got = "at " + at
		}
		if errs := config.Check(m); errs != nil {
			got = errors.Join(errs...).Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestModelsThatCannotBeOpenedSayWhy opens a model by its kind.
func TestModelsThatCannotBeOpenedSayWhy(t *testing.T) {
	for text, want := range map[string]string{
		"kind: process\nprocess: {command: [a], env: [AFTERBAY_X]}\n":         "process: model process: the variable AFTERBAY_X belongs to the engine",
		"kind: remote\nremote: {endpoint: 'grpc://h:1', token: NO_TOKEN_1}\n": "remote: the variable NO_TOKEN_1 of the environment has no token",
		"kind: remote\nremote: {endpoint: h}\n":                               `remote: load remote model risk: "://h" is not a valid URL`,
	} {
		m := readManifest(t, "inputs: {a: number}\n"+text)
		m.File = ""
		if _, _, err := models.Verified(t.Context(), m, models.Opening{Kinds: builtin.Kinds().Models}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestModelsOfAServerShareWhatBoundsCalls sees which service a manifest names.
func TestModelsOfAServerShareWhatBoundsCalls(t *testing.T) {
	for text, want := range map[string]string{
		"remote: {endpoint: 'grpc://h:1'}\n":                         "grpc://h:1 risk@",
		"remote: {endpoint: 'grpc://h:1', model: m, version: '7'}\n": "grpc://h:1 m@7",
	} {
		m := readManifest(t, "inputs: {a: number}\nkind: remote\n"+text)
		url, service := m.Config.(model.Server).Service(m)
		if got := url + " " + service; got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestPipelinesDescribeModelsOfTwoKinds asks each kind whether it takes what a pipeline says.
func TestPipelinesDescribeModelsOfTwoKinds(t *testing.T) {
	for _, c := range []struct {
		said model.Inline
		want model.Config
		err  string
	}{
		{said: model.Inline{URL: "grpc://h:1/bert", Version: 3, Timeout: time.Second, Calls: 2}, want: &remote.Config{Endpoint: "grpc://h:1", Model: "bert", Version: "3", Timeout: time.Second, Calls: 2}},
		{said: model.Inline{URL: "https://h/v1/a/bert", Version: 1}, want: &remote.Config{Endpoint: "https://h/v1/a", Model: "bert", Version: "1"}},
		{said: model.Inline{URL: "http://h", Version: 1}, want: &remote.Config{Endpoint: "http://h", Version: "1"}},
		{said: model.Inline{URL: "::"}, err: "the URL is not valid: use grpc://HOST:PORT/MODEL, grpcs://, http:// or https://"},
		{said: model.Inline{Command: []string{"a", "b"}, Version: 1, Calls: 4}, want: &processkind.Config{Command: []string{"a", "b"}, Workers: 4}},
	} {
		var found []model.Config
		var text string
		for _, kind := range builtin.Kinds().Models {
			inliner, ok := kind.New().(model.Inliner)
			if !ok {
				continue
			}
			config, taken, err := inliner.Inline(c.said)
			if err != nil {
				text = fmt.Sprint(err)
			} else if taken {
				found = append(found, config)
			}
		}
		if text != c.err || c.want != nil && cmp.Diff([]model.Config{c.want}, found) != "" {
			t.Errorf("%+v: %v, %s", c.said, cmp.Diff([]model.Config{c.want}, found), text)
		}
	}
}

// TestManifestsThatMeanTheSameHaveOneText compares what decides the answers of a model.
func TestManifestsThatMeanTheSameHaveOneText(t *testing.T) {
	const a, b = "inputs: {a: number, b: number}\n", "inputs: {b: number, a: number}\n"
	text := func(manifest string) string {
		return (&lang.Model{Manifest: readManifest(t, manifest)}).Canonical()
	}
	for _, c := range []struct {
		one, other string
		same       bool
	}{
		{a + "kind: onnx\n", a + "kind: onnx\nonnx: {threads: 2, timeout: 5s}\n", true},
		{a + "kind: onnx\n", "inputs: {a: {type: number}, b: {type: number}}\nkind: onnx\n", true},
		{"inputs: {a: bytes}\nkind: voice\n", "inputs: {a: bytes}\nkind: voice\nvoice: {seconds: 900}\n", true},
		{a + "kind: onnx\n", a + "kind: onnx\nonnx: {pool: mean}\n", false},
		{a + "kind: onnx\n", b + "kind: onnx\n", false},
		{a + "kind: onnx\n", "inputs: {a: number, c: number}\nkind: onnx\n", false},
		{a + "kind: onnx\n", "inputs: {a: number}\nkind: onnx\n", false},
	} {
		if one, other := text(c.one), text(c.other); (one == other) != c.same {
			t.Errorf("%q and %q: same is %v, want %v:\n%s\n%s", c.one, c.other, one == other, c.same, one, other)
		}
	}
}

// squared is a kind of models whose fields have defaults.
type squared struct {
	Link string `field:"link" choice:"identity|square" default:"square" affects:"outputs" example:"identity" help:"what is made of the sum"`
	Bias int    `field:"bias" affects:"outputs" example:"1" help:"what is added"`
}

func (*squared) Check(*model.Manifest) []error { return nil }
func (*squared) Open(context.Context, *model.Manifest) (model.Model, error) {
	return nil, errors.ErrUnsupported
}
func (*squared) Describe() string { return "" }

// TestAKindWithoutItsMappingHasItsDefaults reads a manifest that does not have the mapping
// of its kind, and one that has another field of it alone.
func TestAKindWithoutItsMappingHasItsDefaults(t *testing.T) {
	kind := model.Kind{Name: "squared", Help: "h", Example: "{link: square}", New: func() model.Config { return &squared{Bias: 3} }}
	kinds, err := builtin.Kinds().With(lang.Code{ModelKinds: []model.Kind{kind}})
	if err != nil {
		t.Fatal(err)
	}
	const above = "model: risk\nversion: 3\noutputs: [score]\ninputs: {a: number}\nkind: squared\nfile: f\nsha256: 48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b\n"
	var texts []string
	for _, below := range []string{"", "squared: {link: square}\n", "squared: {bias: 3}\n"} {
		m, err := lang.ParseManifest("m.yaml", []byte(above+below), kinds)
		if err != nil {
			t.Fatal(err)
		}
		if got := models.ConfigOf(&m.Manifest, kinds.Models); *got.(*squared) != (squared{"square", 3}) {
			t.Errorf("%q: %+v", below, got)
		}
		texts = append(texts, (&lang.Model{Manifest: &m.Manifest}).Canonical())
	}
	if texts[0] != texts[1] || texts[0] != texts[2] {
		t.Errorf("the texts differ: %q", texts)
	}
	if got := models.ConfigOf(&model.Manifest{Kind: "squared"}, kinds.Models); *got.(*squared) != (squared{"square", 3}) {
		t.Errorf("of a manifest that is made in Go: %+v", got)
	}
}
