package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/gateway/wire"
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

// stick has the gateway end, and the next one be on a log that takes nothing.
func (w *world) stick() *stuck {
	w.Helper()
	w.finish()
	log := &stuck{w.log, make(chan struct{})}
	w.reads = log
	return log
}

// TestEventThatIsSentAgainAndAgainIsBounded has a client send one while the log
// stands still: each time takes memory.
func TestEventThatIsSentAgainAndAgainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		log := w.stick()
		defer w.start(gateway.Options{CursorKey: []byte(cursorKey), PendingLimit: 3})()
		defer close(log.released)
		ada, _ := w.connect("ada", nil)
		for range 4 {
			w.ok(ada.send(event("a", `1`)))
			synctest.Wait() // it is being appended, or waits
		}
		if b, ok := w.receive(ada).(*wire.Backpressure); !ok || b.Reason != wire.ReasonPendingLimit || b.Pending != 3 {
			t.Errorf("%+v", b)
		}
	})
}

// TestLogThatStandsStillBoundsWhatAllConnectionsHold has clients, each within its own
// limit, send more than the gateway may hold.
func TestLogThatStandsStillBoundsWhatAllConnectionsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		log := w.stick()
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
	fails    error // of who reads it before; nil where it stands still
}

func (l *still) Tail(ctx context.Context, p stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		_, next, err := l.Offsets(ctx, p)
		if err == nil && from == 0 && next > 0 {
			if l.fails != nil {
				yield(stream.Record{}, l.fails)
				return
			}
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
		log, stop := w.standStill()
		defer stop()
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
		for seq := range uint64(resultsBefore + 1) {
			if f, ok := w.receive(c).(*wire.ResultFrame); !ok || f.Seq != seq+1 {
				t.Errorf("%+v, want result %d", f, seq+1)
			}
		}
	})
}

// resultsBefore ada has in the log that stands still.
const resultsBefore = 3

// standStill has the gateway replaced by one on a log with results of ada that nobody
// can read.
func (w *world) standStill() (log *still, stop func()) {
	w.Helper()
	var lines []string
	for i := range resultsBefore {
		lines = append(lines, fmt.Sprintf(`{"type":"event","eventId":"e%d","payload":%d}`, i, i))
	}
	w.lines(w.request(http.MethodPost, "/v1/events", "ada", strings.Join(lines, "\n")))
	synctest.Wait()
	w.finish()
	log = &still{w.log, make(chan struct{}), nil}
	w.reads = log
	return log, w.start(gateway.Options{CursorKey: []byte(cursorKey), Hub: hub.Options{IndexRecords: 1}})
}

// TestLogThatIsNotReadHoldsUpNoStream has a client of server-sent events whose results
// cannot be read: it is connected and pinged, and has all of them when they can be. One
// whose gateway ends meanwhile hears that.
func TestLogThatIsNotReadHoldsUpNoStream(t *testing.T) {
	for name, drained := range map[string]bool{"read again": false, "drained": true} {
		bubble := func(t *testing.T) {
			w := newWorld(t, gateway.Options{})
			defer w.close()
			_, from := w.connect("ada", nil)
			log, stop := w.standStill()
			defer stop()
			var release sync.Once
			defer time.AfterFunc(10*time.Minute, func() { release.Do(func() { close(log.released) }) }).Stop()
			began := time.Now()
			s := w.listen("ada", "Last-Event-ID", from.Cursor)
			if f, ok := s.next().(*wire.Connected); !ok || time.Since(began) > 0 {
				t.Errorf("after %v: %+v", time.Since(began), f)
			}
			time.Sleep(time.Minute)
			if n := s.pings.Load(); n < 3 {
				t.Errorf("%d pings in a minute", n)
			}
			if drained {
				began = time.Now()
				go stop()
				const readTimeout, pause = 5 * time.Second, 2 * time.Second
				f, ok := s.next().(*wire.Disconnect)
				if took := time.Since(began); !ok || f.Code != 4501 || took > readTimeout || f.RetryAfterMs != max(0, pause-took).Milliseconds() {
					t.Errorf("after %v: %+v", took, f)
				}
				if e, ok := <-s.events; ok {
					t.Errorf("then %+v", e)
				}
				return
			}
			release.Do(func() { close(log.released) })
			for seq := range uint64(resultsBefore) {
				if f, ok := s.next().(*wire.ResultFrame); !ok || f.Seq != seq+1 {
					t.Errorf("%+v, want result %d", f, seq+1)
				}
			}
			w.ok(s.body.Close())
		}
		t.Run(name, func(t *testing.T) { synctest.Test(t, bubble) })
	}
}

