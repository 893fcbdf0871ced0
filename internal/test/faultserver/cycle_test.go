package faultserver

import (
	"testing"
	"time"
)

// TestCycleBeginsWithACall has no call come while the clock alone would begin the time.
func TestCycleBeginsWithACall(t *testing.T) {
	start := time.Unix(0, 0)
	c := newCycle(Cycle{Every: 10 * time.Second, For: 2 * time.Second, Met: true}, start)
	for _, call := range []struct {
		at float64
		on bool
	}{{0, false}, {7.9, false}, {31, true}, {32.9, true}, {33, false}, {40.9, false}, {41, true}, {43, false}, {70, true}} {
		answered := between
		if on := c.on(start.Add(time.Duration(call.at*float64(time.Second))), &answered); on != call.on {
			t.Errorf("after %v s: %v", call.at, on)
		}
	}
	never, answered := newCycle(Cycle{}, start), between
	if never.on(start.Add(time.Hour), &answered) {
		t.Error("the zero value comes")
	}
}

// TestProbesAreAnswered calls as a breaker that is open does: later than the times of both
// cycles come again.
func TestProbesAreAnswered(t *testing.T) {
	now, answered := time.Unix(0, 0), between
	burst := newCycle(Cycle{Every: 1300 * time.Millisecond, For: 150 * time.Millisecond, Met: true}, now)
	flap := newCycle(Cycle{Every: 1700 * time.Millisecond, For: 300 * time.Millisecond, Met: true}, now)
	const probes = 100
	got := 0
	for range probes {
		now = now.Add(2 * time.Second)
		if flap.on(now, &answered) || burst.on(now, &answered) {
			continue
		}
		answered++
		got++
	}
	if got < probes*between/(between+1) || got == probes {
		t.Errorf("%d of %d probes were answered", got, probes)
	}
}
