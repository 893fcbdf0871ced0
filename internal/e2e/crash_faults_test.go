package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/log/memory"
	modelserver "github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/test/faultserver"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

var (
	failingEvents = flag.Int("failing.events", 2_000, "events of TestEveryEventEndsOnceWhileItsServiceFails")
	failingKill   = flag.Duration("failing.kill", 700*time.Millisecond, "time until a process of the same is killed")
)

// failingChild says what a process is to do whose service fails: see failingProcess.
const failingChild = "AFTERBAY_FAILING_CHILD"

// failingWays are the ways to take a service that fails: to read no more while it
// does, or to have events queued, their answers kept, and those of a key in order.
var failingWays = []string{"pause", "queue"}

// A row with failingPoison, one of failingOdd, is refused.
const (
	failingPoison = "666.25"
	failingOdd    = 101
)

// failingPipeline asks a service about each event, and where it queues them has a
// feature of the scores before: then an output shows that its key was in order.
func failingPipeline(ctx context.Context, way, url string) (lang.Pipeline, *modelserver.Model, error) {
	m, err := modelserver.Load(ctx, modelserver.Options{
		URL: url, JSON: true, Model: "risk",
		Inputs: []model.Input{{Name: "a", Type: model.Number}, {Name: "b", Type: model.Number}},
	})
	if err != nil {
		return lang.Pipeline{}, nil, err
	}
	score := steps.Score{Model: "risk", Inputs: []string{"a", "b"}, Batch: steps.Batch{Size: 16}}
	call := &lang.Calling{
		Attempts: 10, // a third of the calls fails by chance: of 2,000 events three fail more than twice
		Timeout:  250 * time.Millisecond, Backoff: lang.Backoff{Base: 20 * time.Millisecond, Max: 300 * time.Millisecond},
		Breaker: lang.Breaker{Probe: 200 * time.Millisecond, Open: way},
	}
	names, kept := []string{"n", "risk.score"}, &lang.Journal{Off: true}
	var list []lang.Step
	if way == "queue" {
		score.Async, score.Ordered, kept = true, true, &lang.Journal{}
		names = append(names, "past.sum")
		list = append(list, &steps.Features{List: []steps.Feature{{Name: "past", Value: "risk.score", Last: 3, Aggregates: []string{"sum"}}}})
	}
	return lang.Pipeline{
		Name: way,
		Input: lang.Input{Topic: "in-" + way, Partitions: answerPartitions, Key: "k", Fields: []lang.Field{
			{Name: "k", Type: "string"}, {Name: "n", Type: "int"}, {Name: "a", Type: "number"}, {Name: "b", Type: "number"},
		}},
		Models: []lang.Model{{Name: "risk", Go: "risk", Version: 1, Outputs: []lang.Field{{Name: "score", Type: "number"}}, Call: call, Journal: kept}},
		Steps:  append(list, &score, &steps.Emit{Topic: "out-" + way, Names: names}),
		Queue:  lang.Queue{Max: 200}, // so that there is something to read to the end
		Code:   lang.Code{Models: map[string]model.Model{"risk": m}},
	}, m, nil
}

// failingInput has a third of the events ask what others ask.
func failingInput(way string, events int) []stream.Record {
	records := make([]stream.Record, events)
	for n := range records {
		key, b := fmt.Sprint("key ", n*31%397), "0.5"
		if n%failingOdd == 50 {
			b = failingPoison
		}
		records[n] = stream.Record{
			Partition: stream.Partition{Topic: "in-" + way, Index: stream.ByKey}, Key: []byte(key),
			Value: fmt.Appendf(nil, `{"k":%q,"n":%d,"a":%d,"b":%s}`, key, n, n%(events*2/3), b),
		}
	}
	return records
}

// failingProcess is a process whose service fails, and that kills itself with a
// step in flight.
type failingProcess struct {
	brokers, dir, way, url string // brokers is "-" on the embedded log
	stage                  string // that it kills itself at
	hit                    int64  // of the stage
	after                  time.Duration
}

func (c *failingProcess) fields() []any {
	return []any{&c.brokers, &c.dir, &c.way, &c.url, &c.stage, &c.hit, (*int64)(&c.after)}
}

