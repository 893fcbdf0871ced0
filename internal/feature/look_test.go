package feature

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/test/seeds"
)

// look is an aggregate that looks at entries: a value of an entry, or a number.
func (r *reference) look(a Aggregate, in []refEntry) (of struct {
	v float64
	n int
}) {
	byTime := slices.Clone(in)
	slices.SortStableFunc(byTime, func(a, b refEntry) int { return cmp.Compare(a.t, b.t) })
	different := map[float64]bool{}
	var values []float64
	for k, e := range byTime {
		different[e.v] = true
		values = append(values, e.v)
		if a == Changes && k > 0 && e.v != byTime[k-1].v {
			of.n++
		}
	}
	slices.Sort(values)
	rank := func(p int) float64 { // the least value with p % of all at or below it
		for k, v := range values {
			if 100*(k+1) >= p*len(values) {
				return v
			}
		}
		panic("no value")
	}
	switch a {
	case Distinct:
		of.n = len(different)
	case FirstValue:
		of.v = byTime[0].v
	case LastValue, Previous:
		of.v = byTime[len(byTime)-1].v
	case P50:
		of.v = rank(50)
	case P95:
		of.v = rank(95)
	case P99:
		of.v = rank(99)
	}
	return of
}

// ewma is as of the time of the read.
func (r *reference) ewma(in []refEntry) float64 {
	in = slices.Clone(in)
	slices.SortStableFunc(in, func(a, b refEntry) int { return cmp.Compare(a.t, b.t) })
	half, scale := float64(r.spec.HalfLife.Microseconds()), 1.0
	if r.spec.Decimals >= 0 {
		scale = math.Pow10(r.spec.Decimals)
	}
	sum, weights := 0.0, 0.0
	for _, e := range in {
		w := exp2(-float64(r.at-e.t) / half)
		sum += float64(w * (e.v / scale))
		weights += w
	}
	if weights == 0 {
		return in[len(in)-1].v / scale
	}
	return sum / weights
}

// TestPowersOfTwoAreAccurate compares with more digits than a float has.
func TestPowersOfTwoAreAccurate(t *testing.T) {
	worst := 0.0
	seeds.Run(t, 5, func(t *testing.T, random *rand.Rand) {
		for range 2000 {
			x := -math.Abs(random.NormFloat64()) * math.Pow(10, float64(random.Intn(4)-1))
			if x < -1000 {
				continue
			}
			want := precisely(x)
			off, _ := new(big.Float).Quo(new(big.Float).Sub(new(big.Float).SetFloat64(exp2(x)), want), want).Float64()
			if worst = max(worst, math.Abs(off)); worst > 0x1p-51 {
				t.Fatalf("2^%v is %v, %v off", x, exp2(x), off)
			}
		}
	})
	if exp2(0) != 1 || exp2(-3) != 0.125 || exp2(-2000) != 0 || exp2(math.Inf(-1)) != 0 {
		t.Errorf("%v %v %v %v", exp2(0), exp2(-3), exp2(-2000), exp2(math.Inf(-1)))
	}
	t.Logf("worst relative error %.2g", worst)
}

// precisely returns 2^x, by squaring that of a small part.
func precisely(x float64) *big.Float {
	of := func(v float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(v) }
	ln2, _, _ := big.ParseFloat("0.6931471805599453094172321214581765680755001343602552541206800094933936219696947156058633269964186875", 10, 300, big.ToNearestEven)
	y := of(x)
	y.Mul(y, ln2).Quo(y, of(1<<20))
	sum, term := of(1), of(1)
	for k := 1; k < 60; k++ {
		term.Mul(term, y).Quo(term, of(float64(k)))
		sum.Add(sum, term)
	}
	for range 20 {
		sum.Mul(sum, sum)
	}
	return sum
}

// TestSelectionIsThatOfASort has many equal words, and orders that are bad for a selection.
func TestSelectionIsThatOfASort(t *testing.T) {
	seeds.Run(t, 20, func(t *testing.T, random *rand.Rand) {
		words := make([]int64, 1+random.Intn(2000))
		spread := 1 + random.Int63n(int64([]int{2, 50, 1 << 40}[random.Intn(3)]))
		for k := range words {
			words[k] = random.Int63n(spread) - spread/2
		}
		sorted := slices.Sorted(slices.Values(words))
		if random.Intn(3) == 0 {
			copy(words, sorted)
		}
		for range 20 {
			if k := random.Intn(len(words)); nth(words, k) != sorted[k] {
				t.Fatalf("the word at %d of %d is another one", k, len(words))
			}
		}
	})
}

