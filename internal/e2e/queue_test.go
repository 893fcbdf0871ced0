package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
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
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// service is a model that is slow, late and down: its score of a number is twice
// that. It may be told what a call does instead.
type service struct {
	instead func(call int, rows []float64) error // nil answers

	mu    sync.Mutex
	calls int
	rows  map[float64]int // how often each was asked for
}

func (s *service) Info() model.Info {
	return model.Info{Kind: "test", Inputs: []model.Input{{Name: "n", Type: model.Number}}, Outputs: []model.Output{{Name: "twice", Size: 1}}, Remote: true}
}

func (s *service) Check([]float64, [][]byte) error { return nil }

func (s *service) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	s.mu.Lock()
	s.calls++
	call := s.calls
	if s.rows == nil {
		s.rows = map[float64]int{}
	}
	for _, v := range rows.Values {
		s.rows[v]++
	}
	s.mu.Unlock()
	if s.instead != nil {
		if err := s.instead(call, rows.Values); err != nil {
			return err
		}
	}
	for i, v := range rows.Values {
		scores[i] = float32(2 * v)
	}
	return ctx.Err()
}

// blamed is an error that says whose fault it is.
type blamed model.Blame

func (b blamed) Error() string      { return fmt.Sprintf("no answer, by fault of %d", b) }
func (b blamed) Blame() model.Blame { return model.Blame(b) }

// sleepy has calls take any time up to most.
func sleepy(seed uint64, most time.Duration) func(int, []float64) error {
	return func(call int, _ []float64) error {
		rng := rand.New(rand.NewPCG(seed, uint64(call)))
		time.Sleep(time.Duration(rng.Int64N(int64(most))))
		return nil
	}
}

func queueingPipeline(s *service, score steps.Score, call lang.Calling, given ...lang.Step) lang.Pipeline {
	score.Model, score.Inputs = "far", []string{"n"}
	emit := &steps.Emit{Topic: "out", Value: []steps.Member{{Name: "n", Expr: "n"}, {Name: "twice", Expr: "far.twice"}}}
	return lang.Pipeline{
		Name: "parking",
		Input: lang.Input{Topic: "in", Partitions: 2, Key: "k", Fields: []lang.Field{
			{Name: "k", Type: "string"}, {Name: "n", Type: "number"},
		}},
		Models: []lang.Model{{Name: "far", Go: "far", Version: 1, Outputs: []lang.Field{{Name: "twice", Type: "number"}}, Call: &call}},
		Steps:  append(slices.Clone(given), &score, emit),
		Code:   lang.Code{Models: map[string]model.Model{"far": s}},
	}
}

// queueEvents returns events 1 to n of a few keys.
func queueEvents(n, keys int) []stream.Record {
	var events []stream.Record
	for i := range n {
		key := fmt.Sprint("k", i*7%keys)
		h := fnv.New32a()
		h.Write([]byte(key))
		events = append(events, stream.Record{
			Partition: stream.Partition{Topic: "in", Index: int32(h.Sum32() % 2)}, Key: []byte(key),
			Value: fmt.Appendf(nil, `{"k":%q,"n":%d}`, key, i+1),
		})
	}
	return events
}

func runQueueing(t *testing.T, log stream.Log, p lang.Pipeline, members int, events []stream.Record) (answers.Answer, *pipeline.Runner) {
	t.Helper()
	runner, err := builtin.New(p, pipeline.Options{Members: members})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := answers.RunAll(t.Context(), log, runner, events)
	if err != nil {
		t.Fatal(err)
	}
	return answer, runner
}

// byKey returns the values of a topic's records by their keys, in their order.
func byKey(a answers.Answer, topic string) map[string][]string {
	all := map[string][]string{}
	for p, records := range a {
		for i := range records {
			if p.Topic == topic {
				all[string(records[i].Key)] = append(all[string(records[i].Key)], string(records[i].Value))
			}
		}
	}
	return all
}

