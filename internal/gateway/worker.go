package gateway

import "sync"

// worker runs a function while there is work. It uses a goroutine of crew only during that time, so
// that thousands of idle connections need no goroutine.
type worker struct {
	do   func(patient bool) (more bool) // one turn; if patient is false, do only fast work and return true if more is left
	crew *crew

	mu             sync.Mutex
	running, again bool
}

// kick makes a goroutine call do until there is no more work. If do is already running, it will run
// once more.
func (w *worker) kick() {
	if w.begin() {
		w.crew.send(w)
	}
}

// run is like kick, but the caller runs the first turn itself, with patient false. This is cheaper
// than another goroutine.
func (w *worker) run() {
	if w.begin() && (w.do(false) || w.next()) {
		w.crew.send(w)
	}
}

// begin reports whether the caller must start the work.
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

// next reports whether to run again because of a kick in the meantime.
func (w *worker) next() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.again = w.again, false
	return w.running
}

// crewIdle is the maximum number of idle goroutines that a crew keeps.
const crewIdle = 64

// crew is a pool of goroutines, one for each running worker. A few idle goroutines stay: the stack
// of a new goroutine would have to grow again.
type crew struct {
	busy    *sync.WaitGroup // counts the running workers
	members sync.WaitGroup
	idle    chan struct{} // holds an element for each idle goroutine
	workers chan *worker
	done    chan struct{}
}

func newCrew(busy *sync.WaitGroup) *crew {
	return &crew{busy: busy, idle: make(chan struct{}, crewIdle), workers: make(chan *worker), done: make(chan struct{})}
}

// send runs w on an idle or new goroutine.
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

// end ends the goroutines. No worker may be running.
func (c *crew) end() {
	close(c.done)
	c.members.Wait()
}
