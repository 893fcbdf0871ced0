package feature

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/test/seeds"
)

// randomSpecs returns features of a few windows, the exact ones of at most so
// many entries.
func randomSpecs(random *rand.Rand, most int) []Spec {
	windows := []string{"1s", "7s", "60s", "90s", "300s/30s", "60s/5s", "10s/1s", "60s/60s", "1000s/1s", "400s/4s"}
	var specs []Spec
	for i := range 1 + random.Intn(4) {
		spec := Spec{Name: fmt.Sprintf("f%d", i), Decimals: random.Intn(4) - 1, Empty: float64(random.Intn(3) - 1)}
		all := []Aggregate{Count, Sum, Mean, Max, Min}
		if i == 0 && random.Intn(3) == 0 {
			all = append(all, Variance, Stddev, Slope)
		}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		spec.Aggregates = all[:1+random.Intn(len(all))]
		switch random.Intn(8) {
		case 0:
			spec.Elapsed, spec.Aggregates = true, nil
		case 1:
			spec.Last = 1 + random.Intn(20)
			spec.Aggregates = slices.DeleteFunc(spec.Aggregates, func(a Aggregate) bool { return a == Slope })
			if len(spec.Aggregates) == 0 {
				spec.Aggregates = []Aggregate{Count}
			}
		default:
			for _, k := range random.Perm(len(windows))[:1+random.Intn(4)] {
				w, err := ParseWindow(windows[k])
				if err != nil {
					panic(err)
				}
				w.Name = fmt.Sprintf("w%d", k)
				spec.Windows = append(spec.Windows, w)
				if w.Pane == 0 {
					spec.Max = most
				}
			}
			if spec.Max > 0 && random.Intn(3) == 0 {
				spec.Overflow = OverflowDead + Overflow(random.Intn(2))
			}
			switch random.Intn(6) {
			case 0:
				lookAtEntries(random, &spec)
			case 1:
				lookAtSketches(random, &spec)
			}
		}
		specs = append(specs, spec)
	}
	return specs
}

// lookAtEntries makes a feature of windows one that looks at entries.
func lookAtEntries(random *rand.Rand, spec *Spec) {
	spec.Windows = slices.DeleteFunc(spec.Windows, func(w Window) bool { return w.Pane > 0 })
	if len(spec.Windows) == 0 {
		spec.Windows = []Window{{Name: "60s", Size: time.Minute}}
	}
	all := []Aggregate{FirstValue, LastValue, Previous, Changes, Distinct, P50, P95, P99, EWMA}
	if random.Intn(3) == 0 {
		all = all[:3]
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:1+random.Intn(len(all))]
	if slices.Contains(all, EWMA) {
		spec.HalfLife = time.Duration(1+random.Intn(100_000)) * time.Millisecond
	}
	spec.Aggregates = append(slices.Clone(spec.Aggregates), all...)
	if spec.Overflow == OverflowPane {
		spec.Overflow = OverflowOldest
	}
	if spec.Max > 256 || spec.Max == 0 {
		spec.Max = 256
	}
}

// clock makes event times: mostly small steps, some late, some repeated, some
// far ahead.
type clock struct {
	random *rand.Rand
	step   int64 // typical
	grain  int64 // times are multiples of it, so that they meet the edges of windows
	jumps  int   // one of so many is far ahead
	now    int64
}

func newClock(random *rand.Rand) *clock {
	c := &clock{random: random, grain: 1, jumps: 40, now: 1_700_000_000_000_000}
	c.step = int64(math.Pow(10, 3+4*random.Float64()))
	if random.Intn(2) == 0 {
		c.step, c.jumps = int64(math.Pow(10, 4+random.Float64())), 500
	}
	if random.Intn(3) == 0 {
		c.now = -20_000_000
	}
	if random.Intn(2) == 0 {
		c.grain = 250_000
		c.step = max(c.step, c.grain/4)
	}
	return c
}

