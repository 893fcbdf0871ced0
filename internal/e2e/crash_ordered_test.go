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

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/test/eventtime"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

var (
	orderedKilled = flag.Int("ordered.kills", 10, "kills of TestKilledOrderedWorkersLeaveTheSameAnswer")
	orderedKafka  = flag.Int("ordered.kafka", 4, "kills of workers of ordered pipelines on a real Kafka, beside zombies")
	orderedBroker = flag.Int("ordered.broker", 1, "kills of the broker while ordered pipelines run")
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

// onKafka is a case, and how it writes its outputs.
type onKafka struct {
	name     string
	delivery kafka.Delivery
}

// orderedKafkaCases are the cases that a process of a child runs beside each other.
var orderedKafkaCases = map[string][]onKafka{
	orderedKafkaChild: {{"chain", kafka.ExactlyOnce}, {"each", kafka.AtLeastOnce}, {"sessions", kafka.AtMostOnce}, {"as-of", kafka.ExactlyOnce}},
	byKafkaChild:      {{"by", kafka.ExactlyOnce}},
}

func runOrderedKafkaChild(arguments string) error {
	return runOrderedKafka(orderedKafkaChild, arguments)
}

func runByKafkaChild(arguments string) error { return runOrderedKafka(byKafkaChild, arguments) }

// runOrderedKafka runs the cases of a child until its orders end.
func runOrderedKafka(child, arguments string) error {
	var brokers, dir, name string
	var stay bool
	var session time.Duration
	if _, err := fmt.Sscan(arguments, &brokers, &dir, &name, &stay, (*int64)(&session)); err != nil {
		return err
	}
	ctx, orders := takeOrders()
	group, ctx := errgroup.WithContext(ctx)
	for i, c := range orderedKafkaCases[child] {
		group.Go(func() error {
			s := crashSettings(1, "never")
			if s.interval = 20 * time.Millisecond; name == "two" {
				s.held = 1 // what one worker has in memory, the other one makes state
			}
			s.fault = func(stage string) { obey(orders, stage, i) }
			return c.run(ctx, s, kafka.Options{
				Brokers: strings.Split(brokers, ","), Dir: filepath.Join(dir, name+"-"+c.name), Stay: stay, Delivery: c.delivery, Timeouts: kafka.Timeouts{Session: session},
			})
		})
	}
	return group.Wait()
}

// run runs the case until ctx ends. It says when its first step is durable.
func (k onKafka) run(ctx context.Context, s orderedSettings, o kafka.Options) error {
	var first sync.Once
	fault := s.fault
	s.logger = slog.New(slog.NewTextHandler(io.MultiWriter(os.Stdout, os.Stderr), nil))
	s.fault = func(stage string) {
		if stage == "after" {
			first.Do(func() { fmt.Println(crashDurable, k.name) })
		}
		fault(stage)
	}
	runners, err := newOrdered(orderedCases(*answerSeed, 40)[k.name].text, s)
	if err != nil {
		return err
	}
	log, err := kafka.Open(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(orderedRun{runners: runners, log: log}.while(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }), log.Close())
}

// orderedCrash is a run of the cases of a child by processes on a real Kafka.
type orderedCrash struct {
	*testing.T
	child   string
	runs    []orderedRun // of the cases
	log     *kafka.Log
	cluster *kafkatest.Cluster
	dir     string
	workers map[string]*crashWorker
	rng     *rand.Rand

	restarts int // of a broker with coordinators that do not read their log: how many are left
}

func newOrderedCrash(t *testing.T, child string, cases map[string]orderedCase) *orderedCrash {
	t.Helper()
	c := &orderedCrash{T: t, child: child, dir: t.TempDir(), workers: map[string]*crashWorker{}, rng: rand.New(rand.NewPCG(*answerSeed, 10)), cluster: kafkatest.Start(t, kafkatest.Options{
		Settings: []string{
			"log.retention.ms=-1", "group.min.session.timeout.ms=1000", "add.partitions.to.txn.retry.backoff.ms=1",
			"transaction.abort.timed.out.transaction.cleanup.interval.ms=1000", "broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500",
		}})}
	var err error
	if c.log, err = kafka.Open(t.Context(), kafka.Options{Brokers: c.cluster.Addresses()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLog(t, c.log) })
	for _, k := range orderedKafkaCases[child] {
		s := crashSettings(1, "never")
		s.features = cases[k.name].features
		c.runs = append(c.runs, startOrdered(t, c.log, cases[k.name].text, s))
		if first := cases[k.name].first; len(first) > 0 {
			if err := c.log.Append(t.Context(), slices.Clone(first)...); err != nil { // deleted rows have the times of their records
				t.Fatal(err)
			}
		}
	}
	return c
}

func (c *orderedCrash) start(name string) {
	c.Helper()
	session := crashSession
	if *orderedStop >= time.Minute { // a worker that stands still is given up all the same
		session = 10 * time.Second
	}
	c.workers[name] = startWorker(c.T, c.child, c.cluster.Addresses(), c.dir, name, false, session)
	c.workers[name].patiently = func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(c.Context(), crashPatience)
	}
}

