package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// TestQueuedEventsSurviveFaults loses commits, partitions and time, and has calls
// be slow and fail, with features that read the scores of their key.
func TestQueuedEventsSurviveFaults(t *testing.T) {
	t.Parallel()
	const n, keys = 150, 6
	feature := &steps.Features{List: []steps.Feature{{Name: "past", Value: "far.twice", Last: 3, Aggregates: []string{"sum"}}}}
	sum := func(a answers.Answer) map[string][]string { return byKey(a, "sums") }
	var want map[string][]string
	counts, least := streamtest.Counts{}, *faultSeeds
	if testing.Short() {
		least = 0
	}
	for seed := uint64(0); seed <= least || len(counts.Missing()) > 0 && seed <= 10**faultSeeds; seed++ { // until each fault came
		for _, async := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				inner := memory.New(memory.Options{RebalanceTimeout: time.Second})
				faulty := streamtest.NewFaulty(inner, streamtest.FaultyOptions{Seed: seed})
				s := &service{instead: func(call int, rows []float64) error {
					if seed == 0 {
						return nil
					}
					rng := rand.New(rand.NewPCG(seed, uint64(call)))
					time.Sleep(time.Duration(rng.Int64N(int64(50 * time.Millisecond))))
					if rng.IntN(3) == 0 {
						return blamed(model.BlameWay)
					}
					return nil
				}}
				p := queueingPipeline(s, steps.Score{Async: async, Ordered: true}, lang.Calling{
					Attempts: 10, // a third of the calls fails: three of a row are too likely
					Breaker:  lang.Breaker{Open: "queue", Probe: time.Second},
				}, feature)
				p.Commit = lang.Commit{Size: 50}
				p.Steps = append(p.Steps, &steps.Emit{Topic: "sums", Names: []string{"n", "past.sum"}})
				runner, err := builtin.New(p, pipeline.Options{Members: 2, Keys: 5})
				if err != nil {
					t.Fatal(err)
				}
				var log stream.Log = inspected{faulty, inner}
				if seed == 0 {
					log = inner
				}
				answer, err := answers.RunAll(t.Context(), log, runner, queueEvents(n, keys))
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				checkOutputs(t, answer, n, keys, true)
				if want == nil {
					want = sum(answer)
				}
				for key, list := range want {
					if got := sum(answer)[key]; !slices.Equal(got, list) {
						t.Fatalf("seed %d, async %v, key %s: %v\nwant %v", seed, async, key, got, list)
					}
				}
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

// TestQueuedEventsKeepTheirPlaceInEventTime has events wait for their scores while
// later ones pass by times at which windows end and keys are forgotten. What comes
// of them, and what is kept of keys in the end, is as where nothing waits.
func TestQueuedEventsKeepTheirPlaceInEventTime(t *testing.T) {
	const n, keys = 120, 5
	run := func(t *testing.T, seed uint64, async bool) (map[string][]string, map[string]string) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := queueingPipeline(&service{instead: sleepy(seed, 300*time.Millisecond)}, steps.Score{Async: async, Ordered: true}, lang.Calling{}, &steps.Features{List: []steps.Feature{
			{Name: "past", Value: "far.twice", Last: 3, Aggregates: []string{"sum"}}, {Name: "sums", Value: "far.twice", Windows: []string{"60s"}, Aggregates: []string{"sum"}},
			{Name: "numbers", Value: "n", Windows: []string{"60s"}, Aggregates: []string{"sum"}}, {Name: "before", Value: "n", Last: 2, Aggregates: []string{"sum"}},
		}})
		p.Input.Fields = append(p.Input.Fields, lang.Field{Name: "t", Type: "int"})
		p.Input.Time, p.Queue.Max = lang.EventTime{Field: "t", Unit: "s"}, 20 // later events come while others wait
		p.Steps = append(p.Steps, &steps.Emit{Topic: "sums", Names: []string{"n", "past.*", "sums.*", "numbers.*", "before.*"}})
		at, events := int64(800_000_000), queueEvents(n, keys)
		for i := range events {
			if at += rng.Int64N(20); rng.IntN(10) == 0 {
				at += 40 * 24 * 3600
			}
			events[i].Value = fmt.Appendf(nil, `{"k":%q,"n":%d,"t":%d}`, events[i].Key, i+1, at)
		}
		log := memory.New(memory.Options{})
		answer, runner := runQueueing(t, log, p, 1, events)
		checkOutputs(t, answer, n, keys, true)
		if async && runner.Counts().Enqueued < n {
			t.Error("nothing was queued")
		}
		return byKey(answer, "sums"), keptOf(t, log)
	}
	for first, seed := rand.Uint64(), uint64(0); seed < 20; seed++ {
		synctest.Test(t, func(t *testing.T) {
			want, kept := run(t, first+seed, false)
			got, keptToo := run(t, first+seed, true)
			if !maps.EqualFunc(got, want, slices.Equal) {
				t.Errorf("seed %d: other outputs: %v\nwant %v", first+seed, got, want)
			}
			if !maps.Equal(kept, keptToo) {
				t.Errorf("seed %d: %d entries are kept, want %d", first+seed, len(keptToo), len(kept))
			}
		})
	}
}

// keptOf returns what is stored of the keys of queueingPipeline's input.
func keptOf(t *testing.T, log stream.Inspector) map[string]string {
	t.Helper()
	kept := map[string]string{}
	for i := range int32(2) {
		view, err := log.State(t.Context(), "parking", stream.Partition{Topic: "in", Index: i})
		if err != nil {
			t.Fatal(err)
		}
		for entry, err := range view.Scan(nil) {
			if err != nil {
				t.Fatal(err)
			}
			if entry.Key[0] != statekey.Generation {
				kept[fmt.Sprint(i, string(entry.Key))] = string(entry.Value)
			}
		}
	}
	return kept
}

// TestQueuedEventsSurviveARestart ends a process with events queued, and goes on
// in another.
func TestQueuedEventsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	open := func() *embedded.Log {
		log, err := embedded.Open(dir, embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return log
	}
	down := queueingPipeline(&service{instead: func(int, []float64) error { return blamed(model.BlameWay) }}, steps.Score{Async: true, Ordered: true},
		lang.Calling{Breaker: lang.Breaker{Open: "queue"}})
	log := open()
	runner, err := builtin.New(down, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	if err := runner.CreateTopics(ctx, log); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(ctx, queueEvents(100, 10)...); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- runner.Run(ctx, log) }()
	for runner.Counts().Events < 100 {
		time.Sleep(time.Millisecond)
	}
	stop()
	if err := errors.Join(<-ended, log.Close()); err != nil {
		t.Fatal(err)
	}

	log = open()
	other := down
	other.Steps = slices.Clone(down.Steps)
	other.Steps[1] = &steps.Emit{Topic: "out", Value: []steps.Member{{Name: "n", Expr: "n + 1.0"}}}
	changed, err := builtin.New(other, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var queued *async.ErrQueued
	if err := changed.Run(t.Context(), log); !errors.As(err, &queued) {
		t.Errorf("another pipeline ran on: %v", err)
	}
	up := queueingPipeline(&service{}, steps.Score{Async: true, Ordered: true}, lang.Calling{Breaker: lang.Breaker{Open: "queue"}})
	answer, _ := runQueueing(t, log, up, 1, nil)
	checkOutputs(t, answer, 100, 10, true)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestWhyQueuedEventsWaitIsKept has a service fail in one way, and then in a way
// that is another one each time: both are found with the events, for few writes.
func TestWhyQueuedEventsWaitIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := &service{instead: func(call int, _ []float64) error {
			if time.Since(start) < 10*time.Second {
				return blamed(model.BlameWay)
			}
			return fmt.Errorf("call %d: %w", call, blamed(model.BlameModel))
		}}
		p := queueingPipeline(s, steps.Score{Async: true}, lang.Calling{
			Backoff: lang.Backoff{Base: 100 * time.Millisecond, Max: 100 * time.Millisecond}, Breaker: lang.Breaker{Failures: 1000, Rate: 1, Probe: 10 * time.Millisecond}})
		runner, err := builtin.New(p, pipeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		log := memory.New(memory.Options{})
		ctx, stop := context.WithCancel(t.Context())
		if err := errors.Join(runner.CreateTopics(ctx, log), log.Append(ctx, queueEvents(20, 4)...)); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(ctx, log) }()
		for _, want := range []model.Blame{model.BlameWay, model.BlameModel} {
			time.Sleep(9 * time.Second)
			synctest.Wait()
			why := whyQueued(t, log)
			if len(why) != 20 || slices.ContainsFunc(why, func(why string) bool { return !strings.HasSuffix(why, blamed(want).Error()) }) {
				t.Errorf("after %v: %q", time.Since(start), why)
			}
			if enqueued := runner.Counts().Enqueued; want == model.BlameWay && enqueued != 2*20 { // and why
				t.Errorf("queued %d times", enqueued)
			}
			time.Sleep(21 * time.Second)
		}
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if c := runner.Counts(); c.Enqueued > 12*20 || c.Retries < 200*20 {
			t.Errorf("queued %d times of %d retries", c.Enqueued, c.Retries)
		}
	})
}

