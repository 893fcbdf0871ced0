package feature

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/afterbay/afterbay/internal/test/seeds"
)

// inRange reports whether the sum of entries is one that a feature can hold.
func (r *reference) inRange(entries ...refEntry) bool {
	if r.spec.Decimals < 0 {
		sum := 0.0
		for _, e := range entries {
			sum += e.v
		}
		return sum-sum == 0
	}
	return sumOf(entries).IsInt64()
}

func sumOf(entries []refEntry) *big.Int {
	sum := new(big.Int)
	for _, e := range entries {
		sum.Add(sum, big.NewInt(int64(e.v)))
	}
	return sum
}

// content returns the entries of window k as of t.
func (r *reference) content(k int, t int64) []refEntry {
	w := r.spec.Windows[k]
	size := w.Size.Microseconds()
	switch {
	case w.Pane > 0:
		all, _ := r.panes[k].read(w.Pane.Microseconds(), int64(w.Size/w.Pane), t)
		return all
	case r.over:
		all, _ := r.panes[k].read(size/60, 60, t)
		return all
	}
	return filter(r.entries, func(e refEntry) bool { return e.t > t-size && e.t <= t && e.t > r.newest-r.longest() })
}

// clone returns a reference that shares nothing that changes.
func (r *reference) clone() *reference {
	n := *r
	n.entries, n.tail, n.blocks = slices.Clone(r.entries), slices.Clone(r.tail), slices.Clone(r.blocks)
	n.panes = slices.Clone(r.panes)
	for k := range n.panes {
		n.panes[k].at = maps.Clone(n.panes[k].at)
		for i, entries := range n.panes[k].at {
			n.panes[k].at[i] = slices.Clone(entries)
		}
	}
	return &n
}

// readable reports whether all sums as of t are in range.
func (r *reference) readable(t int64) bool {
	if r.spec.Last > 0 {
		return r.inRange(r.entries[max(0, len(r.entries)-r.spec.Last):]...)
	}
	for k := range r.spec.Windows {
		if !r.inRange(r.content(k, t)...) {
			return false
		}
	}
	return true
}

// takes adds the entry where sums as of its time, of the newest one, and of the
// panes that it goes to are in range, and reports whether they are.
func (r *reference) takes(t int64, v float64) (taken, inRange bool) {
	next := r.clone()
	if !next.add(t, v) {
		return false, true
	}
	for k, w := range r.spec.Windows {
		before, after := r.content(k, t), next.content(k, t)
		if n := max(next.newest, t); len(after) == len(before) { // it is not in this window as of its own time
			continue
		} else if !next.inRange(after...) || len(next.content(k, n)) > 0 && t > n-w.Size.Microseconds() && !next.inRange(next.content(k, n)...) {
			return false, false
		}
		for _, pane := range next.panes[k].at {
			if !next.inRange(pane...) {
				return false, false
			}
		}
	}
	if r.spec.Last > 0 && !next.readable(t) {
		return false, false
	}
	*r = *next
	return true, true
}

// hugeValue returns a value that brings sums near their limit.
func hugeValue(random *rand.Rand, decimals int, sign float64) float64 {
	v := sign * (1 << 53) / math.Pow10(decimals)
	switch random.Intn(20) {
	case 0:
		v *= random.Float64()
	case 1:
		v /= 2
	case 2:
		v = float64(random.Intn(100))
	}
	if random.Intn(20) == 0 {
		return -v
	}
	return v
}

