package e2e_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	modelserver "github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/faultserver"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

var (
	pacePairs = flag.Int("pace.pairs", 0, "pairs of TestHealthyKeysKeepTheirPaceBesideServers, which needs some")
	paceTime  = flag.Duration("pace.time", time.Second, "half of a pair of the same")
)

// paceRun is a pipeline that asks a service about near keys and another about far
// ones.
type paceRun struct {
	*testing.T
	runner *pipeline.Runner
	log    stream.Log

	mu   sync.Mutex
	next int
	sent map[int]time.Time // events without an output
	near []time.Duration   // from the event to its output
}

func paceModel(t *testing.T, url string) *modelserver.Model {
	m, err := modelserver.Load(t.Context(), modelserver.Options{URL: url, JSON: true, Model: "risk", Inputs: []model.Input{{Name: "n", Type: model.Number}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// paceTimeout is that of calls.
const paceTimeout = 200 * time.Millisecond

func newPaceRun(t *testing.T, log stream.Log, near, far model.Model, async bool) *paceRun {
	call := func() *lang.Calling {
		return &lang.Calling{Timeout: paceTimeout, Breaker: lang.Breaker{Probe: 300 * time.Millisecond, Open: "queue"}}
	}
	ask := func(name string) []lang.Step {
		return []lang.Step{
			&steps.Score{Model: name, Inputs: []string{"n"}, Batch: steps.Batch{Size: 16}, Async: async},
			&steps.Emit{Topic: "out", Names: []string{"n", "far"}},
		}
	}
	score := []lang.Field{{Name: "score", Type: "number"}}
	r := &paceRun{T: t, log: log, sent: map[int]time.Time{}}
	var err error
	r.runner, err = builtin.New(lang.Pipeline{
		Name: "pace",
		Input: lang.Input{Topic: "in", Partitions: 2, Key: "k", Fields: []lang.Field{
			{Name: "k", Type: "string"}, {Name: "n", Type: "int"}, {Name: "far", Type: "bool"},
		}},
		Models: []lang.Model{{Name: "near", Go: "near", Version: 1, Outputs: score, Call: call()}, {Name: "far", Go: "far", Version: 1, Outputs: score, Call: call()}},
		Steps:  []lang.Step{&steps.Route{Cases: []lang.Case{{Name: "far", When: "far", Steps: ask("far")}, {Name: "default", Steps: ask("near")}}}},
		Code:   lang.Code{Models: map[string]model.Model{"near": near, "far": far}},
	}, pipeline.Options{Members: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLog(t, r.log) })
	if err := r.runner.CreateTopics(t.Context(), r.log); err != nil {
		t.Fatal(err)
	}
	r.run()
	return r
}

// run runs the pipeline, and notes what becomes visible, until t ends.
func (r *paceRun) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	r.Cleanup(func() {
		cancel()
		group.Wait()
	})
	group.Go(func() {
		if err := r.runner.Run(ctx, r.log); err != nil {
			r.Error(err)
		}
	})
	for i := range int32(2) {
		group.Go(func() {
			for record, err := range r.log.Tail(ctx, stream.Partition{Topic: "out", Index: i}, 0) {
				var output struct {
					N   int
					Far bool
				}
				if err == nil {
					err = json.Unmarshal(record.Value, &output)
				}
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					r.Error(err)
					return
				}
				r.mu.Lock()
				if sent, ok := r.sent[output.N]; !ok {
					r.Errorf("event %d has another output", output.N)
				} else if !output.Far {
					r.near = append(r.near, time.Since(sent))
				}
				delete(r.sent, output.N)
				r.mu.Unlock()
			}
		})
	}
}

// feed writes 400 events a second, every fourth of a far key, and returns the p99
// and the longest time of the near ones when they all have outputs.
func (r *paceRun) feed(d time.Duration) (p99, longest time.Duration) {
	r.Helper()
	r.mu.Lock()
	r.near = r.near[:0]
	r.mu.Unlock()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		var records []stream.Record
		r.mu.Lock()
		for range 4 {
			far := r.next%4 == 0
			key := fmt.Sprint(far, r.next%100)
			records = append(records, stream.Record{
				Partition: stream.Partition{Topic: "in", Index: stream.ByKey}, Key: []byte(key),
				Value: fmt.Appendf(nil, `{"k":%q,"n":%d,"far":%v}`, key, r.next, far),
			})
			r.sent[r.next] = time.Now()
			r.next++
		}
		r.mu.Unlock()
		if err := r.log.Append(r.Context(), records...); err != nil {
			r.Fatal(err)
		}
	}
	r.wait(func(n int) bool { return n%4 != 0 })
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.near)
	return r.near[len(r.near)*99/100], r.near[len(r.near)-1]
}

