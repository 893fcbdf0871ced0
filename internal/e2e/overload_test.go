package e2e_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/lab/simulate"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

var overloadLong = flag.Bool("overload.long", false, "overload pipelines for 10 minutes instead of 8 seconds, within 2 points of the simulation")

// overload is a source that is faster than its model, and for how long.
type overload struct {
	name     string
	time     time.Duration
	each     time.Duration // of a row, one after the other
	peak     float64       // events a second
	burst    simulate.Burst
	queue    control.GateOptions
	distance float64 // most points between the shares of time that the source is throttled
}

// overloads are a source of twice the model's rate, and one that is so for a
// third of the time, and catches up in the rest.
func overloads(long bool, distance float64) []overload {
	steady := overload{name: "steady", time: 8 * time.Second, each: 4 * time.Millisecond, peak: 500, queue: control.GateOptions{Max: 200, High: 150, Low: 50}, distance: distance}
	if long {
		steady.time, steady.queue = 10*time.Minute, control.GateOptions{Max: 2000, High: 1500, Low: 500}
	}
	bursts := steady
	bursts.name, bursts.burst = "bursts", simulate.Burst{On: 1500 * time.Millisecond, Off: 2500 * time.Millisecond, Rest: 50}
	if long {
		bursts.burst.On, bursts.burst.Off = 20*time.Second, 40*time.Second
	}
	// Whether the end of a burst finds the queue at one mark or at the other is 4 s
	// of throttling: a second that a busy machine takes from a member shows twice.
	bursts.distance *= 2
	return []overload{steady, bursts}
}

