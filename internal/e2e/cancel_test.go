package e2e_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// endless answers no row below 100 until its call is cancelled.
type endless struct {
	service
	under, cancelled atomic.Int64
}

func (e *endless) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	if rows.Values[0] >= 100 {
		return e.service.Predict(ctx, rows, scores)
	}
	e.under.Add(1)
	defer e.under.Add(-1)
	<-ctx.Done()
	e.cancelled.Add(1)
	return ctx.Err()
}

// TestEventsThatAreGivenUpStopTheirCalls has a client, or an operator, give up an
// event that a model is being asked about.
func TestEventsThatAreGivenUpStopTheirCalls(t *testing.T) {
	for _, how := range []string{"client", "client, copied", "client, queues nothing", "operator"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endless{}
				p := queueingPipeline(&e.service, steps.Score{Async: true, Ordered: true, Batch: steps.Batch{Size: 1}}, lang.Calling{Timeout: time.Hour})
				p.Code.Models["far"] = e
				queues := how != "client, queues nothing"
				if !queues {
					p.Models, p.Steps = nil, []lang.Step{&steps.Emit{Topic: "out", Names: []string{"n"}}}
				}
				if how == "client, copied" {
					p.Input.Repartition = 2
				}
				log := memory.New(memory.Options{})
				runner := newRunner(t, p, pipeline.Options{Members: 2})
				if err := runner.CreateTopics(t.Context(), log); err != nil {
					t.Fatal(err)
				}
				events := fromClient(row("in", "k", `{"k":"k","n":1}`), row("in", "k", `{"k":"k","n":100}`))
				if err := log.Append(t.Context(), events...); err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- runner.Run(ctx, log) }()
				for queues && e.under.Load() == 0 {
					time.Sleep(time.Millisecond)
				}
				if how == "operator" {
					if n, err := runner.Command(ctx, async.Command{Drop: true, Partition: -1, Offset: 0}); n != 1 || err != nil {
						t.Errorf("%d, %v", n, err)
					}
				} else if err := log.Append(t.Context(), stream.Record{
					Partition: stream.Partition{Topic: "in", Index: stream.ByKey}, Key: []byte("k"),
					Headers: []stream.Header{{Key: header.Cancel, Value: []byte(clientEvent(0))}},
				}); err != nil {
					t.Fatal(err)
				}
				if err := runner.WaitIdle(ctx, log); err != nil { // it would take an hour
					t.Fatal(err)
				}
				stop()
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				out, c := 0, runner.Counts()
				for i := range int32(2) {
					out += len(readPartition(t, log, stream.Partition{Topic: "out", Index: i}))
				}
				want, dead := 1, uint64(0)
				if !queues {
					want = 2
				}
				if how == "operator" {
					dead = 1
				}
				if out != want || c.DeadLetters != dead || queues && e.cancelled.Load() != 1 {
					t.Errorf("%d outputs, %d dead letters, %d calls cancelled: %s", out, c.DeadLetters, e.cancelled.Load(), fmt.Sprint(c))
				}
			})
		})
	}
}
