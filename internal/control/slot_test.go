package control_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/control"
)

// TestSlotsTakeTurnsAtABusyEndpoint has slots that always have work share an
// endpoint. However many calls each makes at a time, all get about as many, also
// beside one that does not come when it is called.
func TestSlotsTakeTurnsAtABusyEndpoint(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for run := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, run))
			limit := 1 + random.IntN(4)
			e := must(control.NewEndpoint(control.EndpointOptions{Concurrency: control.ConcurrencyOptions{Max: limit}}))
			slots := 2 + random.IntN(4)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			made := make([]int, slots)
			var group sync.WaitGroup
			for i := range made {
				most, random := limit+random.IntN(3), rand.New(rand.NewPCG(seed, random.Uint64()))
				group.Go(func() { made[i] = keepCalling(ctx, e, most, random) })
			}
			idle := e.Slot(func() {})
			time.AfterFunc(time.Second, func() {
				if call, admission, _ := idle.Begin(time.Now(), 0); admission == control.Admitted {
					e.End(time.Now(), call)
				}
			})
			group.Wait()
			for i, n := range made {
				if n*10 < made[0]*9 || made[0]*10 < n*9 {
					t.Errorf("run %d: slot %d made %d calls of %v", run, i, n, made)
				}
			}
			if s := e.Concurrency.Stats(); s.Running != 0 {
				t.Errorf("%d calls are under way", s.Running)
			}
		})
	}
}

// keepCalling makes as many calls as it is let, most at a time, and returns how many
// those were. The calls take 5 to 15 ms.
func keepCalling(ctx context.Context, e *control.Endpoint, most int, random *rand.Rand) (made int) {
	wake, ended := make(chan struct{}, 1), make(chan control.Call, most)
	slot := e.Slot(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	running := 0
	for ctx.Err() == nil || running > 0 {
		for running < most && ctx.Err() == nil {
			call, admission, _ := slot.Begin(time.Now(), 0)
			if admission != control.Admitted {
				break
			}
			running++
			made++
			time.AfterFunc(5*time.Millisecond+time.Duration(random.Int64N(int64(10*time.Millisecond))), func() { ended <- call })
		}
		select {
		case <-wake:
		case call := <-ended:
			running--
			e.Observe(time.Now(), call, control.Answered)
			e.End(time.Now(), call)
		case <-ctx.Done():
			if running > 0 {
				e.End(time.Now(), <-ended)
				running--
			}
		case <-time.After(time.Second):
		}
	}
	slot.Leave(time.Now())
	return made
}

// TestWaitEndsWithARoomOrItsTime waits for a place that is free after a while, and
// for one that is not.
func TestWaitEndsWithARoomOrItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := must(control.NewEndpoint(control.EndpointOptions{Concurrency: control.ConcurrencyOptions{Max: 1}}))
		first, _, _ := e.Begin(time.Now(), 0)
		start := time.Now()
		time.AfterFunc(time.Second, func() { e.End(time.Now(), first) })
		second, admission := e.Wait(t.Context(), 0)
		if took := time.Since(start); admission != control.Admitted || took != time.Second {
			t.Fatalf("%v after %v", admission, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, admission := e.Wait(ctx, 0); admission != control.Busy || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %v", admission, time.Since(start))
		}
		e.End(time.Now(), second)
		if _, admission := e.Wait(t.Context(), 0); admission != control.Admitted || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %v: who gave up is waited for", admission, time.Since(start))
		}
	})
}
