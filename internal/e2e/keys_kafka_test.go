package e2e_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
	"github.com/afterbay/afterbay/internal/test/reference"
	"github.com/afterbay/afterbay/stream"
)

var keysKafka = flag.Int("keys.kafka", 20_000, "keys of state of the test of takeovers on a real Kafka")

// keysChild says what a worker process with a standby is to do: broker, the folder
// of the test and its name.
const keysChild = "AFTERBAY_KEYS_CHILD"

// keysTimed reports whether times are compared, on a machine that does nothing else.
func keysTimed() bool { return *keysKafka > 100_000 }

// The longest times that are allowed.
const (
	keysTakeover = 10 * time.Second
	keysRestart  = 3 * time.Second
)

const keysPipeline = `
pipeline: velocity
input:
  topic: payments
  partitions: 4
  key: card
  time: {field: at, unit: ms, lateness: 5s, late: include}
  fields: {id: string, card: string, amount: number, at: int}
steps:
  - features:
      seen: {value: amount, windows: [1h], aggregates: [count, sum]}
  - emit: {topic: checked, value: [id, card, seen.count_1h]}
`

// keysEvents are n events, one of each card, and more of random cards after them.
func keysEvents(seed uint64, n, more int) []reference.Event {
	rng := rand.New(rand.NewPCG(seed, 0))
	first := time.Now().Truncate(time.Second)
	events := make([]reference.Event, n+more)
	for i := range events {
		card := i
		if i >= n {
			card = rng.IntN(n)
		}
		at := first.Add(time.Duration(i) * 100 * time.Microsecond)
		key := fmt.Sprintf("card-%07d", card)
		events[i] = reference.Event{Appended: at.UnixMicro(), Key: []byte(key), Value: fmt.Appendf(nil, `{"id":"p%d","card":%q,"amount":%d,"at":%d}`, i, key, rng.IntN(90)+10, at.UnixMilli())}
	}
	return events
}

func keysRunner(dir string) (*pipeline.Runner, lang.Pipeline, error) {
	file, err := config.Load(filepath.Join(dir, "keys.yaml"), builtin.Kinds())
	if err != nil {
		return nil, lang.Pipeline{}, err
	}
	runner, err := builtin.New(file.Pipelines[0], pipeline.Options{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	return runner, file.Pipelines[0], err
}

// runKeysChild runs the pipeline until its input ends, and says how many copies
// lack nothing.
func runKeysChild(arguments string) error {
	var brokers, dir, name string
	if _, err := fmt.Sscan(arguments, &brokers, &dir, &name); err != nil {
		return err
	}
	runner, _, err := keysRunner(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	log, err := kafka.Open(ctx, kafka.Options{Brokers: []string{brokers}, Dir: filepath.Join(dir, name), Stay: true, Standbys: 1})
	if err != nil {
		return err
	}
	var said sync.WaitGroup
	said.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			warm := 0
			for _, s := range log.Standbys() {
				if s.Behind < 1000 { // more comes all the time
					warm++
				}
			}
			fmt.Println(warm)
		}
	})
	err = runner.Run(ctx, log)
	cancel()
	said.Wait()
	if closing := log.Close(); err == nil {
		err = closing
	}
	return err
}

// keysRun is a run of workers that stand by for each other.
type keysRun struct {
	*testing.T
	cluster *kafkatest.Cluster
	dir     string
	log     *kafka.Log
	runner  *pipeline.Runner

	mu   sync.Mutex // guards the rest
	last [answerPartitions]time.Time
	gap  [answerPartitions]time.Duration // the longest between two outputs
}

type keysWorker struct {
	child *exec.Cmd
	stdin io.Closer
	warm  chan int // the newest count
}

func (k *keysRun) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

