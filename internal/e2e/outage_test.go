package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	modelserver "github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// quietStub is a chat server. It answers each question, but the one about "odd": its
// first answer does not fit, unless lone, and the others are a failure until it is over.
type quietStub struct {
	status int  // of the failures; 0 is no answer
	ready  bool // it lists its models all the while
	lone   bool // its first answer is a failure too: none shows that the event is poison

	mu    sync.Mutex
	asked int // about "odd"
	over  bool
	tried map[int]chan struct{} // closed when it was asked so often
}

// ServeHTTP implements http.Handler.
func (s *quietStub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	post, odd := r.Method == http.MethodPost, strings.Contains(string(body), "odd")
	s.mu.Lock()
	if odd {
		s.asked++
		if tried := s.tried[s.asked]; tried != nil {
			close(tried)
		}
	}
	fails, unfit := odd && !s.over, odd && s.asked == 1 && !s.lone
	if !post {
		fails = s.asked > 1 && !s.over && !s.ready
	}
	s.mu.Unlock()
	switch {
	case fails && !unfit && s.status == 0:
		<-r.Context().Done()
	case fails && !unfit:
		w.WriteHeader(s.status)
	case unfit:
		fmt.Fprint(w, `{"choices":[{"message":{"content":"I will not say"},"finish_reason":"stop"}]}`)
	case post:
		fmt.Fprint(w, `{"choices":[{"message":{"content":"{\"anger\": 0.5}"},"finish_reason":"stop"}]}`)
	default:
		fmt.Fprint(w, `{}`)
	}
}

// hurried gives the later questions about "odd" less time than all others. So a machine
// that stands still ends no other question.
type hurried struct {
	*modelserver.Model
	stub *quietStub
	time time.Duration
}

// Predict implements model.Model.
func (h hurried) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	if string(rows.Bytes[0]) == "odd" && h.stub.questions() > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.time)
		defer cancel()
	}
	return h.Model.Predict(ctx, rows, scores)
}

func (s *quietStub) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *quietStub) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// quietRun asks about 30 events and then about "odd", on a log of its own. It stops the
// pipeline and starts it again after as many questions as stop, unless that is 0.
func quietRun(t *testing.T, s *quietStub, call lang.Calling, stop, over int) (outputs, dead int) {
	s.tried = map[int]chan struct{}{stop: make(chan struct{}), over: make(chan struct{})}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	p := chatPipeline(t, server.URL, call, steps.Score{Async: true})
	if s.status == 0 {
		p.Code.Models["chat"] = hurried{p.Code.Models["chat"].(*modelserver.Model), s, 100 * time.Millisecond}
	}
	log := memory.New(memory.Options{})
	var events []stream.Record
	for _, q := range append(poisoned(30), "odd") {
		events = append(events, stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte(q), Value: fmt.Appendf(nil, `{"text":%q}`, q)})
	}
	run := func(then func(ctx context.Context, runner *pipeline.Runner) error) {
		t.Helper()
		runner, err := builtin.New(p, pipeline.Options{Members: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := runner.CreateTopics(t.Context(), log); err != nil {
			t.Fatal(err)
		}
		if err := runWhile(t.Context(), runner, log, func(ctx context.Context) error { return then(ctx, runner) }); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(ctx context.Context, runner *pipeline.Runner, times int) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		idle := make(chan error, 1)
		go func() { idle <- runner.WaitIdle(ctx, log) }()
		select {
		case <-s.tried[times]:
			return nil
		case err := <-idle:
			return errors.Join(fmt.Errorf("the event ended after %d questions, before %d", s.questions(), times), err)
		}
	}
	run(func(ctx context.Context, runner *pipeline.Runner) error {
		if err := log.Append(ctx, events[:30]...); err != nil {
			return err
		}
		if err := runner.WaitIdle(ctx, log); err != nil {
			return err
		}
		if err := log.Append(ctx, events[30]); err != nil {
			return err
		}
		if stop == 0 {
			return runner.WaitIdle(ctx, log)
		}
		return wait(ctx, runner, stop)
	})
	run(func(ctx context.Context, runner *pipeline.Runner) error {
		if !s.ready {
			if err := wait(ctx, runner, over); err != nil {
				return err
			}
			s.end()
		}
		return runner.WaitIdle(ctx, log)
	})
	return len(readPartition(t, log, stream.Partition{Topic: "out"})), len(readPartition(t, log, stream.Partition{Topic: "chats.dlq"}))
}

// TestQuietOutageExhaustsNoAttempts has the only event that is left fail once by its own
// fault, and then a thousand times because the server is out of order.
func TestQuietOutageExhaustsNoAttempts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status, tries int
	}{
		"internal error": {http.StatusInternalServerError, 1000},
		"too many":       {http.StatusTooManyRequests, 1000},
		"gateway late":   {http.StatusGatewayTimeout, 1000},
		"no answer":      {0, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &quietStub{status: c.status}
			call := lang.Calling{Timeout: time.Minute, Attempts: 2, Backoff: lang.Backoff{Base: time.Millisecond, Max: time.Millisecond}}
			if outputs, dead := quietRun(t, s, call, c.tries/2, c.tries); outputs != 31 || dead != 0 {
				t.Errorf("%d outputs of 31, %d dead letters after %d questions", outputs, dead, s.asked)
			}
		})
	}
}

// TestPoisonAtAReadyServerEndsAfterItsAttempts has the last event fail at a server that
// says that it is ready. Its first failure counts by itself: the answer does not fit. An
// event without such a failure takes ten times as many (TestLastEventOfAStreamEnds of step). A restart forgets the events that were answered before, so that
// chance explains more of the failures.
func TestPoisonAtAReadyServerEndsAfterItsAttempts(t *testing.T) {
	t.Parallel()
	const attempts = 4
	for _, c := range []struct{ status, stop, most int }{
		{http.StatusInternalServerError, 0, attempts}, {http.StatusGatewayTimeout, 0, attempts}, {http.StatusTooManyRequests, 0, 4 * attempts},
		{http.StatusInternalServerError, 2, 11 * attempts},
	} {
		s := &quietStub{status: c.status, ready: true}
		call := lang.Calling{Timeout: time.Minute, Attempts: attempts, Backoff: lang.Backoff{Base: time.Millisecond, Max: time.Millisecond}}
		if outputs, dead := quietRun(t, s, call, c.stop, attempts); outputs != 30 || dead != 1 || s.asked < attempts || s.asked > c.most {
			t.Errorf("status %d, restart after %d: %d outputs of 30, %d dead letters, asked %d times of %d to %d", c.status, c.stop, outputs, dead, s.asked, attempts, c.most)
		}
	}
}

// TestLastPoisonOfAStreamEnds has the last event fail from its first question on, at a
// server that says that it is ready. No answer follows to compare it with.
func TestLastPoisonOfAStreamEnds(t *testing.T) {
	t.Parallel()
	const attempts = 3
	for _, status := range []int{http.StatusInternalServerError, http.StatusTooManyRequests} {
		s := &quietStub{status: status, ready: true, lone: true}
		call := lang.Calling{Timeout: time.Minute, Attempts: attempts, Backoff: lang.Backoff{Base: time.Millisecond, Max: time.Millisecond}}
		if outputs, dead := quietRun(t, s, call, 0, attempts); outputs != 30 || dead != 1 || s.asked != 10*attempts {
			t.Errorf("status %d: %d outputs of 30, %d dead letters, asked %d times of %d", status, outputs, dead, s.asked, 10*attempts)
		}
	}
}
