package control

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func second(n int) time.Time { return time.Unix(int64(n), 0) }

func TestGateSwitchesAtItsMarksAlone(t *testing.T) {
	g, err := NewGate(GateOptions{Max: 200, High: 150, Low: 50})
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		depth int
		want  Change
	}{
		{0, Stay}, {149, Stay}, {150, Pause}, {200, Stay}, {149, Stay}, {51, Stay}, {50, Resume}, {50, Stay}, {149, Stay}, {0, Stay}, {151, Pause}, {0, Resume},
	} {
		if got := g.Observe(second(i), step.depth); got != step.want {
			t.Errorf("observation %d, depth %d: %v, want %v", i, step.depth, got, step.want)
		}
	}
	want := GateState{Switches: 4, Since: second(11), Paused: 5 * time.Second} // from 2 to 6 and from 10 to 11
	if diff := cmp.Diff(want, g.State(second(20))); diff != "" {
		t.Error(diff)
	}
}

func TestEqualMarksPauseAtTheMark(t *testing.T) {
	g, err := NewGate(GateOptions{Max: 200, High: 100, Low: 100})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Change{Pause, Stay, Resume, Pause} {
		if got := g.Observe(second(i), []int{100, 100, 99, 100}[i]); got != want {
			t.Errorf("observation %d: %v, want %v", i, got, want)
		}
	}
}

// TestGateRestsBetweenItsMarks walks a queue at random: each switch is at the
// mark that it stands for, and they take turns.
func TestGateRestsBetweenItsMarks(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		limit := 1 + random.IntN(300)
		high := 1 + random.IntN(limit)
		low := random.IntN(high + 1)
		o := GateOptions{Max: limit, High: high, Low: low}
		g, err := NewGate(o)
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		depth, throttled, paused := 0, false, 0
		for i := range 2000 {
			if throttled {
				paused++
			}
			depth = min(limit, max(0, depth+random.IntN(21)-10))
			switch got := g.Observe(second(i+1), depth); {
			case got == Pause && (throttled || depth < high), got == Resume && (!throttled || depth > low || depth >= high):
				t.Fatalf("%+v: %v at %d", o, got, depth)
			case got == Stay && (!throttled && depth >= high || throttled && depth <= low && depth < high):
				t.Fatalf("%+v: stays at %d, throttled %v", o, depth, throttled)
			case got != Stay:
				throttled = got == Pause
			}
			if g.Throttled() != throttled {
				t.Fatalf("%+v: throttled %v, want %v", o, g.Throttled(), throttled)
			}
			if room := g.Room(); room != limit-depth {
				t.Fatalf("%+v: room %d at %d", o, room, depth)
			}
		}
		if got := g.State(second(2000)).Paused; got != time.Duration(paused)*time.Second {
			t.Fatalf("%+v: paused for %v, want %ds", o, got, paused)
		}
	}
}

func TestBoundsOfAQueueAreFilledInOrRefused(t *testing.T) {
	for given, want := range map[GateOptions]GateOptions{
		{}:                            {2000, 1500, 500},
		{Max: 200}:                    {200, 150, 50},
		{Max: 1}:                      {1, 1, 0},
		{Max: 200, Low: 20}:           {200, 150, 20},
		{Max: 200, High: 60}:          {200, 60, 0},
		{Max: 10, High: 10, Low: 10}:  {10, 10, 10},
		{Max: 4000, High: 90, Low: 5}: {4000, 90, 5},
	} {
		if got, err := given.Resolved(); err != nil || got != want {
			t.Errorf("%+v: %+v, %v, want %+v", given, got, err, want)
		}
	}
	for text, given := range map[string]GateOptions{
		"holds nothing":           {Max: -1},
		"the high mark 201":       {Max: 200, High: 201},
		"the high mark -1":        {High: -1},
		"the low mark 151 is out": {Max: 200, Low: 151},
		"the low mark -1 is out":  {Low: -1},
	} {
		if _, err := NewGate(given); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %s", given, err, text)
		}
	}
	_, err := GateOptions{Max: 10, High: 20, Low: 30}.Resolved()
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("%v, want both faults", err)
	}
}

func TestRetryAfterIsWhenTheQueueWillHaveDrained(t *testing.T) {
	g, err := NewGate(GateOptions{Max: 200, High: 150, Low: 50})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		second, depth int
		want          time.Duration
	}{
		{0, 100, 0},                 // open
		{10, 150, time.Second},      // nothing is known yet
		{20, 160, time.Second},      // it grows
		{20, 140, time.Minute},      // 10 in 10 s, 90 to go: more than a minute
		{30, 110, 30 * time.Second}, // 40 in 20 s, 60 to go
		{30, 51, time.Second},       // never less
		{31, 50, 0},                 // open again
	} {
		g.Observe(second(step.second), step.depth)
		if got := g.RetryAfter(); got != step.want {
			t.Errorf("%d at %d s: %v, want %v", step.depth, step.second, got, step.want)
		}
	}
}

func TestGateStateHasWords(t *testing.T) {
	if a, b := (GateState{}).String(), (GateState{Throttled: true}).String(); a != "full-rate" || b != "throttled" {
		t.Error(a, b)
	}
}

func TestObservingAllocatesNothing(t *testing.T) {
	g, err := NewGate(GateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	if n := testing.AllocsPerRun(1000, func() { i++; g.Observe(second(i), i*517%2000) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
