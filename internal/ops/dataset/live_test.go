package dataset_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/dataset"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// running runs the pipelines of a file over a log until they have done all of it.
func running(t testing.TB, log *memory.Log, path string) {
	t.Helper()
	file, err := config.Load(path, builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	runners, err := pipeline.NewChain(file.Pipelines, pipeline.Options{Members: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := pipeline.CreateTopics(t.Context(), log, runners); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- pipeline.RunChain(ctx, log, runners) }()
	for _, r := range runners {
		if err := r.WaitIdle(t.Context(), log); err != nil {
			t.Error(err)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// opens returns what opens a log as a directory.
func opens(log *memory.Log) func() (inspect.Directory, func() error, error) {
	return func() (inspect.Directory, func() error, error) {
		return inspect.NewLocal(log, nil, nil, nil), func() error { return nil }, nil
	}
}

// values returns the values of a partition.
func values(t testing.TB, log *memory.Log, p stream.Partition) (list []string) {
	t.Helper()
	_, end, err := log.Offsets(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for offset := stream.Offset(0); offset < end; offset++ {
		r, found, err := log.Peek(t.Context(), p, offset)
		if err != nil || !found {
			t.Fatal(err)
		}
		list = append(list, string(r.Value))
	}
	return list
}

// fromLog are the options of rows with columns, of the events in a log.
func fromLog(log *memory.Log, columns []string) dataset.Options {
	o := options("rows.ndjson")
	o.RowsOptions.Columns, o.FromLog, o.Open = columns, true, opens(log)
	return o
}

// mustBeLive writes rows and compares them, in any order, with what the pipeline wrote to the
// topic out. There are so many at least.
func mustBeLive(t testing.TB, log *memory.Log, seed uint64, o dataset.Options, least int) *dataset.Manifest {
	t.Helper()
	topics, err := log.Topics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, topic := range topics {
		if topic.Name != "out" {
			continue
		}
		for i := range topic.Partitions {
			want = append(want, values(t, log, stream.Partition{Topic: "out", Index: i})...)
		}
	}
	m := written(t, o)
	got := strings.Split(strings.TrimSpace(load(t, o.Out)), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" || len(got) < least {
		t.Errorf("seed %d: %d rows: %.2000s", seed, len(got), diff)
	}
	return m
}
