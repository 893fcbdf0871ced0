package e2e_test

import (
	"context"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

// seer is a model that is given an image, and a text.
type seer struct{ state int }

func (s seer) Info() model.Info {
	info := model.Info{
		Kind: "seer", Digest: strings.Repeat("2", 64), Inputs: []model.Input{{Name: "image", Type: model.Bytes}, {Name: "n", Type: model.Number}}, Outputs: []model.Output{{Name: "sure", Size: 1}},
	}
	if info.State = s.state; s.state > 0 {
		info.Inputs = append(info.Inputs, model.Input{Name: "before", Type: model.Bytes})
		info.Outputs = append(info.Outputs, model.Output{Name: "after", Size: s.state})
	}
	return info
}

func fetchPipeline(f steps.Fetch, o lang.Content, list ...lang.Step) lang.Pipeline {
	return lang.Pipeline{
		Name: "seeing",
		Input: lang.Input{Topic: "in", Key: "k", Fields: []lang.Field{
			{Name: "k", Type: "string"}, {Name: "url", Type: "string"}, {Name: "other", Type: "optional string"}, {Name: "n", Type: "int"},
		}},
		Content: o,
		Models: []lang.Model{
			{Name: "seer", Go: "seer", Version: 1, Outputs: []lang.Field{{Name: "sure", Type: "number"}}},
			{Name: "keeper", Go: "keeper", Version: 1, Outputs: []lang.Field{{Name: "sure", Type: "number"}}},
		},
		Steps: append(append([]lang.Step{&f}, list...), &steps.Emit{Topic: "out", Names: []string{"k", "shot.sha256", "shot.size", "shot.type"}}),
		Code:  lang.Code{Models: map[string]model.Model{"seer": goModel{seer{}}, "keeper": goModel{seer{2}}}},
	}
}

// goModel is sure of nothing.
type goModel struct{ seer }

func (goModel) Check([]float64, [][]byte) error { return nil }

func (goModel) Predict(context.Context, model.Rows, []float32) error { return nil }

func TestContentIsForModelsAlone(t *testing.T) {
	shot := steps.Fetch{Name: "shot", URL: "url"}
	score := func(model string, inputs ...string) lang.Step {
		return &steps.Score{Model: model, Inputs: inputs}
	}
	if _, err := builtin.New(fetchPipeline(shot, lang.Content{}, score("seer", "shot.bytes", "n")), pipeline.Options{}); err != nil {
		t.Fatal(err)
	}
	for want, step := range map[string]lang.Step{
		"shot.bytes is content, and only models can read it":   &steps.Let{List: []lang.Binding{{Name: "x", Expr: "len(shot.bytes)"}}},
		`"shot.bytes" is content, and only models can read it`: &steps.Emit{Topic: "more", Names: []string{"shot.*"}},
		"is content, and only models":                          &steps.Emit{Topic: "more", Value: []steps.Member{{Name: "x", Expr: "shot.bytes"}}},
		`"shot.bytes" is of type content: a key is`:            &steps.Emit{Topic: "more", Key: "shot.bytes", Names: []string{"k"}},
		`the model takes a number here`:                        score("seer", "shot.bytes", "shot.bytes"),
		"keeps state of each key":                              score("keeper", "shot.bytes", "n"),
	} {
		if _, err := builtin.New(fetchPipeline(shot, lang.Content{}, step), pipeline.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
}

func TestWrongFetchesAreRefused(t *testing.T) {
	for want, p := range map[string]lang.Pipeline{
		"or a list by urls":                   fetchPipeline(steps.Fetch{Name: "shot"}, lang.Content{}),
		"name the content to fetch":           fetchPipeline(steps.Fetch{Name: "shot", URL: "url", URLs: "url"}, lang.Content{}),
		`"n" is of type int`:                  fetchPipeline(steps.Fetch{Name: "shot", URL: "n"}, lang.Content{}),
		`but string[] is needed`:              fetchPipeline(steps.Fetch{Name: "shot", URLs: "url"}, lang.Content{}),
		`unknown name "nowhere"`:              fetchPipeline(steps.Fetch{Name: "shot", URL: "nowhere"}, lang.Content{}),
		"bytes are out of range":              fetchPipeline(steps.Fetch{Name: "shot", URL: "url", Max: 2 << 30}, lang.Content{}),
		"content has no fallback":             fetchPipeline(steps.Fetch{Name: "shot", URL: "url", Call: &lang.Calling{Breaker: lang.Breaker{Open: "fallback"}}}, lang.Content{}),
		"a rate of 2":                         fetchPipeline(steps.Fetch{Name: "shot", URL: "url", Call: &lang.Calling{Breaker: lang.Breaker{Rate: 2}}}, lang.Content{}),
		`"10.0.0.1" is not a network`:         fetchPipeline(steps.Fetch{Name: "shot", URL: "url"}, lang.Content{Private: []string{"10.0.0.1"}}),
		`root "data" is not absolute`:         fetchPipeline(steps.Fetch{Name: "shot", URL: "url"}, lang.Content{Root: "data"}),
		`host "https://a"`:                    fetchPipeline(steps.Fetch{Name: "shot", URL: "url"}, lang.Content{Hosts: []string{"https://a"}}),
		"endpoint of S3":                      fetchPipeline(steps.Fetch{Name: "shot", URL: "url"}, lang.Content{Buckets: []string{"a"}, S3: spec.ObjectStore{Endpoint: "store:9000"}}),
		"only let, decide, call and emit can": fetchPipeline(steps.Fetch{Name: "shot", URL: "url", OnFailure: []lang.Step{&steps.Fetch{Name: "b", URL: "other"}}}, lang.Content{}),
		"introduced twice":                    fetchPipeline(steps.Fetch{Name: "shot", URL: "url"}, lang.Content{}, &steps.Fetch{Name: "shot", URL: "other"}),
		"another case fetches shot from url, not from other": fetchPipeline(steps.Fetch{Name: "first", URL: "url"}, lang.Content{}, &steps.Route{Cases: []lang.Case{
			{Name: "one", When: "n > 1", Steps: []lang.Step{&steps.Fetch{Name: "shot", URL: "url"}}},
			{Name: "default", Steps: []lang.Step{&steps.Fetch{Name: "shot", URL: "other"}}},
		}}),
	} {
		if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
}
