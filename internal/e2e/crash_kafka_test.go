package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
	"github.com/afterbay/afterbay/internal/test/reference"
	"github.com/afterbay/afterbay/stream"
)

var (
	crashKafka    = flag.Int("crash.kafka", 5, "kills of workers of the tests on a real Kafka; of brokers there are a quarter as many")
	crashDefaults = flag.Bool("crash.defaults", false, "leave the settings that docs/howto/kafka-broker.md names at the broker's defaults")
)

// crashRate is how many events come in a second while workers are killed.
const crashRate = 500

// crashSession is the session timeout of the short form: others are the sooner
// sure that a worker is gone. Brokers refuse it as they are.
const crashSession = 3 * time.Second

// crashRun is a run of the pipelines by processes on a real Kafka.
type crashRun struct {
	*testing.T
	cluster *kafkatest.Cluster
	dir     string
	log     *kafka.Log // of the test: it writes the input and reads the output
	client  *kgo.Client
	admin   *kadm.Client
	runners map[kafka.Delivery]*pipeline.Runner
	watches map[kafka.Delivery][]*crashWatch // of decisions, by partition
	workers map[string]*crashWorker
	rng     *rand.Rand
	kills   map[string]int // by stage, and by stage and delivery
	gaps    map[string]map[kafka.Delivery][]time.Duration
	begun   time.Time
	enough  chan struct{} // closed when no more events are needed
	fed     chan struct{} // closed when no more come
	written int           // events, after that
}

// crashWatch is a read_committed reader of a partition.
type crashWatch struct {
	mu      sync.Mutex
	records []stream.Record
	at      []time.Time // when they came
}

func newCrashRun(t *testing.T, options kafkatest.Options) *crashRun {
	options.Speed = *crashKafka >= 10 || *crashReplicas || *crashDefaults
	options.Settings = append(options.Settings, "log.retention.ms=-1", "group.min.session.timeout.ms=1000")
	if !*crashDefaults {
		options.Settings = append(options.Settings,
			"add.partitions.to.txn.retry.backoff.ms=1", "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
			"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500")
	}
	c := &crashRun{
		T: t, begun: time.Now(), cluster: kafkatest.Start(t, options), dir: t.TempDir(), rng: rand.New(rand.NewPCG(*answerSeed, 6)),
		runners: map[kafka.Delivery]*pipeline.Runner{}, watches: map[kafka.Delivery][]*crashWatch{},
		workers: map[string]*crashWorker{}, kills: map[string]int{}, gaps: map[string]map[kafka.Delivery][]time.Duration{},
		enough: make(chan struct{}), fed: make(chan struct{}),
	}
	for name, data := range map[string][]byte{"fraud.yaml": reference.Pipeline(), "fraud.json": reference.Model()} {
		c.must(os.WriteFile(filepath.Join(c.dir, name), data, 0o600))
	}
	var err error
	c.log, err = kafka.Open(t.Context(), kafka.Options{Brokers: c.cluster.Addresses()})
	c.must(err)
	t.Cleanup(func() { closeLog(t, c.log) })
	c.client, err = kgo.NewClient(kgo.SeedBrokers(c.cluster.Addresses()...))
	c.must(err)
	t.Cleanup(c.client.Close)
	c.admin = kadm.NewClient(c.client)
	for _, d := range crashDeliveries {
		p, err := crashPipeline(c.dir, d)
		c.must(err)
		c.runners[d], err = builtin.New(p, pipeline.Options{})
		c.must(err)
		c.must(c.runners[d].CreateTopics(t.Context(), c.log))
	}
	c.watch()
	t.Cleanup(c.showLogs)
	return c
}

func (c *crashRun) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// showLogs shows why workers may have failed.
func (c *crashRun) showLogs() {
	if !c.Failed() {
		return
	}
	logs, _ := filepath.Glob(filepath.Join(c.dir, "*.log"))
	for _, name := range logs {
		text, _ := os.ReadFile(name)
		c.Logf("the end of %s:\n%s", filepath.Base(name), text[max(0, len(text)-20_000):])
	}
}

// watch reads the decisions as they become visible.
func (c *crashRun) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	c.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	for d, runner := range c.runners {
		for i := range int32(answerPartitions) {
			w := &crashWatch{}
			c.watches[d] = append(c.watches[d], w)
			watching.Go(func() {
				for r, err := range c.log.Tail(ctx, stream.Partition{Topic: runner.Outputs()[0], Index: i}, 0) {
					if ctx.Err() != nil {
						return
					}
					if err != nil {
						c.Errorf("read decisions: %v", err)
						return
					}
					r.Value = bytes.Clone(r.Value)
					w.mu.Lock()
					w.records, w.at = append(w.records, r), append(w.at, time.Now())
					w.mu.Unlock()
				}
			})
		}
	}
}

