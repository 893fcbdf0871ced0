package deliver_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/dead"
	"github.com/afterbay/afterbay/deliver"
	"github.com/afterbay/afterbay/deliver/sink/httpsink"
	"github.com/afterbay/afterbay/header"
	"github.com/afterbay/afterbay/internal/faultserver"
	"github.com/afterbay/afterbay/internal/kafkatest"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/embedded"
	"github.com/afterbay/afterbay/stream/kafka"
)

// crashChild in the environment makes the test binary a process that delivers:
// folder, brokers, URL, timeout of calls, and the stage and hit at which it kills
// itself.
const crashChild = "AFTERBAY_DELIVER_CHILD"

// broker is a real Kafka.
var broker = kafkatest.Shared{Options: kafkatest.Options{Settings: []string{"add.partitions.to.txn.retry.backoff.ms=1"}}}

func TestMain(m *testing.M) {
	faultserver.Main()
	if arguments := os.Getenv(crashChild); arguments != "" {
		if err := runCrashChild(arguments); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if arguments := os.Getenv(topicChild); arguments != "" {
		if err := runTopicChild(arguments); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(broker.Run(m))
}

// crashLog is a log that processes which are killed take up again.
type crashLog interface {
	stream.Log
	stream.Inspector
}

// openCrashLog opens a log of brokers, or of a folder where there are none.
func openCrashLog(ctx context.Context, dir, brokers string) (crashLog, error) {
	if brokers == noBrokers {
		return embedded.Open(dir, embedded.Options{})
	}
	return kafka.Open(ctx, kafka.Options{Brokers: strings.Split(brokers, ","), Dir: dir, Stay: true})
}

const noBrokers = "none"

var crashKills = flag.Int("deliver.kills", 7, "most kills of TestKilledProcessesCallAgainOnlyWhatWasInFlight")

// runCrashChild delivers until all is delivered, or until it kills itself, as
// kill -9 does.
func runCrashChild(arguments string) error {
	var dir, brokers, url, stage string
	var hit int
	var timeout time.Duration
	if _, err := fmt.Sscan(arguments, &dir, &brokers, &url, (*int64)(&timeout), &stage, &hit); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	log, err := openCrashLog(ctx, dir, brokers)
	if err != nil {
		return err
	}
	sink, err := httpsink.New(httpsink.Options{URL: url})
	if err != nil {
		return err
	}
	hits := 0 // stages are all of one goroutine
	d, err := deliver.New(log, deliver.Service{Each: sink}, deliver.Options{Group: group, Topic: "freezes", Concurrency: 8, Timeout: timeout, Fault: func(at string) {
		if at != stage {
			return
		}
		if hits++; hits == hit {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}}, &deliver.Metrics{})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for left := stream.Offset(1); left > 0 && ctx.Err() == nil; <-ticker.C {
		left = 0
		for i := range int32(2) {
			p := stream.Partition{Topic: "freezes", Index: i}
			_, next, err := log.Offsets(ctx, p)
			committed, err1 := log.Committed(ctx, group, p)
			if err := errors.Join(err, err1); err != nil {
				return err
			}
			left += next - committed
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the child hangs: %w", err)
	}
	cancel()
	return errors.Join(<-done, log.Close())
}

// cards is a service that counts. One that honours keys freezes a card once for
// each; another one whenever it is told to.
type cards struct {
	honours bool
	takes   time.Duration

	mu      sync.Mutex // guards what follows
	process int        // that is delivering
	calls   map[string][]int
	effects int
}

func (c *cards) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	time.Sleep(c.takes)
	c.mu.Lock()
	defer c.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	if c.calls[key] = append(c.calls[key], c.process); !c.honours || len(c.calls[key]) == 1 {
		c.effects++
	}
}

// TestKilledProcessesCallAgainOnlyWhatWasInFlight kills processes while they
// deliver, and counts at the service: for an id every process calls once, and all
// but the last one were killed before its answer was durable.
func TestKilledProcessesCallAgainOnlyWhatWasInFlight(t *testing.T) {
	for _, engine := range []string{"embedded", "kafka"} {
		for _, honours := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/honours=%v", engine, honours), func(t *testing.T) {
				c := crashes{cards: cards{calls: map[string][]int{}, honours: honours}, dir: t.TempDir(), brokers: noBrokers, records: 2000, commits: 10}
				if engine == "kafka" {
					c.brokers, c.records, c.commits, c.takes = strings.Join(broker.Get(t).Addresses(), ","), 1000, 3, time.Millisecond
					broker.Get(t).Empty(t)
				}
				c.run(t)
			})
		}
	}
}

type crashes struct {
	cards
	dir, brokers string
	timeout      time.Duration // of calls; 0 is the default
	records      int
	commits      int // the last one at which a process dies
}

// deliver writes records and has processes deliver them, of which all but the last
// one are killed. It returns how many were.
func (c *crashes) deliver(t *testing.T, url string, seed uint64) (kills int) {
	t.Helper()
	writeFreezes(t, c.dir, c.brokers, c.records)
	stages := []string{"call", "answer", "write", "sync", "after"}
	rng := rand.New(rand.NewPCG(seed, 0))
	for stage, hit := "", 0; ; kills++ {
		if stage, hit = stages[kills%len(stages)], 1+rng.IntN(200); kills%len(stages) > 1 { // of commits there are fewer
			hit = 1 + rng.IntN(c.commits)
		}
		if kills >= *crashKills {
			stage = "none"
		}
		if !deliverInChild(t, fmt.Sprint(c.dir, " ", c.brokers, " ", url, " ", int64(c.timeout), " ", stage, " ", hit)) {
			return kills
		}
		c.mu.Lock()
		c.process++
		c.mu.Unlock()
	}
}

