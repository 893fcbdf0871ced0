package task

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

func TestExpiryGivesKeysByTimeThenKey(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 50 {
		var want []expiryEntry
		var e expiry
		for i := range rng.IntN(200) {
			entry := expiryEntry{rng.Int64N(20), strconv.Itoa(i)}
			want = append(want, entry)
			if round%2 == 0 {
				e.push(entry)
			} else {
				e = append(e, entry)
			}
		}
		if round%2 == 1 {
			e.init()
		}
		slices.SortFunc(want, func(a, b expiryEntry) int {
			switch {
			case a.at < b.at || a.at == b.at && a.key < b.key:
				return -1
			}
			return 1
		})
		for i, w := range want {
			if got := e.pop(); got != w {
				t.Fatalf("seed %d, round %d: entry %d is %v, want %v", seed, round, i, got, w)
			}
		}
	}
}
