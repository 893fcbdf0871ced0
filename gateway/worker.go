package gateway

import "sync"

// worker runs a function while there is something to do, on a goroutine that it
// has only then: thousands of connections wait without one.
type worker struct {
	do  func(patient bool) (more bool) // one turn; where it is not patient it does what takes no time, and says that there is more
	all *sync.WaitGroup                // waits for the goroutines

	mu             sync.Mutex
	running, again bool
}

// kick has do called, once more where it is running, until there is nothing more.
func (w *worker) kick() {
	if w.begin() {
		w.start()
	}
}

// run is kick, but its caller takes the first turn, without patience: that costs
// less than another goroutine.
func (w *worker) run() {
	if w.begin() && (w.do(false) || w.next()) {
		w.start()
	}
}

// begin reports whether the caller is to work.
func (w *worker) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again = w.running
	w.running = true
	return !w.again
}

func (w *worker) start() {
	w.all.Add(1)
	go func() {
		defer w.all.Done()
		for more := true; more; more = w.next() {
			for w.do(true) {
			}
		}
	}()
}

// next reports whether to go on, since somebody asked for it meanwhile.
func (w *worker) next() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.again = w.again, false
	return w.running
}
