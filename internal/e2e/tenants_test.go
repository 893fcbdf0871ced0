package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

var (
	tenantPairs = flag.Int("tenants.pairs", 1, "interleaved pairs of TestLoudTenantCostsOthersAtMostTheirLatencyAgain")
	tenantTime  = flag.Duration("tenants.time", 2*time.Second, "time of a run of the same")
)

// Nine tenants send 10 events/s each, and a tenth one 1,000/s, to a service that
// bears 800/s: 8 calls at a time of 2 rows, which take 15 to 25 ms.
const (
	quietTenants  = 9
	quietBetween  = 100 * time.Millisecond
	loudBetween   = time.Millisecond
	tenantCalls   = 8
	tenantRows    = 2
	tenantQueued  = 200 // of a tenant, beyond which its events are told of in topic later
	tenantCallMin = 15 * time.Millisecond
	tenantCallMax = 25 * time.Millisecond
)

func tenantPipeline(seed uint64, fair bool) lang.Pipeline {
	s := &service{instead: func(call int, _ []float64) error {
		time.Sleep(tenantCallMin + time.Duration(rand.New(rand.NewPCG(seed, uint64(call))).Int64N(int64(tenantCallMax-tenantCallMin))))
		return nil
	}}
	p := queueingPipeline(s, steps.Score{
		Async: true, Batch: steps.Batch{Size: tenantRows},
		OnFailure: []lang.Step{&steps.Emit{Topic: "later", Names: []string{"n"}}},
	}, lang.Calling{Concurrency: tenantCalls})
	p.Input.Time.Late = "include" // appends at the same time come in any order
	if fair {
		p.Tenant = lang.Tenant{By: "k", Max: tenantQueued}
	}
	return p
}

// sendTenants has tenants send events at random for a time, the first of them the
// loud one, and notes when each was due to be sent.
func sendTenants(ctx context.Context, log stream.Log, random *rand.Rand, lasts time.Duration, loud bool, sent *sync.Map) error {
	var senders sync.WaitGroup
	var mu sync.Mutex
	var failed error
	start := time.Now()
	for tenant := range quietTenants + 1 {
		between, random := float64(quietBetween), rand.New(rand.NewPCG(random.Uint64(), 0))
		if tenant == 0 {
			if between = float64(loudBetween); !loud {
				continue
			}
		}
		senders.Go(func() {
			at := start
			for n := 0; ; {
				var events []stream.Record
				for at = at.Add(time.Duration(random.ExpFloat64() * between)); ; at = at.Add(time.Duration(random.ExpFloat64() * between)) {
					id := tenant*1_000_000 + n
					n++
					sent.Store(id, at)
					events = append(events, stream.Record{
						Partition: stream.Partition{Topic: "in", Index: int32(n % 2)}, Key: []byte(fmt.Sprint("t", tenant)),
						Value: fmt.Appendf(nil, `{"k":"t%d","n":%d}`, tenant, id),
					})
					if at.After(time.Now()) || len(events) == 100 {
						break
					}
				}
				time.Sleep(time.Until(at))
				if err := log.Append(ctx, events...); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					return
				}
				if at.Sub(start) > lasts {
					return
				}
			}
		})
	}
	senders.Wait()
	return failed
}

// tenantLatencies runs the pipeline for a time, and returns how long the events of
// the quiet tenants took from when they were to be sent until they were in the log,
// sorted; those that were not there at the end took until then.
func tenantLatencies(t *testing.T, log stream.Log, seed uint64, lasts time.Duration, loud, fair bool) []time.Duration {
	t.Helper()
	runner, err := builtin.New(tenantPipeline(seed, fair), pipeline.Options{Members: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var tasks sync.WaitGroup
	tasks.Go(func() {
		if err := runner.Run(ctx, log); err != nil {
			t.Error(err)
		}
	})
	var sent, arrived sync.Map
	for index := range int32(2) {
		for _, topic := range []string{"out", "later", "parking.dlq"} {
			tasks.Go(func() {
				for r, err := range log.Tail(ctx, stream.Partition{Topic: topic, Index: index}, 0) {
					if err != nil {
						return
					}
					if topic == "parking.dlq" {
						t.Errorf("dead letter: %s %s", r.Value, r.Headers)
						continue
					}
					var n float64
					if _, err := fmt.Sscanf(string(r.Value), `{"n":%f`, &n); err != nil {
						t.Error(string(r.Value), err)
					}
					if _, again := arrived.LoadOrStore(int(n), time.Now()); again {
						t.Errorf("event %.0f came twice", n)
					}
				}
			})
		}
	}
	if err := sendTenants(ctx, log, rand.New(rand.NewPCG(seed, 1)), lasts, loud, &sent); err != nil {
		t.Fatal(err)
	}
	time.Sleep(lasts / 10)
	end := time.Now()
	stop()
	tasks.Wait()
	var took []time.Duration
	for id, at := range sent.Range {
		if id.(int) < 1_000_000 {
			continue // loud
		}
		there := end
		if v, ok := arrived.Load(id); ok {
			there = v.(time.Time)
		}
		took = append(took, there.Sub(at.(time.Time)))
	}
	slices.Sort(took)
	return took
}

func percentile(took []time.Duration, p int) time.Duration { return took[(len(took)-1)*p/100] }

// TestLoudTenantLeavesQuietOnesTheirLatency compares in virtual time the latency
// of tenants alone, beside a loud one, and where all are one tenant.
func TestLoudTenantLeavesQuietOnesTheirLatency(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	p99 := func(loud, fair bool) (p time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			p = percentile(tenantLatencies(t, memory.New(memory.Options{}), seed, 10*time.Second, loud, fair), 99)
		})
		return p
	}
	alone, beside, together := p99(false, true), p99(true, true), p99(true, false)
	t.Logf("p99 %v alone, %v beside, %v without tenants", alone, beside, together)
	if beside > 2*alone {
		t.Errorf("p99 of quiet tenants is %v beside a loud one, %v alone", beside, alone)
	}
	if together < 5*alone {
		t.Errorf("p99 is %v without tenants, %v alone: the loud one is not loud", together, alone)
	}
}

