package simulate

import (
	"math"
	"testing"
)

// TestRandomNumbersAreCPythons compares with random.Random(seed).random().
func TestRandomNumbersAreCPythons(t *testing.T) {
	for seed, want := range map[uint64][]float64{
		0:         {0.8444218515250481, 0.7579544029403025, 0.420571580830845},
		7:         {0.32383276483316237, 0.15084917392450192, 0.6509344730398537},
		1<<32 + 5: {0.15727238718789782, 0.2824866316461999, 0.6044540318498407},
	} {
		r := newRandom(seed)
		for i := range want {
			if got := r.float(); got != want[i] {
				t.Errorf("seed %d, number %d: %v, want %v", seed, i, got, want[i])
			}
		}
	}
	r := newRandom(7)
	for range 999 {
		r.float()
	}
	if got := r.float(); got != 0.37786262968738116 {
		t.Errorf("number 1000: %v", got)
	}
}

func TestPoissonHasItsMeanAndVariance(t *testing.T) {
	for _, mean := range []float64{0, 0.1, 1, 30, poissonMax} {
		r := newRandom(3)
		sum, squares := 0.0, 0.0
		const n = 20_000
		for range n {
			k := float64(r.poisson(mean))
			sum += k
			squares += (k - mean) * (k - mean)
		}
		if tolerance := 5 * math.Sqrt(mean/n); math.Abs(sum/n-mean) > tolerance {
			t.Errorf("mean %v of %v", sum/n, mean)
		}
		if math.Abs(squares/n-mean) > 0.15*mean {
			t.Errorf("variance %v of %v", squares/n, mean)
		}
	}
}
