package e2e_test

import (
	"errors"
	"flag"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/reference"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

var faultSeeds = flag.Uint64("fault.seeds", 40, "seeds of TestFaultsLeaveTheSameAnswer")

// TestFaultsLeaveTheSameAnswer runs the reference's pipeline, by three members
// that lose commits, partitions and time, and compares everything it leaves
// with a run in which nothing fails.
func TestFaultsLeaveTheSameAnswer(t *testing.T) {
	events := reference.Generate(*answerSeed, 3000)
	want := runVariant(t, variant{"memory", 64, 1, time.Millisecond}, events)
	p := answerPipeline(t)
	p.Commit = lang.Commit{Size: 50}
	counts := streamtest.Counts{}
	for seed := range *faultSeeds {
		if testing.Short() && len(counts.Missing()) == 0 {
			break
		}
		synctest.Test(t, func(t *testing.T) {
			inner := memory.New(memory.Options{RebalanceTimeout: time.Second})
			faulty := streamtest.NewFaulty(inner, streamtest.FaultyOptions{Seed: seed})
			runner, err := builtin.New(p, pipeline.Options{Members: 3, Keys: 20})
			if err != nil {
				t.Fatal(err)
			}
			if err := runner.CreateTopics(t.Context(), inner); err != nil {
				t.Fatal(err)
			}
			appendEvents(t, inner, p.Input.Topic, events)
			if err := runIdle(t.Context(), runner, inspected{faulty, inner}); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if d := readAnswer(t, runner, inner).difference(want); d != "" {
				t.Fatalf("seed %d: %s", seed, d)
			}
			counts.Add(faulty.Counts())
			if err := errors.Join(faulty.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Logf("%v", counts)
	if missing := counts.Missing(); len(missing) > 0 {
		t.Errorf("never injected: %v", missing)
	}
}

// inspected is a faulty log that tools can ask.
type inspected struct {
	*streamtest.Faulty
	stream.Inspector
}
