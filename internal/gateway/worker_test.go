package gateway

import (
	"sync"
	"testing"
	"testing/synctest"
)

func TestWorkerTurnsOnceMoreForThoseWhoCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, turn := 0, make(chan bool)
		var all sync.WaitGroup
		w := worker{crew: newCrew(&all), do: func(bool) bool { turns++; return <-turn }}
		w.kick()
		synctest.Wait()
		for range 3 {
			w.kick()
			w.run() // another goroutine is at it: this one does not wait
		}
		turn <- true
		turn <- false
		turn <- false // for all that came meanwhile
		all.Wait()
		if turns != 3 {
			t.Errorf("%d turns, want 3", turns)
		}
		w.kick()
		turn <- false
		all.Wait()
		w.crew.end()
	})
}

func TestWorkerLeavesToAnotherGoroutineWhatTakesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns []bool
		slow := make(chan struct{})
		var all sync.WaitGroup
		w := worker{crew: newCrew(&all), do: func(patient bool) bool {
			turns = append(turns, patient)
			if patient {
				<-slow
			}
			return !patient
		}}
		w.run()
		synctest.Wait()
		close(slow)
		all.Wait()
		w.crew.end()
		if len(turns) != 2 || turns[0] || !turns[1] {
			t.Errorf("turns with patience: %v, want one without and one with it", turns)
		}
	})
}

func TestCrewKeepsAFewGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		c := newCrew(&all)
		free := make(chan struct{})
		var workers [3 * crewIdle]worker
		for i := range workers {
			workers[i] = worker{crew: c, do: func(bool) bool { <-free; return false }}
			workers[i].kick()
		}
		close(free)
		all.Wait()
		synctest.Wait()
		if n := len(c.idle); n != crewIdle {
			t.Errorf("%d goroutines wait, want %d", n, crewIdle)
		}
		workers[0].kick()
		all.Wait()
		c.end() // or the test waits for ever
	})
}
