package sinks_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/sinks"
	httpsink "github.com/afterbay/afterbay/internal/sinks/http"
	"github.com/afterbay/afterbay/internal/test/crashtest"
	"github.com/afterbay/afterbay/internal/test/faultserver"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
	contract "github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// broker is a real Kafka.
var broker = kafkatest.Shared{Options: kafkatest.Options{Settings: []string{"add.partitions.to.txn.retry.backoff.ms=1"}}}

func TestMain(m *testing.M) {
	faultserver.Main()
	crashtest.Main(crashtest.Children{"service": runServiceChild, "cluster": runClusterChild})
	os.Exit(broker.Run(m))
}

var crashKills = flag.Int("deliver.kills", 5, "most kills of TestKilledProcessesCallAgainOnlyWhatWasInFlight")

// freezes is the topic that is delivered.
var freezes = stream.Topic{Name: "freezes", Partitions: 2}

// runServiceChild delivers to a service until all is delivered, or until it kills
// itself: folder, brokers, URL, timeout of calls, stage and hit.
func runServiceChild(ctx context.Context, arguments string) error {
	var dir, brokers, url, stage string
	var hit int
	var timeout time.Duration
	if _, err := fmt.Sscan(arguments, &dir, &brokers, &url, (*int64)(&timeout), &stage, &hit); err != nil {
		return err
	}
	log, err := crashtest.OpenLog(ctx, dir, brokers)
	if err != nil {
		return err
	}
	sink, err := httpsink.New(httpsink.Options{URL: url})
	if err != nil {
		return err
	}
	d, err := sinks.New(log, contract.Service{Each: sink}, sinks.Options{
		Group: group, Topic: freezes.Name, Concurrency: 8, Timeout: timeout, Fault: crashtest.KillAt(stage, hit),
	}, &sinks.Metrics{})
	if err != nil {
		return err
	}
	return errors.Join(crashtest.RunUntilRead(ctx, log, group, freezes, d.Run), log.Close())
}

// cards is a service that counts. One that honours keys freezes a card once for
// each; another one whenever it is told to.
type cards struct {
	honours bool
	takes   time.Duration

	mu      sync.Mutex       // guards what follows
	calls   map[string][]int // the processes that called, by id
	effects int
}

func (c *cards) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	time.Sleep(c.takes)
	// By the URL: a call may be taken up only when its process is gone.
	process, _ := strconv.Atoi(r.URL.Query().Get("process"))
	c.mu.Lock()
	defer c.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	if c.calls[key] = append(c.calls[key], process); !c.honours || len(c.calls[key]) == 1 {
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
				c := crashes{cards: cards{calls: map[string][]int{}, honours: honours}, dir: t.TempDir(), brokers: crashtest.NoBrokers, records: 2000, commits: 10}
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
// one are killed. It returns how many were. Each process calls a URL of its own.
func (c *crashes) deliver(t *testing.T, url func(process int) string, seed uint64) (kills int) {
	t.Helper()
	more, written := c.records, 0
	stages := []string{"call", "answer", "write", "sync", "after"}
	rng := rand.New(rand.NewPCG(seed, 0))
	stage, hit := "", 0
	for process := 0; ; process++ {
		if written < c.records {
			writeFreezes(t, c.dir, c.brokers, written, c.records)
			written = c.records
		}
		if stage, hit = stages[kills%len(stages)], 1+rng.IntN(200); kills%len(stages) > 1 { // of commits there are fewer
			hit = 1 + rng.IntN(c.commits)
		}
		if kills >= *crashKills {
			stage = "none"
		}
		killed := crashtest.Killed(t, "service", 0, c.dir, c.brokers, url(process), int64(c.timeout), stage, hit)
		switch {
		case killed:
			kills++
		case kills >= *crashKills:
			return kills
		default: // commits that were slow held all that there was: there is to be more
			c.records += more
		}
	}
}

func (c *crashes) run(t *testing.T) {
	server := httptest.NewServer(&c.cards)
	defer server.Close()
	const seed = 1
	kills, again, twice := c.deliver(t, func(process int) string { return fmt.Sprint(server.URL, "?process=", process) }, seed), 0, 0
	for i := range c.records {
		calls := c.calls[fmt.Sprint("e", i)]
		if len(calls) == 0 {
			t.Errorf("no process called for e%d", i)
			continue
		}
		again += len(calls) - 1
		twice += len(calls) - len(slices.Compact(slices.Clone(calls)))
	}
	// On Kafka a member that has to join again calls again for what it had not committed.
	if twice > 0 && (c.brokers == crashtest.NoBrokers || twice > 256) {
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
			c := crashes{dir: t.TempDir(), brokers: crashtest.NoBrokers, records: 1000, commits: 10, timeout: 300 * time.Millisecond}
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
			kills := c.deliver(t, func(int) string { return server.URL + "/freeze" }, seed)
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
			if letters := crashtest.Letters(t, c.dir, c.brokers, group); !slices.Equal(letters, []string{fmt.Sprint("e", poisoned)}) {
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

// poisoned is the record that a service may refuse.
const poisoned = 13

// writeFreezes appends the records of the numbers from one up to another.
func writeFreezes(t *testing.T, dir, brokers string, from, to int) {
	t.Helper()
	log, err := crashtest.OpenLog(t.Context(), dir, brokers)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.CreateTopic(t.Context(), freezes); err != nil {
		t.Fatal(err)
	}
	var list []stream.Record
	for i := from; i < to; i++ {
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
