package dataset_test

import (
	"context"
	"testing"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/log/memory"
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
