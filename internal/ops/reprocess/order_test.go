package reprocess_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/stream"
)

// byShop is payments by another key than that of its topic.
func byShop(limit float64) lang.Pipeline {
	p := payments(limit)
	p.Input.Key, p.Input.Repartition = "shop", partitions
	return p
}

// TestAPipelineOfSeveralPartitionsIsHandedOver computes events again, while more come, that are
// read in the order of several partitions. Before the switch and behind it, each event has the
// outputs of the changed pipeline once, as if it had always run.
func TestAPipelineOfSeveralPartitionsIsHandedOver(t *testing.T) {
	log := memory.New(memory.Options{})
	switched(t, log, newRunner(t, byShop(20)), newRunner(t, byShop(30)))
	alone := fresh(t, byShop(30), events(0, 3000))
	for _, topic := range []string{"out", "shops"} {
		want, got := map[string]string{}, map[string]string{}
		for _, o := range alone[topic] {
			want[o.ID] = o.Value
		}
		for _, from := range []string{naming.Derived("payments", 2, topic), topic} {
			for _, o := range outputs(t, log, from) {
				if from == topic && o.Generation != "2" {
					continue
				}
				if _, twice := got[o.ID]; twice {
					t.Errorf("%s: %s occurs twice", topic, o.ID)
				}
				got[o.ID] = o.Value
			}
		}
		if d := cmp.Diff(want, got); d != "" || len(want) < 100 {
			t.Errorf("%s, %d records: %.1500s", topic, len(want), d)
		}
	}
}

// TestPartsOfAnOrderAreRefused has a job be about the events of some time.
func TestPartsOfAnOrderAreRefused(t *testing.T) {
	log := memory.New(memory.Options{})
	r := newRunner(t, byShop(20))
	stop := start(t, log, r)
	mustAppend(t, log, events(0, 100))
	idle(t, log, r)
	stop()
	for _, err := range reprocess.Run(t.Context(), log, newRunner(t, byShop(30)), reprocess.Job{From: time.UnixMilli(epoch)}) {
		if err == nil || !strings.Contains(err.Error(), "order of several partitions") {
			t.Errorf("%v", err)
		}
	}
	for p, err := range reprocess.DryRun(t.Context(), log, newRunner(t, byShop(30)), reprocess.Job{}) {
		if err != nil || p.Done && p.Outputs == 0 {
			t.Errorf("dry run: %+v %v", p, err)
		}
	}
}

// TestPipelinesWithStagesAreRefused processes features by another field again: a generation
// would need stages of its own. Nothing is begun.
func TestPipelinesWithStagesAreRefused(t *testing.T) {
	counted := func(limit float64) lang.Pipeline {
		p := byShop(limit)
		p.Input.Key = "card"
		p.Steps = slices.Insert(p.Steps, 1, lang.Step(&steps.Features{List: []steps.Feature{{Name: "seen", By: "shop", Windows: []string{"1h"}, Aggregates: []string{"count"}}}}))
		return p
	}
	log := memory.New(memory.Options{})
	r := newRunner(t, counted(20))
	stop := start(t, log, r)
	mustAppend(t, log, events(0, 100))
	idle(t, log, r)
	stop()
	for name, again := range map[string]func(context.Context, generation.Log, *pipeline.Runner, reprocess.Job) iter.Seq2[reprocess.Progress, error]{"run": reprocess.Run, "dry run": reprocess.DryRun} {
		for _, err := range again(t.Context(), log, newRunner(t, counted(30)), reprocess.Job{}) {
			if err == nil || !strings.Contains(err.Error(), "features by other fields (topic payments.by-shop)") || !strings.Contains(err.Error(), "another pipeline name") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	topics, err := log.Topics(t.Context())
	if err != nil || slices.ContainsFunc(topics, func(topic stream.Topic) bool { return strings.HasSuffix(topic.Name, ".generations") }) {
		t.Errorf("%v %v", topics, err)
	}
}
