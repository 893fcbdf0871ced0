package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/log/memory"
	contract "github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// sunkPipeline copies a topic to the topic out, which goes to sinks.
func sunkPipeline(sinks ...afterbay.Sink) afterbay.Pipeline {
	return afterbay.Pipeline{
		Name:  "copy",
		Input: afterbay.Input{Topic: "in", Partitions: 1, Key: "k", Fields: []afterbay.Field{{Name: "k", Type: "string"}}},
		Steps: []afterbay.Step{{Emit: &afterbay.Emit{Topic: "out", Names: []string{"k"}}}},
		Sinks: sinks,
	}
}

func TestSinkThatCannotBeIsRefused(t *testing.T) {
	service := &afterbay.HTTPSink{URL: "http://cards/freeze"}
	for _, c := range []struct {
		path, message string
		sinks         []afterbay.Sink
	}{
		{"sinks[0].from", "missing", []afterbay.Sink{{HTTP: service}}},
		{"sinks[0].from", `does not write "in"`, []afterbay.Sink{{From: "in", HTTP: service}}},
		{"sinks[0]", "exactly one", []afterbay.Sink{{From: "out"}}},
		{"sinks[0].http.url", "the URL is not valid", []afterbay.Sink{{From: "out", HTTP: &afterbay.HTTPSink{URL: "cards"}}}},
		{"sinks[0].http.url", "password", []afterbay.Sink{{From: "out", HTTP: &afterbay.HTTPSink{URL: "http://a:b@cards"}}}},
		{"sinks[0].name", "not the name of a sink", []afterbay.Sink{{From: "out", Name: "to/out", HTTP: service}}},
		{"sinks[0].name", "reserved", []afterbay.Sink{{From: "out", Name: "repartition.out", HTTP: service}}},
		{"sinks[0].name", "reserved", []afterbay.Sink{{From: "copy.dlq", HTTP: service}}},
		{"sinks[1].name", "two sinks", []afterbay.Sink{{From: "out", HTTP: service}, {From: "copy.dlq", Name: "out", HTTP: service}}},
		{"sinks[0].concurrency", "65 connections to a database: use 1 to 64", []afterbay.Sink{{From: "out", Concurrency: 65, Postgres: &afterbay.PostgresSink{URL: "postgres://h/d", Table: "t", Key: "k"}}}},
		{"sinks[0]", "timeout", []afterbay.Sink{{From: "out", HTTP: service, Timeout: time.Hour}}},
	} {
		var found afterbay.Errors
		_, err := afterbay.New(sunkPipeline(c.sinks...), afterbay.Options{})
		if !errors.As(err, &found) || len(found) != 1 || found[0].Path != c.path || !strings.Contains(found[0].Message, c.message) {
			t.Errorf("%s, %s: %v", c.path, c.message, err)
		}
	}
	if err := afterbay.Run(t.Context(), memory.New(memory.Options{}), sunkPipeline(afterbay.Sink{From: "out", HTTP: service})); err == nil || !strings.Contains(err.Error(), "Runner.Deliver") {
		t.Errorf("Run of a pipeline with sinks: %v", err)
	}
}

func TestSecretInTheQueryOfAURLIsAWarning(t *testing.T) {
	for url, warned := range map[string]bool{"http://cards/freeze?token=hush": true, "http://cards/freeze?dry=1": false} {
		runner, err := afterbay.New(sunkPipeline(afterbay.Sink{From: "out", HTTP: &afterbay.HTTPSink{URL: url}}), afterbay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(runner.Warnings(), "\n")
		if strings.Contains(text, "sinks[0].http.url: the parameter token of the query holds a secret") != warned || strings.Contains(text, "hush") {
			t.Errorf("%s: %q", url, text)
		}
		runner.Close()
	}
}

func TestBudgetThatCannotBeIsRefused(t *testing.T) {
	p := sunkPipeline()
	p.Budget = afterbay.Budget{P99: 10 * time.Millisecond, Model: 11 * time.Millisecond}
	var found afterbay.Errors
	if _, err := afterbay.New(p, afterbay.Options{}); !errors.As(err, &found) || found[0].Path != "budget" {
		t.Error(err)
	}
}

// taker is a sink that takes everything and tells.
type taker struct {
	taken  chan string
	closed bool
}

func (s *taker) Deliver(_ context.Context, id string, r *stream.Record) error {
	s.taken <- fmt.Sprint(id, " ", string(r.Value))
	return nil
}

func (s *taker) Close() { s.closed = true }

func TestSinksOfALibraryGetWhatIsWritten(t *testing.T) {
	log := memory.New(memory.Options{})
	defer log.Close()
	runner, err := afterbay.New(sunkPipeline(afterbay.Sink{From: "out", HTTP: &afterbay.HTTPSink{URL: "http://cards"}}), afterbay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	sink := &taker{taken: make(chan string, 1)}
	done := make(chan error, 2)
	go func() { done <- runner.Run(ctx, log) }()
	go func() {
		done <- runner.Deliver(ctx, log, func(s afterbay.Sink) (contract.Service, error) {
			if s.Name != "out" {
				return contract.Service{}, fmt.Errorf("the sink's name is %q", s.Name)
			}
			return contract.Service{Each: sink}, nil
		})
	}()
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
	if n := runner.SinkMetrics()[0].Delivered.Load(); n != 1 {
		t.Errorf("%d delivered", n)
	}
}
