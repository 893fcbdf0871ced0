package dedupe_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/state/dedupe"
)

func TestHasSaysWhatSeenWould(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	s := dedupe.New(dedupe.Spec{Window: time.Minute, Max: 50})
	newest, found := int64(0), 0
	for range 20_000 {
		newest += rng.Int64N(2_000_000)
		id, at := fmt.Sprint(rng.IntN(80)), newest-rng.Int64N(90_000_000)
		before := s.Len()
		has := s.Has(id, newest)
		if after := s.Len(); after != before {
			t.Fatalf("seed %d: %d ids remembered after asking, %d before", seed, after, before)
		}
		if seen := s.Seen(id, at, newest); has != seen {
			t.Fatalf("seed %d: has %v, seen %v", seed, has, seen)
		}
		if has {
			found++
		}
	}
	if found < 1000 || found > 19_000 {
		t.Errorf("seed %d: %d of 20,000 were duplicates", seed, found)
	}
}
