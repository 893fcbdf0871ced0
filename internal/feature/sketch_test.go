package feature

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/hash"
	"github.com/afterbay/afterbay/internal/test/seeds"
)

// lookAtSketches makes a feature of windows one that has sketches of panes.
func lookAtSketches(random *rand.Rand, spec *Spec) {
	all := []Aggregate{Distinct, P50, P95, P99}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	spec.Aggregates = append(slices.DeleteFunc(spec.Aggregates, Aggregate.sketched), all[:1+random.Intn(len(all))]...)
	if spec.Max > 0 {
		spec.Max = min(spec.Max, 256)
	}
}

// refMiddle returns the middle of the numbers with the exponent, and the 64th of the mantissa, of v.
func refMiddle(v float64) float64 {
	if math.Abs(v) < 0x1p-1022 {
		return 0
	}
	fraction, exponent := math.Frexp(math.Abs(v))
	return math.Copysign(math.Ldexp((math.Trunc(fraction*128)+0.5)/128, exponent), v)
}

// percentileOf is that of values each of which is the middle of its bin. Of the bins of a pane the
// 1,024 highest are kept, and lower values are in the lowest of them.
func (r *reference) percentileOf(a Aggregate, panes [][]refEntry) float64 {
	var values []float64
	for _, pane := range panes {
		bins := binsOf(pane)
		low := bins[max(0, len(bins)-1024)]
		for _, e := range pane {
			values = append(values, max(refMiddle(e.v), low))
		}
	}
	slices.Sort(values)
	k, of := 0, map[Aggregate]int{P50: 50, P95: 95, P99: 99}[a]*len(values)
	for 100*(k+1) < of {
		k++
	}
	if r.spec.Decimals < 0 {
		return values[k]
	}
	return math.Trunc(values[k]) / math.Pow10(r.spec.Decimals)
}

// binsOf returns the middles of the different bins of entries, the lowest one first.
func binsOf(entries []refEntry) (middles []float64) {
	for _, e := range entries {
		middles = append(middles, refMiddle(e.v))
	}
	slices.Sort(middles)
	return slices.Compact(middles)
}

// distinctOf is exact if no pane has more than 512 different values, and else the estimate of a
// HyperLogLog of all values.
func (r *reference) distinctOf(panes [][]refEntry) float64 {
	exact, all := true, map[float64]bool{}
	for _, pane := range panes {
		here := map[float64]bool{}
		for _, e := range pane {
			here[e.v], all[e.v] = true, true
		}
		exact = exact && len(here) <= 512
	}
	if exact {
		return float64(len(all))
	}
	var registers [4096]int
	for v := range all {
		digits := fmt.Sprintf("%053b", r.hashOf(v))
		var at int
		fmt.Sscanf(digits[:12], "%b", &at)
		registers[at] = max(registers[at], 1+len(digits[12:])-len(strings.TrimLeft(digits[12:], "0")))
	}
	return refEstimate(registers[:])
}

// hashOf returns the hash of a value that a test adds.
func (r *reference) hashOf(v float64) int64 {
	word := int64(v)
	switch {
	case r.spec.Kind == Texts:
		return hash.Of(anyText(v), "distinct")
	case r.spec.Kind == Ints:
		word = int64(v)<<40 | int64(v)&1
	case r.spec.Decimals < 0 && v < 0:
		word = int64(math.Float64bits(v) ^ math.MaxInt64)
	case r.spec.Decimals < 0:
		word = int64(math.Float64bits(v + 0))
	}
	var x [8]byte
	for k := range x {
		x[k] = byte(word >> (56 - 8*k))
	}
	return hash.Of(string(x[:]), "distinct")
}

// refEstimate is Ertl's estimate by its definition as series.
func refEstimate(registers []int) float64 {
	counts, m := make([]float64, 43), float64(len(registers))
	for _, rank := range registers {
		counts[rank]++
	}
	x := counts[0] / m
	sum := x
	for k := 1; k < 60; k++ {
		sum += math.Pow(x, math.Pow(2, float64(k))) * math.Pow(2, float64(k-1))
	}
	for k := 1; k < 42; k++ {
		sum += counts[k] / m * math.Pow(2, -float64(k))
	}
	y := 1 - counts[42]/m
	tail := 1 - y
	for k := 1; k < 60; k++ {
		tail -= math.Pow(1-math.Pow(y, math.Pow(2, -float64(k))), 2) * math.Pow(2, -float64(k))
	}
	sum += math.Pow(2, -41) * tail / 3
	return min(math.Round(m/(2*math.Ln2)/sum), 1<<53)
}

