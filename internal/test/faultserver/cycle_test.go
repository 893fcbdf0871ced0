package faultserver

import (
	"testing"
	"time"
)

// TestCycleBeginsWithACall has no call come while the clock alone would begin the time.
func TestCycleBeginsWithACall(t *testing.T) {
	start := time.Unix(0, 0)
	c := cycle{Cycle{Every: 10 * time.Second, For: 2 * time.Second}, start}
	for _, call := range []struct {
		at float64
		on bool
	}{{0, false}, {7.9, false}, {31, true}, {32.9, true}, {33, false}, {40.9, false}, {41, true}, {43, false}, {70, true}} {
		if on := c.on(start.Add(time.Duration(call.at * float64(time.Second)))); on != call.on {
			t.Errorf("after %v s: %v", call.at, on)
		}
	}
	if never := (&cycle{until: start}); never.on(start.Add(time.Hour)) {
		t.Error("the zero value comes")
	}
}
