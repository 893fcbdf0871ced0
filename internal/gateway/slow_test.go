package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// TestClientThatDoesNotReadHoldsUpNobodyAndLosesNothing has a client stand still
// while its results come: its queue goes back to the log, its connection ends, and
// it has all of them when it comes again.
func TestClientThatDoesNotReadHoldsUpNobodyAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{Ping: time.Hour, Hub: hub.Options{QueueBytes: 32 << 10}})
		defer w.close()
		slow, connected := w.connect("slow", nil)
		other, _ := w.connect("other", nil)
		const events = 400
		for i := range events {
			body := fmt.Sprintf(`{"type":"event","eventId":"e%d","payload":%q}`, i, strings.Repeat("x", 1000))
			w.lines(w.request(http.MethodPost, "/v1/events", "slow", body))
		}
		synctest.Wait()
		began := time.Now()
		w.ok(other.send(event("e", `1`)))
		w.receive(other)
		w.receive(other)
		if took := time.Since(began); took != 0 {
			t.Errorf("another client waited %v", took)
		}
		if n := w.gateway.Hub().Queued.Load(); n > events/4 { // in pages, and the other's
			t.Errorf("%d records of 1 KB were queued, within 32 KiB", n)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := w.gateway.Metrics().Connections.Load(); n != 1 {
			t.Errorf("%d connections are open, want that of the other", n)
		}
		_ = slow.Close()
		again, _ := w.connect("slow", &wire.Resume{Cursor: connected.Cursor})
		for seq := range uint64(events) {
			if f, ok := w.receive(again).(*wire.ResultFrame); !ok || f.Seq != seq+1 {
				t.Fatalf("%+v, want result %d", f, seq+1)
			}
		}
	})
}