func (c *clock) next() int64 {
	at := c.now
	switch c.random.Intn(20) {
	case 0:
		at -= c.random.Int63n(100 * c.step)
	case 1:
		at -= c.random.Int63n(100_000_000)
	case 2:
	default:
		c.now += c.random.Int63n(2 * c.step)
		if c.random.Intn(c.jumps) == 0 {
			c.now += c.random.Int63n(200_000_000)
		}
		at = c.now
	}
	return at - at%c.grain
}

func randomValue(random *rand.Rand) float64 {
	switch random.Intn(5) {
	case 0:
		return float64(random.Intn(5) - 2)
	case 1:
		return math.Copysign(0, -1)
	case 2:
		return random.NormFloat64() * math.Pow(10, float64(random.Intn(12)))
	}
	return float64(random.Intn(2_000_001)-500_000) / 1000
}

// store is the state beside a partition, as far as one key goes.
type store map[string]string

func (s store) put(sub, value []byte) {
	if value == nil {
		delete(s, string(sub))
	} else {
		s[string(sub)] = string(value)
	}
}

func (s store) get(sub []byte) ([]byte, error) {
	if value, ok := s[string(sub)]; ok {
		return []byte(value), nil
	}
	return nil, nil
}

// twin is one of several cells that see the same events.
type twin struct {
	cell  *Cell
	spare *Cell // with what it had when it was the cell
	state store
	saves float64 // share of the events after which it writes its changes
	loads float64 // share of those after which it starts again from the state
}

func (w *twin) afterEvent(t *testing.T, s *Set, random *rand.Rand) {
	if random.Float64() >= w.saves {
		return
	}
	s.Changes(w.cell, nil, w.state.put)
	if random.Float64() >= w.loads {
		return
	}
	if w.spare == nil {
		w.spare = s.NewCell()
	}
	if err := s.Reload(w.spare, w.state.get); err != nil {
		t.Fatal(err)
	}
	w.cell, w.spare = w.spare, w.cell
}

func newTwins(s *Set) []*twin {
	return []*twin{
		{cell: s.NewCell(), state: store{}},
		{cell: s.NewCell(), state: store{}, saves: 1},
		{cell: s.NewCell(), state: store{}, saves: 1, loads: 0.2},
		{cell: s.NewCell(), state: store{}, saves: 0.01, loads: 1},
		{cell: s.NewCell(), state: store{}, saves: 0.1, loads: 0.01},
	}
}

// sameBits compares bit for bit, but for the sign of a zero, which Go's slices
// leave open.
func sameBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) || a == 0 && b == 0 })
}

// TestReadsAreThoseOfEveryEntryKept compares every read with the reference, bit
// for bit, and the stored bytes of cells that were written and restarted at
// different moments.
func TestReadsAreThoseOfEveryEntryKept(t *testing.T) {
	overflows, returns, refused := 0, 0, 0
	all := seeds.Run(t, 25, func(t *testing.T, random *rand.Rand) {
		specs := randomSpecs(random, []int{64, 200, 1500, 1 << 20}[random.Intn(4)])
		s := setOf(t, specs...)
		var refs []*reference
		for _, spec := range specs {
			refs = append(refs, newReference(spec))
		}
		twins, clock, over := newTwins(s), newClock(random), 0
		for range 200 + random.Intn(2500)/len(specs) {
			at := clock.next()
			for i := range specs {
				compareReads(t, s, twins, refs, i, at)
				if random.Intn(10) == 0 {
					continue
				}
				if !addAll(t, s, twins, refs[i], i, at, randomValue(random)) {
					refused++
				}
				compareReads(t, s, twins, refs, i, at)
				if random.Intn(10) == 0 {
					compareReads(t, s, twins, refs, i, clock.now+random.Int63n(500_000_000)-300_000_000)
				}
			}
			for _, w := range twins {
				w.afterEvent(t, s, random)
			}
			now := approximate(s, twins[0].cell)
			if now > over {
				overflows++
			} else if now < over {
				returns++
			}
			over = now
		}
		compareStates(t, s, twins)
	})
	if all && (overflows == 0 || returns == 0 || refused == 0) {
		t.Errorf("%d overflows, %d returns to exact windows and %d entries refused, want some", overflows, returns, refused)
	}
}

