package simulate

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestWorkersAreRateByWhatOneDoes(t *testing.T) {
	for _, c := range []struct {
		load                                         Load
		least, redundant, partitions, grow, machines int
		one                                          bool
	}{
		{Load{Rate: 50_000, Batch: 64, BatchTime: 5 * time.Millisecond, Redundancy: 2, Cores: 4}, 4, 8, 8, 16, 2, true},
		{Load{Rate: 50_000, Batch: 64, BatchTime: 5 * time.Millisecond, Cores: 2}, 4, 4, 4, 8, 2, false},
		{Load{Rate: 50_000, Batch: 64, BatchTime: 5 * time.Millisecond, Redundancy: 3, Cores: 3}, 4, 12, 12, 24, 6, false},
		{Load{Rate: 12_800, Batch: 64, BatchTime: 5 * time.Millisecond, Cores: 1}, 1, 1, 1, 2, 1, true},
		{Load{Rate: 1, Batch: 1, BatchTime: time.Microsecond, Cores: 1}, 1, 1, 1, 2, 1, true},
		{Load{Rate: 300, Batch: 1, BatchTime: 10 * time.Millisecond, Cores: 8}, 3, 3, 3, 6, 1, true}, // exactly
	} {
		p, err := c.load.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		if p.Least.Workers != c.least || p.Redundant.Workers != c.redundant || p.Partitions != c.partitions || p.PartitionsFor != c.grow || p.Machines != c.machines || p.OneMachine != c.one {
			t.Errorf("%+v: %+v", c.load, p)
		}
	}
}

func TestFullWorkersHaveNoBoundOfTheWait(t *testing.T) {
	p, err := Load{Rate: 25_600, Batch: 64, BatchTime: 5 * time.Millisecond, Cores: 8}.Resolve()
	if err != nil || p.Least.Workers != 2 || p.Least.Utilisation != 1 || p.Least.WaitMeanMs != -1 || p.Least.WaitP99Ms != -1 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestWaitIsThatOfAQueueWithOneServer compares with the formula of Pollaczek and
// Khinchine: calls of one event and of fixed time wait r/(2(1-r)) of it.
func TestWaitIsThatOfAQueueWithOneServer(t *testing.T) {
	for _, use := range []float64{0.2, 0.5, 0.8, 0.9} {
		p, err := Load{Rate: 100 * use, Batch: 1, BatchTime: 10 * time.Millisecond, Cores: 1}.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		want := 10 * use / (2 * (1 - use))
		// a worker looks at the queue once in a part of the time
		if got := p.Least.WaitMeanMs; math.Abs(got-want) > 0.15*want+0.2 {
			t.Errorf("at %v: %v ms, want %v", use, got, want)
		}
		if p.Least.WaitP99Ms < p.Least.WaitMeanMs {
			t.Errorf("at %v: %+v", use, p.Least)
		}
	}
}

func TestLoadsThatMeanNothingAreRefused(t *testing.T) {
	good := Load{Rate: 1, Batch: 1, BatchTime: time.Millisecond, Cores: 1}
	for text, change := range map[string]func(*Load){
		"above 0":            func(l *Load) { l.Rate = 0 },
		"rate has":           func(l *Load) { l.Rate = math.NaN() },
		"use 1 to 8192":      func(l *Load) { l.Batch = 0 },
		"use 25ns to 1h":     func(l *Load) { l.BatchTime = 0 },
		"core at least":      func(l *Load) { l.Cores = 0 },
		"this plans for 100": func(l *Load) { l.Rate = 1e9 },
	} {
		l := good
		change(&l)
		if _, err := l.Resolve(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %s", l, err, text)
		}
	}
}
