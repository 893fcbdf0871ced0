package gateway_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/gateway"
	"github.com/afterbay/afterbay/gateway/hub"
	"github.com/afterbay/afterbay/gateway/wire"
	"github.com/afterbay/afterbay/stream"
)

// stuck is a log whose appends wait until it is released.
type stuck struct {
	gateway.Log
	released chan struct{}
}

func (l *stuck) Append(ctx context.Context, records ...stream.Record) error {
	<-l.released
	return l.Log.Append(ctx, records...)
}

// TestLogThatStandsStillBoundsWhatAllConnectionsHold has clients, each within its own
// limit, send more than the gateway may hold.
func TestLogThatStandsStillBoundsWhatAllConnectionsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		w.finish()
		log := &stuck{w.log, make(chan struct{})}
		w.reads = log
		stop := w.start(gateway.Options{CursorKey: []byte(cursorKey), AppendingBytes: 4 << 10})
		ada, _ := w.connect("ada", nil)
		bob, _ := w.connect("bob", nil)
		w.ok(ada.send(event("a1", `1`)))
		synctest.Wait() // it is being appended
		for _, id := range []string{"a2", "a3", "a4"} {
			w.ok(ada.send(event(id, `1`)))
		}
		synctest.Wait()
		for _, id := range []string{"b1", "b2", "b3", "b4"} {
			w.ok(bob.send(event(id, `1`)))
		}
		f := w.receive(bob)
		if b, ok := f.(*wire.Backpressure); !ok || b.Reason != wire.ReasonOverload || b.EventID != "b4" || b.RetryAfterMs <= 0 {
			t.Errorf("%+v", f)
		}
		if n := w.gateway.Metrics().Overloaded.Load(); n != 1 {
			t.Errorf("%d are counted", n)
		}
		close(log.released)
		synctest.Wait()
		_ = ada.Close()
		w.ok(bob.Close())
		again, _ := w.connect("bob", &wire.Resume{From: wire.FromEarliest})
		for _, id := range []string{"b1", "b2", "b3"} {
			if f, ok := w.receive(again).(*wire.ResultFrame); !ok || f.EventID != id {
				t.Errorf("%+v, want %s", f, id)
			}
		}
		w.ok(again.send(event("b4", `1`))) // all that was held is given back
		for range 2 {
			if f := w.receive(again); f.Name() == "backpressure" {
				t.Errorf("%+v", f)
			}
		}
		stop()
	})
}

// still is a log whose beginning nobody can read until it is released.
type still struct {
	gateway.Log
	released chan struct{}
}

func (l *still) Tail(ctx context.Context, p stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		_, next, err := l.Offsets(ctx, p)
		if err == nil && from == 0 && next > 0 {
			select {
			case <-l.released:
			case <-ctx.Done():
				yield(stream.Record{}, ctx.Err())
				return
			}
		}
		for r, err := range l.Log.Tail(ctx, p, from) {
			if !yield(r, err) {
				return
			}
		}
	}
}

// TestLogThatIsNotReadHoldsUpNoAnswers has a client whose results cannot be read for
// a minute, as when a broker is gone: its events are answered and it is pinged
// meanwhile, and all of its results come after that.
func TestLogThatIsNotReadHoldsUpNoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		const before = 3
		var lines []string
		for i := range before {
			lines = append(lines, fmt.Sprintf(`{"type":"event","eventId":"e%d","payload":%d}`, i, i))
		}
		w.lines(w.request(http.MethodPost, "/v1/events", "ada", strings.Join(lines, "\n")))
		synctest.Wait()
		w.finish()
		log := &still{w.log, make(chan struct{})}
		w.reads = log
		defer w.start(gateway.Options{CursorKey: []byte(cursorKey), Hub: hub.Options{IndexRecords: 1}})()
		c, _ := w.connect("ada", &wire.Resume{From: wire.FromEarliest})
		time.Sleep(time.Second)
		began := time.Now()
		defer time.AfterFunc(2*time.Minute, func() { _ = c.Close() }).Stop()
		w.ok(c.send(event("e3", `3`)))
		if f, ok := w.receive(c).(*wire.Accepted); !ok || time.Since(began) > 5*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), f)
		}
		pings := 0
		for time.Since(began) < time.Minute {
			f, err := c.receive()
			w.ok(err)
			if _, ping := f.(*wire.Ping); !ping {
				t.Fatalf("%+v", f)
			}
			pings++
			w.ok(c.send(&wire.Pong{}))
		}
		if pings < 3 {
			t.Errorf("%d pings in a minute", pings)
		}
		close(log.released)
		for seq := range uint64(before + 1) {
			if f, ok := w.receive(c).(*wire.ResultFrame); !ok || f.Seq != seq+1 {
				t.Errorf("%+v, want result %d", f, seq+1)
			}
		}
	})
}
