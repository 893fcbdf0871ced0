package e2e_test

import (
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// TestRecordsThatAreGoneAreNotWaitedFor has a pipeline read a topic whose records were
// deleted before it began: it is idle though it has committed nothing.
func TestRecordsThatAreGoneAreNotWaitedFor(t *testing.T) {
	log := memory.New(memory.Options{})
	in := stream.Topic{Name: "in", Key: "k", Partitions: 2}
	made := func() {
		t.Helper()
		if err := log.CreateTopic(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	made()
	for range 3 {
		if err := log.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte("a"), Value: []byte(`{"k":"a"}`), Time: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.DeleteTopic(t.Context(), "in"); err != nil {
		t.Fatal(err)
	}
	made()
	runner, err := builtin.New(lang.Pipeline{
		Name: "p", Input: lang.Input{Topic: "in", Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}}},
		Steps: []lang.Step{&steps.Emit{Topic: "out", Names: []string{"k"}}},
	}, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	if start, end, err := log.Offsets(t.Context(), stream.Partition{Topic: "in"}); err != nil || start != 3 || end != 3 {
		t.Fatalf("offsets %d to %d: %v; want 3", start, end, err)
	}
	runUntilIdle(t, runner, log)
}