func (k *keysRun) start(name string) *keysWorker {
	k.Helper()
	w := &keysWorker{child: exec.Command(os.Args[0], ofSeed()), warm: make(chan int, 1)}
	errors, err := os.OpenFile(filepath.Join(k.dir, name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	k.must(err)
	defer errors.Close()
	w.child.Stderr = errors
	w.child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", keysChild, k.cluster.Addresses()[0], k.dir, name))
	w.stdin, err = w.child.StdinPipe()
	k.must(err)
	out, err := w.child.StdoutPipe()
	k.must(err)
	k.must(w.child.Start())
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n := 0
			if _, err := fmt.Sscan(lines.Text(), &n); err != nil {
				continue
			}
			select {
			case <-w.warm:
			default:
			}
			w.warm <- n
		}
	}()
	k.Cleanup(func() { _ = w.child.Process.Kill() })
	return w
}

func (w *keysWorker) kill() {
	_ = w.child.Process.Kill()
	_ = w.child.Wait()
}

// watch reads the outputs as they become visible.
func (k *keysRun) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	k.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	for i := range int32(answerPartitions) {
		watching.Go(func() {
			for _, err := range k.log.Tail(ctx, stream.Partition{Topic: "checked", Index: i}, 0) {
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					k.Errorf("read outputs: %v", err)
					return
				}
				k.mu.Lock()
				k.gap[i] = max(k.gap[i], time.Since(k.last[i]))
				k.last[i] = time.Now()
				k.mu.Unlock()
			}
		})
	}
}