// anySpec returns a feature of texts or ints, of windows or of the newest values.
func anySpec(random *rand.Rand) Spec {
	spec := Spec{Name: "f", Kind: Ints + Kind(random.Intn(2))}
	all := []Aggregate{Count, FirstValue, LastValue, Previous, Changes, Distinct, List, Top}
	if random.Intn(3) == 0 {
		all = all[1:4]
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if spec.Aggregates = all[:1+random.Intn(len(all))]; !spec.Looks() {
		spec.Aggregates = append(spec.Aggregates, LastValue)
	}
	if spec.many() {
		spec.Take = []int{0, 1, 3, 100}[random.Intn(4)]
		if random.Intn(3) == 0 {
			spec.Kind, spec.Decimals, spec.Empty = Numbers, random.Intn(4)-1, 2.5
		}
	}
	if random.Intn(3) == 0 {
		spec.Last = 1 + random.Intn(63)
		return spec
	}
	for k, size := range []time.Duration{7 * time.Second, time.Minute, 300 * time.Second}[:1+random.Intn(3)] {
		spec.Windows = append(spec.Windows, Window{Name: fmt.Sprint(k), Size: size})
	}
	spec.Max, spec.Overflow = []int{64, 200, 1000}[random.Intn(3)], OverflowDead+Overflow(random.Intn(2))
	return spec
}

// anyText returns a text of a number: short ones and long ones.
func anyText(n float64) string {
	if n < 0 {
		return strings.Repeat("long", -int(n)%256)
	}
	return fmt.Sprintf("merchant %v", n)
}

func addAny(s *Set, c *Cell, spec *Spec, t int64, v float64) error {
	if spec.Per {
		s.Split(c, 0, groupOf(t, v))
	}
	switch spec.Kind {
	case Numbers:
		return s.Add(c, 0, t, v)
	case Ints:
		return s.AddInt(c, 0, t, int64(v)<<40|int64(v)&1)
	}
	return s.AddText(c, 0, t, anyText(v))
}

// anyValues returns what the reference reads.
func (r *reference) anyValues(t int64) (out []Value) {
	r.at, r.more = t, false
	var contents [][]refEntry
	if r.spec.Last > 0 {
		contents = [][]refEntry{r.entries[max(0, len(r.entries)-r.spec.Last):]}
		for k := range contents[0] { // by arrival
			contents[0] = slices.Clone(contents[0])
			contents[0][k].t = 0
		}
	}
	for k := range r.spec.Windows {
		contents = append(contents, r.content(k, t))
	}
	for _, in := range contents {
		if r.spec.Per {
			out = append(out, r.perValues(in)...)
			continue
		}
		for _, a := range r.spec.Aggregates {
			v := Value{Present: true}
			switch {
			case a == Count:
				v.Number = float64(len(in))
			case a == List:
				v.Items = r.list(in)
			case a == Top:
				v.Items = r.top(in)
			case !a.Valued():
				v.Number = float64(r.look(a, in).n)
			case len(in) == 0 && r.spec.Kind == Numbers:
				v.Number = r.spec.Empty
			case len(in) == 0:
				v = Value{}
			default:
				v = r.anyValue(r.look(a, in).v)
			}
			out = append(out, v)
		}
	}
	return out
}

// anyValue returns the value that addAny adds.
func (r *reference) anyValue(v float64) Value {
	switch r.spec.Kind {
	case Numbers:
		return Value{Number: v / math.Pow10(max(0, r.spec.Decimals)), Present: true}
	case Ints:
		return Value{Int: int64(v)<<40 | int64(v)&1, Present: true}
	}
	return Value{Text: []byte(anyText(v)), Present: true}
}

func (r *reference) take() int { return cmp.Or(r.spec.Take, 10) }

// list is the newest of the entries.
func (r *reference) list(in []refEntry) (list []Value) {
	in = slices.Clone(in)
	slices.SortStableFunc(in, func(a, b refEntry) int { return cmp.Compare(a.t, b.t) })
	for k, e := range in {
		if len(in)-k <= r.take() {
			list = append(list, r.anyValue(e.v))
		}
	}
	return list
}

// top takes the most frequent value of all that are left, one after the other.
func (r *reference) top(in []refEntry) (top []Value) {
	left := map[float64]int{}
	for _, e := range in {
		left[e.v]++
	}
	for len(left) > 0 && len(top) < r.take() {
		var best Value
		var of float64
		for v, n := range left {
			is := r.anyValue(v)
			if is.Count = n; best.Count == 0 || n > best.Count || n == best.Count && compareValues(is, best) < 0 {
				best, of = is, v
			}
		}
		top = append(top, best)
		delete(left, of)
	}
	return top
}

func compareValues(a, b Value) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Int, b.Int), bytes.Compare(a.Text, b.Text), bytes.Compare(a.Group, b.Group))
}

