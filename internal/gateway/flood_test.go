package gateway_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/limit"
	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// TestFramesThatAreNoEventsAreBoundedToo has clients send what costs the gateway
// something, without end.
func TestFramesThatAreNoEventsAreBoundedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{Tenants: limit.Options{Rate: 1, Burst: 30}})
		defer w.close()
		flood := func(name, message string, code, least int, c *raw) {
			t.Helper()
			first := byte(fin | opText)
			if message == "" {
				first = fin | opPing
			}
			go func() {
				for err := error(nil); err == nil; { // until it is closed
					_, err = c.Write(frame(first, []byte(message)))
				}
			}()
			frames, how := w.ends(c)
			if how == nil || how.code != code || len(frames) < least {
				t.Errorf("%s: %d answers, then %v, want %d", name, len(frames), how, code)
			}
			_ = c.Close()
		}
		stranger, _, err := dialRaw(w.listener.dial(), offered)
		w.ok(err)
		flood("a stranger", `{"type":"fly"}`, 4000, 16, stranger)
		stranger, _, err = dialRaw(w.listener.dial(), offered)
		w.ok(err)
		flood("a stranger's pings", "", 4000, 0, stranger)
		ada, _ := w.connect("ada", nil)
		flood("bad frames", `{"type":"fly"}`, 4506, 20, ada)

		of := func(tenant string) *raw {
			c, _, err := dialRaw(w.listener.dial(), offered, "Authorization: Bearer "+tenant+".bob")
			w.ok(err)
			w.ok(c.send(&wire.Connect{}))
			w.receive(c)
			return c
		}
		flood("tokens", `{"type":"refresh","token":"other.bob"}`, 4506, 20, of("other"))
		flood("events that are wrong", `{"type":"event","eventId":"no id","payload":1}`, 4506, 20, of("third"))
		flood("pings", "", 4506, 0, of("fourth"))
		flood("pongs that nobody asked for", `{"type":"pong"}`, 4506, 0, of("fifth"))
		time.Sleep(time.Minute) // the tenant rests
		ada, connected := w.connect("ada", nil)
		flood("acks of nothing", `{"type":"ack","cursor":"`+connected.Cursor+`"}`, 4506, 0, ada)
	})
}
