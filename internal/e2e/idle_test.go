package e2e_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// runFor runs a pipeline for a time of the bubble's clock.
func runFor(t *testing.T, log stream.Log, p lang.Pipeline, d time.Duration, events ...stream.Record) {
	t.Helper()
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	if len(events) > 0 {
		if err := log.Append(t.Context(), events...); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := runner.Run(ctx, log); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

// TestQuietStreamEndsWhatItsTimeEnds has a call without its last chunk, and a visit
// with a timer, with no event behind them: with `idle` the clock ends both, at the
// position where the partition stands, through a restart too.
func TestQuietStreamEndsWhatItsTimeEnds(t *testing.T) {
	for _, idle := range []time.Duration{0, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			group := callParts
			group.Incomplete = "pass"
			calls, visits := callPipeline(group), visitPipeline()
			calls.Input.Time.Idle, visits.Input.Time.Idle = idle, idle
			log := memory.New(memory.Options{})
			defer closeLog(t, log)
			runFor(t, log, calls, 30*time.Second, chunk("ann", 100, "c1", 0, false), chunk("ann", 102, "c1", 2, true))
			if got := values(t, log, "calls"); len(got) > 0 {
				t.Fatalf("after half a minute: %v", got)
			}
			runFor(t, log, calls, 60*time.Second)
			runFor(t, log, visits, 60*time.Second, click("ann", 100), click("ann", 110))
			var want []string
			if idle > 0 {
				want = []string{`{"user":"ann","clicks":2}`, `{"customer":"ann","parts_key":"c1","parts_count":2,"parts_complete":false,"parts_missing":1,"parts_ended":"idle","all":"c1-0+c1-2","parts_sound":"AAEAAQ==","said":"c1"}`}
			}
			if d := cmp.Diff(want, append(values(t, log, "visits"), values(t, log, "calls")...)); d != "" {
				t.Errorf("idle %v: %s", idle, d)
			}
			runFor(t, log, calls, time.Second, chunk("ann", 103, "c1", 1, false)) // its group has ended
			late := 0
			for _, text := range stages(t, log, "support.dlq") {
				if strings.Contains(text, `part 1 of call "c1" comes after its group ended: idle`) {
					late++
				}
			}
			if want := map[bool]int{true: 1}[idle > 0]; late != want {
				t.Errorf("idle %v: %d late events, want %d: %v", idle, late, want, stages(t, log, "support.dlq"))
			}
		})
	}
}

// TestTimeGoesOnOnlyWhileAPartitionStandsAtItsEnd has an event every 9 s, which is
// less than `idle`: time moves with them alone.
func TestTimeGoesOnOnlyWhileAPartitionStandsAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := callPipeline(callParts)
		p.Input.Time.Idle = 10 * time.Second
		log := memory.New(memory.Options{})
		defer closeLog(t, log)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 20 {
				time.Sleep(9 * time.Second)
				if err := log.Append(t.Context(), chunk("bob", 100+i, "", 0, false)); err != nil {
					t.Error(err)
				}
			}
		}()
		runFor(t, log, p, 185*time.Second, chunk("ann", 100, "c1", 0, false))
		<-done
		if got := stages(t, log, "support.dlq"); len(got) > 0 {
			t.Errorf("its group ended: %v", got)
		}
	})
}
