package gateway_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/afterbay/afterbay/gateway"
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
