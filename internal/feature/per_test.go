package feature

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/test/seeds"
)

// groupOf returns the group of an entry: one of a few, or of many.
func groupOf(t int64, v float64) string {
	if int64(v)%5 == 0 {
		return strings.Repeat("group", int(t/1_000_000&127))
	}
	return fmt.Sprint("g", (int64(v)&7*31+t/1_000_000)%9)
}

// perValues returns what the reference reads of entries in groups, by the aggregates of each
// group alone.
func (r *reference) perValues(in []refEntry) (out []Value) {
	in = slices.Clone(in)
	slices.SortStableFunc(in, func(a, b refEntry) int { return cmp.Compare(a.t, b.t) })
	of := map[string][]refEntry{}
	for _, e := range in {
		of[e.group] = append(of[e.group], e)
	}
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(len(of[b])-len(of[a]), cmp.Compare(a, b)) })
	taken := min(len(names), cmp.Or(r.spec.Take, 100))
	r.more = r.more || taken < len(names)
	for k, a := range r.spec.Aggregates {
		column := Value{Present: true}
		for _, name := range names[:taken] {
			v, entries := Value{Present: true}, of[name]
			switch {
			case a == Count:
				v.Number, v.Int = float64(len(entries)), int64(len(entries))
			case a == Changes, a == Distinct:
				n := r.look(a, entries).n
				v.Number, v.Int = float64(n), int64(n)
			case r.spec.Kind != Numbers:
				v = r.anyValue(r.look(a, entries).v)
			default:
				v.Number = r.aggregate(nil, entries, [][]refEntry{entries}, [][][]refEntry{{entries}})[k]
			}
			v.Group = []byte(name)
			column.Items = append(column.Items, v)
		}
		out = append(out, column)
	}
	return out
}

// perSpec returns a feature in groups.
func perSpec(random *rand.Rand) Spec {
	spec := Spec{Name: "f", Per: true, Take: []int{0, 1, 3, 1000}[random.Intn(4)]}
	all := []Aggregate{Count, FirstValue, LastValue, Previous, Changes, Distinct}
	if spec.Kind = Kind(random.Intn(3)); spec.Kind == Numbers {
		spec.Decimals, spec.Empty = random.Intn(4)-1, 2.5
		all = append(all, Sum, Mean, Max, Min, P50, P95, P99)
		if random.Intn(3) == 0 {
			all = append(all, Variance, Stddev)
		}
	}
	windows := random.Intn(3) > 0
	if windows && spec.Kind == Numbers {
		all = append(all, Slope, EWMA)
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if spec.Aggregates = all[:1+random.Intn(len(all))]; random.Intn(4) == 0 {
		spec.Aggregates, spec.Kind, spec.Decimals = []Aggregate{Count}, Numbers, -1
	}
	if slices.Contains(spec.Aggregates, EWMA) {
		spec.HalfLife = 20 * time.Second
	}
	if !windows {
		spec.Last = 1 + random.Intn(63)
		return spec
	}
	for k, size := range []time.Duration{7 * time.Second, time.Minute, 300 * time.Second}[:1+random.Intn(3)] {
		spec.Windows = append(spec.Windows, Window{Name: fmt.Sprint(k), Size: size})
	}
	spec.Max, spec.Overflow = []int{64, 200, 1000}[random.Intn(3)], OverflowDead+Overflow(random.Intn(2))
	return spec
}

// TestGroupsAreReadAlone has three groups of equally many entries, of which two are taken.
func TestGroupsAreReadAlone(t *testing.T) {
	s := setOf(t, Spec{Name: "f", Per: true, Windows: windowsOf(t, "60s"), Overflow: OverflowOldest, Aggregates: []Aggregate{Count, Sum, LastValue}, Take: 2})
	c := s.NewCell()
	for n, group := range []string{"b", "a", "c", "b", "a", "c"} {
		s.Split(c, 0, group)
		if err := s.Add(c, 0, int64(100-n), float64(n)); err != nil {
			t.Fatal(err)
		}
	}
	out := make([]Value, 3)
	if more := s.ReadValues(c, 0, 100, false, out); !more {
		t.Error("three groups are no more than two")
	}
	of := func(group string, v float64) Value {
		return Value{Number: v, Present: true, Group: []byte(group)}
	}
	two := func(group string) Value { v := of(group, 2); v.Int = 2; return v }
	for k, want := range [][]Value{{two("a"), two("b")}, {of("a", 5), of("b", 3)}, {of("a", 1), of("b", 0)}} {
		if !slices.EqualFunc(out[k].Items, want, sameValues) {
			t.Errorf("column %d is %+v, want %+v", k, out[k].Items, want)
		}
	}
	if more := s.ReadValues(c, 0, 96, false, out); more || len(out[0].Items) != 2 {
		t.Errorf("two entries are in %d groups, more: %t", len(out[0].Items), more)
	}
}

// TestGroupedValuesAreBounded refuses a group that is too long, and values of which a sum of as
// many as a window may have, or of their squares, would be out of range.
func TestGroupedValuesAreBounded(t *testing.T) {
	for decimals, most := range map[int]float64{-1: groupedFloat, 0: groupedUnits, 2: groupedUnits / 100} {
		s := setOf(t, Spec{Name: "f", Per: true, Windows: windowsOf(t, "60s"), Max: mostLooked, Overflow: OverflowOldest, Decimals: decimals, Aggregates: []Aggregate{Sum, Variance}})
		c := s.NewCell()
		if err := s.Split(c, 0, strings.Repeat("x", MaxText+1)); err == nil {
			t.Error("a group that is too long is taken")
		}
		if err := s.Add(c, 0, 1, math.Nextafter(most, math.Inf(1))+1); err == nil {
			t.Errorf("with %d decimals more than %v is taken", decimals, most)
		}
		if sum, variance := fullGroup(t, s, most, most); sum != mostLooked*most || variance != 0 {
			t.Errorf("with %d decimals the sum of equal values is %v, their variance %v", decimals, sum, variance)
		}
		if sum, variance := fullGroup(t, s, most, -most); sum != 0 || math.Abs(variance/most/most-1) > 1e-12 {
			t.Errorf("with %d decimals the sum of values far apart is %v, their variance %v", decimals, sum, variance)
		}
	}
}

// fullGroup returns the sum and the variance of as many entries as a window may have, of two
// values in turn.
func fullGroup(t *testing.T, s *Set, a, b float64) (sum, variance float64) {
	c, out := s.NewCell(), make([]Value, 2)
	for n := range mostLooked {
		s.Split(c, 0, "x")
		if err := s.Add(c, 0, 1, []float64{a, b}[n%2]); err != nil {
			t.Fatal(err)
		}
	}
	s.ReadValues(c, 0, 1, false, out)
	return out[0].Items[0].Number, out[1].Items[0].Number
}

// TestGroupsAreOfAnyKind compares features in groups with their definition: see
// TestValuesOfAnyKind.
func TestGroupsAreOfAnyKind(t *testing.T) {
	cut := 0
	all := seeds.Run(t, 4, func(t *testing.T, random *rand.Rand) { cut += compareAnyOf(t, random, perSpec(random), 300).cut })
	if all && cut == 0 {
		t.Error("no window had more groups than are taken")
	}
}
