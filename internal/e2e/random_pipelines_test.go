package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/memory"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/internal/test/oracle"
	"github.com/afterbay/afterbay/stream"
)

var (
	randomSeed = flag.Uint64("pipelines.seed", 0, "the one seed of the random pipelines; 0 draws where to begin")
	randomFor  = flag.Duration("pipelines.for", 2*time.Second, "how long random pipelines are run")
)

// TestRandomPipelines runs random pipelines over random events, in random batches and
// members, and compares each record that they leave with what package oracle says,
// which imports nothing of the engine.
func TestRandomPipelines(t *testing.T) {
	if *randomSeed != 0 {
		judgePipeline(t, *randomSeed)
		return
	}
	first, end, n, events := rand.Uint64()>>1, time.Now().Add(*randomFor), uint64(0), 0
	for ; time.Now().Before(end); n++ {
		events += judgePipeline(t, first+n)
		if t.Failed() {
			return
		}
	}
	t.Logf("pipelines %d, events %d, differences 0, seeds from %d", n, events, first)
}

// refusedArithmetic is the error of a pipeline with an expression of literals that
// cannot be computed.
var refusedArithmetic = regexp.MustCompile(`column \d+: (.*: )?(the result is out of the range|division by zero)`)

// judgePipeline compares the pipeline of a seed with the oracle. Where they differ it
// looks for the fewest events that show it.
func judgePipeline(t *testing.T, seed uint64) (events int) {
	t.Helper()
	p, parts := oracle.Generate(seed)
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(file, []byte(p.YAML()), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := config.Load(file, builtin.Kinds())
	if err == nil {
		_, err = builtin.New(loaded.Pipelines[0], running.Options{})
	}
	if err != nil && refusedArithmetic.MatchString(err.Error()) {
		return 0
	}
	if err != nil {
		t.Fatalf("seed %d: %v\n%s", seed, err, p.YAML())
	}
	differ := func(parts [][]oracle.Event) string { return differences(t, seed, p, loaded.Pipelines[0], parts) }
	found := differ(parts)
	if found == "" {
		for _, part := range parts {
			events += len(part)
		}
		return events
	}
	for size := 64; size > 0; size /= 2 {
		for i := range parts {
			for from := 0; from < len(parts[i]); {
				fewer := slices.Clone(parts)
				fewer[i] = slices.Delete(slices.Clone(parts[i]), from, min(from+size, len(parts[i])))
				if text := differ(fewer); text != "" {
					parts, found = fewer, text
				} else {
					from += size
				}
			}
		}
	}
	var b strings.Builder
	for _, part := range parts {
		for _, e := range part {
			fmt.Fprintf(&b, "partition %d key %q %s\n", e.Partition, e.Key, e.Value)
		}
	}
	t.Errorf("-pipelines.seed=%d: %s\n%s%s", seed, found, p.YAML(), b.String())
	return 0
}

// differences runs the pipeline and says where it differs from the oracle, or "".
func differences(t *testing.T, seed uint64, p *oracle.Pipeline, pipeline lang.Pipeline, parts [][]oracle.Event) string {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	pipeline.Commit.Size = 1 + random.IntN(100)
	runner, err := builtin.New(pipeline, running.Options{Members: 1 + random.IntN(3)})
	if err != nil {
		t.Fatalf("seed %d: %v\n%s", seed, err, p.YAML())
	}
	var records []stream.Record
	for _, part := range parts {
		for _, e := range part {
			records = append(records, stream.Record{Partition: stream.Partition{Topic: "events", Index: int32(e.Partition)}, Key: []byte(e.Key), Value: []byte(e.Value)})
		}
	}
	log := memory.New(memory.Options{})
	answer, err := answers.RunAll(t.Context(), log, runner, records)
	if err != nil {
		t.Fatalf("seed %d: %v\n%s", seed, err, p.YAML())
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for i, part := range parts {
		if text := difference(answer, int32(i), p.Run(i, part)); text != "" {
			return text
		}
	}
	return ""
}

// difference compares what a partition's events left, topic by topic.
func difference(answer answers.Answer, partition int32, wanted []oracle.Record) string {
	left := map[string][]stream.Record{}
	for at, records := range answer {
		if at.Index == partition {
			left[at.Topic] = records
		}
	}
	for _, want := range wanted {
		records := left[want.Topic]
		if len(records) == 0 {
			return fmt.Sprintf("partition %d: want %s, there is nothing more in %s", partition, showWanted(want), want.Topic)
		}
		if got := records[0]; !isWanted(got, want) {
			return fmt.Sprintf("partition %d:\n want %s\n  got %s %s", partition, showWanted(want), want.Topic, showRecord(got))
		}
		left[want.Topic] = records[1:]
	}
	for topic, records := range left {
		if len(records) > 0 {
			return fmt.Sprintf("partition %d: nothing more is wanted in %s: %s", partition, topic, showRecord(records[0]))
		}
	}
	return ""
}

func headerOf(r stream.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func isWanted(got stream.Record, want oracle.Record) bool {
	if headerOf(got, "afterbay-id") != want.ID || headerOf(got, "afterbay-stage") != want.Stage {
		return false
	}
	if want.Row == nil {
		return want.Value == "*" || string(got.Value) == want.Value
	}
	d := json.NewDecoder(strings.NewReader(string(got.Value)))
	if _, err := d.Token(); err != nil {
		return false
	}
	for _, cell := range want.Row {
		var raw json.RawMessage
		name, err := d.Token()
		if err != nil || name != strings.ReplaceAll(cell.Name, ".", "_") || d.Decode(&raw) != nil || !cell.Value.Equals(raw) {
			return false
		}
	}
	return !d.More()
}

func showWanted(r oracle.Record) string {
	text := fmt.Sprintf("%s id=%s stage=%q %s", r.Topic, r.ID, r.Stage, r.Value)
	for _, c := range r.Row {
		text += " " + c.Name + "=" + c.Value.Show()
	}
	return text
}

func showRecord(r stream.Record) string {
	text := string(r.Value)
	for _, h := range r.Headers {
		text += fmt.Sprintf(" %s=%s", h.Key, h.Value)
	}
	return text
}
