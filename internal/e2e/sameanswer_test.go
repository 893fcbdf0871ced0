package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/reference"
	"github.com/afterbay/afterbay/stream"
)

var (
	answerSeed   = flag.Uint64("answer.seed", 20261121, "seed of the same-answer tests")
	answerEvents = flag.Int("answer.events", 10_000, "events of the same-answer tests")
	answerAll    = flag.Bool("answer.all", false, "all ways of running in the same-answer tests; else half of them, in which each batch, number of members and interval meets each other")
	answerBroker = flag.Int("answer.broker", 1, "ways of running on a real Kafka in the same-answer tests, at most 4")
)

const answerPartitions = 4

// variant is one way of running the same pipeline over the same log.
type variant struct {
	engine   string
	batch    int
	members  int
	interval time.Duration
}

func (v variant) String() string {
	return fmt.Sprintf("%s/batch=%d/members=%d/commit=%v", v.engine, v.batch, v.members, v.interval)
}

// answer is all that a run leaves behind: the records of every output topic by
// partition, and the whole sorted state.
type answer struct {
	outputs map[string][]stream.Record // by topic/partition
	state   []string
}

func TestSameLogSameAnswer(t *testing.T) {
	events := reference.Generate(*answerSeed, *answerEvents)
	var first *answer
	for _, v := range variants("memory", "embedded", "kafka", "kafka broker") {
		alone := first == nil || strings.HasPrefix(v.engine, "kafka") // where sessions time out
		t.Run(v.String(), func(t *testing.T) {
			if !alone {
				t.Parallel() // they wait more than they compute
			}
			got := runVariant(t, v, events)
			if first == nil {
				first = got
				compareWithReference(t, got, events)
				return
			}
			got.mustEqual(t, first)
		})
	}
}

// variants are ways to run on these engines: all of them, fewer where they take
// long, and in short those in which members meet.
func variants(engines ...string) (all []variant) {
	for _, engine := range engines {
		batches := []int{1, 7, 64, 1000}
		if engine == "kafka" {
			batches = []int{7, 1000}
		}
		if engine == "kafka broker" {
			all = append(all, []variant{
				{engine, 7, 4, time.Millisecond}, {engine, 1000, 1, 50 * time.Millisecond}, {engine, 1000, 4, 50 * time.Millisecond}, {engine, 7, 1, time.Second},
			}[:*answerBroker]...)
			continue
		}
		for b, batch := range batches {
			for s, members := range []int{1, 4} {
				if members == 1 && testing.Short() {
					continue
				}
				for i, interval := range []time.Duration{time.Millisecond, time.Second} {
					if *answerAll || (b+s+i)%2 == 0 {
						all = append(all, variant{engine, batch, members, interval})
					}
				}
			}
		}
	}
	return all
}

func TestSameAnswerSeesOneFlippedByte(t *testing.T) {
	events := reference.Generate(*answerSeed, 2000)
	v := variant{"memory", 64, 1, time.Millisecond}
	one, other := runVariant(t, v, events), runVariant(t, v, events)
	one.mustEqual(t, other)
	other.outputs["decisions/0"][7].Value[3] ^= 1
	if one.difference(other) == "" {
		t.Error("a flipped byte of an output goes unseen")
	}
	other.outputs["decisions/0"][7].Value[3] ^= 1
	other.state[3] = other.state[3][:5] + "x" + other.state[3][6:]
	if one.difference(other) == "" {
		t.Error("a flipped byte of the state goes unseen")
	}
}

const answerFile = "pipeline.yaml" // in the folder of a pipeline

// referenceFiles are the reference's pipeline and its model.
func referenceFiles() map[string][]byte {
	return map[string][]byte{answerFile: reference.Pipeline(), "fraud.json": reference.Model()}
}

// answerPipeline is the reference's pipeline.
func answerPipeline(t *testing.T) lang.Pipeline {
	t.Helper()
	return loadAnswer(t, answerFolder(t, referenceFiles()))
}

