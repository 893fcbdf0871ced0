// Package seeds runs random tests.
package seeds

import (
	"flag"
	"fmt"
	"math/rand"
	"testing"
)

var (
	one   = flag.Int64("seed", 0, "the one seed of random tests; 0 is many")
	times = flag.Int64("seeds", 1, "how many times as many seeds random tests have, for long proofs")
)

// Times returns how many seeds a test runs; n is its usual number.
func Times(n int64) int64 { return n * *times }

// Run runs test with each of the seeds 1 to Times(n), or with the seed of the flag -seed, until it
// fails. It reports whether it ran all seeds.
func Run(t *testing.T, n int64, test func(t *testing.T, random *rand.Rand)) (all bool) {
	t.Helper()
	first, last := int64(1), Times(n)
	if *one != 0 {
		first, last = *one, *one
	}
	for seed := first; seed <= last; seed++ {
		if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { test(t, rand.New(rand.NewSource(seed))) }) {
			return false
		}
	}
	return *one == 0
}
