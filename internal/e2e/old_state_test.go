package e2e_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// TestOldStateOnKafkaIsRefused starts pipelines on brokers where a version before 0.1.0
// ran them: each is refused before it makes a topic, also one whose offsets are those of
// a topic that it does not read any more.
func TestOldStateOnKafkaIsRefused(t *testing.T) {
	plain := sunkPipeline()
	plain.Sinks = nil
	repartition := plain
	repartition.Input.Repartition = 4
	several := plain
	several.Input, several.Inputs = lang.Input{}, []lang.Input{plain.Input, plain.Input}
	several.Inputs[1].Topic = "other"
	for name, of := range map[string]struct {
		p     lang.Pipeline
		state string
	}{
		"plain":       {plain, "afterbay-" + plain.Name + "-in-changelog"},
		"repartition": {repartition, "afterbay-" + plain.Name + "-" + plain.Name + ".merged-changelog"},
		"inputs":      {several, "afterbay-" + plain.Name + "-" + plain.Name + ".merged-changelog"},
	} {
		t.Run(name, func(t *testing.T) {
			log := openKafka(t, t.TempDir())
			defer closeLog(t, log)
			for _, topic := range []string{"in", of.state} {
				if err := log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: 1}); err != nil {
					t.Fatal(err)
				}
			}
			runner, err := builtin.New(of.p, pipeline.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := runner.CreateTopics(t.Context(), log); !errors.Is(err, stream.ErrOldFormat) {
				t.Errorf("it starts: %v", err)
			}
			topics, err := log.Topics(t.Context())
			if err != nil || len(topics) != 2 {
				t.Errorf("topics %v, %v", topics, err)
			}
			if err := log.DeleteTopic(t.Context(), of.state); err != nil {
				t.Fatal(err)
			}
			if err := runner.CreateTopics(t.Context(), log); err != nil {
				t.Error(err)
			}
			if topics, _ = log.Topics(t.Context()); !slices.ContainsFunc(topics, func(topic stream.Topic) bool { return topic.Name == "out" }) {
				t.Errorf("topics %v", topics)
			}
		})
	}
}