// answerFolder writes the files of a pipeline into a folder of t.
func answerFolder(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func loadAnswer(t *testing.T, dir string) lang.Pipeline {
	t.Helper()
	file, err := config.Load(filepath.Join(dir, answerFile), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	return file.Pipelines[0]
}

func runVariant(t *testing.T, v variant, events []reference.Event) *answer {
	t.Helper()
	return runPipeline(t, answerPipeline(t), v, events)
}

func runPipeline(t *testing.T, p lang.Pipeline, v variant, events []reference.Event) *answer {
	t.Helper()
	p.Commit.Interval = v.interval
	for _, s := range p.Steps {
		if score, ok := s.(*steps.Score); ok {
			score.Batch.Size = v.batch
		}
	}
	log := openLog(t, v.engine, t.TempDir())
	defer closeLog(t, log)
	runner, err := builtin.New(p, pipeline.Options{Members: v.members})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	appendEvents(t, log, p.Input.Topic, events)
	runUntilIdle(t, runner, log)
	return readAnswer(t, runner, log)
}

func openLog(t testing.TB, engine, dir string) stream.Log {
	t.Helper()
	switch engine {
	case "memory":
		return memory.New(memory.Options{})
	case "kafka":
		return openKafka(t, dir)
	case "kafka broker":
		return openBroker(t, dir)
	}
	log, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// openKafka opens a log on a broker in this process.
func openKafka(t testing.TB, dir string) stream.Log {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	log, err := kafka.Open(t.Context(), kafka.Options{Brokers: cluster.ListenAddrs(), Dir: dir, Timeouts: kafka.Timeouts{Heartbeat: 50 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func closeLog(t testing.TB, log stream.Log) {
	t.Helper()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

func appendEvents(t *testing.T, log stream.Log, topic string, events []reference.Event) {
	t.Helper()
	for chunk := range slices.Chunk(events, 5000) {
		records := make([]stream.Record, len(chunk))
		for i, e := range chunk {
			records[i] = stream.Record{
				Partition: stream.Partition{Topic: topic, Index: stream.ByKey},
				Time:      time.UnixMicro(e.Appended), Key: e.Key, Value: e.Value,
			}
		}
		if err := log.Append(t.Context(), records...); err != nil {
			t.Fatal(err)
		}
	}
}

// runToEnd runs the pipeline on the embedded log in a folder until everything
// that was in its input is committed.
func runToEnd(runner *pipeline.Runner, dir string) error {
	log, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		return err
	}
	return errors.Join(runIdle(context.Background(), runner, log), log.Close())
}

func runIdle(ctx context.Context, runner *pipeline.Runner, log stream.Log) error {
	return runWhile(ctx, runner, log, func(ctx context.Context) error { return runner.WaitIdle(ctx, log) })
}

// runWhile runs until then returns. Its context ends after 5 minutes, or with the run.
func runWhile(ctx context.Context, runner *pipeline.Runner, log stream.Log, then func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- runner.Run(ctx, log)
		cancel()
	}()
	err := then(ctx)
	cancel()
	return errors.Join(<-done, err)
}

// runUntilIdle runs until everything that was in the input is committed.
func runUntilIdle(t testing.TB, runner *pipeline.Runner, log stream.Log) {
	t.Helper()
	if err := runIdle(t.Context(), runner, log); err != nil {
		t.Fatal(err)
	}
}

// readAnswer reads every output and the whole state.
func readAnswer(t *testing.T, runner *pipeline.Runner, log stream.Log) *answer {
	t.Helper()
	a := &answer{outputs: map[string][]stream.Record{}}
	for i := range int32(answerPartitions) {
		for _, topic := range runner.Outputs() {
			p := stream.Partition{Topic: topic, Index: i}
			a.outputs[p.String()] = readPartition(t, log, p)
		}
		in := stream.Partition{Topic: runner.Input(), Index: i}
		view, err := log.(stream.Inspector).State(t.Context(), runner.Name(), in)
		if err != nil {
			t.Fatal(err)
		}
		for entry, err := range view.Scan(nil) {
			if err != nil {
				t.Fatal(err)
			}
			a.state = append(a.state, fmt.Sprintf("%d %q %x", i, entry.Key, entry.Value))
		}
	}
	return a
}

func readPartition(t *testing.T, log stream.Log, p stream.Partition) []stream.Record {
	t.Helper()
	_, next, err := log.(stream.Inspector).Offsets(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var records []stream.Record
	if next == 0 {
		return nil
	}
	for r, err := range log.Tail(t.Context(), p, 0) {
		if err != nil {
			t.Fatal(err)
		}
		r.Value = bytes.Clone(r.Value)
		if records = append(records, r); r.Offset == next-1 {
			break
		}
	}
	return records
}

func (a *answer) mustEqual(t *testing.T, want *answer) {
	t.Helper()
	if d := a.difference(want); d != "" {
		t.Fatalf("seed %d: %s", *answerSeed, d)
	}
}

// difference compares records whole, with key, time and headers, and the state
// entry by entry.
func (a *answer) difference(want *answer) string {
	for p, records := range want.outputs {
		got := a.outputs[p]
		for i := range min(len(got), len(records)) {
			if g, w := describe(&got[i]), describe(&records[i]); g != w {
				return fmt.Sprintf("%s@%d:\n got %s\nwant %s", p, i, g, w)
			}
		}
		if len(got) != len(records) {
			return fmt.Sprintf("%s has %d records, want %d", p, len(got), len(records))
		}
	}
	for i := range min(len(a.state), len(want.state)) {
		if a.state[i] != want.state[i] {
			return fmt.Sprintf("state entry %d:\n got %s\nwant %s", i, a.state[i], want.state[i])
		}
	}
	if len(a.state) != len(want.state) {
		return fmt.Sprintf("state has %d entries, want %d", len(a.state), len(want.state))
	}
	return ""
}

func describe(r *stream.Record) string {
	text := fmt.Sprintf("%q %d %q", r.Key, r.Time.UnixMicro(), r.Value)
	for _, h := range r.Headers {
		text += fmt.Sprintf(" %s=%q", h.Key, h.Value)
	}
	return text
}

// compareWithReference compares outputs and dead letters with what the naive
// reference says, byte for byte, and the keys that state is kept of.
func compareWithReference(t *testing.T, got *answer, events []reference.Event) {
	t.Helper()
	var records []reference.Record
	next := [answerPartitions]int64{}
	for _, e := range events {
		r := stream.Record{Key: e.Key, Value: e.Value}
		p := stream.PlaceRecord(&r, answerPartitions)
		records = append(records, reference.Record{Partition: int(p), Offset: next[p], Appended: e.Appended, Key: e.Key, Value: e.Value})
		next[p]++
	}
	want, err := reference.Run(records, answerPartitions, reference.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dead, blocked, keys := 0, 0, 0
	for i, p := range want {
		compareOutputs(t, fmt.Sprintf("decisions/%d", i), got, p.Decisions)
		compareOutputs(t, fmt.Sprintf("freezes/%d", i), got, p.Freezes)
		compareDeadLetters(t, fmt.Sprintf("reference.dlq/%d", i), got, i, p.DeadLetters)
		dead += len(p.DeadLetters)
		blocked += len(p.Freezes)
		keys += len(p.Keys)
	}
	kept := map[string]bool{}
	for _, entry := range got.state {
		var partition int
		var key string
		if _, err := fmt.Sscanf(entry, "%d %q", &partition, &key); err != nil {
			t.Fatal(err)
		}
		if key[0] == 'e' || key[0] == 'l' {
			kept[key[1:]] = true
		}
	}
	if len(kept) != keys {
		t.Errorf("state is kept of %d keys, want %d", len(kept), keys)
	}
	if dead == 0 || blocked == 0 || keys == 0 {
		t.Errorf("the events are too tame: %d dead letters, %d blocked, %d keys", dead, blocked, keys)
	}
	t.Logf("seed %d: %d events, %d dead letters, %d blocked, %d keys", *answerSeed, len(events), dead, blocked, keys)
}

func compareOutputs(t *testing.T, partition string, got *answer, want []reference.Output) {
	t.Helper()
	records := got.outputs[partition]
	for i := range min(len(records), len(want)) {
		if !bytes.Equal(records[i].Value, want[i].Value) || !bytes.Equal(records[i].Key, want[i].Key) {
			t.Fatalf("%s@%d of event %d:\n got %s %s\nwant %s %s", partition, i, want[i].Offset, records[i].Key, records[i].Value, want[i].Key, want[i].Value)
		}
	}
	if len(records) != len(want) {
		t.Fatalf("%s has %d records, want %d", partition, len(records), len(want))
	}
}

func compareDeadLetters(t *testing.T, partition string, got *answer, index int, want []reference.DeadLetter) {
	t.Helper()
	records := got.outputs[partition]
	for i := range min(len(records), len(want)) {
		g := fmt.Sprint(header.Get(&records[i], "afterbay-position"), " ", header.Get(&records[i], "afterbay-stage"))
		w := fmt.Sprintf("payments/%d@%d %s", index, want[i].Offset, want[i].Stage)
		if g != w {
			t.Fatalf("%s@%d: got %s (%s), want %s", partition, i, g, header.Get(&records[i], "afterbay-error"), w)
		}
	}
	if len(records) != len(want) {
		t.Fatalf("%s has %d records, want %d", partition, len(records), len(want))
	}
}