// atWork waits until a step of each pipeline of a worker is durable.
func (c *orderedCrash) atWork(name string) {
	c.Helper()
	for range c.runs {
		c.workers[name].until(c.T, crashDurable)
	}
}

// mustRun fails if a worker ended that is not to end, with what it said last.
func (c *orderedCrash) mustRun() {
	c.Helper()
	for name, w := range c.workers {
		select {
		case <-w.ended:
			if !w.ending {
				said, _ := os.ReadFile(filepath.Join(c.dir, name+".log"))
				c.Fatalf("seed %d: worker %s ended with %v: %s", *answerSeed, name, w.err, said[max(0, len(said)-2000):])
			}
		default:
		}
	}
}

// ends is the sum of the next offsets of a topic.
func (c *orderedCrash) ends(topic string) (n stream.Offset) {
	c.Helper()
	for i := range int32(4) {
		_, next, err := c.log.Offsets(c.Context(), stream.Partition{Topic: topic, Index: i})
		if err != nil {
			c.Fatal(err)
		}
		n += next
	}
	return n
}

// zombie has a worker stand still at a stage of a pipeline, with a step in its hands, until
// others have its partitions, and then go on.
func (c *orderedCrash) zombie(stage string, pipeline int) {
	c.Helper()
	w := c.workers["one"]
	w.saidBefore("")
	w.order(c.T, "stopped", stage, pipeline, 1+c.rng.IntN(8))
	time.Sleep(*orderedStop)
	c.goesOn()
	if err := w.child.Process.Signal(syscall.SIGCONT); err != nil {
		c.Fatal(err)
	}
	w.until(c.T, "joins its group again")
	c.goesOn()
}

// kill kills a worker at a stage of a pipeline, and starts it again, each second time when
// others took over.
func (c *orderedCrash) kill(n int, stage string, pipeline int) {
	c.Helper()
	name := []string{"one", "two"}[n%2]
	c.workers[name].order(c.T, "killed", stage, pipeline, 1+c.rng.IntN(8))
	if n%2 == 0 {
		c.goesOn()
	}
	c.start(name)
	c.atWork(name)
	c.goesOn()
}