// simulated says what the simulator makes of it.
func (o *overload) simulated(t *testing.T) simulate.Result {
	t.Helper()
	r, err := simulate.Run(simulate.Options{
		Ticks: int(o.time / time.Millisecond), Tick: time.Millisecond, Queue: o.queue, Arrivals: simulate.Steady, Peak: o.peak, Burst: o.burst,
		Backlog: true, Service: simulate.Service{From: o.each},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sent returns how many events the source has sent after a time.
func (o *overload) sent(after time.Duration) int {
	if o.burst.Off == 0 {
		return int(o.peak * after.Seconds())
	}
	period := o.burst.On + o.burst.Off
	whole, rest := float64(after/period), after%period
	on := whole*o.burst.On.Seconds() + min(rest, o.burst.On).Seconds()
	off := whole*o.burst.Off.Seconds() + max(0, rest-o.burst.On).Seconds()
	return int(o.peak*on + o.burst.Rest*off)
}

// turnstile is a service of one worker: rows take a time each, those of one call
// after those of another.
type turnstile struct {
	mu   sync.Mutex
	each time.Duration
	free time.Time // when it has done what it was asked
}

func (s *turnstile) Info() model.Info {
	return model.Info{Kind: "test", Inputs: []model.Input{{Name: "n", Type: model.Number}}, Outputs: []model.Output{{Name: "twice", Size: 1}}, Remote: true}
}

func (s *turnstile) Check([]float64, [][]byte) error { return nil }

func (s *turnstile) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	s.mu.Lock()
	now := time.Now()
	if s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(time.Duration(len(rows.Values)) * s.each)
	wait := s.free.Sub(now)
	s.mu.Unlock()
	for i, v := range rows.Values {
		scores[i] = float32(2 * v)
	}
	select {
	case <-time.After(max(wait, 1)): // in a bubble timers that are due at once crash the race detector (golang/go#78156)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hurry has the service take no time from here on.
func (s *turnstile) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.each = 0
}

const overloadPartitions = 4

// overloaded is an overload under way.
type overloaded struct {
	overload
	log    stream.Log
	model  *turnstile
	runner *pipeline.Runner
	events int
	most   int64 // queued at once
}

func newOverloaded(t *testing.T, o overload, log stream.Log) *overloaded {
	t.Helper()
	r := &overloaded{overload: o, log: log, model: &turnstile{each: o.each}}
	var err error
	r.runner, err = builtin.New(lang.Pipeline{
		Name:   o.name,
		Input:  lang.Input{Topic: o.name + "-in", Partitions: overloadPartitions, Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}, {Name: "n", Type: "number"}}},
		Models: []lang.Model{{Name: "far", Go: "far", Version: 1, Outputs: []lang.Field{{Name: "twice", Type: "number"}}, Call: &lang.Calling{}}},
		Queue:  lang.Queue{Max: o.queue.Max, High: o.queue.High, Low: o.queue.Low},
		Steps: []lang.Step{
			&steps.Score{Model: "far", Inputs: []string{"n"}, Async: true, Batch: steps.Batch{Size: 8}},
			&steps.Emit{Topic: o.name + "-out", Names: []string{"n", "far.twice"}},
		},
		Code: lang.Code{Models: map[string]model.Model{"far": r.model}},
	}, pipeline.Options{})
	if err == nil {
		err = r.runner.CreateTopics(t.Context(), log)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// event is the n-th event from 0 on: which partition it is in is its number's.
func (r *overloaded) event(n int) stream.Record {
	return stream.Record{
		Partition: stream.Partition{Topic: r.runner.Input(), Index: int32(n % overloadPartitions)}, Key: fmt.Append(nil, n%97),
		Value: fmt.Appendf(nil, `{"k":"%d","n":%d,"text":%q}`, n%97, n, strings.Repeat("more ", 60)),
	}
}

// run overloads the pipeline, and returns for which share of the time its source
// was throttled. Then the model hurries, and all that waits is processed.
func (r *overloaded) run(ctx context.Context) (share float64, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.runner.Run(ctx, r.log) }()
	for r.runner.Counts().Assigned < overloadPartitions {
		time.Sleep(10 * time.Millisecond)
	}
	begin := time.Now()
	for after := time.Duration(0); after < r.time; after = time.Since(begin) {
		var events []stream.Record
		for n := r.sent(after); r.events < n; r.events++ {
			events = append(events, r.event(r.events))
		}
		if len(events) > 0 {
			if err := r.log.Append(ctx, events...); err != nil {
				return 0, err
			}
		}
		r.most = max(r.most, r.runner.Snapshot().Queued)
		time.Sleep(10 * time.Millisecond)
	}
	share = r.runner.Counts().ThrottledSeconds / time.Since(begin).Seconds()
	r.model.hurry()
	if err := r.runner.WaitIdle(ctx, r.log); err != nil {
		return 0, err
	}
	stop()
	return share, <-ended
}

// check wants each event to have been answered once, and the source to have been
// throttled for as long as in the simulation.
func (r *overloaded) check(t *testing.T, engine string, share float64) {
	t.Helper()
	want, c := r.simulated(t), r.runner.Counts()
	t.Logf("overload_%s_%s_throttled %.2f %%", engine, r.name, 100*share)
	t.Logf("overload_%s_%s_simulated %.2f %%", engine, r.name, 100*want.ThrottledShare())
	t.Logf("overload_%s_%s_events %d events", engine, r.name, r.events)
	t.Logf("overload_%s_%s_waiting_most %d events", engine, r.name, r.most)
	t.Logf("overload_%s_%s_switches %d switches", engine, r.name, c.Switches)
	t.Logf("overload_%s_%s_rejoined %d members", engine, r.name, c.Rejoined)
	if points := 100 * math.Abs(share-want.ThrottledShare()); points > r.distance || share == 0 {
		t.Errorf("%s, %s: the source was throttled for %.2f %% of the time, in the simulation %.2f %%", engine, r.name, 100*share, 100*want.ThrottledShare())
	}
	if r.most > int64(r.queue.Max) {
		t.Errorf("%s, %s: %d events waited, at most %d may", engine, r.name, r.most, r.queue.Max)
	}
	if c.Outputs != uint64(r.events) || c.DeadLetters+c.Dropped > 0 {
		t.Errorf("%s, %s: %d events, %d outputs, %d dead letters, %d dropped", engine, r.name, r.events, c.Outputs, c.DeadLetters, c.Dropped)
		return
	}
	seen := make([]bool, r.events)
	for i := range overloadPartitions {
		left := (r.events + overloadPartitions - 1 - i) / overloadPartitions
		for record, err := range r.log.Tail(t.Context(), stream.Partition{Topic: r.name + "-out", Index: int32(i)}, 0) {
			var output struct {
				N     int
				Twice int `json:"far_twice"`
			}
			if err == nil {
				err = json.Unmarshal(record.Value, &output)
			}
			if err != nil || output.N >= r.events || seen[output.N] || output.Twice != 2*output.N {
				t.Fatalf("%s, %s: output %s: %v", engine, r.name, record.Value, err)
			}
			seen[output.N] = true
			if left--; left == 0 {
				break
			}
		}
	}
}

// TestOverloadedPipelineThrottlesItsSourceAsSimulated overloads pipelines in
// virtual time, which leaves nothing to chance.
func TestOverloadedPipelineThrottlesItsSourceAsSimulated(t *testing.T) {
	for _, o := range overloads(true, 0.5) {
		if !*overloadLong {
			o.time /= 4
		}
		t.Run(o.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := openLog(t, "memory", "")
				r := newOverloaded(t, o, log)
				share, err := r.run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				r.check(t, "virtual", share)
				closeLog(t, log)
			})
		})
	}
}

