package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/test/eventtime"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

var (
	orderedKilled = flag.Int("ordered.kills", 10, "kills of TestKilledOrderedWorkersLeaveTheSameAnswer")
	orderedKafka  = flag.Int("ordered.kafka", 4, "kills of workers of ordered pipelines on a real Kafka, beside zombies")
	orderedStop   = flag.Duration("ordered.stop", 6*time.Second, "how long a worker that becomes a zombie stands still")
)

// orderedStages are the stages at which a repartitioner or a reader is killed, each with a step
// in flight.
var orderedStages = []string{"copy-write", "write", "copy-sync", "sync", "copy-read", "read", "copy-after", "after"}

// byStages are those of a pipeline with features by other fields.
var byStages = []string{"by-write", "write", "copy-write", "by-sync", "sync", "by-read", "read", "by-after", "after", "copy-sync"}

// orderedChild says what a child process is to do: folder, case, stage, hit and members.
const orderedChild = "AFTERBAY_ORDERED_CHILD"

// crashSettings returns the settings of pipelines that are killed: they take many small steps.
func crashSettings(members int, idle string) orderedSettings {
	return orderedSettings{members: members, partitions: 4, batch: 40, held: heldBounds[members%3], interval: time.Millisecond, idle: idle}
}

// orderedNames have the cases whose processes are killed: names are without spaces.
var orderedNames = []string{"timers", "sessions", "each", "first", "as-of", "every", "chain"}

// killedAll are what is killed at each stage: cases take turns.
var killedAll = []struct {
	names, stages []string
}{{orderedNames, orderedStages}, {[]string{"by"}, byStages}}

// runOrderedChild runs a case in a folder until all is done, or until it kills itself, as
// kill -9 does, at the hit of a stage.
func runOrderedChild(arguments string) error {
	var dir, name, stage string
	var hit, members int
	if _, err := fmt.Sscan(arguments, &dir, &name, &stage, &hit, &members); err != nil {
		return err
	}
	endsInTime()
	c, s := orderedCases(*answerSeed, 40)[name], crashSettings(members, "100ms")
	s.functions = c.functions
	s.fault = killedAt(stage, hit)
	runners, err := newOrdered(c.text, s)
	if err != nil {
		return err
	}
	log, err := embedded.Open(filepath.Join(dir, "data"), embedded.Options{})
	if err != nil {
		return err
	}
	o := orderedRun{runners: runners, log: log}
	return errors.Join(o.while(context.Background(), o.idle), log.Close())
}

// TestKilledOrderedWorkersLeaveTheSameAnswer kills processes that copy to and read from a
// repartition topic, and that answer for other fields, at each stage of each. What they leave
// is what a run leaves that nothing disturbs, byte for byte.
func TestKilledOrderedWorkersLeaveTheSameAnswer(t *testing.T) {
	t.Parallel() // it waits more than it computes
	cases := orderedCases(*answerSeed, min(*crashOf/10, 20_000))
	for _, all := range killedAll {
		kills := map[string]int{}
		for n, name := range all.names {
			want := cases[name].run(t, orderedVariant{variant{"memory", 64, 1, time.Millisecond}, 4, "at once", 0}, nil, nil)
			c := &orderedKills{T: t, orderedCase: cases[name], name: name, dir: t.TempDir(), rng: rand.New(rand.NewPCG(*answerSeed, uint64(n)))}
			c.begin()
			for kill := n; kill < *orderedKilled; kill += len(all.names) {
				stage := all.stages[kill%len(all.stages)]
				if c.kill(stage, 1+kill%4) {
					kills[stage]++
				}
			}
			c.end(want)
		}
		for _, stage := range all.stages[:min(len(all.stages), *orderedKilled)] {
			if t.Logf("%v killed at %-10s %d times with a step in flight", all.names, stage, kills[stage]); kills[stage] == 0 {
				t.Errorf("seed %d: nothing was killed at %s: more events are needed", *answerSeed, stage)
			}
		}
	}
}

// orderedKills is a case that is run by processes that are killed.
type orderedKills struct {
	*testing.T
	orderedCase
	name, dir string
	rng       *rand.Rand
}

