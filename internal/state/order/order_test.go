package order_test

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/afterbay/afterbay/internal/state/order"
)

var orderSeeds = flag.Uint64("order.seeds", 0, "seeds of each random test; 0 is few")

// seedsOf returns how many seeds a random test has: few, if the flag does not say how many.
func seedsOf(few uint64) uint64 { return cmp.Or(*orderSeeds, few) }

// event is an event of a source partition, as a test knows it.
type event struct {
	source         int32
	offset         int64
	time, appended int64
	key            order.Key
	late           bool
}

// world is some source partitions with events out of order, ties, and clocks that are ahead.
type world struct {
	rules   order.Rules
	sources [][]*event
}

func newWorld(r *rand.Rand) *world {
	disorder := []int64{0, 0, 5, 40}[r.IntN(4)]
	w := &world{sources: make([][]*event, 1+r.IntN(6))}
	w.rules = order.Rules{Lateness: []int64{0, disorder, 2 * disorder}[r.IntN(3)], Wait: []int64{0, disorder / 2, disorder}[r.IntN(3)]}
	w.rules.Wait = min(w.rules.Wait, w.rules.Lateness)
	now := int64(1000)
	for range 20 + r.IntN(200) {
		now += int64(r.IntN(4) * r.IntN(4))
		if r.IntN(60) == 0 {
			now += 400 // all are silent
		}
		s := min(r.IntN(len(w.sources)), r.IntN(len(w.sources)))
		e := &event{source: int32(s), time: now - r.Int64N(disorder+1), appended: now}
		if r.IntN(50) == 0 {
			e.time = now + r.Int64N(600) // a clock is ahead
		}
		if list := w.sources[s]; len(list) > 0 {
			e.offset = list[len(list)-1].offset + 1 + int64(r.IntN(20)/19) // offsets have gaps
		}
		w.sources[s] = append(w.sources[s], e)
	}
	return w
}

func (w *world) events() (n int) {
	for _, list := range w.sources {
		n += len(list)
	}
	return n
}

// place is the definition, from all events before: nothing is kept.
func (w *world) place(e *event) {
	newest := int64(math.MinInt64)
	for _, o := range w.sources[e.source] {
		if o.offset <= e.offset {
			newest = max(newest, min(o.time, o.appended))
		}
	}
	time := min(e.time, e.appended)
	e.key = order.Key{Time: max(time, newest-w.rules.Wait), Source: e.source, Offset: e.offset}
	e.late = time < newest-w.rules.Lateness
}

// TestReleasedInTheOrderOfKeys has repartitioners and readers at random paces. What is
// released is a sort of all events by their keys, and nothing is left.
func TestReleasedInTheOrderOfKeys(t *testing.T) {
	for seed := range seedsOf(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(r)
		sources := make([]order.Source, len(w.sources))
		copied := make([]int, len(sources))
		merger := order.NewMerger[*event](len(sources))
		var want, got []*event
		release := func() {
			for {
				_, e, ok := merger.Next()
				if !ok {
					return
				}
				merger.Pop()
				got = append(got, e)
			}
		}
		for i := range sources {
			sources[i] = order.NewSource(int32(i))
		}
		for len(want) < w.events() {
			s := r.IntN(len(sources))
			src, list := &sources[s], w.sources[s]
			for n := r.IntN(4); n > 0 && copied[s] < len(list); n-- {
				e := list[copied[s]]
				w.place(e)
				placed := src.Place(w.rules, e.offset, e.time, e.appended)
				if placed.Key != e.key || placed.Late != e.late {
					t.Fatalf("seed %d: event %d of source %d: %+v, want %+v", seed, e.offset, s, placed, e)
				}
				if !merger.At(s).Before(e.key) {
					t.Fatalf("seed %d: %v is behind the frontier", seed, e.key)
				}
				merger.Push(s, placed.Key, e)
				want = append(want, e)
				copied[s]++
			}
			if r.IntN(3) > 0 {
				merger.Mark(s, src.Mark(w.rules).Key)
			}
			if r.IntN(2) == 0 {
				release()
			}
		}
		for s := range sources {
			merger.Mark(s, order.Last)
		}
		release()
		slices.SortFunc(want, func(a, b *event) int { return a.key.Compare(b.key) })
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: released in another order than by their keys", seed)
		}
		if merger.Held() > 0 {
			t.Fatalf("seed %d: %d are held", seed, merger.Held())
		}
	}
}

// TestAClockAheadMakesNoEventLate: what a producer's clock says beyond the append counts as the append.
func TestAClockAheadMakesNoEventLate(t *testing.T) {
	s := order.NewSource(0)
	rules := order.Rules{Lateness: 10}
	s.Place(rules, 0, 365*24*3600*1e6, 100)
	if p := s.Place(rules, 1, 95, 101); p.Late {
		t.Fatalf("%+v is late after an event of next year", p)
	}
	if m := s.Mark(rules); m.Key.Time != 100 {
		t.Fatalf("%+v", m)
	}
}

func TestPlacesAreReadAsTheyWereWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for range 10_000 {
		k := order.Key{Time: r.Int64() >> r.IntN(64), Source: int32(r.Uint32()) >> r.IntN(32), Writer: int32(r.Uint32()) >> r.IntN(32), Offset: r.Int64() >> r.IntN(64)}
		c := order.Copy{Placed: order.Placed{Key: k, Late: r.IntN(2) == 0}, Appended: k.Time - r.Int64N(1<<40), Forced: r.IntN(2) == 0}
		data := c.Append(nil)
		if got, err := order.ParseCopy(data); err != nil || got != c {
			t.Fatalf("%+v is read as %+v, %v", c, got, err)
		}
		m := order.Marks{{Key: k, Silent: r.Int64() >> r.IntN(64)}, {Key: order.Key{Time: k.Time - 1}, Silent: math.MinInt64}}
		if got, err := order.ParseMarks(nil, m.Append(nil)); err != nil || !slices.Equal(got, m) {
			t.Fatalf("%+v is read as %+v, %v", m, got, err)
		}
		for n := range data {
			if _, err := order.ParseCopy(data[:n]); err == nil {
				t.Fatalf("%d of %d bytes are read", n, len(data))
			}
		}
		if _, err := order.ParseCopy(append(data, 0)); err == nil {
			t.Fatal("a byte more is read")
		}
	}
}

// TestDamagedMarksMoveNothing: what is read before the damage counts no more than what follows.
func TestDamagedMarksMoveNothing(t *testing.T) {
	whole := order.Marks{{order.Key{Time: 1 << 40, Source: 1, Offset: 7}, 1 << 30}, {order.Key{Time: 1 << 40, Source: 300, Offset: 1 << 20}, math.MaxInt64}}
	data := whole.Append(nil)
	first := len(whole[:1].Append(nil))
	for n := range data {
		got, err := order.ParseMarks(order.Marks{order.NoMark}, data[:n])
		if n == first {
			continue // a mark less
		}
		if err == nil || len(got) != 1 {
			t.Fatalf("%d of %d bytes are read as %+v, %v", n, len(data), got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5})
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := order.ParseCopy(data); err == nil {
			if again, err := order.ParseCopy(c.Append(nil)); err != nil || again != c {
				t.Fatalf("%+v is read again as %+v, %v", c, again, err)
			}
		}
	})
}

// BenchmarkOrder is what an event costs that is placed, held and released, by sources, how
// much is held, and how far events are out of order in their source.
func BenchmarkOrder(b *testing.B) {
	for _, c := range []struct{ sources, held, disorder int }{{1, 0, 0}, {4, 1000, 0}, {16, 1000, 0}, {64, 1000, 0}, {16, 100_000, 0}, {16, 1000, 8}} {
		b.Run(fmt.Sprintf("sources=%d/held=%d/disorder=%d", c.sources, c.held, c.disorder), func(b *testing.B) {
			m := order.NewMerger[*event](c.sources)
			rules := order.Rules{Wait: int64(c.disorder), Lateness: int64(c.disorder)}
			sources, n, e := make([]order.Source, c.sources), 0, &event{}
			for i := range sources {
				sources[i] = order.NewSource(int32(i))
			}
			b.ReportAllocs()
			for b.Loop() {
				s, t := n%c.sources, int64(n/c.sources)
				if c.disorder > 0 {
					t -= int64(n*7919%97) % int64(c.disorder)
				}
				m.Push(s, sources[s].Place(rules, int64(n), t, t).Key, e)
				n++
				if m.Held() > c.held || c.held == 0 {
					m.Mark(s, sources[s].Mark(rules).Key)
					if _, _, ok := m.Next(); ok {
						m.Pop()
					}
				}
			}
		})
	}
}

// TestAnEventAfterSilenceIsUnawaited places events of a source that was said to be silent.
func TestAnEventAfterSilenceIsUnawaited(t *testing.T) {
	s, rules := order.NewSource(0), order.Rules{Wait: 10, Lateness: 20}
	for i, step := range []struct {
		silent, time int64
		want         bool
	}{{order.NoMark.Silent, 100, false}, {120, 120, true}, {120, 121, false}, {120, 105, true}, {130, 150, false}, {140, 120, true}} {
		s.Silent = step.silent
		if got := s.Place(rules, int64(i), step.time, 1000).Unawaited; got != step.want {
			t.Errorf("event %d: unawaited is %v", i, got)
		}
	}
}