// checkOutputs compares what was written for events 1 to n of keys, in any order
// unless ordered.
func checkOutputs(t *testing.T, a answers.Answer, n, keys int, ordered bool) {
	t.Helper()
	want := map[string][]string{}
	for i := range n {
		key := fmt.Sprint("k", i*7%keys)
		want[key] = append(want[key], fmt.Sprintf(`{"n":%d,"twice":%d}`, i+1, 2*(i+1)))
	}
	got := byKey(a, "out")
	for key, list := range want {
		if !ordered {
			slices.Sort(list)
			slices.Sort(got[key])
		}
		if !slices.Equal(got[key], list) {
			t.Fatalf("key %s: %d outputs %.300v\nwant %d %.300v", key, len(got[key]), got[key], len(list), list)
		}
	}
	if dead := a.Values("parking.dlq"); len(dead) > 0 {
		t.Errorf("%d dead letters: %.200v", len(dead), dead)
	}
}

func TestAsyncEventsAreWrittenOnceEach(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{instead: sleepy(1, 300*time.Millisecond)}
			p := queueingPipeline(s, steps.Score{Async: true, Ordered: ordered, Batch: steps.Batch{Size: 3}}, lang.Calling{})
			answer, runner := runQueueing(t, memory.New(memory.Options{}), p, 1, queueEvents(500, 20))
			checkOutputs(t, answer, 500, 20, ordered)
			if c := runner.Counts(); c.Events != 500 || c.Outputs != 500 || c.Enqueued < 500 {
				t.Errorf("counts %+v", c)
			}
			for v, n := range s.rows {
				if n != 1 {
					t.Errorf("%v was asked for %d times", v, n)
				}
			}
		})
	}
}

// local is a service that computes here.
type local struct{ *service }

func (l local) Info() model.Info {
	info := l.service.Info()
	info.Remote = false
	return info
}

// TestLocalModelMayTakeItsTime has calls that take as long as a heavy batch does, which
// is no reason to make them again.
func TestLocalModelMayTakeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{instead: sleepy(1, time.Minute)}
		p := queueingPipeline(s, steps.Score{Async: true, Batch: steps.Batch{Size: 8}}, lang.Calling{})
		p.Models[0].Call, p.Code.Models["far"] = nil, local{s}
		answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, queueEvents(32, 4))
		checkOutputs(t, answer, 32, 4, false)
		for v, n := range s.rows {
			if n != 1 {
				t.Errorf("%v was asked for %d times", v, n)
			}
		}
	})
}

// joinedLater is a log that the second member joins once the first computes.
type joinedLater struct {
	*memory.Log
	joins atomic.Int32
}

func (l *joinedLater) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	if l.joins.Add(1) == 2 {
		time.Sleep(5 * time.Second)
	}
	return l.Log.Join(ctx, group, topics...)
}

// TestSlowStepIsNotTakenFromItsMember has two members, of which the one that comes
// first computes for a minute while the other waits for its partition.
func TestSlowStepIsNotTakenFromItsMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{instead: sleepy(1, time.Minute)}
		p := queueingPipeline(s, steps.Score{Batch: steps.Batch{Size: 64}}, lang.Calling{})
		p.Models[0].Call, p.Code.Models["far"] = nil, local{s}
		answer, runner := runQueueing(t, &joinedLater{Log: memory.New(memory.Options{})}, p, 2, queueEvents(32, 4))
		checkOutputs(t, answer, 32, 4, true)
		if c := runner.Counts(); c.Rejoined > 0 || c.ModelRows != 32 {
			t.Errorf("computed more than once: %+v", c)
		}
	})
}

// TestQueuedEventsAreMeasuredOnceWhenTheyEnd has calls of a second, for which
// events wait in the model's phase, and drops some of the events after that.
func TestQueuedEventsAreMeasuredOnceWhenTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{instead: func(int, []float64) error { time.Sleep(time.Second); return nil }}
		p := queueingPipeline(s, steps.Score{Async: true, When: "n > 10.0"}, lang.Calling{})
		p.Steps = slices.Insert(p.Steps, 1, lang.Step(&steps.Route{Cases: []lang.Case{
			{Name: "much", When: "n > 40.0", Then: "drop"}, {Name: "default", Steps: []lang.Step{&steps.Let{List: []lang.Binding{{Name: "half", Expr: "n / 2.0"}}}}},
		}}))
		p.Budget = lang.Budget{P99: 500 * time.Millisecond}
		_, runner := runQueueing(t, memory.New(memory.Options{}), p, 1, queueEvents(50, 10))
		m := runner.Snapshot()
		for _, phase := range observe.PhasesOf(false) {
			if h := m.Phases[phase.String()].Histogram; h.Count != 50 {
				t.Errorf("%d events in phase %v", h.Count, phase)
			}
		}
		models, spent := m.Phases[observe.Model.String()].Histogram, m.Spent
		if models.Quantile(0.15) > 10*time.Millisecond || models.Quantile(0.25) < time.Second || m.Times.Histogram.Count != 50 || m.Times.Histogram.Quantile(0.25) < time.Second {
			t.Errorf("models took %v to %v of %d events, all %v", models.Quantile(0.15), models.Quantile(0.25), m.Times.Histogram.Count, spent.Whole)
		}
		if worst, _ := spent.Worst(); worst.Phase != observe.Model || worst.Missed != 40 {
			t.Errorf("%d events were late by fault of %v", worst.Missed, worst.Phase)
		}
		if c := runner.Counts(); c.Events != 50 || c.Dropped != 10 {
			t.Errorf("counts %+v", c)
		}
	})
}