// beyond reports whether a live pane has more than its sketch can keep apart.
func (r *reference) beyond() bool {
	for k, w := range r.spec.Windows {
		if w.Pane == 0 && !r.over {
			continue
		}
		for _, pane := range r.panes[k].at {
			different := map[float64]bool{}
			for _, e := range pane {
				different[e.v] = true
			}
			percentiles := slices.ContainsFunc(r.spec.Aggregates, func(a Aggregate) bool { return a >= P50 && a <= P99 })
			if slices.Contains(r.spec.Aggregates, Distinct) && len(different) > 512 || percentiles && len(binsOf(pane)) > 1024 {
				return true
			}
		}
	}
	return false
}

// sketchSpecs are features of which a pane has sketches, some of them beyond their bounds.
func sketchSpecs(t testing.TB) []Spec {
	return []Spec{
		{Name: "amounts", Windows: windowsOf(t, "60s/10s", "1h"), Aggregates: []Aggregate{P50, P95, P99, Count}, Decimals: 2, Max: 64},
		{Name: "latencies", Windows: windowsOf(t, "60s/30s"), Aggregates: []Aggregate{P99, Distinct, Sum}, Decimals: -1},
		{Name: "shops", Kind: Texts, Windows: windowsOf(t, "10m/1m"), Aggregates: []Aggregate{Distinct, Count}},
		{Name: "codes", Kind: Ints, Windows: windowsOf(t, "60s"), Aggregates: []Aggregate{Distinct}, Max: 64},
	}
}

