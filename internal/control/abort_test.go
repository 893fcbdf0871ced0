package control

import (
	"testing"
	"time"
)

func TestAbortStopsAboveItsShareWithinItsTime(t *testing.T) {
	begin := time.Unix(1_760_000_000, 0)
	type counted struct {
		after        time.Duration
		events, dead int
		stops        bool
	}
	for name, list := range map[string][]counted{
		"fewer than ten are no pattern":  {{0, 9, 9, false}, {time.Second, 1, 1, true}},
		"at the share it goes on":        {{0, 1000, 50, false}, {0, 1, 1, true}},
		"what is older does not count":   {{0, 9, 9, false}, {61 * time.Second, 1, 1, false}, {62 * time.Second, 9, 9, true}},
		"good events make up for it":     {{0, 100_000, 0, false}, {30 * time.Second, 1000, 1000, false}},
		"it stops once":                  {{0, 20, 20, true}, {0, 20, 20, false}},
		"time that goes back is no harm": {{0, 5, 5, false}, {-time.Hour, 9, 9, false}, {-time.Hour, 1, 1, true}},
	} {
		a := NewAbort(0.05, time.Minute)
		for i, c := range list {
			if got := a.Count(begin.Add(c.after), c.events, c.dead); got != c.stops {
				t.Errorf("%s: count %d: stops is %v", name, i, got)
			}
		}
	}
}

func TestAbortResumesFromNothing(t *testing.T) {
	a, now := NewAbort(0.5, time.Minute), time.Unix(1_760_000_000, 0)
	if a.Resume() || a.Stopped() != nil {
		t.Error("it stood still before the first event")
	}
	a.Count(now, 20, 20)
	if s := a.Stopped(); s == nil || s.Events != 20 || s.Dead != 20 || !s.Since.Equal(now) {
		t.Fatalf("%+v", s)
	}
	if !a.Resume() || a.Stopped() != nil || a.Count(now, 9, 9) {
		t.Error("it remembers what was before")
	}
	var never *Abort
	if never.Count(now, 1000, 1000) || never.Stopped() != nil || never.Resume() {
		t.Error("nil stops")
	}
}