// TestLoudTenantCostsOthersAtMostTheirLatencyAgain compares the same in real time
// on the embedded log, in pairs one after the other.
func TestLoudTenantCostsOthersAtMostTheirLatencyAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	seed, lasts := rand.Uint64(), *tenantTime
	if *tenantPairs < 7 {
		lasts /= 4 // times are not compared
	}
	t.Logf("seed %d; %d pairs of %v; quiet tenants: %d of 10/s each; loud: 1,000/s; service: 800/s; embedded log", seed, *tenantPairs, lasts, quietTenants)
	run := func(pair int, loud, fair bool) time.Duration {
		log, err := embedded.Open(t.TempDir(), embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		took := tenantLatencies(t, log, seed+uint64(pair), lasts, loud, fair)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		return percentile(took, 99)
	}
	var ratios []float64
	var alones, besides []time.Duration
	for pair := range *tenantPairs {
		alone, beside := run(pair, false, true), run(pair, true, true)
		t.Logf("pair %d: p99 %v alone, %v beside", pair+1, alone.Round(100*time.Microsecond), beside.Round(100*time.Microsecond))
		alones, besides, ratios = append(alones, alone), append(besides, beside), append(ratios, float64(beside)/float64(alone))
	}
	together := run(0, true, false)
	slices.Sort(ratios)
	slices.Sort(alones)
	slices.Sort(besides)
	median := ratios[len(ratios)/2]
	milliseconds := func(d time.Duration) float64 { return float64(d) / 1e6 }
	var out strings.Builder
	for _, line := range []struct {
		name string
		v    float64
		unit string
	}{
		{"tenants_alone_p99", milliseconds(percentile(alones, 50)), "ms"}, {"tenants_beside_p99", milliseconds(percentile(besides, 50)), "ms"},
		{"tenants_ratio", median, "x"}, {"tenants_without_p99", milliseconds(together), "ms"},
	} {
		fmt.Fprintf(&out, "%s %.2f %s\n", line.name, line.v, line.unit)
	}
	t.Logf("medians; without: the same with no word tenant\n%s", out.String())
	if *tenantPairs >= 7 && median > 2 {
		t.Errorf("p99 of quiet tenants is %.2f times that alone", median)
	}
}

// TestEventsBeyondATenantsShareAreGivenUp queues more of a tenant than it may have:
// those beyond are dead letters, and another tenant's are not.
func TestEventsBeyondATenantsShareAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{instead: func(int, []float64) error { time.Sleep(time.Second); return nil }}
		p := queueingPipeline(s, steps.Score{Async: true}, lang.Calling{})
		p.Tenant = lang.Tenant{By: `k == "k0" ? "loud" : "other"`, Max: 7}
		p.Commit.Size = 1 // each event is looked at with those before it queued
		answer, runner := runQueueing(t, memory.New(memory.Options{}), p, 2, queueEvents(60, 12))
		if c := runner.Counts(); c.DeadLetters != uint64(60-len(answer.Values("out"))) || c.DeadLetters == 0 {
			t.Errorf("%d outputs and %d dead letters", len(answer.Values("out")), c.DeadLetters)
		}
		for place, records := range answer {
			for i := range records {
				if code, after := header.Get(&records[i], header.Code), header.Get(&records[i], header.After); place.Topic == "parking.dlq" && (code != "tenant_quota" || after != "1000") {
					t.Errorf("its client is told %q, and to wait for %q ms", code, after)
				}
			}
		}
	})
}

