package observe_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/observe"
)

func TestQuantileIsAtMostASixteenthTooHigh(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	var h observe.Histogram
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(rng.ExpFloat64() * float64(3*time.Millisecond))
		all = append(all, d)
		h.Record(d, 1)
	}
	slices.Sort(all)
	var s observe.Snapshot
	s.Add(&h)
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999} {
		want, got := all[int(q*float64(len(all)))], s.Quantile(q)
		if got < want || float64(got) > float64(want)*(1+1.0/16)+1 {
			t.Errorf("seed %d: quantile %v: got %v, want %v", seed, q, got, want)
		}
	}
}

func TestExtremesFallIntoABucket(t *testing.T) {
	var h observe.Histogram
	for _, d := range []time.Duration{-1, 0, 1, 15, 16, 17, 1<<63 - 1} {
		h.Record(d, 1)
	}
	var s observe.Snapshot
	s.Add(&h)
	if s.Count != 7 || s.Quantile(1) != 1<<63-1 {
		t.Fatalf("count %d, maximum %v", s.Count, s.Quantile(1))
	}
}

func ExampleLatency() {
	var l observe.Latency
	l.Record(observe.Model, 100*time.Nanosecond, 3)
	var s observe.Snapshot
	s.Add(l.Phase(observe.Model))
	fmt.Println(observe.Model, s.Count, s.Quantile(0.5))
	// Output: model 3 103ns
}