// TestStoredBytesOfSketchesStayReadable pins what is stored.
func TestStoredBytesOfSketchesStayReadable(t *testing.T) {
	comparePinned(t, sketchSpecs(t), [3]string{
		"dd977d833f54d61db999fa6c0839f50a76c5f746ff1579444399e76b782f58e2",
		"0101e0f883a38389850601e0f883a38389850601aad4821b008c010486fa8fa20103280228012800",
		"b13674d595dae2082a679c0c4f93ff6831327bbaf2380a9a60b0e6cc51e29c93",
	})
	s := setOf(t, Spec{Name: "many", Windows: windowsOf(t, "60s/60s"), Aggregates: []Aggregate{P50, Distinct}, Decimals: -1})
	c, state, sum := s.NewCell(), store{}, sha256.New()
	for n := range 3000 {
		if err := s.Add(c, 0, 1_700_000_000_000_000, math.Pow(1.011, float64(n-1500))); err != nil {
			t.Fatal(err)
		}
	}
	s.Changes(c, nil, state.put)
	for _, sub := range slices.Sorted(maps.Keys(state)) {
		fmt.Fprintf(sum, "%q %q\n", sub, state[sub])
	}
	out := make([]float64, 2)
	if s.Read(c, 0, 1_700_000_000_000_000, out); len(state) != 2 || fmt.Sprint(out) != "[65.5 2998]" || !s.Approximate(c, 0) {
		t.Errorf("%d entries, %v, approximate %t", len(state), out, s.Approximate(c, 0))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != "65c564c059b05fb755b6d8137de78cb0c92f34cba0524796da688fedc0d484b4" {
		t.Errorf("entries are %s", got)
	}
}

// TestEdgesOfSketches has the ends of their ranges: numbers next to zero and to infinity, zeros of
// both signs, and registers of the greatest rank.
func TestEdgesOfSketches(t *testing.T) {
	u, form := unitOf(-1), sketchForm{bins: true, members: true}
	for _, v := range []float64{0, math.Copysign(0, -1), 5e-324, -0x1.fp-1023, 0x1p-1022, -0x1p-1022, 1, -1, 127, math.MaxFloat64, -math.MaxFloat64} {
		if got, want := u.middle(binOf(v)), refMiddle(v); got != want || math.Abs(got-v) > math.Abs(v)/128 && math.Abs(v) >= 0x1p-1022 {
			t.Errorf("%v reads %v, want %v", v, got, want)
		}
	}
	zero, minus := form.item(&u, nil, floatWord(0)), form.item(&u, nil, floatWord(math.Copysign(0, -1)))
	if zero != minus {
		t.Errorf("zeros are %v and %v", zero, minus)
	}
	random := rand.New(rand.NewSource(1))
	for saturated := 0; saturated <= registerCount; saturated += 512 {
		registers, ranks := make([]int, registerCount), [mostRank + 1]int32{}
		for k := range registers {
			if registers[k] = mostRank - 1 - random.Intn(2); k < saturated {
				registers[k] = mostRank
			}
			ranks[registers[k]]++
		}
		got, want := estimate(&ranks), refEstimate(registers)
		if got != want && math.Abs(got-want) > want*1e-12 {
			t.Errorf("%d saturated registers are %v values, want %v", saturated, got, want)
		}
	}
	if got := estimate(&[mostRank + 1]int32{registerCount}); got != 0 {
		t.Errorf("no values are %v", got)
	}
}

// TestSketchesDoNotTellTheOrder adds entries to a pane, and panes to a sum, in any order. Numbers
// of values are on both sides of the bounds of a pane.
func TestSketchesDoNotTellTheOrder(t *testing.T) {
	form, collapsed, estimated := sketchForm{bins: true, members: true}, 0, 0
	seeds.Run(t, 30, func(t *testing.T, random *rand.Rand) {
		var first []byte
		var bins binSum
		u, entries := unitOf(-1), make([][]float64, 1+random.Intn(4))
		for k := range entries {
			entries[k] = make([]float64, 1+random.Intn(4000))
			for n := range entries[k] {
				entries[k][n] = math.Trunc(random.NormFloat64()*math.Pow(10, float64(random.Intn(8)))) / 16
			}
		}
		for range 3 {
			s, all := &sketched{form: form}, []byte(nil)
			s.read(-1, 1_000)
			for _, k := range random.Perm(len(entries)) {
				for _, n := range random.Perm(len(entries[k])) {
					s.add(int64(k), form.item(&u, nil, floatWord(entries[k][n])), -10, nil)
				}
			}
			for _, p := range s.panes {
				all = p.append(all, &form)
				if collapsed, estimated = collapsed+1, estimated+1; !p.collapsed {
					collapsed--
				}
				if p.registers == nil {
					estimated--
				}
			}
			running := *s
			got := []float64{s.distinct(), u.middle(s.bins.percentile(50)), u.middle(s.bins.percentile(99))}
			s.forget()
			s.read(-1, 1_000)
			anew := []float64{s.distinct(), u.middle(s.bins.percentile(50)), u.middle(s.bins.percentile(99))}
			if !slices.Equal(got, anew) || !slices.Equal(running.bins.octaves, s.bins.octaves) {
				t.Fatalf("the running sum reads %v, that of all panes %v", got, anew)
			}
			if first == nil {
				first, bins = all, s.bins
			} else if !bytes.Equal(first, all) || !slices.Equal(bins.octaves, s.bins.octaves) {
				t.Fatal("another order makes another sketch")
			}
		}
	})
	if collapsed == 0 || estimated == 0 {
		t.Errorf("%d panes had too many bins, %d too many values, want some", collapsed, estimated)
	}
}

// TestSketchesAreAccurate compares with sorted values. An estimate of the number of different
// values has a standard error of 1.63 %.
func TestSketchesAreAccurate(t *testing.T) {
	var squares, worst float64
	estimates := 0
	all := seeds.Times(100)
	for seed := range all {
		random, u, form := rand.New(rand.NewSource(seed)), unitOf(-1), sketchForm{bins: true, members: true}
		s, different := &sketched{form: form}, map[float64]bool{}
		values := make([]float64, 1+random.Intn(int(math.Pow(10, 1+3*random.Float64()))))
		if seed%2 == 0 {
			values = make([]float64, 2000+random.Intn(16_000))
		}
		for n := range values {
			values[n] = math.Exp(random.NormFloat64()*2 + 5)
			if random.Intn(8) == 0 && n > 0 {
				values[n] = -values[random.Intn(n)]
			}
			different[values[n]] = true
			s.add(int64(random.Intn(3)), form.item(&u, nil, floatWord(values[n])), -10, nil)
		}
		s.read(-1, 10)
		slices.Sort(values)
		for _, p := range []int{50, 95, 99} {
			got, want := u.middle(s.bins.percentile(int64(p))), values[(len(values)*p+99)/100-1]
			if math.Abs(got-want) > math.Abs(want)/128 {
				t.Fatalf("seed %d: p%d is %v of %v", seed, p, got, want)
			}
		}
		off := s.distinct()/float64(len(different)) - 1
		if s.beyond == 0 && off != 0 {
			t.Fatalf("seed %d: %v different values of %d", seed, s.distinct(), len(different))
		}
		if s.beyond > 0 {
			estimates, squares, worst = estimates+1, squares+off*off, max(worst, math.Abs(off))
		}
	}
	if rms := math.Sqrt(squares / float64(estimates)); estimates < int(all)*3/10 || rms > 0.018 || worst > 0.075 {
		t.Errorf("%d estimates with a mean error of %.4f, at most %.4f", estimates, rms, worst)
	}
}

// TestFullPanesAreThoseOfEveryEntryKept has panes with more values than they keep apart: late
// entries, restarts, undone ones, and windows that go over to panes and come back.
func TestFullPanesAreThoseOfEveryEntryKept(t *testing.T) {
	var of seen
	all := seeds.Run(t, 2, func(t *testing.T, random *rand.Rand) {
		spec := Spec{Name: "f", Kind: []Kind{Numbers, Ints, Texts}[random.Intn(3)], Aggregates: []Aggregate{Distinct, Count}, Decimals: -1, Max: 200}
		for k, w := range windowsOf(t, "60s/20s", "300s/60s", "5s", "120s")[random.Intn(3):] {
			w.Name = fmt.Sprint(k)
			spec.Windows = append(spec.Windows, w)
		}
		of.incomplete += compareFullPanes(t, random, spec)
	})
	if all && of.incomplete == 0 {
		t.Error("no pane was full")
	}
}

func compareFullPanes(t *testing.T, random *rand.Rand, spec Spec) (full int) {
	if spec.Kind == Numbers {
		spec.Aggregates = append(spec.Aggregates, P50, P95)
	}
	s := setOf(t, spec)
	ref, twins, now := newReference(spec), newTwins(s), int64(1_700_000_000_000_000)
	var saved Saved
	for n := range 4000 {
		now += random.Int63n(20_000)
		if random.Intn(1500) == 0 {
			now += random.Int63n(200_000_000)
		}
		at, v := now, float64(random.Intn(100_000))
		if random.Intn(10) == 0 {
			at -= random.Int63n(100_000_000)
		}
		if n%8 == 0 {
			s.Save(twins[1].cell, &saved)
			addAny(s, twins[1].cell, &spec, at+random.Int63n(200)*1_000_000-50_000_000, v-1)
			s.ReadValues(twins[1].cell, 0, now, false, make([]Value, 16))
			s.Undo(twins[1].cell, &saved)
		}
		ref.add(at, v)
		for _, w := range twins {
			if err := addAny(s, w.cell, &spec, at, v); err != nil {
				t.Fatal(err)
			}
		}
		if n%100 == 0 {
			comparePanes(t, s, twins, ref, at)
			if s.Approximate(twins[0].cell, 0) {
				full++
			}
		}
		for _, w := range twins {
			w.afterEvent(t, s, random)
		}
	}
	compareStates(t, s, twins)
	return full
}

// comparePanes compares reads with the reference. An estimate of it may be rounded to the next
// number.
func comparePanes(t *testing.T, s *Set, twins []*twin, ref *reference, at int64) {
	t.Helper()
	want := ref.read(at)
	if got := s.Approximate(twins[0].cell, 0); got != ref.approximate() {
		t.Fatalf("%+v: approximate %t", ref.spec, got)
	}
	for k, w := range twins {
		out := make([]Value, len(want))
		s.ReadValues(w.cell, 0, at, false, out)
		for n, v := range out {
			estimated := ref.spec.Aggregates[n%len(ref.spec.Aggregates)] == Distinct && want[n] > 512
			if v.Number != want[n] && !(estimated && math.Abs(v.Number-want[n]) <= 1) {
				t.Fatalf("twin %d at %d of %+v: column %d is %v, want %v", k, at, ref.spec, n, v.Number, want[n])
			}
		}
	}
}

// FuzzLoadSketch loads a pane with changed bytes of its sketch: they are an error, or a cell that can
// be used and written again.
func FuzzLoadSketch(f *testing.F) {
	s := setOf(f, Spec{Name: "f", Windows: windowsOf(f, "60s/60s"), Aggregates: []Aggregate{P50, Distinct}, Decimals: -1})
	for _, n := range []int{1, 100, 3000} {
		c := s.NewCell()
		for k := range n {
			if err := s.Add(c, 0, 1_700_000_000_000_000, math.Pow(1.011, float64(k))); err != nil {
				f.Fatal(err)
			}
		}
		state := store{}
		s.Changes(c, nil, state.put)
		for sub, sketch := range state {
			if sub != "" {
				f.Add([]byte(state[""]), []byte(sketch))
			}
		}
	}
	f.Fuzz(func(t *testing.T, header, sketch []byte) {
		c, err := s.Load(stored(header, sketch))
		if err != nil {
			return
		}
		at, _ := c.Last()
		out := make([]float64, 2)
		for range 600 {
			at += 50_000
			if err := s.Add(c, 0, at, float64(at)); err != nil {
				t.Fatal(err)
			}
			if s.Read(c, 0, at, out); !(out[1] >= 0 && out[1] <= 1<<53) {
				t.Fatalf("%v", out)
			}
		}
		state := store{}
		s.Changes(c, nil, state.put)
		if _, err := s.Load(state.get); err != nil && len(state) == 2 { // the pane has changed
			t.Fatal(err)
		}
	})
}