// TestModelThatIsDownMakesNoDeadLetter has the model fail for a minute, in each
// way of the breaker.
func TestModelThatIsDownMakesNoDeadLetter(t *testing.T) {
	for _, open := range []string{"pause", "queue"} {
		for _, async := range []bool{false, true} {
			for _, blame := range []model.Blame{model.BlameModel, model.BlameWay} {
				t.Run(fmt.Sprint(open, async, blame), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						start := time.Now()
						s := &service{instead: func(int, []float64) error {
							if down := time.Since(start); down < time.Minute {
								return blamed(blame)
							}
							return nil
						}}
						p := queueingPipeline(s, steps.Score{Async: async, Ordered: true}, lang.Calling{Breaker: lang.Breaker{Open: open}})
						answer, runner := runQueueing(t, memory.New(memory.Options{}), p, 2, queueEvents(300, 10))
						checkOutputs(t, answer, 300, 10, true)
						if runner.Counts().Retries == 0 {
							t.Errorf("counts %+v", runner.Counts())
						}
					})
				})
			}
		}
	}
}

func TestOpenBreakerFallsBackAndMarksOutputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{instead: func(int, []float64) error { return blamed(model.BlameWay) }}
		p := queueingPipeline(s, steps.Score{Batch: steps.Batch{Size: 1}, Fallback: []lang.Binding{{Name: "twice", Expr: "-1.0"}}},
			lang.Calling{Breaker: lang.Breaker{Failures: 2, Open: "fallback"}})
		answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, queueEvents(20, 5))
		marked := 0
		for place, records := range answer {
			for i := range records {
				if place.Topic == "out" && header.Get(&records[i], header.Fallback) == "far@1" {
					marked++
				}
			}
		}
		if dead := len(answer.Values("parking.dlq")); marked == 0 || marked != 20 || dead > 0 {
			t.Errorf("%d outputs marked, %d dead letters of 20 events", marked, dead)
		}
	})
}

func TestTimeoutCancelsTheCallAndTheEventIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hanging{service: service{}, until: 5}
		p := queueingPipeline(&s.service, steps.Score{Async: true}, lang.Calling{Timeout: time.Second})
		p.Code.Models["far"] = s
		answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, queueEvents(10, 3))
		checkOutputs(t, answer, 10, 3, false)
		if s.cancelled == 0 {
			t.Error("no call was cancelled")
		}
	})
}

// hanging answers none of its first calls until they are cancelled.
type hanging struct {
	service
	until     int
	cancelled int
}

func (h *hanging) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	h.mu.Lock()
	first := h.calls < h.until
	h.mu.Unlock()
	if err := h.service.Predict(ctx, rows, scores); err != nil || !first {
		return err
	}
	<-ctx.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancelled++
	return ctx.Err()
}