func (c *failingProcess) String() string {
	return fmt.Sprint(failingChild, "=", c.brokers, " ", c.dir, " ", c.way, " ", c.url, " ", c.stage, " ", c.hit, " ", int64(c.after))
}

func runFailingChild(arguments string) error {
	var c failingProcess
	if _, err := fmt.Sscan(arguments, c.fields()...); err != nil {
		return err
	}
	p, m, err := failingPipeline(context.Background(), c.way, c.url)
	if err != nil {
		return err
	}
	var armed atomic.Bool
	kill := killedAt(c.stage, int(c.hit))
	first := sync.OnceFunc(func() { fmt.Println(crashDurable) })
	time.AfterFunc(c.after, func() { armed.Store(true) })
	runner, err := builtin.New(p, pipeline.Options{Members: 2, Fault: func(at string) {
		if at == "after" {
			first()
		}
		if armed.Load() {
			kill(at)
		}
	}})
	if err != nil {
		return err
	}
	log, err := openFailing(context.Background(), c.brokers, c.dir)
	if err != nil {
		return err
	}
	return errors.Join(runIdle(context.Background(), runner, log), log.Close(), m.Close())
}

func openFailing(ctx context.Context, brokers, dir string) (stream.Log, error) {
	return openService(ctx, brokers, dir, crashSession)
}

// openService opens the embedded log where brokers is "-".
func openService(ctx context.Context, brokers, dir string, session time.Duration) (stream.Log, error) {
	if brokers == "-" {
		return embedded.Open(dir, embedded.Options{})
	}
	return kafka.Open(ctx, kafka.Options{Brokers: strings.Split(brokers, ","), Dir: dir, Stay: true, Timeouts: kafka.Timeouts{Session: session}})
}

// failingEnds are how events ended.
type failingEnds struct {
	outputs map[string]string   // key and value by id
	dead    map[string]string   // stage by position
	keys    map[string][]string // values of each key, in the order of the log
	twice   []string
}

func readEnds(t *testing.T, log stream.Log, way string) failingEnds {
	t.Helper()
	ends := failingEnds{outputs: map[string]string{}, dead: map[string]string{}, keys: map[string][]string{}}
	add := func(to map[string]string, id, what string) {
		if _, ok := to[id]; ok || id == "" {
			ends.twice = append(ends.twice, id)
		}
		to[id] = what
	}
	for i := range int32(answerPartitions) {
		for _, r := range readPartition(t, log, stream.Partition{Topic: "out-" + way, Index: i}) {
			add(ends.outputs, header.Get(&r, header.ID), fmt.Sprintf("%s %s", r.Key, r.Value))
			ends.keys[string(r.Key)] = append(ends.keys[string(r.Key)], string(r.Value))
		}
		for _, r := range readPartition(t, log, stream.Partition{Topic: way + ".dlq", Index: i}) {
			add(ends.dead, header.Get(&r, header.Position), header.Get(&r, header.Stage)+": "+header.Get(&r, header.Error))
		}
	}
	return ends
}

// mustEqual compares ends by their ids, the order of each key where it is kept,
// and which events are dead letters.
func (e failingEnds) mustEqual(t *testing.T, want failingEnds, ordered bool) {
	t.Helper()
	if len(e.twice)+len(want.twice) > 0 {
		t.Fatalf("more than one end: %.300v, %.300v", e.twice, want.twice)
	}
	differ := 0
	for id, what := range want.outputs {
		if got := e.outputs[id]; got != what {
			if differ++; differ < 5 {
				t.Errorf("%s: got %q, want %q", id, got, what)
			}
		}
	}
	for at, why := range e.dead {
		if _, ok := want.dead[at]; !ok {
			if differ++; differ < 10 {
				t.Errorf("%s is a dead letter: %s", at, why)
			}
		}
	}
	if len(e.outputs) != len(want.outputs) || len(e.dead) != len(want.dead) || differ > 0 {
		t.Fatalf("%d outputs and %d dead letters, want %d and %d; %d differ", len(e.outputs), len(e.dead), len(want.outputs), len(want.dead), differ)
	}
	for key, values := range want.keys {
		if ordered && !slices.Equal(e.keys[key], values) {
			t.Fatalf("key %q: %.300v\nwant %.300v", key, e.keys[key], values)
		}
	}
}

