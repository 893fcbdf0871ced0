package gateway

import (
	"testing"
	"testing/synctest"
	"time"
)

// held is a connection that holds up who sends it away, where none has before.
type held struct {
	by   time.Duration
	once <-chan struct{}
	left chan time.Time
}

func (h *held) tick(time.Time) {}
func (h *held) state() Client  { return Client{} }
func (h *held) leave(closeCode, time.Duration) {
	select {
	case <-h.once:
		time.Sleep(h.by)
	default:
	}
	h.left <- time.Now()
}

// TestDrainKeepsItsWindow sends clients away evenly, and has the gateway stand still
// for half of the window meanwhile.
func TestDrainKeepsItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, window = 100, time.Second
		g := &Gateway{options: Options{DrainWindow: window}, drained: make(chan struct{}), open: map[member]struct{}{}}
		left := make(chan time.Time, clients)
		for range clients {
			g.open[&held{left: left}] = struct{}{}
		}
		began := time.Now()
		g.drain()
		first, last := <-left, time.Time{}
		for range clients - 1 {
			last = <-left
		}
		if first.Sub(began) != 0 || last.Sub(began) != window*(clients-1)/clients {
			t.Errorf("the first was sent away after %v, the last after %v, within %v", first.Sub(began), last.Sub(began), window)
		}

		g = &Gateway{options: Options{DrainWindow: window}, drained: make(chan struct{}), open: map[member]struct{}{}}
		once := make(chan struct{}, 1)
		once <- struct{}{}
		for range clients {
			g.open[&held{by: window / 2, once: once, left: left}] = struct{}{}
		}
		began = time.Now()
		g.drain()
		if took := time.Since(began); took > window {
			t.Errorf("with a stop of %v it took %v, beyond the window of %v", window/2, took, window)
		}
	})
}
