package admin_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

func TestTimingsOfTheNewestEventsAreServed(t *testing.T) {
	log := newLog(t)
	runner, err := builtin.New(lang.Pipeline{
		Name:  "copy",
		Input: lang.Input{Topic: "in", Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}}},
		Steps: []lang.Step{&steps.Emit{Topic: "out", Names: []string{"k"}}},
	}, running.Options{})
	if err != nil {
		t.Fatal(err)
	}
	record := stream.Record{Partition: stream.Partition{Topic: "in", Index: 2}, Key: []byte("a"), Value: []byte(`{"k":"a"}`)}
	if err := log.Append(t.Context(), record, record); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- runner.Run(ctx, log) }()
	if err := runner.WaitIdle(ctx, log); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	_, url := start(t, log, admin.Options{Runners: []*running.Runner{runner}, Token: "secret"})
	client := &admin.Client{URL: url, Token: "secret"}
	in := stream.Partition{Topic: "in", Index: 2}
	all := runner.Timings()
	want := all[slices.IndexFunc(all, func(p observe.Timing) bool { return p.Has("in", 2, 1) })]
	got, found, err := client.Timing(t.Context(), "copy", in, 1)
	if err != nil || !found || !cmp.Equal(got, inspect.NewTiming("copy", want)) || got.Next != 2 || got.Emit <= 0 || got.Committed.Before(got.Made) {
		t.Errorf("%+v, %v, %v, want %+v", got, found, err, want)
	}
	for _, miss := range []struct {
		pipeline string
		p        stream.Partition
		offset   stream.Offset
	}{{"copy", in, 2}, {"copy", stream.Partition{Topic: "in"}, 0}, {"other", in, 1}, {"copy", stream.Partition{Topic: "a b&c", Index: 2}, 1}} {
		if got, found, err := client.Timing(t.Context(), miss.pipeline, miss.p, miss.offset); err != nil || found {
			t.Errorf("%+v: %+v, %v", miss, got, err)
		}
	}
	if _, _, err := (&admin.Client{URL: url}).Timing(t.Context(), "copy", in, 1); err == nil || !strings.Contains(err.Error(), "token") {
		t.Error(err)
	}
	for query, status := range map[string]int{
		"topic=in&partition=2&offset=1": 200, "topic=in&partition=2&offset=9": 404,
		"": 400, "topic=in": 400, "topic=in&partition=x&offset=0": 400, "partition=2&offset=1": 400,
	} {
		if code, text := get(t, url+"/v1/timing?"+query, "Authorization", "Bearer secret"); code != status {
			t.Errorf("%s: %d %s, want %d", query, code, text, status)
		} else if code == 400 && (strings.Contains(text, "strconv") || !strings.Contains(text, "is not a whole number")) {
			t.Errorf("%s: %s", query, text)
		}
	}
}

func TestErrorOfAnOldPathNamesTheNewOne(t *testing.T) {
	_, url := start(t, newLog(t), admin.Options{Token: "secret"})
	for old, renamed := range map[string]string{
		"/v1/parked/copy": "/v1/queue/copy", "/v1/rederive": "/v1/reprocess", "/v1/passage?topic=in&partition=0&offset=0": "/v1/timing", "/v1/passages": "",
	} {
		code, text := get(t, url+old, "Authorization", "Bearer secret")
		if named := strings.Contains(text, renamed+`\"`) && strings.Contains(text, "was renamed"); code != 404 || named != (renamed != "") {
			t.Errorf("%s: %d %s", old, code, text)
		}
	}
}
