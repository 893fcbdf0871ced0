package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// TestReadinessSaysWhichSchemaIsWaitedFor has a registry that is away, and then knows nothing of the schema.
func TestReadinessSaysWhichSchemaIsWaitedFor(t *testing.T) {
	var back atomic.Bool
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if back.Load() {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error_code":40403,"message":"Schema not found"}`))
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer registry.Close()
	p := lang.Pipeline{
		Name: "copy", Input: lang.Input{Topic: "in", Partitions: 1, Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}}},
		Steps: []lang.Step{&steps.Emit{Topic: "out", Names: []string{"k"}}},
	}
	p.Input.Format.Name, p.Registry.URL = lang.FormatRegistry, registry.URL
	runner, err := builtin.New(p, running.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	log := memory.New(memory.Options{})
	defer log.Close()
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	l := &lagging{T: t, Log: log}
	l.Server = newServer(l, Options{Runners: []*running.Runner{runner}}, nil)
	l.Ready(true)
	ready := func() string {
		reply := httptest.NewRecorder()
		l.http.ServeHTTP(reply, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		return strings.TrimSpace(reply.Body.String())
	}
	if got := ready(); got != "ok" {
		t.Errorf("before there is an event: %s", got)
	}
	record := stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte("a"), Value: []byte("\x00\x00\x00\x00\x07x")}
	if err := log.Append(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- runner.Run(ctx, log) }()
	for want, until := "not ready: pipeline copy waits for the schema registry: schema id 7: 503 Service Unavailable", time.Now().Add(20*time.Second); !strings.HasPrefix(ready(), want); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%q, want %q", ready(), want)
		}
	}
	back.Store(true)
	for until := time.Now().Add(20 * time.Second); ready() != "ok"; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("when the registry is back: %s", ready())
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