// open returns the pipelines over the folder.
func (c *orderedKills) open() orderedRun {
	s := crashSettings(2, "100ms")
	s.functions, s.features = c.functions, c.features
	return startOrdered(c.T, openLog(c.T, "embedded", filepath.Join(c.dir, "data")), c.text, s)
}

// begin appends all records.
func (c *orderedKills) begin() {
	c.Helper()
	log := c.open().log
	if err := errors.Join(log.Append(c.Context(), slices.Concat(c.first, c.records)...), log.Close()); err != nil {
		c.Fatal(err)
	}
}

// kill has a process go on until it is killed at a stage. It reports whether it was.
func (c *orderedKills) kill(stage string, members int) bool {
	c.Helper()
	killed, err := startChild(c.T, stage, fmt.Sprintf("%s=%s %s %s %d %d", orderedChild, c.dir, c.name, stage, 1+c.rng.IntN(12), members), nil)
	if err != nil {
		c.Fatalf("seed %d: %s: kill at %s: %v", *answerSeed, c.name, stage, err)
	}
	return killed
}

// end has a process go on to the end, and compares what is there.
func (c *orderedKills) end(want *orderedAnswer) {
	c.Helper()
	if c.kill("none", 2) {
		c.Fatal("the last child was killed")
	}
	o := c.open()
	ctx, cancel := context.WithTimeout(c.Context(), crashPatience)
	defer cancel()
	if err := o.while(ctx, func(ctx context.Context) error { return o.until(ctx, c.T, want) }); err != nil {
		c.Error(err)
	}
	if d := o.answer(c.T).difference(want); d != "" {
		c.Errorf("seed %d: %s: %s", *answerSeed, c.name, d)
	}
	closeLog(c.T, o.log)
}

