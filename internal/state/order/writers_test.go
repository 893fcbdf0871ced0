package order_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/afterbay/afterbay/internal/state/order"
)

// written is an event of a writer, as the test knows it.
type written struct {
	*event
	writer int32
}

// interleaved has writers write to some partitions: each in its own order, and one far behind
// another. What is returned is by partition. Events of one writer that are out of order are
// so by no more than the rules wait for.
func interleaved(r *rand.Rand, rules order.Rules) (partitions [][]written, writers int32) {
	partitions, writers = make([][]written, 1+r.IntN(3)), 1+r.Int32N(5)
	left := make([][]written, writers)
	for w := range left {
		now, every := int64(1000), 1+r.IntN(9)
		for range r.IntN(120) {
			now += int64(r.IntN(every))
			at := now - r.Int64N(rules.Wait+1)
			left[w] = append(left[w], written{&event{time: at, appended: now}, int32(w)})
		}
	}
	for {
		var able []int
		for w := range left {
			if len(left[w]) > 0 {
				able = append(able, w)
			}
		}
		if len(able) == 0 {
			return partitions, writers
		}
		w := able[r.IntN(len(able))]
		for range min(len(left[w]), 1+r.IntN(1+r.IntN(100))) {
			e := left[w][0]
			left[w] = left[w][1:]
			to := r.IntN(len(partitions))
			e.source, e.offset = int32(to), int64(len(partitions[to]))
			partitions[to] = append(partitions[to], e)
		}
	}
}

// TestWritersAreReleasedInTheOrderOfKeys has repartitioners read partitions that several writers
// write, at random paces, and hear of some of their watermarks. No event is behind what a mark
// says. What is released is a sort of all events by their times, and of equal times by
// partition, writer and offset. An event is late by what its own writer wrote alone.
func TestWritersAreReleasedInTheOrderOfKeys(t *testing.T) {
	for seed := range seedsOf(1000) {
		r := rand.New(rand.NewPCG(seed, 12))
		rules := order.Rules{Wait: int64(r.IntN(3) * 10)}
		rules.Lateness = rules.Wait
		partitions, writers := interleaved(r, rules)
		merger := order.NewMerger[written](len(partitions))
		sources, read := make([][]order.Source, len(partitions)), make([]int, len(partitions))
		var want, got []written
		for p := range partitions {
			for w := range writers {
				s := order.NewSource(int32(p))
				s.Writer = w
				sources[p] = append(sources[p], s)
			}
			want = append(want, partitions[p]...)
		}
		for step := 0; len(got) < len(want); step++ {
			p := r.IntN(len(partitions))
			for n := r.IntN(40); n > 0 && read[p] < len(partitions[p]); n-- {
				e := partitions[p][read[p]]
				read[p]++
				placed := sources[p][e.writer].Place(rules, e.offset, e.time, e.appended)
				e.key = order.Key{Time: e.time, Source: int32(p), Writer: e.writer, Offset: e.offset}
				if placed.Key != e.key || placed.Late {
					t.Fatalf("seed %d: %+v is placed at %+v", seed, *e.event, placed)
				}
				if !merger.At(p).Before(e.key) {
					t.Fatalf("seed %d: %v is behind the frontier %v", seed, e.key, merger.At(p))
				}
				merger.Push(p, placed.Key, e)
			}
			if r.IntN(3) == 0 || step > 1000 {
				hear(r, sources[p], partitions[p][read[p]:])
			}
			merger.Mark(p, markOf(sources[p], rules).Key)
			for {
				_, e, ok := merger.Next()
				if !ok {
					break
				}
				merger.Pop()
				got = append(got, e)
			}
		}
		slices.SortFunc(want, func(a, b written) int { return a.key.Compare(b.key) })
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: released in another order than by their keys", seed)
		}
	}
}

// hear tells a writer its watermark, a true one: its later events are at most so far before it as
// one before them was.
func hear(r *rand.Rand, sources []order.Source, left []written) {
	s := &sources[r.IntN(len(sources))]
	passed := int64(math.MaxInt64)
	for _, e := range left {
		if e.writer == s.Writer {
			passed = min(passed, e.time)
		}
	}
	if passed == math.MaxInt64 {
		passed = 1 << 40
	}
	s.Passed = max(s.Passed, passed)
}

func markOf(sources []order.Source, rules order.Rules) order.Mark {
	m := sources[0].Mark(rules)
	for i := range sources[1:] {
		m = m.And(sources[1+i].Mark(rules))
	}
	return m
}

// TestAMarkSaysWhatHoldsForAllWriters has two writers, of which one is silent or has passed a
// watermark.
func TestAMarkSaysWhatHoldsForAllWriters(t *testing.T) {
	never := order.NoMark.Silent
	of := func(newest, passed, behind, silent int64) order.Mark {
		s := order.Source{Newest: newest, Passed: passed, Behind: behind, Silent: silent, Next: 8}
		return s.Mark(order.Rules{Wait: 5})
	}
	for _, c := range []struct {
		a, b           order.Mark
		time, silentTo int64
	}{
		{of(100, never, 0, never), of(50, never, 0, never), 45, never},
		{of(100, never, 0, never), of(50, 70, 0, never), 70, never},
		{of(100, never, 0, never), of(50, 70, 20, never), 50, never},
		{of(100, never, 0, never), of(50, never, 0, 80), 45, 80},
		{of(100, never, 0, never), of(50, never, 0, 400), 45, 95},
		{of(100, never, 0, 300), of(50, never, 0, 400), 45, 300},
		{of(100, never, 0, never), of(never, never, 0, never), never, never},
	} {
		for _, m := range []order.Mark{c.a.And(c.b), c.b.And(c.a)} {
			if m.Key.Time != c.time || m.Silent != c.silentTo {
				t.Errorf("%+v and %+v are %+v", c.a, c.b, fmt.Sprint(m))
			}
		}
	}
}

// TestFilteredQueuesStayInOrder removes values of a source whose parts are far apart.
func TestFilteredQueuesStayInOrder(t *testing.T) {
	for seed := range seedsOf(200) {
		r := rand.New(rand.NewPCG(seed, 13))
		m := order.NewMerger[int64](1)
		var want []int64
		for i := range r.Int64N(400) {
			at := 2*i + int64(r.IntN(3))*1000
			if m.Push(0, order.Key{Time: at, Offset: i}, at); at%4 == 0 {
				want = append(want, at)
			}
		}
		m.Filter(func(at int64) bool { return at%4 == 0 })
		m.Mark(0, order.Last)
		slices.Sort(want)
		for _, at := range want {
			if k, v, ok := m.Next(); !ok || v != at || k.Time != at {
				t.Fatalf("seed %d: %d at %v, %v, want %d", seed, v, k, ok, at)
			}
			m.Pop()
		}
		if m.Held() != 0 {
			t.Fatalf("seed %d: %d are left", seed, m.Held())
		}
	}
}