// feed appends records, a few at a time, until there are enough, and then those that end each
// partition. It returns all of them. Of the second half the fewer are left the slower they come,
// so that a busy machine does not run out of them.
func (c *orderedCrash) feed(records []stream.Record, after time.Duration, enough <-chan struct{}) (fed []stream.Record, err error) {
	const each = 10 * time.Millisecond
	tick := time.NewTicker(each)
	defer tick.Stop()
	for {
		select {
		case <-enough:
			all := closedAfter(fed, 4, after)
			return all, c.append(all[len(fed):])
		case <-tick.C:
		}
		left := len(records) - len(fed)
		if left < len(records)/2 {
			tick.Reset(each * time.Duration(len(records)) / time.Duration(2*max(left, 1)))
		}
		chunk := records[len(fed):][:min(2*len(c.runs), left)]
		if err := c.append(chunk); err != nil {
			return fed, err
		}
		fed = append(fed, chunk...)
	}
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

// ofTopics returns the records of the topics of others.
func ofTopics(records, others []stream.Record) []stream.Record {
	topics := map[string]bool{}
	for _, r := range others {
		topics[r.Partition.Topic] = true
	}
	return slices.DeleteFunc(slices.Clone(records), func(r stream.Record) bool { return !topics[r.Partition.Topic] })
}

// byTurns returns the records of cases without those that end them, one of each by turns. Cases
// with the same topics have the same records.
func byTurns(cases map[string]orderedCase, list []onKafka) (all []stream.Record) {
	var each [][]stream.Record
	for _, k := range list {
		records := slices.DeleteFunc(slices.Clone(cases[k.name].records), func(r stream.Record) bool { return isClosing(&r) })
		if !slices.ContainsFunc(each, func(others []stream.Record) bool { return len(ofTopics(records, others)) > 0 }) {
			each = append(each, records)
		}
	}
	for i := range slices.MaxFunc(each, func(a, b []stream.Record) int { return len(a) - len(b) }) {
		for _, records := range each {
			if i < len(records) {
				all = append(all, records[i])
			}
		}
	}
	return all
}

// TestKilledOrderedWorkersOnKafkaLeaveTheSameAnswer kills workers and the broker while events
// come, and has zombies of a repartitioner and of readers. What the workers leave is what
// one undisturbed run over the same sources leaves. With at-least-once, outputs may be there
// again, the same; with at-most-once some may be missing, and the others are in their order.
func TestKilledOrderedWorkersOnKafkaLeaveTheSameAnswer(t *testing.T) {
	kafkatest.Need(t)
	t.Parallel() // it waits more than it computes
	zombies := []string{"copy-write", "sync"}
	if *orderedKafka >= 10 {
		zombies = append(zombies, "write", "sync")
	}
	killOnKafka(t, orderedKafkaChild, orderedCases(*answerSeed, 20_000**orderedKafka), 24*time.Hour, orderedStages, zombies...)
}

// TestKilledStagesOnKafkaLeaveTheSameAnswer is likewise of stages that answer for other fields.
func TestKilledStagesOnKafkaLeaveTheSameAnswer(t *testing.T) {
	kafkatest.Need(t)
	t.Parallel() // it waits more than it computes
	killOnKafka(t, byKafkaChild, map[string]orderedCase{"by": byCase(*answerSeed, 300_000, 20*eventtime.Millisecond)}, byClosing, byStages, "by-write", "by-sync")
}

// killOnKafka kills workers of cases at stages, and the broker, and has them be zombies at others.
func killOnKafka(t *testing.T, child string, cases map[string]orderedCase, after time.Duration, stages []string, zombies ...string) {
	c := newOrderedCrash(t, child, cases)
	enough, done := make(chan struct{}), make(chan struct{})
	var fed, err = []stream.Record(nil), error(nil)
	go func() {
		defer close(done)
		if fed, err = c.feed(byTurns(cases, orderedKafkaCases[child]), after, enough); err != nil && t.Context().Err() == nil {
			t.Errorf("seed %d: no more events are appended: %v", *answerSeed, err)
		}
	}()
	for _, name := range []string{"one", "two"} {
		c.start(name)
	}
	for _, name := range []string{"one", "two"} {
		c.atWork(name)
	}
	c.goesOn()
	for n := range *orderedKafka {
		c.kill(n, stages[n%len(stages)], n/2%len(c.runs))
	}
	for i, stage := range zombies {
		c.zombie(stage, i%len(c.runs))
	}
	for range *orderedBroker {
		c.killBroker()
	}
	close(enough)
	if <-done; err != nil {
		t.FailNow()
	}
	for i, k := range orderedKafkaCases[child] {
		if err := c.through(c.runs[i], cases[k.name], fed); err != nil {
			t.Fatalf("seed %d: %s: %v", *answerSeed, k.name, err)
		}
	}
	for _, w := range c.workers {
		w.end(t)
	}
	for i, k := range orderedKafkaCases[child] {
		c.compare(c.runs[i], k, cases[k.name].undisturbed(t, fed))
	}
}

// undisturbed returns what one run leaves of those records that are of the case.
func (c orderedCase) undisturbed(t *testing.T, records []stream.Record) *orderedAnswer {
	t.Helper()
	c.records = ofTopics(records, c.records)
	return c.run(t, orderedVariant{variant{"memory", 1000, 2, time.Millisecond}, 4, "at once", 0}, nil, nil)
}

// compare compares what a pipeline left with what is wanted, as far as its delivery promises it.
func (c *orderedCrash) compare(run orderedRun, k onKafka, want *orderedAnswer) {
	c.Helper()
	got := run.answer(c.T)
	again, missing := got.again, 0
	switch k.delivery {
	case kafka.AtLeastOnce:
		got.again = 0
	case kafka.AtMostOnce:
		missing = got.filled(want)
	}
	if d := got.difference(want); d != "" {
		c.Errorf("seed %d: %s: %s", *answerSeed, k.name, d)
	}
	c.Logf("%s, %s: %d outputs, state of %d keys; %d outputs were written again, the same, and %d are missing", k.name, crashNames[k.delivery], want.total, len(want.state), again, missing)
}

// through waits until all but the closing events are released and committed. If features are
// compared, it waits until they are what is wanted.
func (c *orderedCrash) through(run orderedRun, of orderedCase, fed []stream.Record) error {
	if of.features {
		return run.until(c.Context(), c.T, of.undisturbed(c.T, fed))
	}
	for _, r := range run.runners {
		if err := c.released(r); err != nil {
			return err
		}
	}
	return nil
}

// released waits until all events of a pipeline but the closing ones are released and committed.
func (c *orderedCrash) released(r *pipeline.Runner) error {
	if err := r.WaitRead(c.Context(), c.log); err != nil {
		return err
	}
	for i := range int32(4) {
		p, events := stream.Partition{Topic: r.Plan.Topic, Index: i}, stream.Offset(0)
		for _, copied := range readPartition(c.T, c.log, p) {
			if _, ok := order.KeyOf(&copied); ok && !isClosing(&copied) {
				events++
			}
		}
		for seen, since := stream.Offset(-1), time.Now(); seen < events; time.Sleep(time.Second) {
			released, err := order.Committed(stateOf(c.T, c.log, r.Name(), p))
			if released > seen {
				seen, since = released, time.Now()
			}
			if err != nil || time.Since(since) > crashPatience {
				return errors.Join(err, fmt.Errorf("%d of %d events of %v are released", released, events, p))
			}
		}
	}
	return nil
}
