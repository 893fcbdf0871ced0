package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// remoteService is a service as a manifest has it.
type remoteService struct{ *service }

func (s remoteService) Info() model.Info {
	info := s.service.Info()
	info.Kind = "remote"
	return info
}

// served is a Config of a model on a server.
type served struct {
	*service `field:"-"`
	URL      string `field:"url" affects:"nothing" example:"http://models:8000" help:"of the server"`
}

func (s served) Check(*model.Manifest) []error { return nil }
func (s served) Describe() string              { return "http://models:8000" }

func (s served) Open(context.Context, *model.Manifest) (model.Model, error) {
	return remoteService{s.service}, nil
}

func (s served) Service(m *model.Manifest) (url, service string) {
	return "http://models:8000", m.Name + "@"
}

// sharedPipelines returns pipelines one, in place, and two, off the loop, that call
// the same model of a server. Their events are those of topics one and two.
func sharedPipelines(s *service, call lang.Calling) []lang.Pipeline {
	var pipelines []lang.Pipeline
	for _, name := range []string{"one", "two"} {
		p := queueingPipeline(s, steps.Score{Batch: steps.Batch{Size: 1}, Async: name == "two"}, call)
		p.Name, p.Input.Topic = name, name
		p.Steps[1].(*steps.Emit).Topic = "out-" + name
		p.Models[0].Go, p.Models[0].File = "", "far.yaml"
		p.Models[0].Manifest = &model.Manifest{
			Name: "far", Version: 1, Kind: "remote", Inputs: []model.ManifestInput{{Name: "n"}}, Outputs: []model.Output{{Name: "twice", Size: 1}},
			Config: &served{service: s},
		}
		pipelines = append(pipelines, p)
	}
	return pipelines
}

func runShared(t *testing.T, pipelines []lang.Pipeline, members, events int) []*pipeline.Runner {
	t.Helper()
	runners, err := builtin.NewChain(pipelines, pipeline.Options{Members: members})
	if err != nil {
		t.Fatal(err)
	}
	log := memory.New(memory.Options{})
	ctx, stop := context.WithCancel(t.Context())
	var tasks sync.WaitGroup
	for _, r := range runners {
		if err := r.CreateTopics(ctx, log); err != nil {
			t.Fatal(err)
		}
		list := queueEvents(events, 20)
		for i := range list {
			list[i].Partition.Topic = r.Input()
		}
		if err := log.Append(ctx, list...); err != nil {
			t.Fatal(err)
		}
		tasks.Go(func() {
			if err := r.Run(ctx, log); err != nil {
				t.Error(err)
			}
		})
	}
	for _, r := range runners {
		if err := r.WaitIdle(ctx, log); err != nil {
			t.Error(err)
		}
	}
	stop()
	tasks.Wait()
	return runners
}

// TestPipelinesShareThePlacesOfAServer has two pipelines of two members call one
// model: together they make no more calls at a time than it is said to bear, and
// both are done about when their share of them is.
func TestPipelinesShareThePlacesOfAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		s := &service{instead: func(int, []float64) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		}}
		start := time.Now()
		for _, r := range runShared(t, sharedPipelines(s, lang.Calling{Concurrency: 2}), 2, 100) {
			if c := r.Counts(); c.Outputs != 100 || c.DeadLetters != 0 {
				t.Errorf("%s: %+v", r.Name(), c)
			}
		}
		if took := time.Since(start); most != 2 || took > 2*time.Second { // 200 calls of 10 ms, 2 at a time, are 1 s
			t.Errorf("%d calls at a time, %v in all", most, took)
		}
	})
}

// TestPipelinesShareTheBreakerOfAServer has a server fail until a time: all
// pipelines and members together ask no more than opens the breaker, and probe.
func TestPipelinesShareTheBreakerOfAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := time.Now().Add(10 * time.Second)
		var mu sync.Mutex
		failed := 0
		s := &service{instead: func(int, []float64) error {
			if !time.Now().Before(up) {
				return nil
			}
			mu.Lock()
			failed++
			mu.Unlock()
			return blamed(model.BlameWay)
		}}
		call := lang.Calling{Concurrency: 1, Breaker: lang.Breaker{Failures: 3, Probe: 3 * time.Second}}
		for _, r := range runShared(t, sharedPipelines(s, call), 2, 20) {
			if c := r.Counts(); c.Outputs != 20 || c.DeadLetters != 0 {
				t.Errorf("%s: %+v", r.Name(), c)
			}
		}
		if failed < 4 || failed > 3+4 { // a probe each 3 s, or a little earlier
			t.Errorf("%d calls failed in 10 s", failed)
		}
	})
}

