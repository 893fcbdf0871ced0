package admin

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// lagging is a server over a log whose lag can be broken, and a member of the
// group of its pipeline, which reads nothing until it is told to.
type lagging struct {
	*testing.T
	*Server
	*memory.Log
	broken atomic.Bool // of partition 0
	member stream.Member
	logged bytes.Buffer
}

func (l *lagging) Offsets(ctx context.Context, p stream.Partition) (first, next stream.Offset, err error) {
	first, next, err = l.Log.Offsets(ctx, p)
	if p.Index == 0 && l.broken.Load() {
		err = errors.New("broken")
	}
	return first, next, err
}

// watching measures the lag of a pipeline in virtual time until the test ends.
func watching(t *testing.T, limits lang.Lag) *lagging {
	t.Helper()
	return watchingBacklog(t, limits, lang.Backlog{})
}

func watchingBacklog(t *testing.T, limits lang.Lag, backlog lang.Backlog) *lagging {
	t.Helper()
	runner, err := builtin.New(lang.Pipeline{
		Name: "copy", Lag: limits,
		Input: lang.Input{Topic: "in", Partitions: 2, Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}}, Backlog: backlog},
		Steps: []lang.Step{&steps.Emit{Topic: "out", Names: []string{"k"}}},
	}, running.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := &lagging{T: t, Log: memory.New(memory.Options{})}
	t.Cleanup(func() { _ = l.Log.Close() })
	logger := slog.New(slog.NewTextHandler(&l.logged, nil))
	l.Server = newServer(l, Options{Runners: []*running.Runner{runner}, Logger: logger}, nil)
	if err = runner.CreateTopics(t.Context(), l.Log); err == nil {
		l.member, err = l.Join(t.Context(), "copy", "in")
	}
	for owned := 0; err == nil && owned < 2; {
		var batch stream.Batch
		batch, err = l.member.Poll(t.Context(), 1)
		owned += len(batch.Assigned)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.Ready(true)
	return l
}

// watch measures in the background until the test ends.
func (l *lagging) watch() {
	ctx, cancel := context.WithCancel(l.Context())
	done := make(chan error)
	go func() { done <- l.lag.run(ctx) }()
	l.Cleanup(func() {
		cancel()
		<-done
	})
	synctest.Wait()
}

func (l *lagging) write(n int) {
	l.Helper()
	for range n {
		if err := l.Append(l.Context(), stream.Record{Partition: stream.Partition{Topic: "in", Index: 1}}); err != nil {
			l.Fatal(err)
		}
	}
}

func (l *lagging) commit(next stream.Offset) {
	l.Helper()
	step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{{Topic: "in", Index: 1}: next}}
	if err := l.member.Commit(step).Wait(l.Context()); err != nil {
		l.Fatal(err)
	}
}

// pass lets time pass, and what is to happen until then happen.
func (l *lagging) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// wantReady checks the answer of /readyz.
func (l *lagging) wantReady(want string) {
	l.Helper()
	reply := httptest.NewRecorder()
	l.http.ServeHTTP(reply, httptest.NewRequestWithContext(l.Context(), http.MethodGet, "/readyz", nil))
	code := http.StatusServiceUnavailable
	if want == "ok" {
		code = http.StatusOK
	}
	if got := strings.TrimSpace(reply.Body.String()); got != want || reply.Code != code {
		l.Fatalf("%d %q, want %q", reply.Code, got, want)
	}
}

// gauges returns the metrics of lag.
func (l *lagging) gauges() map[string]float64 {
	l.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector(func() *Snapshot {
		lags, bounds := l.lag.latestLag()
		return &Snapshot{lags: lags, bounds: bounds}
	}))
	families, err := registry.Gather()
	if err != nil {
		l.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			all[f.GetName()+labels(m)] = m.GetGauge().GetValue()
		}
	}
	return all
}

func labels(m *dto.Metric) string {
	text := ""
	for _, pair := range m.GetLabel() {
		text += " " + pair.GetName() + "=" + pair.GetValue()
	}
	return text
}

func TestLagTurnsMetricThenReadinessAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := watching(t, lang.Lag{Warn: 5 * time.Second, Critical: 20 * time.Second})
		l.wantReady("not ready: pipeline copy: its lag is not measured yet")
		l.watch()
		l.wantReady("ok")
		want := map[string]float64{
			"afterbay_lag_records group=copy partition=0 topic=in": 0, "afterbay_lag_seconds group=copy partition=0 topic=in": 0,
			"afterbay_lag_records group=copy partition=1 topic=in": 0, "afterbay_lag_seconds group=copy partition=1 topic=in": 0,
			"afterbay_lag_above bound=warn pipeline=copy": 0, "afterbay_lag_above bound=critical pipeline=copy": 0,
		}
		check := func() {
			t.Helper()
			if diff := cmp.Diff(want, l.gauges()); diff != "" {
				t.Fatal(diff)
			}
		}
		check()
		l.write(3)
		l.pass(5 * time.Second)
		l.wantReady("ok")
		want["afterbay_lag_records group=copy partition=1 topic=in"] = 3
		want["afterbay_lag_seconds group=copy partition=1 topic=in"] = 5
		check()
		l.pass(10 * time.Second)
		l.wantReady("ok")
		want["afterbay_lag_seconds group=copy partition=1 topic=in"] = 15
		want["afterbay_lag_above bound=warn pipeline=copy"] = 1
		check()
		l.pass(6 * time.Second)
		l.wantReady("not ready: pipeline copy is 21s and 3 records behind in in/1: lag.critical is 20s")
		want["afterbay_lag_seconds group=copy partition=1 topic=in"] = 21
		want["afterbay_lag_above bound=critical pipeline=copy"] = 1
		check()
		l.write(1)
		l.pass(2 * time.Second)
		l.commit(3)
		l.pass(time.Second)
		l.wantReady("ok")
		want["afterbay_lag_records group=copy partition=1 topic=in"] = 1
		want["afterbay_lag_seconds group=copy partition=1 topic=in"] = 3
		want["afterbay_lag_above bound=warn pipeline=copy"] = 0
		want["afterbay_lag_above bound=critical pipeline=copy"] = 0
		check()
		text := l.logged.String()
		if strings.Count(text, "\n") != 2 || !strings.Contains(text, `level=WARN msg="pipeline falls behind" pipeline=copy lag=6s warn=5s topic=in partition=1 records=3`) ||
			!strings.Contains(text, `level=INFO msg="pipeline caught up" pipeline=copy`) {
			t.Errorf("logged: %s", text)
		}
	})
}

func TestPipelineWithoutBoundsIsReadyHoweverLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := watching(t, lang.Lag{})
		l.wantReady("ok")
		l.watch()
		l.write(1)
		l.pass(time.Hour)
		l.broken.Store(true)
		l.pass(time.Hour)
		l.wantReady("ok")
		if n := len(l.gauges()); n != 0 {
			t.Errorf("%d metrics of an hour ago", n)
		}
	})
}

func TestLagThatCannotBeMeasuredIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := watching(t, lang.Lag{Critical: 10 * time.Second})
		l.broken.Store(true)
		l.watch()
		l.wantReady(`not ready: pipeline copy: its lag cannot be measured: measure lag of "copy" in in/0: broken`)
		l.broken.Store(false)
		l.pass(time.Second)
		l.wantReady("ok")
		l.broken.Store(true)
		l.pass(lagStale)
		l.wantReady("ok")
		l.pass(2 * time.Second)
		l.wantReady(`not ready: pipeline copy: its lag was last measured 32s ago: measure lag of "copy" in in/0: broken`)
		l.broken.Store(false)
		l.pass(time.Second)
		l.wantReady("ok")
		if n := strings.Count(l.logged.String(), "lag cannot be measured"); n != 2 {
			t.Errorf("logged %d times, want once each time", n)
		}
	})
}

func TestLagOfAPipelineIsThatOfItsInputsToo(t *testing.T) {
	l := watching(t, lang.Lag{})
	other, err := l.Join(t.Context(), "copy.repartition.in", "in")
	if err != nil {
		t.Fatal(err)
	}
	for owned := 0; owned < 2; {
		batch, err := other.Poll(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		owned += len(batch.Assigned)
	}
	l.write(2)
	step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{{Topic: "in", Index: 1}: 1}}
	if err := other.Commit(step).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]int64{"": {2, 1, 0, 0}, "copy": {2, 1, 0, 0}, "copy.repartition.in": {1, 0}} {
		list, err := l.local.Lag(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, lag := range list {
			got = append(got, lag.Records)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", name, diff)
		}
	}
	if _, err := l.local.Lag(t.Context(), "cop"); !errors.Is(err, inspect.ErrUnknownPipeline) || !strings.Contains(err.Error(), "there are copy.repartition.in") {
		t.Errorf("%v", err)
	}
	empty := &inspect.Local{Log: l}
	if list, err := empty.Lag(t.Context(), "copy"); err != nil || len(list) != 2 { // by what its inputs committed
		t.Errorf("%v, %v", list, err)
	}
}