// whyQueued returns why the queued events wait.
func whyQueued(t *testing.T, log stream.Inspector) (why []string) {
	t.Helper()
	for key, data := range keptOf(t, log) {
		if at := strings.IndexByte(key, statekey.Queued); at > 0 {
			e, err := async.Parse(stream.Partition{}, []byte(key[at:]), []byte(data))
			if err != nil {
				t.Fatal(err)
			}
			why = append(why, e.Error)
		}
	}
	return why
}

// TestJournalledQuestionIsAskedOnce has events ask the same, at a service that is
// slow and fails, with commits and partitions lost: each question is asked once
// where nothing fails, and each event has its answer once in any case.
func TestJournalledQuestionIsAskedOnce(t *testing.T) {
	const n, questions = 300, 25
	events := queueEvents(n, 10)
	for i := range events {
		events[i].Partition.Index = 0 // each partition has a journal of its own
		events[i].Value = fmt.Appendf(nil, `{"k":%q,"n":%d}`, events[i].Key, i%questions+1)
	}
	for seed := range min(10, *faultSeeds) {
		for _, by := range []string{"request", "event"} {
			synctest.Test(t, func(t *testing.T) {
				inner := memory.New(memory.Options{RebalanceTimeout: time.Second})
				faulty := streamtest.NewFaulty(inner, streamtest.FaultyOptions{Seed: seed})
				s := &service{instead: sleepy(seed, 50*time.Millisecond)}
				p := queueingPipeline(s, steps.Score{Batch: steps.Batch{Size: 4}}, lang.Calling{})
				p.Models[0].Journal, p.Input.Partitions = &lang.Journal{By: by}, 1
				runner, err := builtin.New(p, pipeline.Options{})
				if err != nil {
					t.Fatal(err)
				}
				var log stream.Log = inspected{faulty, inner}
				if seed == 0 {
					log = inner
				}
				answer, err := answers.RunAll(t.Context(), log, runner, events)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				counts := map[string]int{}
				for _, value := range answer.Values("out") {
					counts[value]++
				}
				for q := range questions {
					if value := fmt.Sprintf(`{"n":%d,"twice":%d}`, q+1, 2*(q+1)); counts[value] != n/questions {
						t.Fatalf("seed %d: %s was written %d times of %d", seed, value, counts[value], n/questions)
					}
					want := 1
					if by == "event" {
						want = n / questions
					}
					if asked := s.rows[float64(q+1)]; seed == 0 && asked != want {
						t.Errorf("by %s: %d was asked for %d times, want %d", by, q+1, asked, want)
					}
				}
				if err := faulty.Close(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// TestCallsUnderWayAreNotRepeatedAtARebalance has a second process join while
// calls for the partitions that it gets are under way, and leave while its are.
func TestCallsUnderWayAreNotRepeatedAtARebalance(t *testing.T) {
	for _, kept := range []*lang.Journal{nil, {}} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{instead: func(int, []float64) error { time.Sleep(700 * time.Millisecond); return nil }}
			p := queueingPipeline(s, steps.Score{Async: true, Ordered: true}, lang.Calling{})
			p.Models[0].Journal = kept
			log := memory.New(memory.Options{})
			var runners [2]*pipeline.Runner
			var stops [2]func() error
			start := func(i int) {
				var err error
				if runners[i], err = builtin.New(p, pipeline.Options{}); err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- runners[i].Run(ctx, log) }()
				stops[i] = func() error { stop(); return <-ended }
			}
			start(0)
			if err := runners[0].CreateTopics(t.Context(), log); err != nil {
				t.Fatal(err)
			}
			if err := log.Append(t.Context(), queueEvents(60, 20)...); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			start(1)
			time.Sleep(time.Second)
			if err := errors.Join(stops[1](), runners[0].WaitIdle(t.Context(), log), stops[0]()); err != nil {
				t.Fatal(err)
			}
			if a, b := runners[0].Counts(), runners[1].Counts(); a.Rejoined+b.Rejoined > 0 || b.Outputs == 0 || a.Outputs+b.Outputs != 60 {
				t.Errorf("journal %v: counts %+v\n%+v", kept, a, b)
			}
			for v, n := range s.rows {
				if n != 1 {
					t.Errorf("journal %v: %v was asked for %d times", kept, v, n)
				}
			}
		})
	}
}