// recovered waits until each partition has outputs again after something was
// done, and returns the longest time that one had none.
func (k *keysRun) recovered(do func()) time.Duration {
	k.Helper()
	k.mu.Lock()
	clear(k.gap[:])
	k.mu.Unlock()
	began := time.Now()
	do()
	done := time.Now()
	for {
		longest, all := time.Duration(0), true
		k.mu.Lock()
		for i, at := range k.last {
			longest = max(longest, k.gap[i])
			all = all && at.Sub(began) > 500*time.Millisecond && at.After(done)
		}
		k.mu.Unlock()
		if all {
			return longest
		}
		if time.Since(done) > crashPatience {
			k.Fatal("a partition stands still")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (k *keysRun) awaitWarm(workers ...*keysWorker) {
	k.Helper()
	timeout := time.After(crashPatience)
	for total := 0; total != answerPartitions; {
		total = 0
		for _, w := range workers {
			select {
			case n := <-w.warm:
				total += n
			case <-timeout:
				k.Fatal("the standbys do not become warm")
			}
		}
	}
}

// cold joins the group with an empty folder, and returns how long the states took
// to be read back, how many records of changelogs that were, and the memory
// allocated meanwhile.
func (k *keysRun) cold() (took time.Duration, records int64, allocated, objects uint64) {
	k.Helper()
	log, err := kafka.Open(k.Context(), kafka.Options{Brokers: k.cluster.Addresses(), Dir: k.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	k.must(err)
	defer closeLog(k.T, log)
	s, err := log.Join(k.Context(), k.runner.Name(), k.runner.Input())
	k.must(err)
	var began time.Time
	var before, after runtime.MemStats
	for owned := 0; owned < answerPartitions; {
		ctx, cancel := context.WithTimeout(k.Context(), 2*time.Millisecond)
		batch, _ := s.Poll(ctx, 0)
		cancel()
		owned += len(batch.Assigned)
		if began.IsZero() && len(log.Restores()) > 0 {
			began = time.Now()
			runtime.ReadMemStats(&before)
		}
		if ended := k.Context().Err(); ended != nil {
			k.Fatal(ended)
		}
	}
	took = time.Since(began)
	runtime.ReadMemStats(&after)
	for i := range int32(answerPartitions) {
		_, next, err := log.Offsets(k.Context(), stream.Partition{Topic: "velocity.changelog.payments", Index: i})
		k.must(err)
		records += int64(next)
	}
	return took, records, after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs
}

// trickle appends the events after those sent, so many a second, until it is
// stopped. Of the second half the fewer are left the slower they come, so that a busy
// machine does not run out of them.
func (k *keysRun) trickle(events []reference.Event, sent *int, rate int) (stop func()) {
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		const each = 10 * time.Millisecond
		tick := time.NewTicker(each)
		defer tick.Stop()
		for *sent < len(events) {
			if left := len(events) - *sent; left < len(events)/2 {
				tick.Reset(each * time.Duration(len(events)) / time.Duration(2*left))
			}
			select {
			case <-tick.C:
			case <-ending:
				return
			}
			appendEvents(k.T, k.log, "payments", events[*sent:*sent+rate/100])
			*sent += rate / 100
		}
	}()
	return func() { close(ending); <-ended }
}

// A worker with much state is killed: the one that stands by for it goes on soon.
// One that restarts in place goes on sooner. What comes of it is what comes of a
// run in which nothing happens.
func TestStandbyOnKafkaTakesOverSoon(t *testing.T) {
	if !keysTimed() {
		t.Parallel() // it waits more than it computes
	}
	settings := []string{"add.partitions.to.txn.retry.backoff.ms=1", "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000"}
	k := &keysRun{T: t, dir: t.TempDir(), cluster: kafkatest.Start(t, kafkatest.Options{Speed: keysTimed(), Settings: settings})}
	k.must(os.WriteFile(filepath.Join(k.dir, "keys.yaml"), []byte(keysPipeline), 0o600))
	var p lang.Pipeline
	var err error
	k.runner, p, err = keysRunner(k.dir)
	k.must(err)
	k.log, err = kafka.Open(t.Context(), kafka.Options{Brokers: k.cluster.Addresses()})
	k.must(err)
	t.Cleanup(func() { closeLog(t, k.log) })
	k.must(k.runner.CreateTopics(t.Context(), k.log))
	k.watch()

	const rate = 1000 // events a second
	events := keysEvents(*answerSeed, *keysKafka, 120*rate)
	one, two := k.start("one"), k.start("two")
	appendEvents(t, k.log, "payments", events[:*keysKafka])
	sent := *keysKafka
	stop := k.trickle(events, &sent, rate)
	k.recovered(func() { k.awaitWarm(one, two) })
	takeover := k.recovered(one.kill)
	restart := k.recovered(func() {
		two.kill()
		two = k.start("two")
	})
	again := takeover
	if keysTimed() { // from who has all to one that was away
		one = k.start("one")
		k.awaitWarm(one, two)
		again = k.recovered(two.kill)
		two = one
	}
	stop()
	k.must(k.runner.WaitIdle(t.Context(), k.log))
	two.kill()
	took, records, allocated, objects := k.cold()

	figure := func(name string, value float64, unit string) {
		fmt.Fprintf(t.Output(), "kafka_keys_%s %.3g %s\n", name, value, unit)
	}
	figure("keys", float64(*keysKafka), "keys")
	figure("takeover_seconds", takeover.Seconds(), "s")
	figure("second_takeover_seconds", again.Seconds(), "s")
	figure("restart_in_place_seconds", restart.Seconds(), "s")
	figure("cold_restore_seconds", took.Seconds(), "s")
	figure("cold_restore_rate", float64(records)/took.Seconds(), "records/s")
	figure("cold_restore_bytes", float64(allocated)/float64(records), "B/record")
	figure("cold_restore_allocs", float64(objects)/float64(records), "allocs/record")
	if keysTimed() && max(takeover, again) > keysTakeover {
		t.Errorf("takeovers of %v and %v, want at most %v", takeover, again, keysTakeover)
	}
	if keysTimed() && restart > keysRestart {
		t.Errorf("a restart in place of %v, want at most %v", restart, keysRestart)
	}
	want := runPipeline(t, p, variant{"memory", 64, 1, time.Millisecond}, events[:sent])
	readAnswer(t, k.runner, k.log).mustEqual(t, want)
}
