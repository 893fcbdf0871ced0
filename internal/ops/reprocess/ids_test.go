package reprocess_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/udf"
)

// gaps is payments with late events in a topic of their own, and a timer that writes when
// a card is silent.
func gaps(limit float64) lang.Pipeline {
	p := payments(limit)
	p.Input.Time.LateTo = "late"
	p.Steps = append([]lang.Step{&steps.Call{Go: "gap", Name: "silent", Topics: []string{"out"}}}, p.Steps...)
	p.Code.Functions = map[string]udf.Function{"gap": {
		Version: 1, Keyed: true,
		Event: func(c *udf.Context) error {
			c.SetTimer("gap", c.Time.Add(20*time.Second))
			return nil
		},
		Timer: func(c *udf.Context) error {
			c.Emit(udf.Output{Topic: "out", Value: []byte(`{"action":"silent"}`)})
			return nil
		},
	}}
	return p
}

// ids returns the ids of topics, sorted.
func ids(t *testing.T, log generation.Log, topics ...string) (all []string) {
	t.Helper()
	for _, topic := range topics {
		for _, o := range outputs(t, log, topic) {
			all = append(all, o.ID)
		}
	}
	slices.Sort(all)
	return all
}

// TestASwitchKeepsIDs processes events again with a changed file, into a generation and
// into a topic, and hands over to the generation: sinks and clients find the ids of before.
func TestASwitchKeepsIDs(t *testing.T) {
	onEngines(t, func(t *testing.T, log generation.Log) {
		list := events(0, 600)
		for i := 100; i < len(list); i += 50 {
			list[i].Value = events(i-100, 1)[0].Value // late
			list[i].Key = events(i-100, 1)[0].Key
		}
		old, changed := newRunner(t, gaps(20)), newRunner(t, gaps(40))
		stop := start(t, log, old)
		mustAppend(t, log, list[:500])
		idle(t, log, old)
		topics := []string{"out", "late", "payments.dlq"} // the changed file writes other records to shops
		derived := func(n uint64) (names []string) {
			for _, topic := range topics {
				names = append(names, generation.TopicOf("payments", topic, n))
			}
			return names
		}
		want := ids(t, log, topics...)
		if len(want) < 500 || len(slices.Compact(slices.Clone(want))) != len(want) {
			t.Errorf("%d ids: %q", len(want), want)
		}
		into := derived(2)
		into[0] = "again"
		do(t, log, newRunner(t, gaps(40)), reprocess.Job{Into: []string{"out=again"}})
		if d := cmp.Diff(want, ids(t, log, into...)); d != "" {
			t.Errorf("into a topic: %s", d)
		}
		do(t, log, changed, reprocess.Job{Switch: true, HandOver: func(ctx context.Context, begun generation.Begun, given func(generation.Live)) error {
			stop()
			return generation.HandOver(ctx, log, "payments", "in", begun, given)
		}})
		if d := cmp.Diff(want, ids(t, log, derived(3)...)); d != "" {
			t.Errorf("of the generation: %s", d)
		}
		names, err := generation.Open(t.Context(), log)
		if err != nil {
			t.Fatal(err)
		}
		stop = start(t, names, changed)
		mustAppend(t, log, list[500:])
		idle(t, names, changed)
		stop()
		// Outputs of before are in the topics of both generations, those of after in one of them.
		made := fresh(t, gaps(20), list)
		want = nil
		for _, topic := range topics {
			for _, o := range made[topic] {
				want = append(want, o.ID)
			}
		}
		slices.Sort(want)
		if d := cmp.Diff(want, slices.Compact(ids(t, log, slices.Concat(topics, derived(3))...))); d != "" {
			t.Errorf("after the switch: %s", d)
		}
	})
}
