package gateway

import (
	"testing"
	"testing/synctest"
	"time"
)

// held is a connection that holds up who sends it away, where none has before.
type held struct {
	began time.Time // the drain
	by    time.Duration
	once  <-chan struct{}
	left  chan departure
}

// departure is when a connection was sent away, and when it is to come back, both after
// the drain began.
type departure struct{ at, back time.Duration }

func (h *held) tick(time.Time) {}
func (h *held) state() Client  { return Client{} }
func (h *held) leave(_ closeCode, after time.Duration) {
	at := time.Since(h.began)
	select {
	case <-h.once:
		time.Sleep(h.by)
	default:
	}
	h.left <- departure{at, at + after}
}

// TestDrainKeepsItsWindow sends clients away evenly, also where the gateway stands still
// for half of the window meanwhile: they are all sent away within it, and come back
// evenly.
func TestDrainKeepsItsWindow(t *testing.T) {
	const clients, window = 100, time.Second
	for _, stop := range []time.Duration{0, window / 2} {
		synctest.Test(t, func(t *testing.T) {
			g := &Gateway{options: Options{DrainWindow: window}, connections: connections{drained: make(chan struct{}), open: map[member]struct{}{}}}
			began, left, once := time.Now(), make(chan departure, clients), make(chan struct{}, 1)
			once <- struct{}{}
			for range clients {
				g.open[&held{began: began, by: stop, once: once, left: left}] = struct{}{}
			}
			g.drain()
			if took := time.Since(began); took > window {
				t.Errorf("with a stop of %v it took %v, beyond the window of %v", stop, took, window)
			}
			for i := range time.Duration(clients) {
				turn, got := i*window/clients, <-left
				if got.at != turn && stop == 0 || got.back != turn+drainPause {
					t.Fatalf("with a stop of %v client %d was sent away after %v, to come back after %v; its turn is %v", stop, i, got.at, got.back, turn)
				}
			}
		})
	}
}
