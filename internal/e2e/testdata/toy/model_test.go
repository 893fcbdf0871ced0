package toy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/scenario"
	"github.com/afterbay/afterbay/stream"
)

var withModels = afterbay.Code{ModelKinds: []model.Kind{Linear}, Logs: []stream.Kind{Memory}}

// manifest writes a model into a folder, and returns the path of its manifest.
func manifest(t *testing.T, below string) string {
	t.Helper()
	dir := t.TempDir()
	weights := `{"amount": 0.5, "age": -2}`
	text := fmt.Sprintf("model: risk\nversion: 1\nkind: linear\nfile: weights.json\nsha256: %x\ninputs: {amount: number, age: number}\ngolden: golden.csv\n%s", sha256.Sum256([]byte(weights)), below)
	for name, text := range map[string]string{"weights.json": weights, "risk.yaml": text, "golden.csv": "amount,age,prediction\n4,0,2.5\n0,1,-1.5\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "risk.yaml")
}

// scored is a scenario of a pipeline that scores payments.
func scored(path string, events int) string {
	var text strings.Builder
	text.WriteString("pipeline\n  pipeline: payments\n  input: {topic: payments, key: card, fields: {card: string, amount: number, age: number}}\n  models: {risk: {file: '" + path + "', version: 1, outputs: {score: number}}}\n  steps:\n    - score: {model: risk, inputs: [amount, age]}\n    - emit: {topic: decisions, value: [card, risk.score]}\n\n")
	for i := range events {
		fmt.Fprintf(&text, "event 10:00:%02d {\"card\": \"c%d\", \"amount\": %d, \"age\": %d}\n  decisions {\"card\":\"c%d\",\"risk_score\":%v}\n", i, i%3, i, i%5, i%3, 0.5+0.5*float64(i)-2*float64(i%5))
	}
	return text.String()
}

// TestModelsOfAKindScoreInEveryWay sees the scores of each event, whatever is killed.
func TestModelsOfAKindScoreInEveryWay(t *testing.T) {
	s, err := scenario.Parse("toy.txt", []byte(scored(manifest(t, "outputs: [score]\nlinear: {bias: 0.5}\n"), 30)))
	if err != nil {
		t.Fatal(err)
	}
	ways := 0
	failures, err := s.Run(t.Context(), scenario.Options{Code: withModels, Logs: []string{"toy:tests"}, Progress: func(string, int, int) { ways++ }})
	if err != nil || ways != 7 {
		t.Fatalf("%v, in %d ways", err, ways)
	}
	for _, f := range failures {
		t.Error(f)
	}
}

// TestMistakesOfManifestsHaveTheirPlace sees findings of the tags, of Check and of the
// golden vectors.
func TestMistakesOfManifestsHaveTheirPlace(t *testing.T) {
	for below, want := range map[string]string{
		"outputs: [score]\nlinear: {bias: 2000}\n":                     `risk.yaml:9:16: linear.bias: "2000" is out of range`,
		"outputs: [score]\nlinear: {links: a}\n":                       `risk.yaml:9:10: linear.links: unknown word "links": did you mean "link"?`,
		"outputs: [a, b]\n":                                            "risk.yaml:1:1: linear: a model of kind linear has one score",
		"outputs: [risk_sum]\nlinear: {link: logistic}\n":              "risk.yaml:9:16: linear.link: risk_sum is no sum then: write link: identity",
		"outputs: [score]\nlinear: {bias: 0.75}\n":                     "risk.yaml:7:9: golden: row 1 of golden.csv: prediction is 2.75, expected 2.5",
		"outputs: [score]\nlinear: {bias: 0.5}\nvoice: {seconds: 1}\n": "risk.yaml:10:1: voice: belongs to models of kind voice",
	} {
		s, err := scenario.Parse("toy.txt", []byte(scored(manifest(t, below), 1)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.Run(t.Context(), scenario.Options{Code: withModels}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", below, err, want)
		}
		if _, err := s.Run(t.Context(), scenario.Options{}); err == nil || !strings.Contains(err.Error(), `kind: "linear" is not one of xgboost`) {
			t.Errorf("without the kind: %v", err)
		}
	}
}

// TestModelKindsThatCannotBeAreRefused brings kinds with names that are taken, and with a
// field that does not say what it affects.
func TestModelKindsThatCannotBeAreRefused(t *testing.T) {
	file, told, silent := Linear, Linear, Linear
	file.Name, told.Name = "golden", "xgboost"
	silent.New = func() model.Config {
		return &struct {
			*linear `field:"-"`
			Bias    float64 `field:"bias" default:"0" example:"1" help:"it is added"`
		}{}
	}
	for want, kinds := range map[string][]model.Kind{
		`model kind "golden": a field with that name exists`:      {file},
		`model kind "linear": a field with that name exists`:      {Linear, Linear},
		`model kind "xgboost": files are told to be of that kind`: {told},
		`model kind "linear": struct`:                             {silent},
		`model kind "": a name is of lower case, digits and _`:    {{}},
	} {
		if _, err := afterbay.Reference(afterbay.Code{ModelKinds: kinds}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestReferenceHasTheFieldsOfManifests sees what people are shown.
func TestReferenceHasTheFieldsOfManifests(t *testing.T) {
	page, err := afterbay.Reference(afterbay.Code{ModelKinds: withModels.ModelKinds})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n## `manifest.linear`\n", "| `linear` | a mapping | as below | how the sum of a model of kind linear becomes its score | `linear: {link: logistic}` |",
		"| `link` | `identity`, `logistic` | identity | what is made of the sum | `link: logistic` |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}

// TestRowsWithoutNumbersAreRefused sees what becomes a dead letter.
func TestRowsWithoutNumbersAreRefused(t *testing.T) {
	s := &sum{info: model.Info{Inputs: []model.Input{{Name: "a"}, {Name: "b"}}}}
	var refused *model.InputError
	if err := s.Check([]float64{1, math.NaN()}, nil); !errors.As(err, &refused) || refused.Name != "b" {
		t.Errorf("it is %v", err)
	}
}