// addAll adds an entry to feature i of the twins, which take it where the
// reference does, and reports whether it does.
func addAll(t *testing.T, s *Set, twins []*twin, ref *reference, i int, at int64, v float64) bool {
	t.Helper()
	taken := ref.add(at, v)
	for k, w := range twins {
		if err := s.Add(w.cell, i, at, v); (err == nil) != taken || err != nil && !errors.Is(err, ErrFull) {
			t.Fatalf("twin %d feature %d at %d of %+v: %v, want it taken: %t", k, i, at, ref.spec, err, taken)
		}
		if got := s.Approximate(w.cell, i); got != ref.approximate() {
			t.Fatalf("twin %d feature %d at %d: approximate %t, want %t", k, i, at, got, ref.approximate())
		}
	}
	return taken
}

// approximate returns how many features read exact windows from panes.
func approximate(s *Set, c *Cell) (n int) {
	for i := range s.Len() {
		if s.Approximate(c, i) {
			n++
		}
	}
	return n
}

func compareReads(t *testing.T, s *Set, twins []*twin, refs []*reference, i int, at int64) {
	t.Helper()
	want := refs[i].read(at)
	out := make([]float64, len(want))
	for k, w := range twins {
		s.Read(w.cell, i, at, out)
		s.ReadBefore(w.cell, i, at, out)
		if !sameBits(out, want) {
			t.Fatalf("twin %d feature %d at %d of %+v:\n got %v\nwant %v", k, i, at, refs[i].spec, out, want)
		}
	}
}

func compareStates(t *testing.T, s *Set, twins []*twin) {
	t.Helper()
	for k, w := range twins {
		s.Changes(w.cell, nil, w.state.put)
		if diff := cmp.Diff(twins[0].state, w.state); diff != "" {
			t.Fatalf("state of twin %d differs from that of twin 0 (-0 +%d):\n%s", k, k, diff)
		}
	}
}

// TestGroupsKeepTheOrderOfAdditions has enough entries for many groups of
// floats, late ones among them.
func TestGroupsKeepTheOrderOfAdditions(t *testing.T) {
	seeds.Run(t, 3, func(t *testing.T, random *rand.Rand) {
		spec := Spec{Name: "f", Windows: windowsOf(t, "1s", "10s", "100s"), Aggregates: []Aggregate{Sum, Min, Max, Count}, Decimals: -1}
		s := setOf(t, spec)
		refs, twins := []*reference{newReference(spec)}, newTwins(s)
		now := int64(0)
		for n := range 30_000 {
			now += random.Int63n(30_000)
			at, v := now, random.ExpFloat64()
			if n%8_000 < 3_000 || random.Intn(10) == 0 { // whole groups are late, or some entries
				at -= random.Int63n(20_000_000)
			}
			if n%8_000 < 2_500 {
				at -= 20_000_000
			}
			refs[0].add(at, v)
			for _, w := range twins {
				if err := s.Add(w.cell, 0, at, v); err != nil {
					t.Fatal(err)
				}
				if n%997 == 0 {
					w.afterEvent(t, s, random)
				}
			}
			if n%499 == 0 {
				compareReads(t, s, twins, refs, 0, at)
				compareReads(t, s, twins, refs, 0, now)
				refs[0].entries = filter(refs[0].entries, func(e refEntry) bool { return e.t > now-150_000_000 })
			}
		}
		if in := twins[0].cell.exacts[0].index; len(in.groups) < 4 {
			t.Fatalf("only %d groups", len(in.groups))
		}
		compareStates(t, s, twins)
	})
}

// TestStateDoesNotTellWhenItWasWritten writes the same events of a key, with
// silences that end its windows, at random commit boundaries.
func TestStateDoesNotTellWhenItWasWritten(t *testing.T) {
	seeds.Run(t, 40, func(t *testing.T, random *rand.Rand) {
		specs := randomSpecs(random, 256)
		s := setOf(t, specs...)
		twins, clock := newTwins(s), newClock(random)
		for n := range 1500 {
			at, i, v := clock.next(), random.Intn(len(specs)), randomValue(random)
			drop := random.Intn(300) == 0
			for _, w := range twins {
				if drop {
					s.DropWindows(w.cell)
				} else if err := s.Add(w.cell, i, at, v); err != nil && !errors.Is(err, ErrFull) {
					t.Fatal(err)
				}
				w.afterEvent(t, s, random)
			}
			if n%100 == 0 {
				compareStates(t, s, twins)
			}
		}
		for _, w := range twins {
			s.DropWindows(w.cell)
		}
		compareStates(t, s, twins)
		if keys := slices.Collect(maps.Keys(twins[0].state)); len(keys) > 0 && !s.KeepsForever() {
			t.Fatalf("nothing is kept for ever, but the state has %q", keys)
		}
	})
}

