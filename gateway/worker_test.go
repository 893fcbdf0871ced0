package gateway

import (
	"sync"
	"testing"
	"testing/synctest"
)

func TestWorkerTurnsOnceMoreForThoseWhoCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, turn := 0, make(chan bool)
		w := worker{all: new(sync.WaitGroup), do: func(bool) bool { turns++; return <-turn }}
		w.kick()
		synctest.Wait()
		for range 3 {
			w.kick()
			w.run() // another goroutine is at it: this one does not wait
		}
		turn <- true
		turn <- false
		turn <- false // for all that came meanwhile
		w.all.Wait()
		if turns != 3 {
			t.Errorf("%d turns, want 3", turns)
		}
		w.kick()
		turn <- false
		w.all.Wait()
	})
}

func TestWorkerLeavesToAnotherGoroutineWhatTakesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns []bool
		slow := make(chan struct{})
		w := worker{all: new(sync.WaitGroup), do: func(patient bool) bool {
			turns = append(turns, patient)
			if patient {
				<-slow
			}
			return !patient
		}}
		w.run()
		synctest.Wait()
		close(slow)
		w.all.Wait()
		if len(turns) != 2 || turns[0] || !turns[1] {
			t.Errorf("turns with patience: %v, want one without and one with it", turns)
		}
	})
}
