package feature

import (
	"errors"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/test/seeds"
)

func TestParseOverflow(t *testing.T) {
	for _, want := range []Overflow{OverflowPane, OverflowDead} {
		if got, err := ParseOverflow(want.String()); err != nil || got != want {
			t.Errorf("ParseOverflow(%q) = %v, %v", want.String(), got, err)
		}
	}
	if got, err := ParseOverflow(""); err != nil || got != OverflowPane {
		t.Errorf("ParseOverflow of nothing = %v, %v", got, err)
	}
	for _, text := range []string{"drop", "Pane", "dead", "Overflow(3)"} {
		if _, err := ParseOverflow(text); err == nil || !strings.Contains(err.Error(), "use pane, oldest or dlq") {
			t.Errorf("ParseOverflow(%q): %v", text, err)
		}
	}
}

// TestRefusedEntryChangesNothing fills a feature that refuses, beside one in
// panes, and makes room by event time.
func TestRefusedEntryChangesNothing(t *testing.T) {
	s := setOf(t, Spec{
		Name: "spend", Windows: windowsOf(t, "10s", "60s/5s"), Aggregates: []Aggregate{Count, Sum}, Decimals: 0,
		Max: 100, Overflow: OverflowDead,
	})
	const second = 1_000_000
	c, state, out, before := s.NewCell(), store{}, make([]float64, 4), make([]float64, 4)
	for n := range int64(100) {
		if err := s.Add(c, 0, n*10_000, 1); err != nil {
			t.Fatal(err)
		}
	}
	s.Changes(c, nil, state.put)
	s.Read(c, 0, 9*second, before)
	for _, at := range []int64{0, second, 9 * second, 10*second + 629_999} {
		err := s.Add(c, 0, at, 1)
		if !errors.Is(err, ErrFull) {
			t.Fatalf("an entry at %d more than 100: %v", at, err)
		}
		for _, part := range []string{"feature spend", "max = 100", "raise max", "size/pane"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
	}
	if s.Read(c, 0, 9*second, out); !slices.Equal(out, before) || out[0] != 100 || s.Approximate(c, 0) {
		t.Errorf("reads %v, want %v; approximate %t", out, before, s.Approximate(c, 0))
	}
	s.Changes(c, nil, func(sub, _ []byte) { t.Errorf("a refused entry changes %q", sub) })
	if last, _ := c.Last(); last != 990_000 {
		t.Errorf("a refused entry makes %d the newest time", last)
	}
	if err := s.Add(c, 0, 990_000-10*second, 1); err != nil { // out of the exact window, in no list
		t.Errorf("an entry that no exact window reads: %v", err)
	}
	if err := s.Add(c, 0, 10*second+630_000, 1); err != nil { // the first block leaves
		t.Errorf("an entry that there is room for: %v", err)
	}
}

func TestLoadRefusesPanesOfAFeatureThatRefuses(t *testing.T) {
	spec := Spec{Name: "f", Windows: windowsOf(t, "10s"), Aggregates: []Aggregate{Count}, Max: 64}
	pane := setOf(t, spec)
	spec.Overflow = OverflowDead
	dead := setOf(t, spec)
	c, state := pane.NewCell(), store{}
	for range 65 {
		if err := pane.Add(c, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	pane.Changes(c, nil, state.put)
	if _, err := dead.Load(state.get); err == nil {
		t.Error("panes are loaded")
	}
}

// TestSmallMaxHoldsWithRestartsAtEveryEvent compares both policies with the
// reference at a limit that bursts and late entries reach all the time.
func TestSmallMaxHoldsWithRestartsAtEveryEvent(t *testing.T) {
	for _, overflow := range []Overflow{OverflowPane, OverflowDead} {
		taken, beyond, returns, all := 0, 0, 0, false
		t.Run(overflow.String(), func(t *testing.T) {
			all = seeds.Run(t, 2, func(t *testing.T, random *rand.Rand) {
				spec := Spec{
					Name: "f", Windows: windowsOf(t, "10s", "3s", "30s/3s"), Aggregates: []Aggregate{Sum, Count, Max, Min},
					Decimals: random.Intn(3) - 1, Max: 64 + random.Intn(2)*random.Intn(100), Overflow: overflow,
				}
				s, ref, now, over := setOf(t, spec), newReference(spec), int64(0), false
				twins := []*twin{
					{cell: s.NewCell(), state: store{}},
					{cell: s.NewCell(), state: store{}, saves: 1},
					{cell: s.NewCell(), state: store{}, saves: 1, loads: 1},
				}
				for n := range 2500 {
					step := int64(400_000) // 25 entries in 10 s
					if n%500 > 200 {
						step = 40_000 // 250
					}
					now += random.Int63n(step)
					if random.Intn(300) == 0 {
						now += 25_000_000
					}
					at := now
					if random.Intn(4) == 0 {
						at -= random.Int63n(12_000_000)
					}
					if addAll(t, s, twins, ref, 0, at, randomValue(random)) {
						taken++
					}
					if ref.over || overflow == OverflowDead && len(ref.tail) == 0 && len(ref.blocks)*64 >= spec.Max {
						beyond++
					}
					if over && !ref.over {
						returns++
					}
					over = ref.over
					compareReads(t, s, twins, []*reference{ref}, 0, at)
					for _, w := range twins {
						w.afterEvent(t, s, random)
					}
				}
				compareStates(t, s, twins)
			})
		})
		if all && (taken < 1000 || beyond < 100 || overflow == OverflowPane && returns < 5) {
			t.Errorf("%v: %d entries taken, %d beyond the limit, %d returns: want many", overflow, taken, beyond, returns)
		}
	}
}
