package join

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestListsAreInOrder puts rows in and takes them out at random, beside a sorted slice.
func TestListsAreInOrder(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var l list
		var want []*row
		for i := range 4 * chunkMax {
			if len(want) > 0 && rng.IntN(3) == 0 {
				at := rng.IntN(len(want))
				l.remove(want[at], byPlace)
				want = slices.Delete(want, at, at+1)
				continue
			}
			r := &row{place: place{time: rng.Int64N(50)}, offset: int64(i)}
			l.insert(r, byPlace)
			at, _ := slices.BinarySearchFunc(want, r, byPlace)
			want = slices.Insert(want, at, r)
		}
		from := rng.Int64N(60)
		for len(want) > 0 && seed%2 == 0 && want[0].time < from {
			if l.first() != want[0] {
				t.Fatalf("seed %d: another row is first", seed)
			}
			l.remove(want[0], byPlace)
			want = want[1:]
		}
		at := slices.IndexFunc(want, func(r *row) bool { return r.time >= from })
		if at < 0 {
			at = len(want)
		}
		if got := slices.Collect(l.since(func(r *row) bool { return r.time >= from })); !slices.Equal(got, want[at:]) {
			t.Fatalf("seed %d: %d rows since %d, want %d", seed, len(got), from, len(want)-at)
		}
		if got := slices.Concat(l...); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d rows, want %d", seed, len(got), len(want))
		}
		for _, r := range slices.Clone(want) {
			l.remove(r, byPlace)
		}
		if len(l) != 0 || l.first() != nil {
			t.Fatalf("seed %d: an empty list has chunks", seed)
		}
	}
}