// TestOverloadDropsNothingAndMemoryStaysFlat overloads pipelines on the engines
// that keep their log elsewhere, in real time.
func TestOverloadDropsNothingAndMemoryStaysFlat(t *testing.T) {
	distance, growth := 100.0, 16.0 // on a machine that does other things, too, any share of the time
	if *overloadLong {
		distance, growth = 2, 4
	}
	for _, engine := range []string{"embedded", "kafka broker"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel() // to each other
			log := openLog(t, engine, t.TempDir())
			defer closeLog(t, log)
			var under []*overloaded
			for _, o := range overloads(*overloadLong, distance) {
				under = append(under, newOverloaded(t, o, log))
			}
			var group sync.WaitGroup
			shares, errs := make([]float64, len(under)), make([]error, len(under))
			for i, r := range under {
				group.Go(func() { shares[i], errs[i] = r.run(t.Context()) })
			}
			name := strings.Fields(engine)[0]
			if name == "embedded" {
				watchMemory(t, under[0].time, growth) // of both
			}
			group.Wait()
			for i, r := range under {
				if errs[i] != nil {
					t.Fatal(errs[i])
				}
				r.check(t, name, shares[i])
			}
		})
	}
}

// watchMemory wants the heap at the end of a time to be what it was in its second
// quarter, to 10 % and some MB of growth.
func watchMemory(t *testing.T, limit time.Duration, growth float64) {
	t.Helper()
	const looks = 40
	var heap []float64
	for range looks {
		time.Sleep(limit / looks)
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heap = append(heap, float64(m.HeapAlloc)/1e6)
	}
	before, after := slices.Max(heap[looks/4:looks/2]), slices.Max(heap[3*looks/4:])
	t.Logf("overload_heap_second_quarter %.1f MB", before)
	t.Logf("overload_heap_last_quarter %.1f MB", after)
	t.Logf("overload_rss %.1f MB", float64(status(t, "VmRSS"))/1e6)
	if after > 1.1*before+growth {
		t.Errorf("%.1f MB of heap in the second quarter of the time, %.1f in the last", before, after)
	}
}

func TestReadingStopsVisiblyWhileAModelIsDown(t *testing.T) {
	for _, open := range []string{"pause", "queue"} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			s := &service{instead: func(int, []float64) error {
				if time.Since(start) < time.Minute {
					return blamed(model.BlameWay)
				}
				return nil
			}}
			runner, err := builtin.New(queueingPipeline(s, steps.Score{Async: true}, lang.Calling{Breaker: lang.Breaker{Open: open}}), pipeline.Options{})
			if err != nil {
				t.Fatal(err)
			}
			log := openLog(t, "memory", "")
			var down atomic.Int64
			time.AfterFunc(45*time.Second, func() { down.Store(runner.Snapshot().Memory.Down) })
			if _, err := answers.RunAll(t.Context(), log, runner, queueEvents(100, 10)); err != nil {
				t.Fatal(err)
			}
			want := int64(0)
			if open == "pause" {
				want = 1
			}
			if last := runner.Snapshot().Memory.Down; down.Load() != want || last != 0 {
				t.Errorf("open: %s: %d members did not read for a model that was down, want %d; at last %d", open, down.Load(), want, last)
			}
			if s := runner.Snapshot(); len(s.Sources) != 1 {
				t.Error("how reading stands is not known")
			}
		})
	}
}
