package reprocess_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/state/generation"
)

// TestJobsThatBeginAtOnceShareGenerations begins two different pipelines at once, each twice. Each
// pipeline has one generation, and the generations have different numbers.
func TestJobsThatBeginAtOnceShareGenerations(t *testing.T) {
	onEngines(t, func(t *testing.T, log generation.Log) {
		old := newRunner(t, payments(20))
		stop := start(t, log, old)
		defer stop()
		mustAppend(t, log, events(0, 300))
		idle(t, log, old)
		limits := []float64{40, 60, 40, 60}
		numbers := make([]uint64, len(limits))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var all sync.WaitGroup
		for i, limit := range limits {
			r := newRunner(t, payments(limit))
			all.Go(func() {
				for p, err := range reprocess.Run(ctx, log, r, reprocess.Job{}) {
					if numbers[i] = p.Generation; err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if numbers[0] != numbers[2] || numbers[1] != numbers[3] || numbers[0] == numbers[1] || numbers[0]+numbers[1] != 5 {
			t.Errorf("limits %v have the generations %v", limits, numbers)
		}
		for i, limit := range limits[:2] {
			want := fresh(t, payments(limit), events(0, 300))["out"]
			if got := outputs(t, log, generation.TopicOf("payments", "out", numbers[i])); len(got) != len(want) {
				t.Errorf("limit %v: %d outputs, want %d", limit, len(got), len(want))
			}
		}
	})
}

// TestTheFirstRecordOfANumberHasIt begins generations with one number at once.
func TestTheFirstRecordOfANumberHasIt(t *testing.T) {
	onEngines(t, func(t *testing.T, log generation.Log) {
		var all sync.WaitGroup
		var mu sync.Mutex
		var firsts []string
		for _, print := range []string{"a", "b", "c", "d"} {
			all.Go(func() {
				first, err := generation.Begin(t.Context(), log, "payments", partitions, generation.Begun{Pipeline: "payments", Generation: 2, Fingerprint: print})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(errors.Join(err, errors.New("begin")))
				}
				if first {
					firsts = append(firsts, print)
				}
			})
		}
		all.Wait()
		h, err := generation.Read(t.Context(), log, "payments")
		if err != nil || len(h.Begun) != 1 || len(firsts) != 1 || h.Begun[0].Fingerprint != firsts[0] {
			t.Errorf("first are %v; begun: %+v, %v", firsts, h.Begun, err)
		}
	})
}
