package gateway

import "sync"

// worker runs a function while there is something to do, on a goroutine that it
// has only then: thousands of connections wait without one.
type worker struct {
	mu             sync.Mutex
	running, again bool
}

// kick has do called, once more where it is running, on a goroutine that all
// waits for.
func (w *worker) kick(all *sync.WaitGroup, do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again = true
	if !w.running {
		w.running = true
		all.Go(func() {
			for w.next() {
				do()
			}
		})
	}
}

func (w *worker) next() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.again = w.again, false
	return w.running
}