// TestSumsAreExactOrRefused adds values so large that sums go out of range and
// come back, early and late. It compares accepted values, reads and stored sums with
// sums of any size.
func TestSumsAreExactOrRefused(t *testing.T) {
	refused, unreadable, taken := 0, 0, 0
	all := seeds.Run(t, 5, func(t *testing.T, random *rand.Rand) {
		decimals := []int{0, 2, 9}[random.Intn(3)]
		spec := Spec{Name: "f", Aggregates: []Aggregate{Sum, Count, Mean, Max}, Decimals: decimals}
		switch random.Intn(5) {
		case 0:
			spec.Windows = windowsOf(t, "60s")
		case 1:
			spec.Windows = windowsOf(t, "60s/1s", "10s/10s")
		case 2:
			spec.Windows, spec.Max = windowsOf(t, "60s", "7s"), 1100+random.Intn(400)
		case 3:
			spec.Windows, spec.Max, spec.Overflow = windowsOf(t, "60s"), 1100+random.Intn(400), OverflowDead
		default:
			spec.Windows = windowsOf(t, "60s/2s", "30s")
		}
		s, ref := setOf(t, spec), newReference(spec)
		twins := newTwins(s)
		step := int64(60_000_000 / (1200 + random.Intn(400)))
		now, sign := int64(1_700_000_000_000_000), 1.0
		for range 2500 {
			if random.Intn(700) == 0 {
				sign = -sign
			}
			now += random.Int63n(2 * step)
			if random.Intn(500) == 0 {
				now += 40_000_000
			}
			at := now
			if random.Intn(5) == 0 {
				at -= random.Int63n(20_000_000)
			}
			v := hugeValue(random, decimals, sign)
			ok, inRange := ref.takes(at, v)
			out, want := make([]float64, 4*len(spec.Windows)), []float64(nil)
			readable := ref.readable(at)
			if readable {
				want = ref.read(at)
			}
			for k, w := range twins {
				err := s.Add(w.cell, 0, at, v)
				if (err == nil) != ok || err != nil && errors.Is(err, ErrSum) == inRange {
					t.Fatalf("twin %d at %d of %+v: %v is taken: %v; want it taken: %t, in range: %t", k, at, spec, v, err, ok, inRange)
				}
				err = s.Read(w.cell, 0, at, out)
				if (err == nil) != readable || err != nil && !errors.Is(err, ErrSum) || readable && !sameBits(out, want) {
					t.Fatalf("twin %d at %d of %+v: reads %v, %v; want %v, in range: %t", k, at, spec, out, err, want, readable)
				}
				w.afterEvent(t, s, random)
			}
			switch {
			case !inRange:
				refused++
			case ok:
				taken++
			}
			if !readable {
				unreadable++
			}
		}
		compareStates(t, s, twins)
	})
	if all && (refused < 100 || taken < 3000) {
		t.Errorf("%d entries taken, %d refused, %d times a sum could not be read", taken, refused, unreadable)
	}
	t.Logf("%d entries taken, %d refused, %d times a sum could not be read", taken, refused, unreadable)
}

// TestSumOfManyValuesDoesNotWrap is the case that was reported: 1,025 values of
// 9,000,000 with nine decimals.
func TestSumOfManyValuesDoesNotWrap(t *testing.T) {
	for _, window := range []string{"1h", "1h/1m", "1h/1h"} {
		for _, sign := range []float64{1, -1} {
			s := setOf(t, Spec{Name: "spend", Windows: windowsOf(t, window), Aggregates: []Aggregate{Sum, Count}, Decimals: 9})
			c, state, out := s.NewCell(), store{}, make([]float64, 2)
			for n := range int64(1024) {
				if err := s.Add(c, 0, n*1000, sign*9_000_000); err != nil {
					t.Fatal(err)
				}
			}
			s.Changes(c, nil, state.put)
			err := s.Add(c, 0, 1024*1000, sign*9_000_000)
			if !errors.Is(err, ErrSum) || !strings.Contains(err.Error(), "feature spend") || !strings.Contains(err.Error(), "window 1h") {
				t.Errorf("%s: %v, want that the sum is out of range", window, err)
			}
			s.Changes(c, nil, func(sub, _ []byte) { t.Errorf("%s: a refused entry changes %q", window, sub) })
			if s.Read(c, 0, 1024*1000, out); out[0] != sign*9_216_000_000 || out[1] != 1024 {
				t.Errorf("%s: reads %v", window, out)
			}
			if err := s.Add(c, 0, 1024*1000, sign*1); err != nil {
				t.Errorf("%s: a value that fits: %v", window, err)
			}
			if err := s.Add(c, 0, 1024*1000, -sign*9_000_000); err != nil {
				t.Errorf("%s: a value of the other sign: %v", window, err)
			}
		}
	}
}

