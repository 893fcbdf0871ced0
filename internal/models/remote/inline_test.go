package remote_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// inlinePipeline has a model that it describes itself.
func inlinePipeline(m lang.Model, score steps.Score) lang.Pipeline {
	score.Model = m.Name
	return lang.Pipeline{
		Name: "inline",
		Input: lang.Input{Topic: "in", Partitions: 1, Key: "k", Fields: []lang.Field{
			{Name: "k", Type: "string"}, {Name: "a", Type: "number"}, {Name: "b", Type: "optional number"},
		}},
		Models: []lang.Model{m},
		Steps:  []lang.Step{&score, &steps.Emit{Topic: "out", Names: []string{m.Name + ".*"}}},
	}
}

// A url is a model: its inputs are what the score gives.
func TestModelsAreAskedWhereThePipelineSays(t *testing.T) {
	host := remote.StartFake(t)
	outputs := []lang.Field{{Name: "label", Type: "string"}, {Name: "sum", Type: "number"}}
	for _, scheme := range []string{"grpc://", "http://"} {
		for _, score := range []steps.Score{
			{Inputs: []string{"a", "b"}},
			{ByName: []lang.Binding{{Name: "x", Expr: "a"}, {Name: "y", Expr: "b"}}},
			{Inputs: []string{"a", "b"}, Async: true},
		} {
			runner, err := builtin.New(inlinePipeline(lang.Model{Name: "far", URL: scheme + host + "/sum", Version: 7, Outputs: outputs}, score), pipeline.Options{})
			if err != nil {
				t.Fatal(err)
			}
			events := []stream.Record{{Partition: stream.Partition{Topic: "in"}, Key: []byte("ann"), Value: []byte(`{"k":"ann","a":1,"b":2}`)}}
			answer, err := answers.RunAll(t.Context(), memory.New(memory.Options{}), runner, events)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(answer.Values("out")); got != `[{"far_label":"€ 3","far_sum":3}]` {
				t.Error(scheme, score, got)
			}
		}
	}
}

func TestModelsThatThePipelineDescribesWronglyAreRefused(t *testing.T) {
	host := remote.StartFake(t)
	outputs := []lang.Field{{Name: "sum", Type: "number"}}
	for _, c := range []struct {
		model  lang.Model
		inputs []string
		want   string
	}{
		{lang.Model{URL: "grpc://" + host + "/absent"}, []string{"a"}, "models.far.url: load remote model absent: "},
		{lang.Model{URL: "ftp://" + host + "/sum"}, []string{"a"}, "models.far.url: load remote model sum: \"ftp:"},
		{lang.Model{URL: "grpc://" + host + "/described"}, []string{"a", "b"}, `models.far.url: load remote model described: version "7" is not one of`},
		{lang.Model{URL: "grpc://" + host + "/sum", Process: []string{"true"}}, []string{"a"}, "models.far: a model has only one of file, go, url and process"},
		{lang.Model{Process: []string{"/no/such/program"}}, []string{"a"}, "models.far.process: "},
		{lang.Model{URL: "grpc://" + host + "/sum"}, []string{"c"}, "steps[0].score.inputs[0]: "},
	} {
		c.model.Name, c.model.Version, c.model.Outputs = "far", 7, outputs
		_, err := builtin.New(inlinePipeline(c.model, steps.Score{Inputs: c.inputs}), pipeline.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// A chat model's words are shown while they come, and are what the next model gets.
func TestWordsOfAChatAreEmbedded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/v1/embeddings" && strings.Contains(string(body), `"input":["So it is."]`):
			_, _ = io.WriteString(w, `{"data": [{"index": 0, "embedding": [0.1, -2]}]}`)
		case r.URL.Path == "/v1/chat/completions" && strings.Contains(string(body), `"stream":true`):
			for _, word := range []string{"So ", "it ", "is."} {
				fmt.Fprintf(w, "data: {\"choices\": [{\"delta\": {\"content\": %q}}]}\n\n", word)
				_ = http.NewResponseController(w).Flush()
				time.Sleep(5 * time.Millisecond) // so that a piece is not the whole
			}
			_, _ = io.WriteString(w, "data: {\"choices\": [{\"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n")
		default:
			http.Error(w, "what? "+string(body), http.StatusBadRequest)
		}
	}))
	defer server.Close()
	text := []model.ManifestInput{{Name: "text", Type: model.String}}
	chat := &model.Manifest{
		Name: "chat", Version: 1, Kind: "remote", Inputs: text, Outputs: []model.Output{{Name: "words", Size: 1, Type: model.String}},
		Config: &remote.Config{Endpoint: server.URL, API: "chat", Model: "small", Chat: &remote.ChatConfig{Prompt: "Is it so? {text}"}},
	}
	embed := &model.Manifest{
		Name: "embed", Version: 1, Kind: "remote", Inputs: text, Outputs: []model.Output{{Name: "vector", Size: 2}},
		Config: &remote.Config{Endpoint: server.URL, API: "embeddings", Model: "small"},
	}
	p := inlinePipeline(lang.Model{Name: "chat", File: "chat.yaml", Manifest: chat, Version: 1, Outputs: []lang.Field{{Name: "words", Type: "string"}}},
		steps.Score{Inputs: []string{"k"}, Async: true, Partial: &steps.Partial{Topic: "drafts", Interval: time.Millisecond}})
	p.Models = append(p.Models, lang.Model{Name: "embed", File: "embed.yaml", Manifest: embed, Version: 1, Outputs: []lang.Field{{Name: "vector", Type: "number[2]"}}})
	p.Steps = []lang.Step{
		p.Steps[0], &steps.Score{Model: "embed", ByName: []lang.Binding{{Name: "text", Expr: "chat.words"}}},
		&steps.Emit{Topic: "out", Names: []string{"chat.words", "embed.vector"}},
	}
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	events := []stream.Record{{Partition: stream.Partition{Topic: "in"}, Key: []byte("ann"), Value: []byte(`{"k":"ann","a":1,"b":2}`)}}
	answer, err := answers.RunAll(t.Context(), memory.New(memory.Options{}), runner, events)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(answer.Values("out")); got != `[{"chat_words":"So it is.","embed_vector":[0.1,-2]}]` {
		t.Error(got, answer.Values("inline.dlq"))
	}
	for _, draft := range answer.Values("drafts") {
		if !strings.HasPrefix(draft, `{"id":"in/0@0","chat_words":"So `) {
			t.Error(draft)
		}
	}
}
