package gateway

import "sync"

// worker runs a function while there is something to do, on a goroutine of crew
// that it has only then: thousands of connections wait without one.
type worker struct {
	do   func(patient bool) (more bool) // one turn; where it is not patient it does what takes no time, and says that there is more
	crew *crew

	mu             sync.Mutex
	running, again bool
}

// kick has do called, once more where it is running, until there is nothing more.
func (w *worker) kick() {
	if w.begin() {
		w.crew.send(w)
	}
}

// run is kick, but its caller takes the first turn, without patience: that costs
// less than another goroutine.
func (w *worker) run() {
	if w.begin() && (w.do(false) || w.next()) {
		w.crew.send(w)
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

func (w *worker) loop() {
	for more := true; more; more = w.next() {
		for w.do(true) {
		}
	}
}

// next reports whether to go on, since somebody asked for it meanwhile.
func (w *worker) next() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.again = w.again, false
	return w.running
}

// crewIdle is how many goroutines of a crew wait for the next worker.
const crewIdle = 64

// crew is the goroutines of workers, as many as there are workers that run. A few
// stay when they have nothing to do: the stack of another one would have to grow.
type crew struct {
	busy    *sync.WaitGroup // waits for those that work
	members sync.WaitGroup
	idle    chan struct{} // a place for each that waits
	workers chan *worker
	done    chan struct{}
}

func newCrew(busy *sync.WaitGroup) *crew {
	return &crew{busy: busy, idle: make(chan struct{}, crewIdle), workers: make(chan *worker), done: make(chan struct{})}
}

// send has a goroutine do what there is for w.
func (c *crew) send(w *worker) {
	c.busy.Add(1)
	select {
	case c.workers <- w:
	default:
		c.members.Go(func() { c.work(w) })
	}
}

func (c *crew) work(w *worker) {
	for {
		w.loop()
		c.busy.Done()
		select {
		case c.idle <- struct{}{}:
		default:
			return
		}
		select {
		case w = <-c.workers:
			<-c.idle
		case <-c.done:
			return
		}
	}
}

// end ends the goroutines, when none works any more.
func (c *crew) end() {
	close(c.done)
	c.members.Wait()
}
