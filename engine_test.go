package afterbay_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/stream"
)

// TestAnEngineWorksThroughAnotherThatHoldsTheDirectory appends, reads and asks through the
// engine that runs the pipeline, and by that engine itself.
func TestAnEngineWorksThroughAnotherThatHoldsTheDirectory(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	dir := t.TempDir()
	pipelines, err := afterbay.Parse("velocity.yaml", []byte(velocity), afterbay.Code{})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := afterbay.Open(ctx, dir, afterbay.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx, pipelines) }()
	if err := engine.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := afterbay.Open(ctx, dir, afterbay.Options{}); err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "call Open with another directory") || strings.Contains(err.Error(), "--") {
		t.Errorf("a second engine: %v", err)
	}
	other, err := afterbay.Open(ctx, dir, afterbay.Options{Attach: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range []*afterbay.Engine{engine, other} {
		payment := stream.Record{Key: []byte("4711"), Value: []byte(`{"card":"4711","amount":60}`)}
		if err := e.Append(ctx, "payments", payment); err != nil {
			t.Fatal(err)
		}
		if err := e.Append(ctx, "velocity.dlq", payment); err == nil || !strings.Contains(err.Error(), "belongs to the engine") {
			t.Errorf("engine %d: a record for dead letters: %v", i, err)
		}
		var id string
		for decision, err := range e.Tail(ctx, "decisions", 0) {
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range decision.Headers {
				if string(h.Key) == "afterbay-id" {
					id = string(h.Value)
				}
			}
			if decision.Offset == stream.Offset(i) {
				break
			}
		}
		status, err := e.Status(ctx)
		if err != nil || len(status.Pipelines) != 1 || status.Pipelines[0].Name != "velocity" {
			t.Errorf("engine %d: status %+v, %v", i, status, err)
		}
		report, err := e.Explain(ctx, id)
		if err != nil || report.Event == nil || !strings.Contains(string(report.Event.Value), "4711") {
			t.Errorf("engine %d: %q is explained by %+v, %v", i, id, report, err)
		}
	}
	if err := other.Run(ctx, pipelines); err == nil {
		t.Error("two engines run pipelines in one directory")
	}
	if err := engine.Run(ctx, pipelines); err == nil {
		t.Error("an engine runs twice")
	}
	if err := engine.WaitIdle(ctx); err != nil {
		t.Error(err)
	}
	stop()
	if err := errors.Join(other.Close(), <-ended, engine.Close()); err != nil {
		t.Error(err)
	}
}

// TestRecordsGetTheKeyOfTheirTopic appends records with and without keys: all count for one card.
func TestRecordsGetTheKeyOfTheirTopic(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	pipelines, err := afterbay.Parse("velocity.yaml", []byte(velocity), afterbay.Code{})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := afterbay.Open(ctx, "memory:", afterbay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx, pipelines) }()
	if err := engine.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	payment := []byte(`{"card":"4711","amount":60}`)
	records := []stream.Record{{Value: payment}, {Value: payment, Key: []byte("4711")}, {Value: payment}}
	if err := engine.Append(ctx, "payments", records...); err != nil {
		t.Fatal(err)
	}
	if records[0].Key != nil || records[0].Partition.Topic != "" {
		t.Errorf("Append changed the caller's record: %+v", records[0])
	}
	var last string
	for decision, err := range engine.Tail(ctx, "decisions", 0) {
		if last = string(decision.Value); err != nil || decision.Offset == 2 {
			break
		}
	}
	if want := `{"card":"4711","spend_sum_1h":180,"action":"review"}`; last != want {
		t.Errorf("the last decision is %s, want %s", last, want)
	}
	stop()
	if err := errors.Join(<-ended, engine.Close()); err != nil {
		t.Error(err)
	}
}

// TestServeEndsWithItsServerAndItsPipelines sees that an error of one ends the other.
func TestServeEndsWithItsServerAndItsPipelines(t *testing.T) {
	pipelines, err := afterbay.Parse("velocity.yaml", []byte(velocity), afterbay.Code{})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := afterbay.Open(t.Context(), "memory:", afterbay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Serve(t.Context(), pipelines, &http.Server{Addr: listener.Addr().String()}); err == nil {
		t.Error("two servers listen at one address")
	}
	ended := &http.Server{Addr: "127.0.0.1:0"}
	if err := ended.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := engine.Serve(ctx, pipelines, ended); err != nil {
		t.Errorf("a server whose context is done: %v", err)
	}
	if err := engine.Serve(t.Context(), pipelines, &http.Server{Addr: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "runs once") {
		t.Errorf("an engine serves twice: %v", err)
	}
	if err := errors.Join(listener.Close(), engine.Close()); err != nil {
		t.Error(err)
	}
}

// TestLoadReportsTheErrorsOfAllFiles sees file and line of each.
func TestLoadReportsTheErrorsOfAllFiles(t *testing.T) {
	var paths []string
	for _, name := range []string{"a.yaml", "b.yaml"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte("pipeline: a\nsteps: 7\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	_, err := afterbay.Load(afterbay.Code{}, paths...)
	var all afterbay.Errors
	if !errors.As(err, &all) {
		t.Fatalf("%v is a %T", err, err)
	}
	for _, path := range paths {
		if !slices.ContainsFunc(all, func(e *afterbay.Error) bool { return e.File == path && e.Line == 2 }) {
			t.Errorf("no error of line 2 of %s in %v", path, all)
		}
	}
}

// TestAServerForOtherMachinesNeedsTokens sees an error that names no flag.
func TestAServerForOtherMachinesNeedsTokens(t *testing.T) {
	if _, err := afterbay.Open(t.Context(), "memory:", afterbay.Options{Listen: "0.0.0.0:0"}); err == nil || !strings.Contains(err.Error(), "set TokenFile") {
		t.Errorf("a server without tokens: %v", err)
	}
}