// TestRowAtFaultIsOneDeadLetter has one row fail each call that it is in, in the
// ways that models say so.
func TestRowAtFaultIsOneDeadLetter(t *testing.T) {
	for _, blame := range []model.Blame{model.BlameRows, model.BlameModel} {
		for _, async := range []bool{false, true} {
			t.Run(fmt.Sprint(blame, async), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &service{instead: func(_ int, rows []float64) error {
						if slices.Contains(rows, 40) {
							return blamed(blame)
						}
						return nil
					}}
					p := queueingPipeline(s, steps.Score{Async: async, Batch: steps.Batch{Size: 64}}, lang.Calling{})
					log := memory.New(memory.Options{})
					runner, err := builtin.New(p, pipeline.Options{})
					if err != nil {
						t.Fatal(err)
					}
					// Others come while it is tried again, so that the model answers some.
					ctx, stop := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					if err := runner.CreateTopics(ctx, log); err != nil {
						t.Fatal(err)
					}
					go func() { ended <- runner.Run(ctx, log) }()
					events := queueEvents(200, 10)
					if err := log.Append(ctx, events[:100]...); err != nil {
						t.Fatal(err)
					}
					for _, e := range events[100:] {
						if err := log.Append(ctx, e); err != nil {
							t.Fatal(err)
						}
						time.Sleep(20 * time.Millisecond)
					}
					if err := runner.WaitIdle(ctx, log); err != nil {
						t.Fatal(err)
					}
					stop()
					if err := <-ended; err != nil {
						t.Fatal(err)
					}
					if c := runner.Counts(); c.Outputs != 199 || c.DeadLetters != 1 {
						t.Errorf("counts %+v", c)
					}
				})
			})
		}
	}
}

func TestOneRowAtFaultCostsAFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{instead: func(_ int, rows []float64) error {
			if slices.Contains(rows, 40) {
				return blamed(model.BlameRows)
			}
			return nil
		}}
		p := queueingPipeline(s, steps.Score{Async: true}, lang.Calling{Attempts: 1})
		p.Input.Partitions = 1
		events := queueEvents(64, 10)
		for i := range events {
			events[i].Partition.Index = 0
		}
		answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, events)
		if out, dead := len(answer.Values("out")), answer[stream.Partition{Topic: "parking.dlq"}]; out != 63 || len(dead) != 1 || header.Get(&dead[0], header.Attempts) != "1" {
			t.Errorf("%d outputs, %d dead letters", out, len(dead))
		}
	})
}

func TestExpiredAndFailedEventsAreGivenUpWithTheirSteps(t *testing.T) {
	for _, given := range [][]lang.Step{nil, {
		&steps.Let{List: []lang.Binding{{Name: "sorry", Expr: "n + 0.5"}}},
		&steps.Emit{Topic: "unscored", When: "n > 5", Names: []string{"sorry"}},
	}} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{instead: func(int, []float64) error { return blamed(model.BlameWay) }}
			p := queueingPipeline(s, steps.Score{Async: true, Ordered: given == nil, OnFailure: given}, lang.Calling{Expire: time.Minute}) // who waits behind others waits too
			start := time.Now()
			answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, queueEvents(10, 3))
			made := 5 * min(len(given), 1)
			dead := 10 - made
			if took := time.Since(start); took < time.Minute || took > 2*time.Minute {
				t.Errorf("given up after %v", took)
			}
			letters := answer.Values("parking.dlq")
			if len(letters) != dead || len(answer.Values("unscored")) != made || len(answer.Values("out")) > 0 {
				t.Fatalf("%d dead letters, unscored %v, out %v", len(letters), answer.Values("unscored"), answer.Values("out"))
			}
			for place, records := range answer {
				for i := range records {
					if why := header.Get(&records[i], header.Error); place.Topic == "parking.dlq" && !strings.Contains(why, "was queued for 1m") {
						t.Errorf("the reason is %q", why)
					}
					if code, after := header.Get(&records[i], header.Code), header.Get(&records[i], header.After); place.Topic == "parking.dlq" && (code != "expired" || after != "30000") {
						t.Errorf("its client is told %q, and to wait for %q ms", code, after)
					}
				}
			}
		})
	}
}

func TestQueuedEventsAreBoundedAndTheSourcePauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := &service{instead: func(int, []float64) error {
			if time.Since(start) < time.Minute {
				return blamed(model.BlameWay)
			}
			return nil
		}}
		p := queueingPipeline(s, steps.Score{Async: true}, lang.Calling{Breaker: lang.Breaker{Open: "queue"}})
		p.Queue.Max = 50
		log := memory.New(memory.Options{})
		runner, err := builtin.New(p, pipeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		most := int64(0)
		done := make(chan struct{})
		go func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(10 * time.Millisecond):
					most = max(most, runner.Snapshot().Queued)
				}
			}
		}()
		answer, err := answers.RunAll(t.Context(), log, runner, queueEvents(2000, 20))
		close(done)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		checkOutputs(t, answer, 2000, 20, false)
		if most < 30 || most > 40 {
			t.Errorf("%d events were queued, 38 are read", most)
		}
	})
}

