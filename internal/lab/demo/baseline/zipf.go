package baseline

import (
	"math"
	"math/rand/v2"
)

// zipf selects ranks from 0, rank k with a probability proportional to (k+1)^-exponent. Exponents
// of 1 and less are allowed. It uses rejection-inversion (Hoermann and Derflinger, 1996), which
// needs no table. For 10 million ranks, a table would cause most of the memory use and cache misses
// of a measurement.
type zipf struct {
	exponent    float64
	count       float64
	first, last float64 // integrals below rank 1 and above the last rank
	near        float64 // a number closer than this to a rank is never rejected
}

func newZipf(count int, exponent float64) zipf {
	z := zipf{exponent: exponent, count: float64(count)}
	z.first = z.integral(1.5) - 1
	z.last = z.integral(z.count + 0.5)
	z.near = 2 - z.inverse(z.integral(2.5)-z.weight(2))
	return z
}

func (z *zipf) pick(r *rand.Rand) int {
	for {
		u := z.last + r.Float64()*(z.first-z.last)
		x := z.inverse(u)
		k := min(max(math.Floor(x+0.5), 1), z.count)
		if k-x <= z.near || u >= z.integral(k+0.5)-z.weight(k) {
			return int(k) - 1
		}
	}
}

func (z *zipf) weight(x float64) float64 { return math.Exp(-z.exponent * math.Log(x)) }

// integral returns the integral of weight from 1 to x.
func (z *zipf) integral(x float64) float64 {
	log := math.Log(x)
	if t := (1 - z.exponent) * log; math.Abs(t) > 1e-8 {
		return math.Expm1(t) / t * log
	}
	return log
}

// inverse is the inverse function of integral.
func (z *zipf) inverse(y float64) float64 {
	if t := max(-1, (1-z.exponent)*y); math.Abs(t) > 1e-8 {
		return math.Exp(math.Log1p(t) / t * y)
	}
	return math.Exp(y)
}
