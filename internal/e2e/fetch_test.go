package e2e_test

import (
	"context"
	"strings"
	"testing"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
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

func fetchPipeline(f afterbay.Fetch, o afterbay.Content, steps ...afterbay.Step) afterbay.Pipeline {
	return afterbay.Pipeline{
		Name: "seeing",
		Input: afterbay.Input{Topic: "in", Key: "k", Fields: []afterbay.Field{
			{Name: "k", Type: "string"}, {Name: "url", Type: "string"}, {Name: "other", Type: "optional string"}, {Name: "n", Type: "int"},
		}},
		Content: o,
		Models: []afterbay.Model{
			{Name: "seer", Go: "seer", Version: 1, Outputs: []afterbay.Field{{Name: "sure", Type: "number"}}},
			{Name: "keeper", Go: "keeper", Version: 1, Outputs: []afterbay.Field{{Name: "sure", Type: "number"}}},
		},
		Steps: append(append([]afterbay.Step{&f}, steps...), &afterbay.Emit{Topic: "out", Names: []string{"k", "shot.sha256", "shot.size", "shot.type"}}),
		Code:  afterbay.Code{Models: map[string]model.Model{"seer": goModel{seer{}}, "keeper": goModel{seer{2}}}},
	}
}

// goModel is sure of nothing.
type goModel struct{ seer }

func (goModel) Check([]float64, [][]byte) error { return nil }

func (goModel) Predict(context.Context, model.Rows, []float32) error { return nil }

func TestContentIsForModelsAlone(t *testing.T) {
	shot := afterbay.Fetch{Name: "shot", URL: "url"}
	score := func(model string, inputs ...string) afterbay.Step {
		return &afterbay.Score{Model: model, Inputs: inputs}
	}
	if _, err := builtin.New(fetchPipeline(shot, afterbay.Content{}, score("seer", "shot.bytes", "n")), pipeline.Options{}); err != nil {
		t.Fatal(err)
	}
	for want, step := range map[string]afterbay.Step{
		"shot.bytes is content, which only models are given":   &afterbay.Let{List: []afterbay.Binding{{Name: "x", Expr: "len(shot.bytes)"}}},
		`"shot.bytes" is content, which only models are given`: &afterbay.Emit{Topic: "more", Names: []string{"shot.*"}},
		"is content, which only models":                        &afterbay.Emit{Topic: "more", Value: []afterbay.Binding{{Name: "x", Expr: "shot.bytes"}}},
		`"shot.bytes" is of type content: a key is`:            &afterbay.Emit{Topic: "more", Key: "shot.bytes", Names: []string{"k"}},
		`the model takes a number here`:                        score("seer", "shot.bytes", "shot.bytes"),
		"keeps something of each key":                          score("keeper", "shot.bytes", "n"),
	} {
		if _, err := builtin.New(fetchPipeline(shot, afterbay.Content{}, step), pipeline.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
}

func TestWrongFetchesAreRefused(t *testing.T) {
	for want, p := range map[string]afterbay.Pipeline{
		"by url, or by urls":                  fetchPipeline(afterbay.Fetch{Name: "shot"}, afterbay.Content{}),
		"name what is fetched":                fetchPipeline(afterbay.Fetch{Name: "shot", URL: "url", URLs: "url"}, afterbay.Content{}),
		`"n" is of type int`:                  fetchPipeline(afterbay.Fetch{Name: "shot", URL: "n"}, afterbay.Content{}),
		`where string[] is needed`:            fetchPipeline(afterbay.Fetch{Name: "shot", URLs: "url"}, afterbay.Content{}),
		`unknown name "nowhere"`:              fetchPipeline(afterbay.Fetch{Name: "shot", URL: "nowhere"}, afterbay.Content{}),
		"bytes are out of range":              fetchPipeline(afterbay.Fetch{Name: "shot", URL: "url", Max: 2 << 30}, afterbay.Content{}),
		"content has no fallback":             fetchPipeline(afterbay.Fetch{Name: "shot", URL: "url", Call: &afterbay.Calling{Breaker: afterbay.Breaker{Open: "fallback"}}}, afterbay.Content{}),
		"a rate of 2":                         fetchPipeline(afterbay.Fetch{Name: "shot", URL: "url", Call: &afterbay.Calling{Breaker: afterbay.Breaker{Rate: 2}}}, afterbay.Content{}),
		`"10.0.0.1" is no network`:            fetchPipeline(afterbay.Fetch{Name: "shot", URL: "url"}, afterbay.Content{Private: []string{"10.0.0.1"}}),
		`root "data" is not absolute`:         fetchPipeline(afterbay.Fetch{Name: "shot", URL: "url"}, afterbay.Content{Root: "data"}),
		`host "https://a"`:                    fetchPipeline(afterbay.Fetch{Name: "shot", URL: "url"}, afterbay.Content{Hosts: []string{"https://a"}}),
		"endpoint of S3":                      fetchPipeline(afterbay.Fetch{Name: "shot", URL: "url"}, afterbay.Content{Buckets: []string{"a"}, S3: afterbay.ObjectStore{Endpoint: "store:9000"}}),
		"only let, decide, call and emit can": fetchPipeline(afterbay.Fetch{Name: "shot", URL: "url", OnFailure: []afterbay.Step{&afterbay.Fetch{Name: "b", URL: "other"}}}, afterbay.Content{}),
		"introduced twice":                    fetchPipeline(afterbay.Fetch{Name: "shot", URL: "url"}, afterbay.Content{}, &afterbay.Fetch{Name: "shot", URL: "other"}),
		"another case fetches shot from url, not from other": fetchPipeline(afterbay.Fetch{Name: "first", URL: "url"}, afterbay.Content{}, &afterbay.Route{Cases: []afterbay.Case{
			{Name: "one", When: "n > 1", Steps: []afterbay.Step{&afterbay.Fetch{Name: "shot", URL: "url"}}},
			{Name: "default", Steps: []afterbay.Step{&afterbay.Fetch{Name: "shot", URL: "other"}}},
		}}),
	} {
		if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
}
