package feature

import (
	"errors"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/test/seeds"
)

// TestUndoLeavesNoTrace undoes some events after some features took an entry of them,
// and compares reads and state with those of cells that never saw them.
func TestUndoLeavesNoTrace(t *testing.T) {
	undone := 0
	all := seeds.Run(t, 40, func(t *testing.T, random *rand.Rand) {
		specs := randomSpecs(random, []int{64, 200, 1 << 20}[random.Intn(3)])
		s := setOf(t, specs...)
		twins, clock := newTwins(s), newClock(random)
		var saved Saved
		add := func(c *Cell, i int, at int64, v float64) {
			if err := s.Add(c, i, at, v); err != nil && !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
		}
		for range 1500 {
			at := clock.next()
			undo := random.Intn(3) == 0
			for i := range specs {
				v, skip := randomValue(random), random.Intn(4) == 0
				out := make([]float64, len(s.features[i].columns))
				for k, w := range twins {
					if k == 0 && i == 0 && undo {
						s.Save(w.cell, &saved)
					}
					if (k == 0 || !undo) && !skip {
						add(w.cell, i, at, v)
					}
					if random.Intn(2) == 0 {
						s.Read(w.cell, i, at, out)
					}
				}
			}
			if undo {
				s.Undo(twins[0].cell, &saved)
				undone++
			}
			for i := range specs {
				want := make([]float64, len(s.features[i].columns))
				out := make([]float64, len(want))
				s.Read(twins[2].cell, i, at, want)
				if s.Read(twins[0].cell, i, at, out); !sameBits(out, want) {
					t.Fatalf("feature %d at %d of %+v reads %v, want %v", i, at, specs[i], out, want)
				}
			}
			for _, w := range twins {
				w.afterEvent(t, s, random)
			}
		}
		for k, w := range twins {
			s.Changes(w.cell, nil, w.state.put)
			if diff := cmp.Diff(twins[1].state, w.state); diff != "" {
				t.Fatalf("state of twin %d differs (-1 +%d):\n%s", k, k, diff)
			}
		}
	})
	if all && undone < 1000 {
		t.Errorf("only %d events were undone", undone)
	}
}

// BenchmarkSave saves a cell of the fraud example's features, as its step does before
// each event.
func BenchmarkSave(b *testing.B) {
	s := setOf(b,
		Spec{Name: "spend", Windows: windowsOf(b, "60s/5s", "10m/1m", "1h"), Aggregates: four, Decimals: 2},
		Spec{Name: "usual", Last: 20, Aggregates: []Aggregate{Mean, Max}, Decimals: 2},
		Spec{Name: "place", Last: 10, Aggregates: []Aggregate{Max, Min}},
		Spec{Name: "gap", Elapsed: true},
	)
	c := s.NewCell()
	for n := range int64(200) {
		for i := range s.Len() {
			if err := s.Add(c, i, n*7_000_000, 12.5); err != nil {
				b.Fatal(err)
			}
		}
	}
	var saved Saved
	b.ReportAllocs()
	for b.Loop() {
		s.Save(c, &saved)
	}
}