// TestSumAtTheEdgeOfItsRange adds up to the greatest and the least sum of units.
func TestSumAtTheEdgeOfItsRange(t *testing.T) {
	for _, window := range []string{"1h", "1h/1m", "1h/1h"} {
		for _, edge := range []float64{1, -1} {
			s := setOf(t, Spec{Name: "f", Windows: windowsOf(t, window), Aggregates: []Aggregate{Sum}, Decimals: 0})
			c := s.NewCell()
			for range 1023 {
				if err := s.Add(c, 0, 0, edge*(1<<53)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Add(c, 0, 0, edge*(1<<53-1)); err != nil {
				t.Errorf("%s: %v", window, err)
			}
			err := s.Add(c, 0, 0, edge)
			if fits := edge < 0; (err == nil) != fits { // -2^63 is a sum, 2^63 is not
				t.Errorf("%s: the last unit of %v: %v", window, edge, err)
			}
			if err := s.Add(c, 0, 0, edge); !errors.Is(err, ErrSum) {
				t.Errorf("%s: a unit more: %v", window, err)
			}
		}
	}
}

// TestFloatSumsAreFinite adds floats until their sum is not finite.
func TestFloatSumsAreFinite(t *testing.T) {
	for _, spec := range []Spec{
		{Windows: windowsOf(t, "60s")}, {Windows: windowsOf(t, "60s/5s")}, {Windows: windowsOf(t, "60s/60s")}, {Last: 3},
		{Windows: windowsOf(t, "60s"), Max: 64},
	} {
		for _, a := range []Aggregate{Sum, Mean} {
			spec.Name, spec.Decimals, spec.Aggregates = "f", -1, []Aggregate{a, Max}
			s := setOf(t, spec)
			c, state, out := s.NewCell(), store{}, make([]float64, 2)
			add := func(at int64, v float64, want bool) {
				t.Helper()
				s.Changes(c, nil, state.put)
				before := maps.Clone(state)
				err := s.Add(c, 0, at, v)
				if (err == nil) != want || err != nil && !errors.Is(err, ErrSum) {
					t.Errorf("%+v: %v at %d: %v, want it taken: %t", spec, v, at, err, want)
				}
				if s.Changes(c, nil, state.put); err != nil && !maps.Equal(before, state) {
					t.Errorf("%+v: a refused value changes the state", spec)
				}
				if err := s.Read(c, 0, at, out); err != nil || out[0]-out[0] != 0 {
					t.Errorf("%+v: reads %v, %v", spec, out, err)
				}
			}
			add(0, math.MaxFloat64, true)
			add(1, math.MaxFloat64, false)
			add(2, math.MaxFloat64/2, false)
			add(3, 1, true)
			add(4, -math.MaxFloat64, true)
			add(5, -math.MaxFloat64, spec.Last == 0) // there it follows a 1 and another one
			if spec.Last == 0 {
				add(6, -1e300, false)
				add(200_000_000, -math.MaxFloat64, true)
			}
			again, err := s.Load(state.get)
			if err != nil {
				t.Fatal(err)
			}
			c = again
			if spec.Last == 0 {
				add(200_000_001, -math.MaxFloat64, false)
			}
		}
	}
}

func ExampleErrSum() {
	w, err := ParseWindow("1h")
	if err != nil {
		panic(err)
	}
	s, err := NewSet([]Spec{{Name: "spend", Windows: []Window{w}, Aggregates: []Aggregate{Sum}, Decimals: -1}})
	if err != nil {
		panic(err)
	}
	c := s.NewCell()
	fmt.Println(s.Add(c, 0, 0, 1e308))
	fmt.Println(s.Add(c, 0, 0, 1e308))
	// Output:
	// <nil>
	// feature spend: the sum is out of range: the sum of window 1h exceeds the largest number: scale the value down, or leave out sum and mean
}

// TestFeaturesOfACellShareABound adds values near the limit to features of units and of
// floats by turns: each is refused by its own sum alone, and the bound takes no room.
func TestFeaturesOfACellShareABound(t *testing.T) {
	if size := unsafe.Sizeof(Cell{}); size > 8*lineWords {
		t.Errorf("a cell takes %d bytes, more than a line of a processor's cache", size)
	}
	sums := []Aggregate{Sum}
	s, err := NewSet([]Spec{
		{Name: "units", Last: 1000, Aggregates: sums}, {Name: "floats", Last: 1000, Aggregates: sums, Decimals: -1},
		{Name: "small", Last: 1000, Aggregates: sums},
	})
	if err != nil {
		t.Fatal(err)
	}
	values := []float64{1 << 53, 0x1p1015, 1}
	most := []int{1000, 511, 1000} // of each, before its sum is out of range
	for _, name := range []string{"fresh", "loaded"} {
		c, counts := s.NewCell(), [3]int{}
		for n := range 1000 {
			for i, v := range values {
				err := s.Add(c, i, int64(n), v)
				if full := counts[i] == most[i]; full != errors.Is(err, ErrSum) {
					t.Fatalf("%s: feature %d has %d values, one more is %v", name, i, counts[i], err)
				} else if !full {
					counts[i]++
				}
				var out [1]float64
				if err := s.Read(c, i, int64(n), out[:]); err != nil || out[0] != float64(counts[i])*v {
					t.Fatalf("%s: the sum of %d values is %v, %v", name, counts[i], out[0], err)
				}
			}
			if name == "loaded" && n%100 == 0 {
				stored := map[string][]byte{}
				s.Changes(c, nil, func(sub, value []byte) { stored[string(sub)] = slices.Clone(value) })
				if c, err = s.Load(func(sub []byte) ([]byte, error) { return stored[string(sub)], nil }); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
