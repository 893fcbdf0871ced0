package balance

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		owners  []int
		members int
		want    []int
	}{
		{nil, 2, []int{}},
		{[]int{-1, -1}, 0, []int{-1, -1}},
		{[]int{-1, -1, -1}, 2, []int{0, 1, 0}},
		{[]int{0, 0, 0, 0}, 2, []int{0, 0, 1, 1}},
		{[]int{1, 1, 1, 0}, 2, []int{1, 1, 0, 0}},
		{[]int{1, -1, 1}, 2, []int{1, 0, 1}},
		{[]int{0, 1, -1}, 3, []int{0, 1, 2}},
		{[]int{0}, 3, []int{0}},
	} {
		if got := Targets(c.owners, c.members); !slices.Equal(got, c.want) {
			t.Errorf("%v of %d: %v, want %v", c.owners, c.members, got, c.want)
		}
	}
}

// TestMembersHaveAsManyAndFewMove draws owners; a partition moves only where its
// owner has more than it may.
func TestMembersHaveAsManyAndFewMove(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		owners, members := make([]int, random.IntN(20)), 1+random.IntN(6)
		had := make([]int, members)
		for i := range owners {
			if owners[i] = random.IntN(members+1) - 1; owners[i] >= 0 {
				had[owners[i]]++
			}
		}
		has, kept, most := make([]int, members), 0, 0
		for i, m := range Targets(owners, members) {
			if has[m]++; m == owners[i] {
				kept++
			}
		}
		fewest, more := len(owners)/members, len(owners)%members
		for _, n := range had {
			most += min(n, fewest)
			if n > fewest && more > 0 {
				most++
				more--
			}
		}
		if slices.Max(has)-slices.Min(has) > 1 || kept != most {
			t.Fatalf("seed %d: %v of %d members: they have %v, %d stay, could %d", seed, owners, members, has, kept, most)
		}
	}
}
