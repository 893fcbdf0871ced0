package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// TestPoisonOfAQuietStreamStopsNobody has a stream begin with as many events that always
// fail as open the breaker. Nothing is read while it is open, and no other event is there
// to compare them with, so the events behind them have to be read to try the endpoint.
func TestPoisonOfAQuietStreamStopsNobody(t *testing.T) {
	const poison, good = 5, 25
	s := &chatStub{takes: time.Millisecond}
	call := lang.Calling{Timeout: time.Minute, Backoff: lang.Backoff{Base: 5 * time.Millisecond, Max: 20 * time.Millisecond}, Breaker: lang.Breaker{Failures: poison, Probe: 20 * time.Millisecond}}
	runner, err := builtin.New(chatPipeline(t, s.start(t), call, steps.Score{Async: true}), pipeline.Options{Members: 1})
	if err != nil {
		t.Fatal(err)
	}
	log := memory.New(memory.Options{})
	var events []stream.Record
	for i := range poison + good {
		q := fmt.Sprint("fine ", i)
		if i < poison {
			q = fmt.Sprint("fails ", i)
		}
		events = append(events, stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte(q), Value: fmt.Appendf(nil, `{"text":%q}`, q)})
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	err = runWhile(t.Context(), runner, log, func(ctx context.Context) error {
		for _, part := range [][]stream.Record{events[:poison], events[poison:]} {
			if err := log.Append(ctx, part...); err != nil {
				return err
			}
			for s.calls() <= poison && ctx.Err() == nil { // a probe tells that the breaker opened
				time.Sleep(time.Millisecond)
			}
		}
		return runner.WaitIdle(ctx, log)
	})
	if err != nil {
		t.Fatal(err)
	}
	out, dead := readPartition(t, log, stream.Partition{Topic: "out"}), readPartition(t, log, stream.Partition{Topic: "chats.dlq"})
	if len(out) != good || len(dead) != poison {
		t.Errorf("%d outputs of %d, %d dead letters of %d", len(out), good, len(dead), poison)
	}
}

// calls returns how often the stub was asked.
func (s *chatStub) calls() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, times := range s.asked {
		n += times
	}
	return n
}