// gap is the longest time that no decision of a partition became visible, and
// that ended after since.
func (w *crashWatch) gap(since time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := time.Duration(0)
	for i := len(w.at) - 1; i > 0 && w.at[i].After(since); i-- {
		longest = max(longest, w.at[i].Sub(w.at[i-1]))
	}
	return longest
}

func (w *crashWatch) seenAfter(moment time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.at) > 0 && w.at[len(w.at)-1].After(moment)
}

// feed writes events at crashRate until there are enough. Of the second half the
// fewer are left the slower they come, so that a busy machine, which takes long,
// does not run out of them.
func (c *crashRun) feed(events []reference.Event) {
	defer close(c.fed)
	const each = 10 * time.Millisecond
	tick := time.NewTicker(each)
	defer tick.Stop()
	for c.written < len(events) {
		select {
		case <-tick.C:
		case <-c.enough:
			return
		}
		if left := len(events) - c.written; left < len(events)/2 {
			tick.Reset(each * time.Duration(len(events)) / time.Duration(2*left))
		}
		chunk := events[c.written:min(c.written+crashRate/100, len(events))]
		appendEvents(c.T, c.log, c.runners[kafka.ExactlyOnce].Input(), chunk)
		c.written += len(chunk)
	}
}

func (c *crashRun) start(name string, stay bool) *crashWorker {
	c.Helper()
	session := time.Duration(0) // the default
	if *crashKafka < 10 {
		session = crashSession
	}
	c.workers[name] = startWorker(c.T, kafkaChild, c.cluster.Addresses(), c.dir, name, stay, session)
	c.workers[name].patiently = c.patiently
	return c.workers[name]
}

// recovered waits until all that is in the input is decided, and more was seen
// of each partition after that.
func (c *crashRun) recovered() {
	c.Helper()
	ctx, cancel := c.patiently()
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.settle(ctx) }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			c.must(err)
			return
		case <-tick.C:
			for _, w := range c.workers {
				select {
				case <-w.ended:
					if !w.ending {
						c.Fatalf("worker %s ended with %v", w.name, w.err)
					}
				default:
				}
			}
		}
	}
}

func (c *crashRun) settle(ctx context.Context) error {
	for _, runner := range c.runners {
		if err := runner.WaitIdle(ctx, c.log); err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
	}
	moment := time.Now()
	for _, watches := range c.watches {
		for _, w := range watches {
			for !w.seenAfter(moment) {
				select {
				case <-c.fed:
					return errors.New("all events are in: more are needed")
				case <-ctx.Done():
					return fmt.Errorf("a partition stands still: %w", context.Cause(ctx))
				case <-time.After(5 * time.Millisecond):
				}
			}
		}
	}
	return nil
}

// note keeps the longest output gap since a moment, of what happened then.
func (c *crashRun) note(what string, since time.Time) {
	if c.gaps[what] == nil {
		c.gaps[what] = map[kafka.Delivery][]time.Duration{}
	}
	text := fmt.Sprintf("%3.0f s: %s: no output", time.Since(c.begun).Seconds(), what)
	for _, d := range crashDeliveries {
		longest := time.Duration(0)
		for _, w := range c.watches[d] {
			longest = max(longest, w.gap(since))
		}
		c.gaps[what][d] = append(c.gaps[what][d], longest)
		text += fmt.Sprintf(", %s for %d ms", crashNames[d], longest.Milliseconds())
	}
	c.Log(text)
}

// kill ends a worker at a stage with a step in flight.
func (c *crashRun) kill(n int, takeover bool) {
	c.Helper()
	stage, delivery, name := crashStages[n%len(crashStages)], crashDeliveries[(n+2)%len(crashDeliveries)], []string{"one", "two"}[n%2]
	c.workers[name].order(c.T, "killed", stage, int(delivery), 1+c.rng.IntN(8))
	killed := time.Now()
	c.kills[stage]++
	c.kills[stage+" "+crashNames[delivery]]++
	if takeover {
		c.recovered()
		c.note("taken over", killed)
	}
	c.start(name, true).atWork(c.T)
	c.recovered()
	if !takeover {
		c.note("restarted in place", killed)
	}
}

// killBroker ends a broker; where there are others they go on without it.
func (c *crashRun) killBroker(i int) {
	c.Helper()
	killed := time.Now()
	c.must(c.cluster.Brokers[i].Kill())
	if len(c.cluster.Brokers) > 1 {
		c.recovered()
		c.note("one broker killed", killed)
	}
	c.must(c.cluster.Brokers[i].Start(c.Context()))
	c.recovered()
	if len(c.cluster.Brokers) == 1 {
		c.note("the broker killed", killed)
	}
}

