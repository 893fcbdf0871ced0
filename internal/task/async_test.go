package task_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// entries counts what the async queue keeps beside partition 0.
func (l *loop) entries() int { return l.stored(statekey.Queued) }

// TestQueuedEventsAreCalledForOnceDurable holds the commit that stores them: no model is
// called before, and what it answers is in a later transaction that removes them.
func TestQueuedEventsAreCalledForOnceDurable(t *testing.T) {
	inLoop(t, func(l *loop) {
		m := &stub{}
		l.counting()
		l.put(l.queued(m, "v"), l.emit(0, "k", "n", "m.score"))
		l.log.held = true
		l.send(at{key: "a", t: 1, v: 1}, at{key: "b", t: 1, v: 2})
		l.start()
		l.pass(time.Second)
		if len(m.calls) != 0 || len(l.log.done()) != 1 || l.entries() != 0 {
			t.Fatalf("%d calls and %d stored after %d transactions", len(m.calls), l.entries(), len(l.log.done()))
		}
		l.log.release()
		if l.pass(time.Second); l.entries() != 2 || len(m.calls) != 1 {
			t.Fatalf("%d calls and %d stored once they were durable", len(m.calls), l.entries())
		}
		l.wants("out")
		l.log.release()
		l.pass(time.Second)
		l.log.held = false
		l.wants("out", `{"k":"a","n":1,"m.score":1}`, `{"k":"b","n":1,"m.score":2}`)
		if n := l.entries(); n != 0 {
			t.Errorf("%d are left in the queue", n)
		}
	})
}

// TestQueuedEventsAreResumedAfterARestart ends the task while a model hangs.
func TestQueuedEventsAreResumedAfterARestart(t *testing.T) {
	inLoop(t, func(l *loop) {
		hangs := true
		m := &stub{answer: func(ctx context.Context, v float64) (float32, error) {
			if hangs {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return float32(v), nil
		}}
		l.counting()
		l.put(l.queued(m, "v"), l.emit(0, "k", "n", "m.score"))
		l.run(at{key: "a", t: 1, v: 1}, at{key: "a", t: 2, v: 2})
		if l.wants("out"); l.entries() != 2 {
			t.Fatalf("%d are queued", l.entries())
		}
		hangs = false
		l.run()
		l.wants("out", `{"k":"a","n":1,"m.score":1}`, `{"k":"a","n":2,"m.score":2}`)
		if n := l.entries(); n != 0 {
			t.Errorf("%d are left in the queue", n)
		}
	})
}

// errOdd is an error of a row that may be of the moment.
var errOdd = errors.New("it is odd")

// TestQueuedEventThatFailsIsGivenUp has a model that fails for odd numbers: each is tried
// twice, and then a dead letter, or what on_failure emits.
func TestQueuedEventThatFailsIsGivenUp(t *testing.T) {
	for _, instead := range []bool{false, true} {
		inLoop(t, func(l *loop) {
			m := &stub{answer: func(_ context.Context, v float64) (float32, error) {
				if int(v)%2 == 1 {
					return 0, errOdd
				}
				return float32(v), nil
			}}
			s := l.queued(m, "v")
			s.Size = 1
			l.put(s, l.emit(0, "v", "m.score"))
			if instead {
				s.OnFailure = []operator.Placed{{Operator: l.emit(1, "k")}}
			}
			l.send(at{key: "a", t: 1, v: 1}, at{key: "b", t: 1, v: 2})
			l.start()
			l.pass(time.Minute)
			if instead {
				l.wants("out", `{"v":2,"m.score":2}`, `{"k":"a"}`)
				l.wants("dead")
			} else {
				l.wants("out", `{"v":2,"m.score":2}`)
				letters := l.records("dead")
				if len(letters) != 1 || header.Get(&letters[0], header.Error) != "stub@1: it is odd" || header.Get(&letters[0], header.Attempts) != "2" || header.Get(&letters[0], header.Resume) != "from score m" {
					t.Errorf("%v", letters)
				}
			}
			if n := len(m.calls); n != 3 || l.entries() != 0 {
				t.Errorf("%d calls of %v, and %d are left in the queue", n, m.calls, l.entries())
			}
		})
	}
}

// TestOrderedQueueKeepsTheEventsOfAKeyBehindEachOther has a second event wait for the first
// one's prediction, though that comes late.
func TestOrderedQueueKeepsTheEventsOfAKeyBehindEachOther(t *testing.T) {
	inLoop(t, func(l *loop) {
		m := &stub{answer: func(_ context.Context, v float64) (float32, error) {
			time.Sleep(time.Second) // of the bubble's clock
			return float32(v), nil
		}}
		l.plan.Ordered, l.plan.Feedback = true, true
		s := l.queued(m, "v")
		read, add := l.count("past", "m.score", true)
		l.put(operator.NewFeatures([]operator.Feature{read}), s, operator.NewFeatures([]operator.Feature{add}), l.emit(0, "k", "past", "m.score"))
		l.send(at{key: "a", t: 1, v: 1}, at{key: "a", t: 1, v: 2}, at{key: "b", t: 1, v: 5}, at{key: "a", t: 1, v: 3})
		l.start()
		l.pass(time.Minute)
		l.wants("out", `{"k":"a","past":0,"m.score":1}`, `{"k":"b","past":0,"m.score":5}`, `{"k":"a","past":1,"m.score":2}`, `{"k":"a","past":3,"m.score":3}`)
		if n := l.entries(); n != 0 {
			t.Errorf("%d are left in the queue", n)
		}
	})
}

// TestClientCancelsAQueuedEvent has its call abandoned, and nothing written.
func TestClientCancelsAQueuedEvent(t *testing.T) {
	inLoop(t, func(l *loop) {
		abandoned := false
		m := &stub{answer: func(ctx context.Context, v float64) (float32, error) {
			<-ctx.Done()
			abandoned = true
			return 0, ctx.Err()
		}}
		l.put(l.queued(m, "v"), l.emit(0, "v"))
		l.send(at{key: "a", t: 1, v: 1, headers: []stream.Header{{Key: header.ClientEvent, Value: []byte("c/1")}}})
		l.start()
		if l.pass(time.Second); l.entries() != 1 || len(m.calls) != 1 {
			t.Fatalf("%d are queued", l.entries())
		}
		l.send(at{key: "a", t: 1, headers: []stream.Header{{Key: header.Cancel, Value: []byte("c/1")}}})
		l.pass(time.Second)
		if counts := l.metrics.Counts(); l.entries() != 0 || !abandoned || counts.Events != 1 || counts.Dropped != 1 {
			t.Errorf("%d are queued, the call was abandoned: %v, %+v", l.entries(), abandoned, counts)
		}
		l.wants("out")
		l.wants("dead")
	})
}

// TestOperatorDropsQueuedEvents gives the command of `afterbay queue drop`.
func TestOperatorDropsQueuedEvents(t *testing.T) {
	inLoop(t, func(l *loop) {
		m := &stub{answer: func(ctx context.Context, v float64) (float32, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}}
		l.put(l.queued(m, "v"), l.emit(0, "v"))
		l.send(at{key: "a", t: 1, v: 1}, at{key: "b", t: 1, v: 1})
		l.start()
		l.pass(time.Second)
		if n, err := l.task.Command(l.Context(), async.Command{Drop: true, Partition: -1, Offset: 1}); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		l.pass(time.Millisecond * 10)
		if letters := l.records("dead"); len(letters) != 1 || l.entries() != 1 {
			t.Errorf("%v, and %d in the queue", letters, l.entries())
		}
	})
}