// TestForgottenKeyIsDeleted leaves no entry of a key that nothing is kept of.
func TestForgottenKeyIsDeleted(t *testing.T) {
	s := setOf(t,
		Spec{Name: "f", Windows: windowsOf(t, "1000s", "60s/5s"), Aggregates: four, Decimals: 2},
		Spec{Name: "past", Last: 3, Aggregates: []Aggregate{Count}, Decimals: -1},
		Spec{Name: "gap", Elapsed: true, Empty: -1},
	)
	c, state := s.NewCell(), store{}
	for round := range 2 {
		for n := range int64(300 + 100*round) {
			for i := range s.Len() {
				if err := s.Add(c, i, n*1_000_000, float64(round)); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.Changes(c, nil, state.put)
		header, _ := state.get(nil)
		if newest, err := HeaderTime(header); err != nil || newest != 1_000_000*int64(299+100*round) {
			t.Errorf("HeaderTime is %d, %v", newest, err)
		}
		again, err := s.Load(state.get)
		if err != nil {
			t.Fatal(err)
		}
		out, want := make([]float64, 8), make([]float64, 8)
		s.Read(c, 0, 300_000_000, want)
		if s.Read(again, 0, 300_000_000, out); !slices.Equal(out, want) {
			t.Errorf("loaded %v, want %v", out, want)
		}
		if round == 0 {
			s.DropWindows(c)
			continue
		}
		s.Forget(c)
		s.Changes(c, nil, state.put)
		if len(state) > 0 {
			t.Errorf("%d entries are left", len(state))
		}
		for i, want := range [][]float64{{0, 0, 0, 0, 0, 0, 0, 0}, {0}, {-1}} {
			out := make([]float64, len(want))
			if s.Read(c, i, 300_000_000, out); !slices.Equal(out, want) {
				t.Errorf("feature %d of a forgotten key is %v", i, out)
			}
		}
	}
	for _, header := range []string{"", "\x02", "\x01\x00", "\x01\x01"} {
		if newest, err := HeaderTime([]byte(header)); err == nil {
			t.Errorf("HeaderTime(%q) = %d, want an error", header, newest)
		}
	}
}

// TestStepWritesOnlyWhatItAppended holds that a full block is written once.
func TestStepWritesOnlyWhatItAppended(t *testing.T) {
	s := setOf(t, Spec{Name: "f", Windows: windowsOf(t, "1000s"), Aggregates: four, Decimals: 2})
	c, writes, deletes := s.NewCell(), map[string]int{}, map[string]int{}
	for n := range int64(5000) {
		if err := s.Add(c, 0, n*time.Second.Microseconds(), 1); err != nil {
			t.Fatal(err)
		}
		s.Changes(c, nil, func(sub, value []byte) {
			if value == nil {
				deletes[string(sub)]++
			} else {
				writes[string(sub)]++
			}
		})
	}
	s.Changes(c, nil, func(sub, value []byte) { t.Errorf("%q is written without a change", sub) })
	if writes[""] != 5000 {
		t.Errorf("%d headers, want one an event", writes[""])
	}
	delete(writes, "")
	if len(writes) != 5000/64 || len(deletes) != (5000-1000)/64 {
		t.Errorf("%d blocks written and %d deleted, want %d and %d", len(writes), len(deletes), 5000/64, (5000-1000)/64)
	}
	for sub, n := range writes {
		if n != 1 || deletes[sub] > 1 {
			t.Errorf("block %x: written %d times, deleted %d times", sub, n, deletes[sub])
		}
	}
}