// stop makes a zombie: a worker that stands still with a step in its hands until
// others have its partitions, and then goes on.
func (c *crashRun) stop(n int) {
	c.Helper()
	stage, delivery, w := []string{"write", "sync", "model"}[n%3], crashDeliveries[n%len(crashDeliveries)], c.workers["one"]
	w.saidBefore("")
	w.order(c.T, "stopped", stage, int(delivery), 1+c.rng.IntN(8))
	stopped := time.Now()
	c.recovered()
	c.note("stopped", stopped)
	if w.saidBefore("joins its group again") {
		c.Errorf("worker one is stopped and says something")
	}
	c.must(w.child.Process.Signal(syscall.SIGCONT))
	w.until(c.T, `joins its group again" pipeline=`+c.runners[delivery].Name()+" ")
	c.recovered()
}

// joinAndLeave lets a third worker join, and leave again while a fourth reads
// its state back.
func (c *crashRun) joinAndLeave() {
	c.Helper()
	joined := time.Now()
	third := c.start("three", false)
	third.atWork(c.T)
	c.recovered()
	c.note("joined", joined)

	release := c.hold()
	fourth := c.start("four", false)
	c.members(4)
	if fourth.saidBefore(crashDurable) {
		c.Error("a state was read back before its changelog was decided")
	}
	third.end(c.T)
	c.members(3)
	release()
	fourth.atWork(c.T)
	c.recovered()
	left := time.Now()
	fourth.end(c.T)
	c.recovered()
	c.note("left", left)
}

// hold keeps the ends of all changelogs undecided until it is released: states
// that are being read back wait for them.
func (c *crashRun) hold() (release func()) {
	c.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.cluster.Addresses()...), kgo.TransactionalID("hold"),
		kgo.TransactionTimeout(10*time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	c.must(err)
	c.must(client.BeginTransaction())
	for _, runner := range c.runners {
		for i := range int32(answerPartitions) {
			topic := runner.Name() + ".changelog." + runner.Input()
			c.must(client.ProduceSync(c.Context(), &kgo.Record{Topic: topic, Partition: i, Key: []byte("undecided")}).FirstErr())
		}
	}
	return func() {
		c.must(client.EndTransaction(c.Context(), kgo.TryAbort))
		client.Close()
	}
}

// members waits until each group has n members, each with a partition.
func (c *crashRun) members(n int) {
	c.Helper()
	ctx, cancel := c.patiently()
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for _, runner := range c.runners {
		for shared := false; !shared; <-tick.C { // which leaves the machine to the members
			groups, err := c.admin.DescribeGroups(ctx, runner.Name())
			c.must(cmp.Or(context.Cause(ctx), err))
			g := groups[runner.Name()]
			shared = g.State == "Stable" && len(g.Members) == n
			for _, m := range g.Members {
				assigned, ok := m.Assigned.AsConsumer()
				shared = shared && ok && len(assigned.Topics) > 0
			}
		}
	}
}

// finish ends the events and then the workers, and compares what they left with
// the run in which nothing fails.
func (c *crashRun) finish(events []reference.Event) {
	c.Helper()
	close(c.enough)
	<-c.fed
	events = events[:c.written]
	ctx, cancel := c.patiently()
	defer cancel()
	for _, runner := range c.runners {
		err := runner.WaitIdle(ctx, c.log)
		c.must(cmp.Or(context.Cause(ctx), err))
	}
	for _, name := range []string{"one", "two"} {
		c.workers[name].end(c.T)
	}
	c.Logf("%3.0f s: the workers ended", time.Since(c.begun).Seconds())
	for _, d := range crashDeliveries {
		c.compare(d, events)
	}
	c.Logf("%3.0f s: compared", time.Since(c.begun).Seconds())
	for _, what := range slices.Sorted(maps.Keys(c.gaps)) {
		for _, d := range crashDeliveries {
			c.judge(what, d)
		}
	}
}

// crashGaps are the longest gaps allowed, as medians of ten and more.
var crashGaps = map[string]time.Duration{"taken over": 8 * time.Second, "restarted in place": 1500 * time.Millisecond}

func (c *crashRun) judge(what string, d kafka.Delivery) {
	c.Helper()
	gaps := slices.Sorted(slices.Values(c.gaps[what][d]))
	median := gaps[len(gaps)/2]
	c.Logf("%s %d times: the longest gap of the output, %s, %d ms, median %d ms", what, len(gaps), crashNames[d], gaps[len(gaps)-1].Milliseconds(), median.Milliseconds())
	if most, ok := crashGaps[what]; ok && len(gaps) >= 10 && median > most && !*crashDefaults {
		c.Errorf("%s, %s: a gap of %v, want at most %v", what, crashNames[d], median, most)
	}
}

