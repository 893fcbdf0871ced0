package scenario

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/afterbay/afterbay/internal/log/kafka"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
)

// TestScenariosOnKafka runs all scenarios on Kafka, with killed processes, and
// compares what they leave with what they leave on a log in memory.
func TestScenariosOnKafka(t *testing.T) {
	files, err := filepath.Glob("*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			onKafka(t, file, func() []string {
				cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(cluster.Close)
				return cluster.ListenAddrs()
			})
		})
	}
}

// real is the broker of the tests that need a real one.
var real = kafkatest.Shared{Options: kafkatest.Options{Settings: []string{"add.partitions.to.txn.retry.backoff.ms=1"}}}

func TestMain(m *testing.M) { os.Exit(real.Run(m)) }

var brokerScenarios = flag.String("scenario.broker", "chain-crash.txt,crash-sync.txt,feedback.txt", "scenarios that are run on a real Kafka, by comma; * is any text")

// TestScenariosOnABroker runs some scenarios on a real broker.
func TestScenariosOnABroker(t *testing.T) {
	cluster := real.Get(t)
	for _, pattern := range strings.Split(*brokerScenarios, ",") {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%q: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			t.Run(file, func(t *testing.T) {
				onKafka(t, file, func() []string {
					cluster.Empty(t)
					return cluster.Addresses()
				})
			})
		}
	}
}

// onKafka runs a scenario in three ways, on the brokers that it is given for each.
func onKafka(t *testing.T, file string, brokers func() []string) {
	t.Helper()
	open := func(context.Context, string) (engine, error) {
		return kafka.Open(t.Context(), kafka.Options{Brokers: brokers(), Timeouts: kafka.Timeouts{Heartbeat: 50 * time.Millisecond}, Logger: slog.New(slog.DiscardHandler)})
	}
	w := prepared(t, file)
	want, err := w.run(t.Context(), ways[0], "")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []way{
		{name: "all events at once", other: open},
		{name: "two members, killed at every stage", other: open, step: 3, interval: time.Millisecond, kills: stages, options: running.Options{Members: 2, Keys: 1}},
	} {
		got, err := w.run(t.Context(), v, "")
		if err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		if written := w.pipelines[0].runner; len(w.pipelines) > 1 || len(written.Reads()) > 1 {
			// Positions are in outputs, and those in a topic that pipelines write have
			// gaps: what the scenario says of events is compared.
			want, got = &outcome{transcript: withoutIDs(want.transcript)}, &outcome{transcript: withoutIDs(got.transcript)}
		}
		if d := want.difference(got); d != "" {
			t.Errorf("%s:\n- in memory\n+ on Kafka\n%s", v.name, d)
		}
	}
}

var id = regexp.MustCompile(` id=\S+`)

func withoutIDs(transcript [][]string) [][]string {
	masked := make([][]string, len(transcript))
	for i, lines := range transcript {
		for _, line := range lines {
			masked[i] = append(masked[i], id.ReplaceAllString(line, ""))
		}
	}
	return masked
}