// wait waits until none of the events that it is about is without an output.
func (r *paceRun) wait(about func(n int) bool) {
	r.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		left := 0
		r.mu.Lock()
		for n := range r.sent {
			if about(n) {
				left++
			}
		}
		r.mu.Unlock()
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			r.Fatalf("%d events have no output", left)
		}
		time.Sleep(time.Millisecond)
	}
}

// pair returns how many times as long near events take while far calls fail, and
// for how long these hold them up until that is known.
func (r *paceRun) pair(d time.Duration, down, up func()) (ratio float64, held time.Duration) {
	r.Helper()
	both, _ := r.feed(d)
	down()
	_, held = r.feed(d)
	one, _ := r.feed(d)
	up()
	r.wait(func(int) bool { return true })
	r.Logf("p99 of healthy keys %v with both up, %v with one down, and at first they were held up for %v", both, one, held)
	return float64(one) / float64(both), held
}

// TestHealthyKeysKeepTheirPaceWhileAnEndpointIsDown measures in virtual time, in
// which calls alone take any.
func TestHealthyKeysKeepTheirPaceWhileAnEndpointIsDown(t *testing.T) {
	for name, takes := range map[string]time.Duration{"refuses": 0, "hangs": paceTimeout} {
		for _, async := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, async %v", name, async), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					answer := func(int, []float64) error { time.Sleep(5 * time.Millisecond); return nil }
					var down atomic.Bool
					far := &service{instead: func(int, []float64) error {
						if !down.Load() {
							return answer(0, nil)
						}
						time.Sleep(takes)
						return blamed(model.BlameWay)
					}}
					r := newPaceRun(t, memory.New(memory.Options{}), &service{instead: answer}, far, async)
					ratio, held := r.pair(3*time.Second, func() { down.Store(true) }, func() { down.Store(false) })
					if ratio > 2 {
						t.Errorf("healthy keys took %.2f times as long, want at most 2", ratio)
					}
					if most := paceTimeout + 50*time.Millisecond; held > most { // by one call
						t.Errorf("healthy keys were held up for %v, want at most %v", held, most)
					}
					if c := r.runner.Counts(); c.DeadLetters > 0 || c.Enqueued == 0 {
						t.Errorf("counts %+v", c)
					}
				})
			})
		}
	}
}

// TestHealthyKeysKeepTheirPaceBesideServers measures with servers in processes of
// their own, one of which is ended or hangs.
func TestHealthyKeysKeepTheirPaceBesideServers(t *testing.T) {
	if *pacePairs == 0 {
		t.Skip("NOT RUN: it takes a machine of its own, and -pace.pairs")
	}
	for _, engine := range []string{"embedded", "kafka broker"} {
		for name, down := range map[string]faultserver.Options{"refuses": {}, "hangs": {Hang: 1, Tries: 1 << 30}} {
			for _, async := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, async %v", engine, name, async), func(t *testing.T) { paceBesideServers(t, engine, down, async) })
			}
		}
	}
}

func paceBesideServers(t *testing.T, engine string, down faultserver.Options, async bool) {
	options := faultserver.Options{Takes: 5 * time.Millisecond}
	near, far := faultserver.Start(t, options), faultserver.Start(t, options)
	r := newPaceRun(t, openLog(t, engine, t.TempDir()), paceModel(t, near.URL), paceModel(t, far.URL), async)
	r.feed(*paceTime / 2) // caches and pools are warm
	ill := &faultserver.Process{URL: far.URL, Options: down}
	var ratios []float64
	for range *pacePairs {
		ratio, _ := r.pair(*paceTime, func() {
			if far.End(); down.Tries > 0 {
				ill = ill.Again(t)
			}
		}, func() {
			if down.Tries > 0 {
				ill.End()
			}
			far = far.Again(t)
		})
		ratios = append(ratios, ratio)
	}
	slices.Sort(ratios)
	median := ratios[len(ratios)/2]
	if t.Logf("median %.2f of %.2f", median, ratios); median > 2 {
		t.Errorf("healthy keys took %.2f times as long, want at most 2", median)
	}
	if c := r.runner.Counts(); c.DeadLetters > 0 || c.Enqueued == 0 {
		t.Errorf("counts %+v", c)
	}
}