func (c *crashRun) compare(d kafka.Delivery, events []reference.Event) {
	c.Helper()
	p, err := crashPipeline(c.dir, d)
	c.must(err)
	want := runPipeline(c.T, p, variant{"memory", 64, 1, time.Millisecond}, events)
	if d == kafka.ExactlyOnce {
		compareWithReference(c.T, want, events)
	}
	got := readAnswer(c.T, c.runners[d], c.log)
	topic := c.runners[d].Outputs()[0]
	seen := &answer{outputs: map[string][]stream.Record{}, state: want.state}
	ctx, cancel := c.patiently()
	defer cancel()
	for i, w := range c.watches[d] {
		name := fmt.Sprintf("%s/%d", topic, i)
		for len(w.read()) < len(got.outputs[name]) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		seen.outputs[name] = w.read()
	}
	switch d {
	case kafka.AtLeastOnce:
		repeated := got.dropRepeated()
		seen.dropRepeated()
		c.Logf("at-least-once: %d outputs were written again, the same", repeated)
		if repeated == 0 && c.kills["write at-least-once"]+c.kills["sync at-least-once"] >= 3 {
			c.Errorf("seed %d: nothing was killed between an output and its commit", *answerSeed)
		}
	case kafka.AtMostOnce:
		c.Logf("at-most-once: %d outputs are missing", got.fillMissing(want))
		seen.fillMissing(want)
	}
	got.mustEqual(c.T, want)
	for name := range want.outputs {
		if _, ok := seen.outputs[name]; !ok {
			delete(want.outputs, name)
		}
	}
	seen.mustEqual(c.T, want)
}

func (w *crashWatch) read() []stream.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clip(w.records)
}

// dropRepeated leaves out records that are the same as one before them, and
// returns how many there were. One that differs from its first in anything
// stays, where nothing is wanted.
func (a *answer) dropRepeated() int {
	repeated := 0
	for name, records := range a.outputs {
		before := map[string]bool{}
		var firsts []stream.Record
		for i := range records {
			if text := describe(&records[i]); before[text] {
				repeated++
			} else {
				before[text] = true
				firsts = append(firsts, records[i])
			}
		}
		a.outputs[name] = firsts
	}
	return repeated
}

// fillMissing adds records that are wanted and missing where none is repeated and
// all others are in their order, and returns how many there were.
func (a *answer) fillMissing(want *answer) int {
	missing := 0
	for name, records := range a.outputs {
		left := records
		for i := range want.outputs[name] {
			if len(left) > 0 && describe(&left[0]) == describe(&want.outputs[name][i]) {
				left = left[1:]
			}
		}
		if len(left) == 0 {
			missing += len(want.outputs[name]) - len(records)
			a.outputs[name] = want.outputs[name]
		}
	}
	return missing
}

// crashEvents are events that come in from today on. A broker that is killed
// forgets the producers whose newest record is a day old: an append that it had
// written and not acknowledged would be written again.
func crashEvents() []reference.Event {
	events := reference.Generate(*answerSeed, 2**crashOf)
	later := time.Now().UnixMicro() - events[0].Appended
	for i := range events {
		events[i].Appended += later
	}
	return events
}

func TestKilledWorkersOnKafkaLeaveTheSameAnswer(t *testing.T) {
	kafkatest.Need(t)
	t.Parallel() // it waits more than it computes
	events := crashEvents()
	c := newCrashRun(t, kafkatest.Options{})
	go c.feed(events)
	for _, name := range []string{"one", "two"} {
		c.start(name, true)
	}
	for _, name := range []string{"one", "two"} {
		c.workers[name].atWork(t)
	}
	c.recovered()
	kills := *crashKafka
	for n := range kills {
		c.kill(n, n%2 == 1 && (kills > 5 || n == 1))
		if n%4 == 0 && n/4 < max(kills/4, 1) {
			c.killBroker(0)
		}
		if n%10 == 2 {
			c.stop(n / 10)
		}
		if n%10 == 3 {
			c.joinAndLeave()
		}
	}
	c.finish(events)
	for _, stage := range crashStages {
		byDelivery := ""
		for _, d := range crashDeliveries {
			byDelivery += fmt.Sprintf(", %s %d", crashNames[d], c.kills[stage+" "+crashNames[d]])
		}
		t.Logf("killed at %-5s %d times with a step in flight%s", stage, c.kills[stage], byDelivery)
		if c.kills[stage] == 0 {
			t.Errorf("seed %d: nothing was killed at %s", *answerSeed, stage)
		}
	}
}
