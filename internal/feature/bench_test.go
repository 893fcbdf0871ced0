package feature

import (
	"errors"
	"fmt"
	"math"
	"math/rand"
	"runtime"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/test/seeds"
)

func windowsOf(t testing.TB, texts ...string) []Window {
	t.Helper()
	var ws []Window
	for _, text := range texts {
		w, err := ParseWindow(text)
		if err != nil {
			t.Fatal(err)
		}
		ws = append(ws, w)
	}
	return ws
}

var four = []Aggregate{Count, Sum, Mean, Max}

func setOf(t testing.TB, specs ...Spec) *Set {
	t.Helper()
	s, err := NewSet(specs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// BenchmarkAddRead adds an event and reads three windows of four aggregates,
// over an hour of event time.
func BenchmarkAddRead(b *testing.B) {
	kinds := map[string][]string{
		"panes": {"60s/5s", "300s/30s", "3600s/60s"},
		"exact": {"60s", "300s", "3600s"},
	}
	const events = 1 << 20
	for _, kind := range []string{"panes", "exact"} {
		for _, decimals := range []int{2, -1} {
			for _, load := range []string{"uniform", "zipf", "hot"} {
				for _, late := range []int{0, 10} {
					b.Run(fmt.Sprintf("%s/decimals=%d/%s/late=%d%%", kind, decimals, load, late), func(b *testing.B) {
						s := setOf(b, Spec{Name: "f", Windows: windowsOf(b, kinds[kind]...), Aggregates: four, Decimals: decimals})
						benchmarkAddRead(b, s, load, late, events)
					})
				}
			}
		}
	}
}

func benchmarkAddRead(b *testing.B, s *Set, load string, late, events int) {
	random := rand.New(rand.NewSource(1))
	zipf := rand.NewZipf(random, 1.1, 1, 99_999)
	keys := make([]int32, events)
	back := make([]int64, events)
	for i := range keys {
		switch load {
		case "uniform":
			keys[i] = random.Int31n(30_000)
		case "zipf":
			keys[i] = int32(zipf.Uint64())
		}
		if random.Intn(100) < late {
			back[i] = random.Int63n(5_000_000)
		}
	}
	cells := make([]*Cell, 100_000)
	for i := range cells {
		cells[i] = s.NewCell()
	}
	step := int64(3_600_000_000 / events)
	if load == "hot" {
		step = 3_600_000_000 / 60_000
	}
	out := make([]float64, 12)
	now := int64(1_700_000_000_000_000)
	one := func(n int) {
		at := n & (events - 1)
		now += step
		c, t := cells[keys[at]], now-back[at]
		if err := s.Add(c, 0, t, float64(n&0xffff)/100); err != nil {
			b.Fatal(err)
		}
		s.Read(c, 0, t, out)
	}
	n := 0
	for ; n < events; n++ {
		one(n)
	}
	b.ReportAllocs()
	for b.Loop() {
		one(n)
		n++
	}
}

// BenchmarkChanges encodes the header and blocks of a key after every event.
func BenchmarkChanges(b *testing.B) {
	for _, windows := range [][]string{{"60s/5s", "300s/30s", "3600s/60s"}, {"60s", "300s", "3600s"}} {
		b.Run(windows[0], func(b *testing.B) {
			s := setOf(b, Spec{Name: "f", Windows: windowsOf(b, windows...), Aggregates: four, Decimals: 2})
			c := s.NewCell()
			var scratch []byte
			bytes, n := 0, int64(0)
			put := func(sub, value []byte) { bytes += len(sub) + len(value) }
			b.ReportAllocs()
			for b.Loop() {
				n++
				if err := s.Add(c, 0, n*1_000_000, float64(n%10_000)/100); err != nil {
					b.Fatal(err)
				}
				scratch = s.Changes(c, scratch, put)
			}
			b.ReportMetric(float64(bytes)/float64(n), "stateB/op")
		})
	}
}

// TestColdKeyIsSmall holds the memory of a key with three events in an hour.
func TestColdKeyIsSmall(t *testing.T) {
	for _, windows := range [][]string{{"60s/5s", "300s/30s", "3600s/60s"}, {"60s", "300s", "3600s"}} {
		s := setOf(t, Spec{Name: "f", Windows: windowsOf(t, windows...), Aggregates: four, Decimals: 2})
		const keys = 5_000
		cells := make([]*Cell, keys)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		random := rand.New(rand.NewSource(1))
		counted := 0
		for i := range cells {
			c := s.NewCell()
			at := random.Int63n(int64(time.Hour / time.Microsecond))
			for range 3 {
				at += random.Int63n(1200_000_000)
				if err := s.Add(c, 0, at, 12.5); err != nil {
					t.Fatal(err)
				}
			}
			cells[i] = c
			counted += c.Bytes()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		real := float64(after.HeapAlloc-before.HeapAlloc) / keys
		t.Logf("%v: %.0f B a key in the heap, Bytes says %.0f", windows, real, float64(counted)/keys)
		if real > 400 {
			t.Errorf("%v: %.0f B a key, want at most 400", windows, real)
		}
		if said := float64(counted) / keys; said < 0.8*real || said > 1.25*real {
			t.Errorf("%v: Bytes says %.0f, the heap %.0f", windows, said, real)
		}
		runtime.KeepAlive(cells)
	}
}

// TestKeyOfOneEventIsSmall holds what most keys of a large population
// cost: a cell and its words, and under the race detector an object more.
func TestKeyOfOneEventIsSmall(t *testing.T) {
	s := setOf(t,
		Spec{Name: "spend", Windows: windowsOf(t, "60s/5s", "300s/30s", "3600s/60s"), Aggregates: four, Decimals: 2},
		Spec{Name: "gap", Elapsed: true})
	var c *Cell
	objects := testing.AllocsPerRun(100, func() {
		c = s.NewCell()
		for i := range 2 {
			if err := s.Add(c, i, 1_700_000_000_000_000, 12.5); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n := c.Bytes(); n > 250 || objects > 3 {
		t.Errorf("%d B in %.0f objects, want at most 250 B in 3", n, objects)
	}
	again := testing.AllocsPerRun(100, func() {
		s.Reset(c)
		if err := s.Add(c, 0, 1_800_000_000_000_000, 1); err != nil {
			t.Fatal(err)
		}
	})
	if again > 0 {
		t.Errorf("%.0f objects for another key in the same cell, want none", again)
	}
}

// TestQueuesLieBesideEachOther holds that the queues of a cell share no word and
// leave little free, with keys that grow, fall silent and start again.
func TestQueuesLieBesideEachOther(t *testing.T) {
	seeds.Run(t, 10, func(t *testing.T, random *rand.Rand) {
		specs := randomSpecs(random, 256)
		s := setOf(t, specs...)
		c, clock := s.NewCell(), newClock(random)
		for range 3000 {
			i := random.Intn(len(specs))
			if err := s.Add(c, i, clock.next(), randomValue(random)); err != nil && !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			if random.Intn(200) == 0 {
				s.DropWindows(c)
			}
			c.Warm()
			at := -1
			for k := range s.layout.places {
				p := &s.layout.places[k]
				live, room := extent(c.words[p.at]), extent(c.words[p.at+1])
				if at >= 0 && room.from() != at || live.from() < room.from() || live.to() < live.from() || live.to() > room.to() {
					t.Fatalf("queue %d is %d to %d of %d to %d, want it at %d", k, live.from(), live.to(), room.from(), room.to(), at)
				}
				at = room.from() + p.size(room.len()/p.stride)
			}
			if at >= 0 && at != len(c.words) || cap(c.words) > 2*len(c.words)+2*spareWords {
				t.Fatalf("the queues end at %d of %d words, with room for %d", at, len(c.words), cap(c.words))
			}
		}
	})
}

// BenchmarkFeedback is what the baseline work does with an event of a user but
// for its model: three windows of four aggregates, the seconds since the user's
// newest event, and the mean of the last ten scores, to which one is added.
func BenchmarkFeedback(b *testing.B) {
	for i, windows := range [][]string{{"60s/5s", "300s/30s", "3600s/60s"}, {"60s", "300s", "3600s"}} {
		b.Run([]string{"panes", "exact"}[i], func(b *testing.B) {
			s := setOf(b,
				Spec{Name: "spend", Windows: windowsOf(b, windows...), Aggregates: four, Decimals: 2},
				Spec{Name: "gap", Elapsed: true, Decimals: -1},
				Spec{Name: "past", Last: 10, Aggregates: []Aggregate{Mean}, Decimals: -1})
			const events = 1 << 20
			random := rand.New(rand.NewSource(1))
			zipf := rand.NewZipf(random, 1.1, 1, 99_999)
			keys := make([]*Cell, events)
			cells := map[uint64]*Cell{}
			for i := range keys {
				k := zipf.Uint64()
				if cells[k] == nil {
					cells[k] = s.NewCell()
				}
				keys[i] = cells[k]
			}
			out, n := make([]float64, 12), 0
			one := func() {
				c, t := keys[n&(events-1)], 1_700_000_000_000_000+int64(n)*20_000
				n++
				if err := s.Add(c, 0, t, float64(n&0xffff)/100); err != nil {
					b.Fatal(err)
				}
				for i := range 3 {
					s.Read(c, i, t, out)
				}
				if err := errors.Join(s.Add(c, 1, t, 0), s.Add(c, 2, t, out[0])); err != nil {
					b.Fatal(err)
				}
			}
			for range events {
				one()
			}
			b.ReportAllocs()
			for b.Loop() {
				one()
			}
		})
	}
}

// costsOf are features of one aggregate, of which all have a row in docs/performance.md. Those
// in groups have 20.
func costsOf() (specs []Spec) {
	for _, a := range []Aggregate{Count, Sum, Max, Variance, Slope, LastValue, Changes, Distinct, P95, EWMA, List, Top} {
		spec := Spec{Name: a.String(), Aggregates: []Aggregate{a}}
		if a == EWMA {
			spec.HalfLife = 10 * time.Second
		}
		specs = append(specs, spec)
	}
	return append(specs, Spec{Name: "per-count", Per: true, Aggregates: []Aggregate{Count}}, Spec{Name: "per-sum", Per: true, Aggregates: []Aggregate{Sum}})
}

// BenchmarkAggregates adds an event and reads one window of one aggregate, of a key that
// has so many entries in it. scripts/aggregates.sh makes tables of it.
func BenchmarkAggregates(b *testing.B) {
	for _, window := range []string{"60s", "60s/1s"} {
		for _, entries := range []int64{10, 100, 1000} {
			for _, spec := range costsOf() {
				sketched := spec.Aggregates[0].sketched() && !spec.Per
				if spec.Looks() && window != "60s" && !sketched {
					continue
				}
				if spec.Windows = windowsOf(b, window); spec.Looks() && window == "60s" {
					spec.Overflow = OverflowOldest
				}
				for _, decimals := range []int{2, -1} {
					spec.Decimals = decimals
					b.Run(fmt.Sprintf("%s/entries=%d/%s/decimals=%d", window, entries, spec.Name, decimals), func(b *testing.B) {
						benchmarkAggregate(b, spec, entries)
					})
				}
			}
		}
	}
}

func benchmarkAggregate(b *testing.B, spec Spec, entries int64) {
	s := setOf(b, spec)
	c, step, at := s.NewCell(), 60_000_000/entries, int64(1_700_000_000_000_000)
	out, values := make([]float64, 1), make([]Value, 1)
	var groups []string
	for k := range 20 {
		groups = append(groups, fmt.Sprintf("category %2d", k))
	}
	one := func() {
		at += step
		if spec.Per {
			s.Split(c, 0, groups[at/step%20])
		}
		if err := s.Add(c, 0, at, float64(at&0xffff)/100); err != nil {
			b.Fatal(err)
		}
		if s.AnyKind(0) {
			s.ReadValues(c, 0, at, false, values)
		} else {
			s.Read(c, 0, at, out)
		}
	}
	for range 2 * entries {
		one()
	}
	b.ReportAllocs()
	for b.Loop() {
		one()
	}
	b.ReportMetric(float64(c.Bytes()), "B/key")
}

// BenchmarkMixedFeatures adds an event to 35 features of one window each, reads all of them,
// and encodes what changed: 20 count, sum and mean, 5 distinct, 5 stddev, 5 previous and ewma,
// and beside them 3 p95. An hour has 20 events of a key; texts are 10 bytes.
func BenchmarkMixedFeatures(b *testing.B) {
	for _, more := range []int{0, 3} {
		b.Run(fmt.Sprintf("p95=%d", more), func(b *testing.B) {
			var specs []Spec
			feature := func(n int, spec Spec) {
				for k := range n {
					spec.Name, spec.Windows = fmt.Sprintf("f%d", len(specs)), windowsOf(b, []string{"10m", "1h"}[k%2])
					specs = append(specs, spec)
				}
			}
			feature(20, Spec{Aggregates: []Aggregate{Count, Sum, Mean}, Decimals: 2})
			feature(5, Spec{Kind: Texts, Aggregates: []Aggregate{Distinct}, Overflow: OverflowOldest})
			feature(5, Spec{Aggregates: []Aggregate{Stddev}, Decimals: 2})
			feature(5, Spec{Aggregates: []Aggregate{Previous, EWMA}, HalfLife: time.Minute, Decimals: 2, Overflow: OverflowOldest})
			feature(more, Spec{Aggregates: []Aggregate{P95}, Decimals: 2, Overflow: OverflowOldest})
			s := setOf(b, specs...)
			const keys = 1000
			var cells [keys]*Cell
			for k := range cells {
				cells[k] = s.NewCell()
			}
			shops := []string{"merchant 1", "merchant 2", "merchant 3"}
			numbers, values, n, bytes := make([]float64, 3), make([]Value, 1), 0, 0
			var scratch []byte
			put := func(sub, value []byte) { bytes += len(sub) + len(value) }
			one := func() {
				c, at := cells[n%keys], 1_700_000_000_000_000+int64(n/keys)*180_000_000
				n++
				for i := range specs {
					var err error
					if s.Kind(i) == Texts {
						err = s.AddText(c, i, at, shops[n/keys%3])
						s.ReadValues(c, i, at, false, values)
					} else {
						if s.Before(i) {
							s.ReadBefore(c, i, at, numbers)
						}
						err = s.Add(c, i, at, float64(n&0xffff)/100)
						if err == nil {
							err = s.Read(c, i, at, numbers)
						}
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				scratch = s.Changes(c, scratch, put)
			}
			for range 30 * keys {
				one()
			}
			bytes = 0
			b.ReportAllocs()
			for b.Loop() {
				one()
			}
			b.ReportMetric(float64(cells[0].Bytes()), "B/key")
			b.ReportMetric(float64(bytes)/float64(b.N), "stateB/op")
		})
	}
}

// BenchmarkSketches adds an event and reads one window in panes, of a key with so many entries in
// it: a late one reads the window as of a time between the panes. Values have a lognormal
// distribution. Texts are one of a tenth as many.
func BenchmarkSketches(b *testing.B) {
	for _, window := range []string{"1h/1m", "1000m/1m"} {
		for _, entries := range []int64{100, 1000, 100_000, 1_000_000} {
			for _, spec := range []Spec{{Aggregates: []Aggregate{P95}, Decimals: -1}, {Kind: Texts, Aggregates: []Aggregate{Distinct}}} {
				for _, late := range []int64{0, 2 * time.Minute.Microseconds()} {
					spec.Name, spec.Windows = spec.Aggregates[0].String(), windowsOf(b, window)
					b.Run(fmt.Sprintf("%s/entries=%d/%s/late=%d", window, entries, spec.Name, late), func(b *testing.B) {
						benchmarkSketch(b, spec, entries, late)
					})
				}
			}
		}
	}
}

func benchmarkSketch(b *testing.B, spec Spec, entries, late int64) {
	s, random := setOf(b, spec), rand.New(rand.NewSource(1))
	c, step, at := s.NewCell(), spec.Windows[0].Size.Microseconds()/entries, int64(1_700_000_000_000_000)
	out, values, n := make([]float64, 1), make([]Value, 1), 0
	numbers, texts := make([]float64, 1<<16), make([]string, 1<<16)
	for k := range numbers {
		numbers[k], texts[k] = math.Exp(random.NormFloat64()+4), fmt.Sprint("merchant ", random.Int63n(entries/10))
	}
	one := func() {
		at, n = at+step, (n+1)&(1<<16-1)
		if spec.Kind == Texts {
			if err := s.AddText(c, 0, at, texts[n]); err != nil {
				b.Fatal(err)
			}
			s.ReadValues(c, 0, at-late, false, values)
			return
		}
		if err := s.Add(c, 0, at, numbers[n]); err != nil {
			b.Fatal(err)
		}
		s.Read(c, 0, at-late, out)
	}
	for range entries + entries/2 {
		one()
	}
	bytes := 0
	s.Changes(c, nil, func(sub, value []byte) { bytes += len(sub) + len(value) })
	b.ReportAllocs()
	for b.Loop() {
		one()
	}
	b.ReportMetric(float64(c.Bytes()), "B/key")
	b.ReportMetric(float64(bytes), "stateB/key")
}
