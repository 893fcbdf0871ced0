package gateway_test

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// acking is a connection of a client that promised an ack for every second result.
func (w *world) acking(client string) *raw {
	w.Helper()
	c, _, err := dialRaw(w.listener.dial(), offered, "Authorization: Bearer acme."+client)
	w.ok(err)
	c.pongs = true
	w.ok(c.send(&wire.Connect{AckEvery: 2}))
	w.receive(c)
	return c
}

// two sends two events and returns the cursors of their results.
func (w *world) two(c *raw, name string) (cursors [2]string) {
	w.Helper()
	for i := range cursors {
		w.ok(c.send(event(fmt.Sprint(name, i), `1`)))
		for cursors[i] == "" {
			if f, ok := w.receive(c).(*wire.ResultFrame); ok {
				cursors[i] = f.Cursor
			}
		}
	}
	return cursors
}

// pings has a connection answer pings for so long, unless it is ended by another
// frame: then it returns how. The gateway may end the connection while a pong is sent, and
// its last frame is read all the same.
func (w *world) pings(c *raw, d time.Duration) (how *closed) {
	w.Helper()
	var pongs sync.WaitGroup
	defer pongs.Wait()
	for until := time.Now().Add(d); ; {
		_ = c.SetReadDeadline(until)
		_, message, err := c.next()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &how):
			return how
		case err != nil:
			w.Fatal(err)
		case string(message) == `{"type":"ping"}`:
			pongs.Go(func() { _ = c.send(&wire.Pong{}) })
		}
	}
}

// TestAckIsOwedFromTheResultOnThatItWasPromisedFor has a client that was idle for
// minutes take its time for an ack: less than a minute is not slow.
func TestAckIsOwedFromTheResultOnThatItWasPromisedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		c := w.acking("ada")
		hold := func(d time.Duration) {
			t.Helper()
			if how := w.pings(c, d); how != nil {
				t.Fatal(how)
			}
		}
		hold(5 * time.Minute)
		cursors := w.two(c, "a")
		hold(55 * time.Second)
		if n := w.gateway.Clients()[0].Unacked; n != 2 {
			t.Errorf("%d results are not acknowledged, want 2", n)
		}
		w.ok(c.send(&wire.Ack{Cursor: cursors[1]}))
		hold(5 * time.Minute)
		if n := w.gateway.Clients()[0].Unacked; n != 0 {
			t.Errorf("%d results are not acknowledged, want none", n)
		}
	})
}

// TestClientThatDoesNotGoOnIsSlow ends the connection of one that acknowledges
// nothing, or the same again and again.
func TestClientThatDoesNotGoOnIsSlow(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, gateway.Options{})
			defer w.close()
			c := w.acking("ada")
			old := w.two(c, "a")
			w.ok(c.send(&wire.Ack{Cursor: old[1]}))
			w.two(c, "b")
			began := time.Now()
			if again {
				for range 5 {
					w.pings(c, 10*time.Second)
					w.ok(c.send(&wire.Ack{Cursor: old[1]}))
				}
			}
			how := w.pings(c, 2*time.Minute)
			if took := time.Since(began); how == nil || how.code != 4504 || took < time.Minute || took > time.Minute+2*time.Second {
				t.Errorf("acks of the old cursor %v: ended by %v after %v", again, how, took)
			}
		})
	}
}

// TestTokenThatIsBroughtKeepsItsConnection has the one before end meanwhile.
func TestTokenThatIsBroughtKeepsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		until := func(d time.Duration) string { return fmt.Sprint("acme.ada.", time.Now().Add(d).Unix()) }
		c, _, err := dialRaw(w.listener.dial(), offered, "Authorization: Bearer "+until(time.Minute))
		w.ok(err)
		c.pongs = true
		w.ok(c.send(&wire.Connect{}))
		w.receive(c)
		w.ok(c.send(&wire.Refresh{Token: until(10 * time.Minute)}))
		if f, ok := w.receive(c).(*wire.Refreshed); !ok {
			t.Errorf("%+v", f)
		}
		if how := w.pings(c, 9*time.Minute); how != nil {
			t.Error(how)
		}
		if how := w.pings(c, 2*time.Minute); how == nil || how.code != 4502 {
			t.Errorf("the second one ended, and the connection by %v", how)
		}
	})
}