func (c *crashes) run(t *testing.T) {
	server := httptest.NewServer(&c.cards)
	defer server.Close()
	const seed = 1
	kills, again, twice := c.deliver(t, server.URL, seed), 0, 0
	for i := range c.records {
		calls := c.calls[fmt.Sprint("e", i)]
		if len(calls) == 0 {
			t.Errorf("no process called for e%d", i)
			continue
		}
		again += len(calls) - 1
		twice += len(calls) - len(slices.Compact(slices.Clone(calls)))
	}
	// On Kafka a session that has to join again calls again for what it had not committed.
	if twice > 0 && (c.brokers == noBrokers || twice > 256) {
		t.Errorf("%d calls again by the same process", twice)
	}
	if want := map[bool]int{true: c.records, false: c.records + again}[c.honours]; c.effects != want || len(c.calls) != c.records {
		t.Errorf("%d effects for %d ids, want %d", c.effects, len(c.calls), want)
	}
	if kills < 5 || again == 0 || again > kills*512 { // 256 a partition may be in flight
		t.Errorf("%d kills, %d calls again", kills, again)
	}
	t.Logf("seed %d: %d kills, %d calls for %d records, %d of them again by the same process, %d effects", seed, kills, c.records+again, c.records, twice, c.effects)
}

// TestKilledProcessesDeliverToAServiceThatFails has a service, in a process of its
// own, that is slow, hangs, fails, resets connections and ends answers in their
// middle, in bursts too, and refuses one record. It counts what it did.
func TestKilledProcessesDeliverToAServiceThatFails(t *testing.T) {
	for _, engine := range []string{"embedded", "kafka"} {
		t.Run(engine, func(t *testing.T) {
			c := crashes{dir: t.TempDir(), brokers: noBrokers, records: 1000, commits: 10, timeout: 300 * time.Millisecond}
			if engine == "kafka" {
				c.brokers, c.commits = strings.Join(broker.Get(t).Addresses(), ","), 3
				broker.Get(t).Empty(t)
			}
			server := faultserver.Start(t, faultserver.Options{
				File: filepath.Join(t.TempDir(), "calls"), Seed: 1, Honour: true, Poison: "poison", Takes: time.Millisecond,
				Slow: 0.05, Hang: 0.01, Fail: 0.05, Reset: 0.05, Half: 0.03, Wrong: 0.03,
				Burst: faultserver.Cycle{Every: 900 * time.Millisecond, For: 100 * time.Millisecond},
				Flap:  faultserver.Cycle{Every: 1300 * time.Millisecond, For: 100 * time.Millisecond},
			})
			const seed = 2
			kills := c.deliver(t, server.URL+"/freeze", seed)
			server.End()
			calls, err := faultserver.ReadCalls(server.Options.File)
			if err != nil {
				t.Fatal(err)
			}
			count := faultserver.Count(calls)
			for i := range c.records {
				want := 1
				if i == poisoned {
					want = 0
				}
				if effects := count.Names[fmt.Sprint("e", i)]; effects != want {
					t.Errorf("%d effects for e%d, want %d", effects, i, want)
				}
			}
			if letters := lettersOf(t, c.dir, c.brokers); !slices.Equal(letters, []string{fmt.Sprint("e", poisoned)}) {
				t.Errorf("dead letters %v", letters)
			}
			missing := slices.DeleteFunc([]string{"fail", "half", "hang", "poisoned", "reset", "slow", "wrong"}, func(fault string) bool { return count.Faults[faultserver.Fault(fault)] > 0 })
			if kills < 5 || count.Repeats == 0 || len(missing) > 0 {
				t.Errorf("%d kills, %d calls again, faults %v: too few to see anything", kills, count.Repeats, count.Faults)
			}
			t.Logf("seed %d: %d kills, %d calls for %d records, %d effects, faults %v", seed, kills, len(calls), c.records, count.Paid, count.Faults)
		})
	}
}

// lettersOf returns the ids of the dead letters.
func lettersOf(t *testing.T, dir, brokers string) (ids []string) {
	t.Helper()
	log, err := openCrashLog(t.Context(), dir, brokers)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for l, err := range dead.Letters(t.Context(), log, group, dead.Filter{}, true) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, l.ID)
	}
	return ids
}

// deliverInChild reports whether the child was killed.
func deliverInChild(t *testing.T, arguments string) bool {
	t.Helper()
	return killedChild(t, crashChild, arguments)
}

// killedChild reports whether a child of a kind was killed.
func killedChild(t *testing.T, kind, arguments string) bool {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), kind+"="+arguments)
	out, err := child.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return true
	}
	t.Fatalf("child %q: %v: %s", arguments, err, out)
	return false
}

// poisoned is the record that a service may refuse.
const poisoned = 13

func writeFreezes(t *testing.T, dir, brokers string, n int) {
	t.Helper()
	log, err := openCrashLog(t.Context(), dir, brokers)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: "freezes", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	var list []stream.Record
	for i := range n {
		value := fmt.Sprintf(`{"id":"e%d"}`, i)
		if i == poisoned {
			value = `{"is":"poison"}`
		}
		list = append(list, stream.Record{
			Partition: stream.Partition{Topic: "freezes", Index: int32(i % 2)}, Key: fmt.Appendf(nil, "k%d", i%300), Value: []byte(value),
			Headers: []stream.Header{{Key: header.ID, Value: fmt.Appendf(nil, "e%d", i)}},
		})
	}
	if err := errors.Join(log.Append(t.Context(), list...), log.Close()); err != nil {
		t.Fatal(err)
	}
}