// TestMemberDoesNotWaitForItsOwnCalls has events scored in their place beside others
// whose calls were repeated off the loop, at a server of one place: the loop goes on
// while those hold it.
func TestMemberDoesNotWaitForItsOwnCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{instead: func(call int, _ []float64) error {
			if call%5 == 1 {
				return blamed(model.BlameWay)
			}
			return nil
		}}
		p := queueingPipeline(s, steps.Score{Batch: steps.Batch{Size: 1}}, lang.Calling{
			Timeout: time.Hour, Concurrency: 1, Backoff: lang.Backoff{Base: time.Millisecond, Max: time.Millisecond}, Breaker: lang.Breaker{Failures: 100, Open: "queue"},
		})
		runner, err := builtin.New(p, pipeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		log := memory.New(memory.Options{})
		ctx, stop := context.WithCancel(t.Context())
		if err := runner.CreateTopics(ctx, log); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(ctx, log) }()
		start := time.Now()
		for _, e := range queueEvents(500, 10) {
			if err := log.Append(ctx, e); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		err = runner.WaitIdle(ctx, log)
		took := time.Since(start)
		stop()
		if err = errors.Join(err, <-ended); err != nil {
			t.Fatal(err)
		}
		if c := runner.Counts(); c.Outputs != 500 || c.Retries == 0 || took > time.Minute {
			t.Errorf("%d outputs, %d retries in %v", c.Outputs, c.Retries, took)
		}
	})
}

// TestAnswerOfACallThatHangsIsRefused has calls hang that do not heed their
// deadline. Their events are called for again, and each is written once when the
// answers come after all.
func TestAnswerOfACallThatHangsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{instead: func(call int, _ []float64) error {
			if call <= 3 { // all places
				time.Sleep(time.Minute)
			}
			return nil
		}}
		p := queueingPipeline(s, steps.Score{Async: true, Batch: steps.Batch{Size: 4}}, lang.Calling{Timeout: time.Second, Concurrency: 3})
		log := memory.New(memory.Options{})
		runner, err := builtin.New(p, pipeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		if err := errors.Join(runner.CreateTopics(ctx, log), log.Append(ctx, queueEvents(100, 10)...)); err != nil {
			t.Fatal(err)
		}
		go func() { ended <- runner.Run(ctx, log) }()
		start := time.Now()
		for ; runner.Counts().Outputs < 100 && time.Since(start) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		}
		took := time.Since(start)
		time.Sleep(2 * time.Minute)
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for index := range int32(2) {
			reading, done := context.WithTimeout(t.Context(), time.Second)
			for r := range log.Tail(reading, stream.Partition{Topic: "out", Index: index}, 0) {
				if r.Value != nil {
					seen[string(r.Value)]++
				}
			}
			done()
		}
		for i := range 100 {
			if value := fmt.Sprintf(`{"n":%d,"twice":%d}`, i+1, 2*(i+1)); seen[value] != 1 {
				t.Errorf("%s was written %d times", value, seen[value])
			}
		}
		if took >= 10*time.Second { // leases of 3 s
			t.Errorf("the outputs came within %v", took)
		}
	})
}

// TestBreakerOpensAtItsRate has one call of four fail, and never two in a row.
func TestBreakerOpensAtItsRate(t *testing.T) {
	for rate, opens := range map[float64]bool{0: false, 0.2: true, 0.3: false} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{instead: func(call int, _ []float64) error {
				if call%4 == 0 {
					return blamed(model.BlameModel)
				}
				return nil
			}}
			p := queueingPipeline(s, steps.Score{Batch: steps.Batch{Size: 1}, Fallback: []lang.Binding{{Name: "twice", Expr: "-1.0"}}},
				lang.Calling{Breaker: lang.Breaker{Rate: rate, Open: "fallback"}, Concurrency: 1})
			answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, queueEvents(100, 5))
			marked := 0
			for _, values := range byKey(answer, "out") {
				for _, v := range values {
					if strings.Contains(v, `"twice":-1`) {
						marked++
					}
				}
			}
			if marked > 0 != opens {
				t.Errorf("rate %v: %d of 100 outputs are the fallback", rate, marked)
			}
		})
	}
}

// TestCallsKeepTheirShareOfTheBudget looks at the deadlines of calls, in place and
// off the loop.
func TestCallsKeepTheirShareOfTheBudget(t *testing.T) {
	for _, async := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &punctual{}
			p := queueingPipeline(&s.service, steps.Score{Async: async}, lang.Calling{Budget: true})
			p.Budget, p.Code.Models["far"] = lang.Budget{P99: 100 * time.Millisecond, Queue: 20 * time.Millisecond, Model: 65 * time.Millisecond}, s
			answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, queueEvents(10, 3))
			checkOutputs(t, answer, 10, 3, false)
			if s.left != 65*time.Millisecond {
				t.Errorf("async %v: calls have %v", async, s.left)
			}
		})
	}
}

// punctual notes how long its newest call may take.
type punctual struct {
	service
	left time.Duration
}

func (s *punctual) Info() model.Info {
	info := s.service.Info()
	info.Timeout = time.Second // its own
	return info
}

func (s *punctual) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	until, _ := ctx.Deadline()
	s.mu.Lock()
	s.left = time.Until(until)
	s.mu.Unlock()
	return s.service.Predict(ctx, rows, scores)
}
