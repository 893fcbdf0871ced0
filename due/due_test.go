package due

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

func TestQueueGivesKeysByTimeThenKey(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 50 {
		var want, rest []Entry
		var e Queue
		for i := range rng.IntN(200) {
			entry := Entry{rng.Int64N(20), strconv.Itoa(i)}
			want = append(want, entry)
			if round%2 == 0 {
				e.Push(entry)
			} else {
				rest = append(rest, entry)
			}
		}
		if round%2 == 1 {
			e.Fill(rest)
		}
		slices.SortFunc(want, func(a, b Entry) int {
			switch {
			case a.At < b.At || a.At == b.At && a.Key < b.Key:
				return -1
			}
			return 1
		})
		for limit := range 30 {
			due := 0
			for _, w := range want {
				if w.At <= 7 {
					due++
				}
			}
			if got := e.Over(7, limit); got != (due > limit) {
				t.Fatalf("seed %d, round %d: %d are due, over %d: %v", seed, round, due, limit, got)
			}
		}
		for i, w := range want {
			if got := e.Pop(); got != w {
				t.Fatalf("seed %d, round %d: entry %d is %v, want %v", seed, round, i, got, w)
			}
		}
	}
}
