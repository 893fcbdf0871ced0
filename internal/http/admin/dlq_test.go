package admin_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/stream"
)

// TestAPipelineThatStandsStillIsSeenAndGoesOnWhenTold looks at readiness, status
// and metrics, and at the dead letters through the process and beside it.
func TestAPipelineThatStandsStillIsSeenAndGoesOnWhenTold(t *testing.T) {
	log := newLog(t)
	p := pipeline()
	p.DeadLetters.StopAbove = spec.Share{Of: 0.5, Per: time.Minute}
	runner, err := builtin.New(p, running.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx, log) }()
	server, url := start(t, log, admin.Options{Runners: []*running.Runner{runner}})
	server.Ready(true)
	for range 30 {
		if err := log.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte("k"), Value: []byte("broken")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := runner.WaitIdle(t.Context(), log); err != nil && !errors.Is(err, running.ErrStopped) {
		t.Fatal(err)
	}
	for runner.Snapshot().Stopped == nil {
		time.Sleep(time.Millisecond)
	}
	seesAndResumes(t, runner, log, url)
	seesLetters(t, log, url)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// seesAndResumes looks at the process before and after the pipeline goes on.
func seesAndResumes(t *testing.T, runner *running.Runner, log stream.Log, url string) {
	t.Helper()
	client := &admin.Client{URL: url}
	sees := func(path, want string, stopped bool) {
		t.Helper()
		if _, body := get(t, url+path); strings.Contains(body, want) != stopped {
			t.Errorf("%s has %q: %v\n%s", path, want, !stopped, body)
		}
	}
	for _, stopped := range []bool{true, false} {
		sees("/readyz", "afterbay dlq resume copy", stopped)
		sees("/v1/status", `"stopped":{"since":`, stopped)
		sees("/metrics", `afterbay_pipeline_stopped{pipeline="copy"} 1`, stopped)
		for stopped && runner.Snapshot().Stopped != nil { // the rest is read after the first time
			if err := client.Resume(t.Context(), "copy"); err != nil {
				t.Error(err)
			}
			_ = runner.WaitIdle(t.Context(), log)
		}
	}
	if err := client.Resume(t.Context(), "copy"); err == nil || !strings.Contains(err.Error(), "is not stopped") {
		t.Error(err)
	}
	if err := client.Resume(t.Context(), "gone"); !errors.Is(err, inspect.ErrUnknownPipeline) {
		t.Error(err)
	}
}

// seesLetters compares what is read of the dead letters through the process and
// beside it, and drops some.
func seesLetters(t *testing.T, log inspect.Log, url string) {
	t.Helper()
	client := &admin.Client{URL: url}
	read := func(d inspect.Directory, f deadletter.Filter) (list []deadletter.Letter) {
		for l, err := range d.Letters(t.Context(), "copy", f, true) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, l)
		}
		return list
	}
	local := &inspect.Local{Log: log}
	f := deadletter.Filter{Stage: "decode", Key: "k", Reason: "byte", Partitions: []int32{0, 2}, Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)}
	if d := cmp.Diff(read(local, f), read(client, f)); d != "" || len(read(local, f)) != 30 {
		t.Errorf("%d letters: %s", len(read(local, f)), d)
	}
	var last deadletter.Progress
	for p, err := range client.Settle(t.Context(), deadletter.Job{Pipeline: "copy", Drop: true, Limit: 7}) {
		if err != nil {
			t.Fatal(err)
		}
		last = p
	}
	if last.Settled != 7 || !last.Done {
		t.Errorf("%+v", last)
	}
	for path, want := range map[string]int{"?since=x": 400, "?partition=x": 400, "/redrive?limit=x": 405, "/else": 405} {
		if status, body := get(t, url+"/v1/dlq/copy"+path); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, _ := request(t, http.MethodPost, url+"/v1/dlq/copy/drop?limit=x", ""); status != 400 {
		t.Errorf("a limit that is none: %d", status)
	}
}