// TestLogThatIsNotReadHoldsUpNoPoll has polls of results that cannot be read: each is
// answered when its wait is over, and the next one goes on where it was.
func TestLogThatIsNotReadHoldsUpNoPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		_, from := w.connect("ada", nil)
		log, stop := w.standStill()
		defer stop()
		var release sync.Once
		defer time.AfterFunc(10*time.Minute, func() { release.Do(func() { close(log.released) }) }).Stop()
		poll := func(wait time.Duration) []wire.Frame {
			r := w.request(http.MethodGet, fmt.Sprintf("/v1/results?wait=%v&cursor=%s", wait, from.Cursor), "ada", "")
			from.Cursor = r.Header.Get(gateway.CursorHeader)
			return w.lines(r)
		}
		for _, wait := range []time.Duration{0, 3 * time.Second, 20 * time.Second} {
			began := time.Now()
			if frames := poll(wait); len(frames) > 0 || time.Since(began) < wait || time.Since(began) > wait+time.Second {
				t.Errorf("a wait of %v is answered after %v by %+v", wait, time.Since(began), frames)
			}
		}
		release.Do(func() { close(log.released) })
		seq := uint64(0)
		for range resultsBefore {
			for _, f := range poll(20 * time.Second) {
				if seq++; f.(*wire.ResultFrame).Seq != seq {
					t.Errorf("%+v, want result %d", f, seq)
				}
			}
		}
		if seq != resultsBefore {
			t.Errorf("%d results, want %d", seq, resultsBefore)
		}
	})
}

// mute is a log that does not say what it has.
type mute struct{ gateway.Log }

func (mute) Offsets(ctx context.Context, _ stream.Partition) (first, next stream.Offset, err error) {
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Minute):
	}
	return 0, 0, context.DeadlineExceeded
}

// TestLogThatSaysNothingIsSaid connects by every way while the log does not even say
// where it ends: all are told soon to come again.
func TestLogThatSaysNothingIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		w.finish()
		w.reads = mute{w.log}
		var out bytes.Buffer // written by its handler, a line at a time
		defer w.start(gateway.Options{CursorKey: []byte(cursorKey), Logger: slog.New(slog.NewJSONHandler(&out, nil))})()
		for _, query := range []string{"", "?wait=0s", "?wait=20s"} {
			began := time.Now()
			r := w.request(http.MethodGet, "/v1/results"+query, "ada", "", "X-Correlation-Id", "by"+query)
			body, err := io.ReadAll(r.Body)
			w.ok(err)
			if w.ok(r.Body.Close()); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || time.Since(began) > 5*time.Second {
				t.Errorf("%q after %v: %s, %s", query, time.Since(began), r.Status, body)
			}
		}
		c, _, err := dialRaw(w.listener.dial(), offered, "Authorization: Bearer acme.ada", "X-Correlation-Id: by socket")
		w.ok(err)
		w.ok(c.send(&wire.Connect{ID: 1}))
		if frames, how := w.ends(c); how == nil || how.code != 4507 {
			t.Errorf("%+v, %+v", frames, how)
		}
		synctest.Wait()
		for _, by := range []string{"by", "by?wait=0s", "by?wait=20s", "by socket"} {
			if !strings.Contains(out.String(), `"msg":"gateway: subscribe","error":"subscribe to results/1: context deadline exceeded","correlation":"`+by+`"}`) {
				t.Errorf("no line says why a request %q was refused:\n%s", by, out.String())
			}
		}
	})
}
