package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/sinks/http"
	"github.com/afterbay/afterbay/internal/sinks/postgres"
	"github.com/afterbay/afterbay/internal/spec"
	contract "github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// sunkPipeline copies a topic to the topic out, which goes to sinks.
func sunkPipeline(sinks ...lang.Sink) lang.Pipeline {
	return lang.Pipeline{
		Name:  "copy",
		Input: lang.Input{Topic: "in", Partitions: 1, Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}}},
		Steps: []lang.Step{&steps.Emit{Topic: "out", Names: []string{"k"}}},
		Sinks: sinks,
	}
}

func TestSinkThatCannotBeIsRefused(t *testing.T) {
	service := toHTTP("http://cards/freeze")
	for _, c := range []struct {
		path, message string
		sinks         []lang.Sink
	}{
		{"sinks[0].from", "missing", []lang.Sink{{Kind: "http", Config: service}}},
		{"sinks[0].from", `does not write "in"`, []lang.Sink{{From: "in", Kind: "http", Config: service}}},
		{"sinks[0]", "missing: the destination of the records", []lang.Sink{{From: "out"}}},
		{"sinks[0].http.url", "the URL is not valid", []lang.Sink{{From: "out", Kind: "http", Config: toHTTP("cards")}}},
		{"sinks[0].http.url", "password", []lang.Sink{{From: "out", Kind: "http", Config: toHTTP("http://a:b@cards")}}},
		{"sinks[0].name", "not the name of a sink", []lang.Sink{{From: "out", Name: "to/out", Kind: "http", Config: service}}},
		{"sinks[0].name", "reserved", []lang.Sink{{From: "out", Name: "repartition.out", Kind: "http", Config: service}}},
		{"sinks[0].name", "reserved", []lang.Sink{{From: "copy.dlq", Kind: "http", Config: service}}},
		{"sinks[1].name", "two sinks", []lang.Sink{{From: "out", Kind: "http", Config: service}, {From: "copy.dlq", Name: "out", Kind: "http", Config: service}}},
		{"sinks[0].concurrency", "65 connections to a database: use 1 to 64", []lang.Sink{{From: "out", Concurrency: 65, Kind: "postgres", Config: &postgres.Config{URL: "postgres://h/d", Table: "t", Key: "k"}}}},
		{"sinks[0]", "timeout", []lang.Sink{{From: "out", Kind: "http", Config: service, Timeout: time.Hour}}},
	} {
		var found spec.Problems
		_, err := builtin.New(sunkPipeline(c.sinks...), pipeline.Options{})
		if !errors.As(err, &found) || len(found) != 1 || found[0].Path != c.path || !strings.Contains(found[0].Message, c.message) {
			t.Errorf("%s, %s: %v", c.path, c.message, err)
		}
	}
}

func toHTTP(url string) *http.Config { return &http.Config{URL: url} }

func TestSecretInTheQueryOfAURLIsAWarning(t *testing.T) {
	for url, warned := range map[string]bool{"http://cards/freeze?token=hush": true, "http://cards/freeze?dry=1": false} {
		runner, err := builtin.New(sunkPipeline(lang.Sink{From: "out", Kind: "http", Config: toHTTP(url)}), pipeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(runner.Warnings, "\n")
		if strings.Contains(text, "sinks[0].http.url: the parameter token of the query holds a secret") != warned || strings.Contains(text, "hush") {
			t.Errorf("%s: %q", url, text)
		}
		runner.Close()
	}
}

func TestBudgetThatCannotBeIsRefused(t *testing.T) {
	p := sunkPipeline()
	p.Budget = lang.Budget{P99: 10 * time.Millisecond, Model: 11 * time.Millisecond}
	var found spec.Problems
	if _, err := builtin.New(p, pipeline.Options{}); !errors.As(err, &found) || found[0].Path != "budget" {
		t.Error(err)
	}
}

// taker is a sink that takes everything and tells.
type taker struct {
	taken  chan string
	told   contract.Topic
	closed bool
}

func (s *taker) Check(contract.Topic) []error { return nil }

func (s *taker) Open(_ context.Context, t contract.Topic) (contract.Service, error) {
	s.told = t
	return contract.Service{Each: s}, nil
}

func (s *taker) Describe() string { return "a channel" }

func (s *taker) Deliver(_ context.Context, id string, r *stream.Record) error {
	s.taken <- fmt.Sprint(id, " ", string(r.Value))
	return nil
}

func (s *taker) Close() { s.closed = true }

func TestSinksOfALibraryGetWhatIsWritten(t *testing.T) {
	log := memory.New(memory.Options{})
	defer log.Close()
	sink := &taker{taken: make(chan string, 1)}
	p := sunkPipeline(lang.Sink{From: "out", Kind: "taker", Config: sink})
	p.Constants = []spec.Constant{{Name: "limit", Value: 0.5}, {Name: "region", Table: map[string]any{"US": int64(0)}}}
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- runner.Run(ctx, log) }()
	go func() { done <- runner.Deliver(ctx, log) }()
	if err := log.Append(ctx, stream.Record{Partition: stream.Partition{Topic: "in"}, Value: []byte(`{"k":"ann"}`), Key: []byte("ann")}); err != nil {
		t.Fatal(err)
	}
	if got := <-sink.taken; got != `copy:in/0@0:out {"k":"ann"}` {
		t.Errorf("the sink got %s", got)
	}
	if err := errors.Join(runner.WaitIdle(ctx, log), runner.WaitDelivered(ctx, log)); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := errors.Join(<-done, <-done); err != nil || !sink.closed {
		t.Errorf("%v, closed: %v", err, sink.closed)
	}
	want := contract.Topic{
		Name: "out", Pipeline: "copy", Sink: "out", Group: "copy.out", Columns: []contract.Column{{Name: "k", Type: "string"}}, Keys: []string{"k"},
		Constants: map[string]any{"limit": 0.5, "region": map[string]any{"US": int64(0)}}, Fingerprint: runner.Plan.Fingerprint.Outputs, Topics: []string{"out", "copy.dlq", "in"},
	}
	if diff := cmp.Diff(want, sink.told); diff != "" {
		t.Errorf("the sink was told (-want +got):\n%s", diff)
	}
	if n := runner.Snapshot().Sinks[0].Delivered; n != 1 {
		t.Errorf("%d delivered", n)
	}
}