// endsWithoutFault runs the pipeline where nothing fails but what is refused.
func endsWithoutFault(t *testing.T, way string, input []stream.Record) failingEnds {
	t.Helper()
	server := faultserver.Start(t, faultserver.Options{Poison: failingPoison})
	p, m, err := failingPipeline(t.Context(), way, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	return endsInMemory(t, p, input, nil)
}

// endsInMemory runs the pipeline over records on a log in memory. Before may put
// something there.
func endsInMemory(t *testing.T, p lang.Pipeline, input []stream.Record, before func(stream.Log)) failingEnds {
	t.Helper()
	runner, err := builtin.New(p, pipeline.Options{Members: 1})
	if err != nil {
		t.Fatal(err)
	}
	log := memory.New(memory.Options{})
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	if before != nil {
		before(log)
	}
	if err := log.Append(t.Context(), slices.Clone(input)...); err != nil {
		t.Fatal(err)
	}
	runUntilIdle(t, runner, log)
	return readEnds(t, log, p.Name)
}

// TestEveryEventEndsOnceWhileItsServiceFails has a service fail in all ways while
// the processes that ask it are killed.
func TestEveryEventEndsOnceWhileItsServiceFails(t *testing.T) {
	t.Parallel() // it waits more than it computes
	engines := map[string]func(t *testing.T) string{
		"embedded": func(*testing.T) string { return "-" },
		"kafka": func(t *testing.T) string {
			cluster := kafkatest.Start(t, kafkatest.Options{Speed: *failingEvents >= 10_000, Settings: []string{
				"log.retention.ms=-1", "group.min.session.timeout.ms=1000", "add.partitions.to.txn.retry.backoff.ms=1",
				"transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
			}})
			return strings.Join(cluster.Addresses(), ",")
		},
	}
	for _, engine := range slices.Sorted(maps.Keys(engines)) {
		t.Run(engine, func(t *testing.T) {
			brokers := engines[engine](t)
			for _, way := range failingWays {
				t.Run(way, func(t *testing.T) { outliveFaults(t, brokers, way) })
			}
		})
	}
}

func outliveFaults(t *testing.T, brokers, way string) {
	input, dir := failingInput(way, *failingEvents), t.TempDir()
	want := endsWithoutFault(t, way, input)
	server := faultserver.Start(t, faultserver.Options{
		File: filepath.Join(dir, "calls"), Seed: *answerSeed, Takes: max(10*time.Millisecond, *failingKill/1000), Poison: failingPoison,
		Slow: 0.05, SlowFor: 60 * time.Millisecond, Hang: 0.05, Fail: 0.03, Reset: 0.05, Half: 0.05, Wrong: 0.05, // each comes at least ten times
		Burst: faultserver.Cycle{Every: 1300 * time.Millisecond, For: 150 * time.Millisecond, Met: true},
		Flap:  faultserver.Cycle{Every: 1700 * time.Millisecond, For: 300 * time.Millisecond, Met: true},
	})
	p, m, err := failingPipeline(t.Context(), way, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log, err := openFailing(t.Context(), brokers, filepath.Join(dir, "0"))
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	for chunk := range slices.Chunk(input, 5_000) {
		if err := log.Append(t.Context(), chunk...); err != nil {
			t.Fatal(err)
		}
	}
	closeLog(t, log)
	killFailing(t, failingProcess{brokers: brokers, dir: dir, way: way, url: server.URL})
	calls, err := faultserver.ReadCalls(server.Options.File)
	if err != nil {
		t.Fatal(err)
	}
	paid := faultserver.Count(calls)
	t.Logf("%d calls, %d of them paid for, of %d rows, %d distinct; %v", paid.Calls, paid.Paid, paid.Rows, paid.Distinct, paid.Faults)
	for _, fault := range []faultserver.Fault{"slow", "hang", "fail", "reset", "half", "wrong", "down", "poisoned"} {
		if paid.Faults[fault] == 0 {
			t.Errorf("no call was %s", fault)
		}
	}
	if log, err = openFailing(t.Context(), brokers, filepath.Join(dir, "0")); err != nil {
		t.Fatal(err)
	}
	defer closeLog(t, log)
	got := readEnds(t, log, way)
	t.Logf("%d outputs, %d dead letters", len(got.outputs), len(got.dead))
	got.mustEqual(t, want, way == "queue")
	if way == "queue" {
		server.End()
		replay(t, p, log, got)
	}
}

// killFailing runs processes that kill themselves, one after the other, or two at
// a time on Kafka, until all is done.
func killFailing(t *testing.T, c failingProcess) {
	t.Helper()
	seats, begun := 1, time.Now()
	if c.brokers != "-" {
		seats = 2
	}
	var mu sync.Mutex // guards kills
	kills := map[string]int{}
	var group sync.WaitGroup
	for seat := range seats {
		group.Go(func() {
			var restarts crashRestarts
			rng, c, killed := rand.New(rand.NewPCG(*answerSeed, uint64(seat))), c, true
			c.dir = filepath.Join(c.dir, fmt.Sprint(seat))
			for n := 0; killed; n++ {
				c.stage, c.hit, c.after = crashStages[(n+2*seat)%len(crashStages)], 1+rng.Int64N(4), *failingKill
				var err error
				if killed, err = startChild(t, c.stage, c.String(), &restarts); err != nil {
					t.Errorf("process %d of seat %d, to be killed at %s: %v", n, seat, c.stage, err)
					return
				}
				if killed {
					mu.Lock()
					kills[c.stage]++
					mu.Unlock()
				}
			}
			t.Logf("restarts to the first durable step: %v", restarts)
		})
	}
	group.Wait()
	t.Logf("seed %d: %d events took %v; killed with a step in flight: %v", *answerSeed, *failingEvents, time.Since(begun).Round(time.Second), kills)
	if t.Failed() {
		t.FailNow()
	}
	sum := 0
	for _, times := range kills {
		sum += times
	}
	if len(kills) < 2 || sum >= 2*len(crashStages) && len(kills) < len(crashStages) {
		t.Errorf("seed %d: killed at %v alone: more events are needed", *answerSeed, kills)
	}
}

// replay runs the pipeline again from the journal, with the service off. What the
// service refused is no answer: it is left out.
func replay(t *testing.T, p lang.Pipeline, log stream.Log, want failingEnds) {
	t.Helper()
	var input []stream.Record
	for i := range int32(answerPartitions) {
		in := stream.Partition{Topic: p.Input.Topic, Index: i}
		for _, r := range readPartition(t, log, in) {
			if strings.Contains(string(r.Value), failingPoison) {
				r.Value = []byte("left out")
			}
			input = append(input, stream.Record{Partition: in, Time: r.Time, Key: r.Key, Value: r.Value})
		}
	}
	got := endsInMemory(t, p, input, func(again stream.Log) { copyJournal(t, p, log, again) })
	got.mustEqual(t, want, true)
}

// copyJournal copies the journal of a pipeline from one log to another.
func copyJournal(t *testing.T, p lang.Pipeline, from, to stream.Log) {
	t.Helper()
	session, err := to.Join(t.Context(), p.Name, p.Input.Topic)
	if err != nil {
		t.Fatal(err)
	}
	step, answers := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{}}, 0
	for len(step.Offsets) < answerPartitions {
		batch, err := session.Poll(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range batch.Assigned {
			step.Offsets[a.Partition] = a.Next
			view, err := from.(stream.Inspector).State(t.Context(), p.Name, a.Partition)
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range []byte{statekey.Journal, statekey.JournalHead} {
				for entry, err := range view.Scan([]byte{kind}) {
					if err != nil {
						t.Fatal(err)
					}
					step.Changes = append(step.Changes, stream.Change{Partition: a.Partition, Key: slices.Clone(entry.Key), Value: slices.Clone(entry.Value)})
					answers++
				}
			}
		}
	}
	if err := errors.Join(session.Commit(step).Wait(t.Context()), session.Close()); err != nil || answers == 0 {
		t.Fatalf("%d entries of the journal: %v", answers, err)
	}
}
