package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// TestRedriveOfAQueuedEventQueuesItAgainAndDoesNothingTwice has a model refuse
// events that it is asked about off the loop, also when they are sent back, until
// it is corrected.
func TestRedriveOfAQueuedEventQueuesItAgainAndDoesNothingTwice(t *testing.T) {
	const events, keys = 200, 10
	for _, engine := range []string{"memory", "embedded", "kafka"} {
		for _, ordered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/ordered=%v", engine, ordered), func(t *testing.T) {
				log := openLog(t, engine, t.TempDir())
				defer closeLog(t, log)
				var corrected atomic.Bool
				s := &service{instead: func(_ int, rows []float64) error {
					if slices.ContainsFunc(rows, func(n float64) bool { return int(n)%10 == 0 }) && !corrected.Load() {
						return blamed(model.BlameRows)
					}
					return nil
				}}
				p := queueingPipeline(s, steps.Score{Async: true, Ordered: ordered}, lang.Calling{Attempts: 1},
					&steps.Features{List: []steps.Feature{{Name: "seen", Last: events, Value: "n", Aggregates: []string{"count"}}}},
					&steps.Emit{Topic: "early", Names: []string{"n", "seen.count"}},
				)
				runAll(t, log, p, queueEvents(events, keys))
				for attempts := 1; attempts <= 3; attempts++ {
					open := openLetters(t, log.(deadletter.Log), "parking")
					for _, l := range open {
						if l.Stage != "score" || l.Resume != "from score far" || l.Attempts != attempts || l.Refusal() != "" {
							t.Fatalf("attempt %d: %+v: %s", attempts, l, l.Refusal())
						}
					}
					corrected.Store(attempts == 3)
					if n := settle(t, log.(deadletter.Log), deadletter.Job{Pipeline: "parking"}); n != events/10 || len(open) != n {
						t.Fatalf("attempt %d: %d of %d letters were sent back", attempts, n, len(open))
					}
					runAll(t, log, p, nil)
				}
				if open := openLetters(t, log.(deadletter.Log), "parking"); len(open) > 0 {
					t.Errorf("%d letters are open", len(open))
				}
				for _, topic := range []string{"early", "out"} {
					ids := map[string]bool{}
					for i := range int32(2) {
						for j, r := range readPartition(t, log, stream.Partition{Topic: topic, Index: i}) {
							if id := header.Get(&r, header.ID); ids[id] || !strings.HasSuffix(id, ":"+topic) {
								t.Errorf("%s %d: output %s", topic, j, id)
							} else {
								ids[id] = true
							}
						}
					}
					if len(ids) != events {
						t.Errorf("%d outputs in %s", len(ids), topic)
					}
				}
			})
		}
	}
}

// TestPipelineThatStandsStillCallsForNoQueuedEvents has a model refuse everything
// that is queued, until it is corrected and the pipeline told to go on.
func TestPipelineThatStandsStillCallsForNoQueuedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 2000
		var corrected atomic.Bool
		s := &service{instead: func(int, []float64) error {
			time.Sleep(10 * time.Millisecond)
			if !corrected.Load() {
				return blamed(model.BlameRows)
			}
			return nil
		}}
		p := queueingPipeline(s, steps.Score{Async: true, Batch: steps.Batch{Size: 8}}, lang.Calling{Attempts: 1})
		p.DeadLetters.StopAbove = spec.Share{Of: 0.05, Per: time.Minute}
		log := memory.New(memory.Options{})
		runner, err := builtin.New(p, pipeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		if err := errors.Join(runner.CreateTopics(ctx, log), log.Append(ctx, queueEvents(events, 20)...)); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(ctx, log) }()
		if err := runner.WaitIdle(ctx, log); !errors.Is(err, pipeline.ErrStopped) {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		s.mu.Lock()
		calls := s.calls
		s.mu.Unlock()
		dead := int(runner.Counts().DeadLetters)
		time.Sleep(time.Hour)
		if s.mu.Lock(); s.calls != calls || dead == 0 || dead > events/2 || runner.Snapshot().Queued == 0 {
			t.Errorf("%d dead letters; %d calls, and %d while it stands still", dead, calls, s.calls-calls)
		}
		s.mu.Unlock()
		corrected.Store(true)
		runner.Resume()
		if err := runner.WaitIdle(ctx, log); err != nil {
			t.Error(err)
		}
		if c := runner.Counts(); c.Outputs != uint64(events-dead) || c.DeadLetters != uint64(dead) {
			t.Errorf("%d dead letters before it went on, and then %+v", dead, c)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
