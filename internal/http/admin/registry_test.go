package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	schemas "github.com/afterbay/afterbay/internal/event/registry"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
)

// TestReadinessSaysWhichSchemaIsWaitedFor has a registry that stays away, and then knows nothing of the schema. One failure
// changes nothing.
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
	of := runner.Schemas
	defer func() {
		runner.Schemas.Close()
		runner.Schemas = of
		runner.Close()
	}()
	var passed atomic.Int64
	begun := time.Now()
	runner.Schemas, err = schemas.New(schemas.Options{URL: registry.URL, Now: func() time.Time { return begun.Add(time.Duration(passed.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
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
	woken := make(chan struct{}, 1)
	if known, _ := runner.Schemas.Transcoder().Prepare([]byte("\x00\x00\x00\x00\x07x"), 1, func() { woken <- struct{}{} }); known {
		t.Fatal("the schema is known")
	}
	<-woken // after the first failure
	if got := ready(); got != "ok" {
		t.Errorf("after one failure: %s", got)
	}
	passed.Store(int64(10 * time.Second))
	if got, want := ready(), "not ready: pipeline copy waits for the schema registry: schema id 7: 503 Service Unavailable"; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	back.Store(true)
	for until := time.Now().Add(20 * time.Second); ready() != "ok"; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("when the registry is back: %s", ready())
		}
	}
}