func sameValues(a, b Value) bool {
	return compareValues(a, b) == 0 && a.Present == b.Present && a.Count == b.Count && slices.EqualFunc(a.Items, b.Items, sameValues)
}

// TestValuesOfAnyKind compares features of texts, ints and numbers with their definition, over late
// events, equal times, restarts, other moments of writing, undone events and full lists.
func TestValuesOfAnyKind(t *testing.T) {
	var of seen
	all := seeds.Run(t, 6, func(t *testing.T, random *rand.Rand) {
		n := compareAnyOf(t, random, anySpec(random), 800)
		of.refused, of.incomplete = of.refused+n.refused, of.incomplete+n.incomplete
	})
	if all && (of.refused == 0 || of.incomplete == 0) {
		t.Errorf("%d entries were refused, %d times a list had lost some, want both", of.refused, of.incomplete)
	}
}

// seen is how many entries were refused, and how often a list had lost some, or groups were
// left out.
type seen struct{ refused, incomplete, cut int }

// compareAnyOf compares a feature with its definition, over so many events.
func compareAnyOf(t *testing.T, random *rand.Rand, spec Spec, events int) (of seen) {
	s := setOf(t, spec)
	ref, twins, clock := newReference(spec), newTwins(s), newClock(random)
	var saved Saved
	for range events {
		at, v := clock.next(), math.Trunc(random.NormFloat64()*20)+0
		if random.Intn(5) == 0 {
			v = float64(random.Intn(3))
		}
		compareAny(t, s, twins, ref, at)
		if random.Intn(4) == 0 { // one twin has an event that is undone
			s.Save(twins[1].cell, &saved)
			addAny(s, twins[1].cell, &spec, at+int64(random.Intn(100))*1_000_000, v-1)
			s.Undo(twins[1].cell, &saved)
		}
		taken := ref.add(at, v)
		for k, w := range twins {
			if err := addAny(s, w.cell, &spec, at, v); (err == nil) != taken || err != nil && !errors.Is(err, ErrFull) {
				t.Fatalf("twin %d: %v, want it taken: %t", k, err, taken)
			}
			if got := s.Approximate(w.cell, 0); spec.Last == 0 && got != ref.approximate() {
				t.Fatalf("twin %d of %+v: approximate %t", k, spec, got)
			}
		}
		if !taken {
			of.refused++
		}
		if spec.Last == 0 && ref.approximate() {
			of.incomplete++
		}
		compareAny(t, s, twins, ref, at)
		if ref.more {
			of.cut++
		}
		for _, w := range twins {
			w.afterEvent(t, s, random)
		}
	}
	compareStates(t, s, twins)
	if spec.Last > 0 {
		s.DropWindows(twins[0].cell)
		compareAny(t, s, twins[:1], ref, clock.now)
	}
	s.Forget(twins[0].cell)
	if s.Changes(twins[0].cell, nil, twins[0].state.put); len(twins[0].state) > 0 {
		t.Errorf("%d entries of a forgotten key are left", len(twins[0].state))
	}
	return of
}

func compareAny(t *testing.T, s *Set, twins []*twin, ref *reference, at int64) {
	t.Helper()
	want := ref.anyValues(at)
	for k, w := range twins {
		out := make([]Value, len(want))
		s.ReadValues(w.cell, 0, at, true, out)
		if more := s.ReadValues(w.cell, 0, at, false, out); more != ref.more {
			t.Fatalf("twin %d at %d of %+v: more groups than are taken: %t", k, at, ref.spec, more)
		}
		for n := range out {
			if !sameValues(out[n], want[n]) {
				t.Fatalf("twin %d at %d of %+v: column %d is %+v, want %+v", k, at, ref.spec, n, out[n], want[n])
			}
		}
	}
}