// TestKnownAnswersDoNotWaitForAnEndpointThatIsDown asks anew what was answered
// before, among what was not, when nobody answers any more.
func TestKnownAnswersDoNotWaitForAnEndpointThatIsDown(t *testing.T) {
	for _, open := range []string{"queue", "fallback"} {
		t.Run(open, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var down atomic.Bool
				s := &service{instead: func(int, []float64) error {
					if down.Load() {
						return blamed(model.BlameWay)
					}
					return nil
				}}
				p := queueingPipeline(s, steps.Score{Batch: steps.Batch{Size: 1}, Fallback: []lang.Binding{{Name: "twice", Expr: "-1.0"}}},
					lang.Calling{Expire: time.Minute, Breaker: lang.Breaker{Open: open, Failures: 1}})
				p.Input.Partitions, p.Models[0].Journal = 1, &lang.Journal{}
				known, log := make([]stream.Record, 200), memory.New(memory.Options{})
				for i := range known {
					known[i] = stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte("k"), Value: fmt.Appendf(nil, `{"k":"k","n":%d}`, i)}
				}
				all := slices.Clone(known)
				for i := range all {
					if i%4 == 3 {
						all[i].Value = fmt.Appendf(nil, `{"k":"k","n":%d}`, 1000+i) // nobody asked that
					}
				}
				runQueueing(t, log, p, 1, known)
				down.Store(true)
				answer, _ := runQueueing(t, log, p, 1, all)
				twice := 0
				for _, value := range answer.Values("out") {
					if !strings.Contains(value, "-1") {
						twice++
					}
				}
				if twice != 200+150 {
					t.Errorf("%d outputs have the score, of 200 and 150", twice)
				}
				if got, want := len(answer.Values("parking.dlq")), map[string]int{"queue": 50}[open]; got != want {
					t.Errorf("%d dead letters, want %d", got, want)
				}
			})
		})
	}
}

// TestPoisonRecordCostsOneDeadLetterAndSevenCalls has a service refuse one record
// of a batch of 64, at several places of it.
func TestPoisonRecordCostsOneDeadLetterAndSevenCalls(t *testing.T) {
	server := faultserver.Start(t, faultserver.Options{File: filepath.Join(t.TempDir(), "calls"), Poison: "666"})
	score := []lang.Field{{Name: "score", Type: "number"}}
	m, before, most := paceModel(t, server.URL), 0, 0
	for at := range 64 {
		runner, err := builtin.New(lang.Pipeline{
			Name:   "poison",
			Input:  lang.Input{Topic: "in", Partitions: 1, Key: "k", Fields: []lang.Field{{Name: "k", Type: "int"}, {Name: "n", Type: "number"}}},
			Models: []lang.Model{{Name: "risk", Go: "risk", Version: 1, Outputs: score, Call: &lang.Calling{Timeout: time.Minute}}}, // a late call is called again
			Steps: []lang.Step{
				&steps.Score{Model: "risk", Inputs: []string{"n"}, Batch: steps.Batch{Size: 64}, Async: at%2 == 0},
				&steps.Emit{Topic: "out", Names: []string{"k"}},
			},
			Code: lang.Code{Models: map[string]model.Model{"risk": m}},
		}, pipeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		log := memory.New(memory.Options{})
		if err := runner.CreateTopics(t.Context(), log); err != nil {
			t.Fatal(err)
		}
		var records []stream.Record
		for i := range 64 {
			n := i
			if i == at {
				n = 666
			}
			records = append(records, stream.Record{Partition: stream.Partition{Topic: "in"}, Key: fmt.Append(nil, i), Value: fmt.Appendf(nil, `{"k":%d,"n":%d}`, i, n)})
		}
		if err := log.Append(t.Context(), records...); err != nil {
			t.Fatal(err)
		}
		runUntilIdle(t, runner, log)
		calls, err := faultserver.ReadCalls(server.Options.File)
		if err != nil {
			t.Fatal(err)
		}
		out, dead := readPartition(t, log, stream.Partition{Topic: "out"}), readPartition(t, log, stream.Partition{Topic: "poison.dlq"})
		if len(out) != 63 || len(dead) != 1 || header.Get(&dead[0], header.Position) != fmt.Sprint("in/0@", at) {
			t.Fatalf("poison at %d: %d outputs, %d dead letters", at, len(out), len(dead))
		}
		if extra := len(calls) - before - 1; extra > 7 {
			t.Errorf("poison at %d, async %v: %d extra calls", at, at%2 == 0, extra)
		} else {
			most = max(most, extra)
		}
		before = len(calls)
	}
	t.Logf("at most %d extra calls", most)
}