func TestWhatNeedsOrderIsRefusedWhereEventsQueueInAny(t *testing.T) {
	feature := &steps.Features{List: []steps.Feature{{Name: "past", Value: "far.twice", Last: 3, Aggregates: []string{"sum"}}}}
	below := queueingPipeline(&service{}, steps.Score{}, lang.Calling{})
	below.Steps = append(below.Steps, feature)
	for want, p := range map[string]lang.Pipeline{
		"events of a key would be added in any order":   queueingPipeline(&service{}, steps.Score{}, lang.Calling{}, feature),
		"events of a key would be counted in any order": below,
		"set Timeout or Budget": func() lang.Pipeline {
			p := queueingPipeline(&service{}, steps.Score{}, lang.Calling{Timeout: time.Second, Budget: true})
			p.Budget.P99 = time.Second
			return p
		}(),
		"a rate of 2":        queueingPipeline(&service{}, steps.Score{}, lang.Calling{Breaker: lang.Breaker{Rate: 2}}),
		"unknown word":       queueingPipeline(&service{}, steps.Score{}, lang.Calling{Breaker: lang.Breaker{Open: "wait"}}),
		"has open: fallback": queueingPipeline(&service{}, steps.Score{}, lang.Calling{Breaker: lang.Breaker{Open: "fallback"}}),
		"only let, decide":   queueingPipeline(&service{}, steps.Score{OnFailure: []lang.Step{&steps.Score{Model: "far"}}}, lang.Calling{}),
		"is introduced below": queueingPipeline(&service{}, steps.Score{OnFailure: []lang.Step{
			&steps.Emit{Topic: "unscored", Names: []string{"far.twice"}},
		}}, lang.Calling{}),
	} {
		if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
}

// TestOrdersCallForAndGiveUpQueuedEvents orders what queue retry and drop do.
func TestOrdersCallForAndGiveUpQueuedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		s := &service{}
		s.instead = func(int, []float64) error {
			if !up.Load() {
				return blamed(model.BlameWay)
			}
			return nil
		}
		p := queueingPipeline(s, steps.Score{Async: true, Ordered: true}, lang.Calling{Backoff: lang.Backoff{Base: time.Hour, Max: time.Hour}, Breaker: lang.Breaker{Open: "queue", Failures: 1000}})
		log := memory.New(memory.Options{})
		runner, err := builtin.New(p, pipeline.Options{Members: 2})
		if err != nil {
			t.Fatal(err)
		}
		if err := runner.CreateTopics(t.Context(), log); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(ctx, log) }()
		events := queueEvents(10, 10)
		if err := log.Append(ctx, events...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		up.Store(true)
		dropped, err := runner.Command(ctx, async.Command{Drop: true, Partition: 1, Offset: 0})
		called, err1 := runner.Command(ctx, async.Command{Partition: -1, Offset: -1})
		if err := errors.Join(err, err1); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := runner.WaitIdle(ctx, log); err != nil {
			t.Fatal(err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if c := runner.Counts(); dropped != 1 || called != 9 || c.Outputs != 9 || c.DeadLetters != 1 || time.Since(start) > time.Minute {
			t.Errorf("%d dropped, %d called for, counts %+v after %v", dropped, called, c, time.Since(start))
		}
	})
}

// TestAnswersOfDroppedEventsAreLeftAlone drops events whose calls are under way.
func TestAnswersOfDroppedEventsAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{instead: func(int, []float64) error { time.Sleep(2 * time.Second); return nil }}
		p := queueingPipeline(s, steps.Score{Async: true}, lang.Calling{})
		p.Models[0].Journal = &lang.Journal{Off: true}
		log := memory.New(memory.Options{})
		runner, err := builtin.New(p, pipeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		if err := errors.Join(runner.CreateTopics(ctx, log), log.Append(ctx, queueEvents(10, 3)...)); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(ctx, log) }()
		time.Sleep(time.Second)
		dropped, err := runner.Command(ctx, async.Command{Drop: true, Partition: -1, Offset: -1})
		if err = errors.Join(err, runner.WaitIdle(ctx, log)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if c := runner.Counts(); dropped != 10 || c.Outputs != 0 || c.DeadLetters != 10 || len(s.rows) != 10 {
			t.Errorf("%d dropped, %d asked for, counts %+v", dropped, len(s.rows), c)
		}
	})
}