// TestLooksAllocateNothing holds for texts too: their memory is used again.
func TestLooksAllocateNothing(t *testing.T) {
	for _, spec := range []Spec{
		{Name: "f", Kind: Texts, Last: 1, Aggregates: []Aggregate{Previous}},
		{Name: "f", Kind: Texts, Windows: windowsOf(t, "60s"), Overflow: OverflowOldest, Aggregates: []Aggregate{Distinct, Changes, LastValue}},
		{Name: "f", Kind: Texts, Windows: windowsOf(t, "60s"), Overflow: OverflowOldest, Aggregates: []Aggregate{List, Top}},
		{Name: "f", Windows: windowsOf(t, "60s"), Overflow: OverflowOldest, Aggregates: []Aggregate{Distinct, P95, EWMA, Previous}, HalfLife: time.Second},
		{Name: "f", Windows: windowsOf(t, "960s/60s"), Aggregates: []Aggregate{Distinct, P95}},
		{Name: "f", Kind: Texts, Windows: windowsOf(t, "960s/60s"), Aggregates: []Aggregate{Distinct}},
	} {
		s := setOf(t, spec)
		c, n, out, numbers := s.NewCell(), int64(0), make([]Value, 4), make([]float64, 4)
		one := func() {
			n++
			at := n * 1_000_000
			if spec.Kind == Texts {
				s.ReadValues(c, 0, at, true, out)
				if err := s.AddText(c, 0, at, "a merchant"); err != nil {
					t.Fatal(err)
				}
				s.ReadValues(c, 0, at, false, out)
				return
			}
			if err := s.Add(c, 0, at, float64(n%7)); err != nil {
				t.Fatal(err)
			}
			if err := s.Read(c, 0, at, numbers); err != nil {
				t.Fatal(err)
			}
		}
		for range 200 {
			one()
		}
		if got := testing.AllocsPerRun(500, one); got > 0.2 {
			t.Errorf("%v: %v allocations an event", spec.Aggregates, got)
		}
	}
}

// TestTextsAreBounded refuses one that is too long.
func TestTextsAreBounded(t *testing.T) {
	s := setOf(t, Spec{Name: "f", Kind: Texts, Last: 1, Aggregates: []Aggregate{LastValue}})
	c := s.NewCell()
	if err := s.AddText(c, 0, 1, strings.Repeat("x", MaxText)); err != nil {
		t.Error(err)
	}
	if err := s.AddText(c, 0, 1, strings.Repeat("x", MaxText+1)); err == nil {
		t.Error("a text that is too long is taken")
	}
}

// TestWeightedSumsAreInRange refuses floats of which a sum would be infinite.
func TestWeightedSumsAreInRange(t *testing.T) {
	s := setOf(t, Spec{Name: "f", Windows: windowsOf(t, "60s"), Overflow: OverflowOldest, Aggregates: []Aggregate{EWMA}, HalfLife: time.Second, Decimals: -1})
	c, out := s.NewCell(), make([]float64, 1)
	if err := s.Add(c, 0, 1, 1.7e308); err == nil {
		t.Error("1.7e308 is taken")
	}
	for range 1000 {
		if err := s.Add(c, 0, 1, weightedFloat); err != nil {
			t.Fatal(err)
		}
	}
	if s.Read(c, 0, 1, out); out[0] != weightedFloat {
		t.Errorf("the mean of %v alone is %v", float64(weightedFloat), out[0])
	}
}

// TestFullListsLoseTheOldest has groups of blocks, of which the first loses blocks that are
// in the window, and a list that loses its newest time.
func TestFullListsLoseTheOldest(t *testing.T) {
	spec := Spec{Name: "f", Windows: windowsOf(t, "60s"), Aggregates: []Aggregate{Sum, Count, Variance, LastValue}, Decimals: -1, Max: 1100, Overflow: OverflowOldest}
	s := setOf(t, spec)
	refs, twins, random := []*reference{newReference(spec)}, newTwins(s), rand.New(rand.NewSource(1))
	for n := range int64(2600) {
		at := n * 10_000
		switch {
		case n == 3:
			at = 65_000_000 // leaves with its block, and is the newest one
		case n > 1300 && n%100 == 99:
			at = 4_000_000 // is out of the window of that one
		}
		addAll(t, s, twins, refs[0], 0, at, random.NormFloat64())
		if n%50 == 0 || n > 1595 && n < 1750 {
			compareReads(t, s, twins, refs, 0, at)
			compareReads(t, s, twins, refs, 0, 30_000_000)
			for _, w := range twins {
				w.afterEvent(t, s, random)
			}
		}
	}
	compareStates(t, s, twins)
}

// TestBestAreTheFirstOfTheOrder compares with a sort of all.
func TestBestAreTheFirstOfTheOrder(t *testing.T) {
	seeds.Run(t, 2000, func(t *testing.T, random *rand.Rand) {
		list := random.Perm(random.Intn(40))
		switch random.Intn(3) {
		case 0:
			slices.Sort(list)
		case 1:
			slices.SortFunc(list, func(a, b int) int { return b - a })
		}
		sorted, n := slices.Sorted(slices.Values(list)), 1+random.Intn(45)
		if got := best(slices.Clone(list), n, cmp.Compare[int]); !slices.Equal(got, sorted[:min(n, len(list))]) {
			t.Fatalf("the best %d of %v are %v", n, list, got)
		}
	})
}