// TestFaultsLeaveTheSameOrder has members of repartitioners and readers lose commits,
// partitions and time, and take over from members that go on.
func TestFaultsLeaveTheSameOrder(t *testing.T) {
	cases, counts := orderedCases(*answerSeed, 300), streamtest.Counts{}
	for n, name := range orderedNames {
		c := cases[name]
		want := c.run(t, orderedVariant{variant{"memory", 64, 1, time.Millisecond}, 4, "at once", 0}, nil, nil)
		for seed := uint64(n); seed < *faultSeeds/8; seed += uint64(len(orderedNames)) {
			synctest.Test(t, func(t *testing.T) {
				untilEventsAreOver()
				inner := memory.New(memory.Options{RebalanceTimeout: time.Second})
				faulty := streamtest.NewFaulty(inner, streamtest.FaultyOptions{Seed: seed})
				s := crashSettings(3, "100ms")
				s.functions, s.partitions, s.held = c.functions, []int{1, 4, 7}[seed%3], heldBounds[seed/3%3]
				o := startOrdered(t, inner, c.text, s)
				o.log = inspected{faulty, inner}
				if err := errors.Join(inner.Append(t.Context(), slices.Concat(c.first, c.records)...), o.while(t.Context(), o.idle)); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				o.log = inner
				if d := o.answer(t).difference(want); d != "" {
					t.Fatalf("seed %d: %s: %s", seed, name, d)
				}
				o.mustSpill(t, s.held)
				counts.Add(faulty.Counts())
				if err := faulty.Close(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
	t.Logf("%v", counts)
	if missing := counts.Missing(); len(missing) > 0 {
		t.Errorf("never injected: %v", missing)
	}
}

// Children that run a case say what a worker process is to do: brokers, the folder of the test,
// its name, whether it keeps its partitions when it ends, and its session timeout.
const (
	orderedKafkaChild = "AFTERBAY_ORDERED_KAFKA_CHILD"
	byKafkaChild      = "AFTERBAY_BY_KAFKA_CHILD"
)

// orderedKafkaCases are the cases of these children.
var orderedKafkaCases = map[string]string{orderedKafkaChild: "windows", byKafkaChild: "by"}

func runOrderedKafkaChild(arguments string) error {
	return runOrderedKafka(orderedKafkaChild, arguments)
}

func runByKafkaChild(arguments string) error { return runOrderedKafka(byKafkaChild, arguments) }

// runOrderedKafka runs the case of a child until its orders end.
func runOrderedKafka(child, arguments string) error {
	var brokers, dir, name string
	var stay bool
	var session time.Duration
	if _, err := fmt.Sscan(arguments, &brokers, &dir, &name, &stay, (*int64)(&session)); err != nil {
		return err
	}
	ctx, order := takeOrders()
	var first sync.Once
	s := crashSettings(2, "never")
	s.interval = 20 * time.Millisecond
	s.logger = slog.New(slog.NewTextHandler(io.MultiWriter(os.Stdout, os.Stderr), nil))
	s.fault = func(stage string) {
		if stage == "after" {
			first.Do(func() { fmt.Println(crashDurable) })
		}
		obey(order, stage, kafka.ExactlyOnce)
	}
	runners, err := newOrdered(orderedCases(*answerSeed, 40)[orderedKafkaCases[child]].text, s)
	if err != nil {
		return err
	}
	log, err := kafka.Open(ctx, kafka.Options{Brokers: strings.Split(brokers, ","), Dir: filepath.Join(dir, name), Stay: stay, Timeouts: kafka.Timeouts{Session: session}})
	if err != nil {
		return err
	}
	return errors.Join(runners[0].Run(ctx, log), log.Close())
}

// orderedCrash is a run of an ordered pipeline by processes on a real Kafka.
type orderedCrash struct {
	orderedRun
	*testing.T
	child   string
	cluster *kafkatest.Cluster
	dir     string
	workers map[string]*crashWorker
	rng     *rand.Rand
}

func newOrderedCrash(t *testing.T, child string, of orderedCase) *orderedCrash {
	t.Helper()
	c := &orderedCrash{T: t, child: child, dir: t.TempDir(), workers: map[string]*crashWorker{}, rng: rand.New(rand.NewPCG(*answerSeed, 10)), cluster: kafkatest.Start(t, kafkatest.Options{
		Settings: []string{
			"log.retention.ms=-1", "group.min.session.timeout.ms=1000", "add.partitions.to.txn.retry.backoff.ms=1",
			"transaction.abort.timed.out.transaction.cleanup.interval.ms=1000", "broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500",
		}})}
	log, err := kafka.Open(t.Context(), kafka.Options{Brokers: c.cluster.Addresses()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLog(t, log) })
	s := crashSettings(2, "never")
	s.features = of.features
	c.orderedRun = startOrdered(t, log, of.text, s)
	return c
}

func (c *orderedCrash) start(name string) {
	c.Helper()
	c.workers[name] = startWorker(c.T, c.child, c.cluster.Addresses(), c.dir, name, false, crashSession)
	c.workers[name].patiently = func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(c.Context(), crashPatience)
	}
}

// goesOn waits for more rows.
func (c *orderedCrash) goesOn() {
	c.Helper()
	rows := func() (n stream.Offset) {
		for i := range int32(4) {
			_, next, err := c.log.(stream.Inspector).Offsets(c.Context(), stream.Partition{Topic: c.runners[0].Plan.Outputs[0], Index: i})
			if err != nil {
				c.Fatal(err)
			}
			n += next
		}
		return n
	}
	for before, end := rows(), time.Now().Add(crashPatience); rows() < before+100; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			c.Fatalf("seed %d: nothing goes on", *answerSeed)
		}
	}
}

// zombie has a worker stand still at a stage, with a step in its hands, until others have its
// partitions, and then go on.
func (c *orderedCrash) zombie(stage string) {
	c.Helper()
	w := c.workers["one"]
	w.saidBefore("")
	w.order(c.T, "stopped", stage, kafka.ExactlyOnce, 1+c.rng.IntN(8))
	time.Sleep(*orderedStop)
	c.goesOn()
	if err := w.child.Process.Signal(syscall.SIGCONT); err != nil {
		c.Fatal(err)
	}
	w.until(c.T, "joins its group again")
	c.goesOn()
}

// kill kills a worker at a stage, and starts it again when others took over.
func (c *orderedCrash) kill(n int, stage string) {
	c.Helper()
	name := []string{"one", "two"}[n%2]
	c.workers[name].order(c.T, "killed", stage, kafka.ExactlyOnce, 1+c.rng.IntN(8))
	if n%2 == 0 {
		c.goesOn()
	}
	c.start(name)
	c.workers[name].until(c.T, crashDurable)
	c.goesOn()
}

// feed appends records, a few at a time, until there are enough, and then those that end each
// partition. It returns all of them.
func (c *orderedCrash) feed(records []stream.Record, after time.Duration, enough <-chan struct{}) (fed []stream.Record, err error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 5; len(fed)+n <= len(records); {
		select {
		case <-enough:
			n = len(records) // which ends it
			continue
		case <-tick.C:
		}
		chunk := records[len(fed) : len(fed)+n]
		if err := c.append(chunk); err != nil {
			return fed, err
		}
		fed = append(fed, chunk...)
	}
	all := closedAfter(fed, 4, after)
	return all, c.append(all[len(fed):])
}

// append appends records as of now. A broker that is killed forgets the producers whose newest
// record is a day old: what it had written and not acknowledged would be written again.
func (c *orderedCrash) append(records []stream.Record) error {
	records = slices.Clone(records)
	for i := range records {
		records[i].Time = time.Now()
	}
	return c.log.Append(c.Context(), records...)
}

// TestKilledOrderedWorkersOnKafkaLeaveTheSameAnswer kills workers and the broker while events
// come, and has zombies of a repartitioner and of a reader. What the workers leave is what
// one undisturbed run over the same sources leaves.
func TestKilledOrderedWorkersOnKafkaLeaveTheSameAnswer(t *testing.T) {
	kafkatest.Need(t)
	t.Parallel() // it waits more than it computes
	killOnKafka(t, orderedKafkaChild, orderedCases(*answerSeed, 300_000)["windows"], 24*time.Hour, orderedStages, "copy-write", "sync")
}

// TestKilledStagesOnKafkaLeaveTheSameAnswer is likewise of stages that answer for other fields.
func TestKilledStagesOnKafkaLeaveTheSameAnswer(t *testing.T) {
	kafkatest.Need(t)
	t.Parallel() // it waits more than it computes
	killOnKafka(t, byKafkaChild, byCase(*answerSeed, 300_000, 20*eventtime.Millisecond), byClosing, byStages, "by-write", "by-sync")
}

// killOnKafka kills workers of a case at stages, and the broker, and has them be zombies at others.
func killOnKafka(t *testing.T, child string, c orderedCase, after time.Duration, stages []string, zombies ...string) {
	run := newOrderedCrash(t, child, c)
	enough, done := make(chan struct{}), make(chan error, 1)
	var fed []stream.Record
	go func() {
		var err error
		fed, err = run.feed(slices.DeleteFunc(slices.Clone(c.records), func(r stream.Record) bool { return isClosing(&r) }), after, enough)
		done <- err
	}()
	for _, name := range []string{"one", "two"} {
		run.start(name)
	}
	for _, name := range []string{"one", "two"} {
		run.workers[name].until(t, crashDurable)
	}
	run.goesOn()
	for n := range *orderedKafka {
		run.kill(n, stages[n%len(stages)])
	}
	for _, stage := range zombies {
		run.zombie(stage)
	}
	if err := errors.Join(run.cluster.Brokers[0].Kill(), run.cluster.Brokers[0].Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	run.goesOn()
	close(enough)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	c.records = fed
	want := c.run(t, orderedVariant{variant{"memory", 1000, 2, time.Millisecond}, 4, "at once", 0}, nil, nil)
	if err := run.until(t.Context(), t, want); err != nil {
		t.Fatalf("seed %d: %v", *answerSeed, err)
	}
	for _, w := range run.workers {
		w.end(t)
	}
	if d := run.answer(t).difference(want); d != "" {
		t.Errorf("seed %d: %s", *answerSeed, d)
	}
	t.Logf("%d events, %d outputs, state of %d keys", len(fed), want.total, len(want.state))
}