// TestEventQueuedAgainKeepsItsTenant queues events for a second model that is down:
// those of a tenant beyond its share would be given up if they were counted anew.
func TestEventQueuedAgainKeepsItsTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := queueingPipeline(&service{}, steps.Score{Async: true}, lang.Calling{Breaker: lang.Breaker{Open: "queue"}})
		p.Tenant, p.Priority = lang.Tenant{By: "k", Max: 50}, lang.Priority{Low: "true"}
		second := *p.Steps[0].(*steps.Score)
		second.As, second.Model = "again", "down"
		down := p.Models[0]
		down.Name, down.Go = "down", "down"
		p.Models, p.Steps = append(p.Models, down), slices.Insert(p.Steps, 1, lang.Step(&second))
		p.Code.Models["down"] = &service{instead: func(int, []float64) error { return blamed(model.BlameWay) }}
		runner, err := builtin.New(p, pipeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		log := memory.New(memory.Options{})
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := errors.Join(runner.CreateTopics(ctx, log), log.Append(ctx, queueEvents(20, 2)...), runner.Run(ctx, log)); err != nil {
			t.Fatal(err)
		}
		queued := 0
		for index := range int32(2) {
			partition := stream.Partition{Topic: "in", Index: index}
			state, err := log.State(t.Context(), "parking", partition)
			if err != nil {
				t.Fatal(err)
			}
			for entry, err := range state.Scan([]byte{statekey.Queued}) {
				if err != nil {
					t.Fatal(err)
				}
				e, err := async.Parse(partition, entry.Key, entry.Value)
				if err != nil {
					t.Fatal(err)
				}
				if queued++; e.Step != "score again" || e.Tenant != string(e.Record.Key) || e.Class != control.LowClass {
					t.Errorf("queued for the step %s of tenant %q, %v, key %s", e.Step, e.Tenant, e.Class, e.Record.Key)
				}
			}
		}
		if queued != 20 {
			t.Errorf("%d are queued", queued)
		}
	})
}

// TestUrgentEventsAreCalledForFirst has events of three classes wait for one call
// at a time: they are called for by their weights, and counted.
func TestUrgentEventsAreCalledForFirst(t *testing.T) {
	const n = 390
	var mu sync.Mutex
	var order []int
	synctest.Test(t, func(t *testing.T) {
		up := time.Now().Add(time.Second)
		s := &service{instead: func(_ int, rows []float64) error {
			if time.Now().Before(up) {
				return blamed(model.BlameWay)
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, int(rows[0])%3)
			return nil
		}}
		p := queueingPipeline(s, steps.Score{Async: true, Batch: steps.Batch{Size: 1}},
			lang.Calling{Concurrency: 1, Breaker: lang.Breaker{Failures: 1, Probe: 2 * time.Second, Open: "queue"}})
		p.Priority = lang.Priority{High: "int(n) % 3 == 1", Low: "int(n) % 3 == 2", Age: time.Hour}
		p.Input.Partitions = 1
		events := queueEvents(n, 10)
		for i := range events {
			events[i].Partition.Index = 0
		}
		_, runner := runQueueing(t, memory.New(memory.Options{}), p, 1, events)
		c := runner.Counts()
		if c.Dispatched[0] < n/3 || c.Dispatched[1] < n/3 || c.Dispatched[2] < n/3 || c.WaitSeconds[2] < c.WaitSeconds[0] {
			t.Errorf("dispatched %v, which waited for %v s", c.Dispatched, c.WaitSeconds)
		}
	})
	var got [3]int
	for _, class := range order[10:140] {
		got[class]++
	}
	if got[1] < 75 || got[1] > 85 || got[0] < 35 || got[0] > 45 || got[2] < 5 || got[2] > 15 {
		t.Errorf("of 130 calls %d are high, %d normal and %d low, want about 80, 40 and 10", got[1], got[0], got[2])
	}
}

func TestTurnsAreRefusedWhereNothingWaits(t *testing.T) {
	async, call := steps.Score{Async: true}, lang.Calling{}
	for want, change := range map[string]func(*lang.Pipeline){
		"the pipeline has no async score": func(p *lang.Pipeline) {
			p.Models[0].Call, p.Steps[0].(*steps.Score).Async, p.Tenant.By = nil, false, "k"
		},
		"but string is needed":    func(p *lang.Pipeline) { p.Tenant.By = "n" },
		"but bool is needed":      func(p *lang.Pipeline) { p.Priority.High = "n" },
		"unknown name":            func(p *lang.Pipeline) { p.Priority.Low = "far.twice > 1" },
		"want those of high":      func(p *lang.Pipeline) { p.Priority.Weights = []int{1} },
		"want them to fall":       func(p *lang.Pipeline) { p.Priority.Weights = []int{1, 2, 3} },
		"tenant.max: -1 is negat": func(p *lang.Pipeline) { p.Tenant.Max = -1 },
	} {
		p := queueingPipeline(&service{}, async, call)
		change(&p)
		if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
}
