package tree

import "math"

// exponent returns e to the x, the nearest float64 or a neighbour of it, for x
// in [-700, 700] and NaN. It is a polynomial with each product rounded before
// it is added, so it is the same on every architecture, which math.Exp is not.
func exponent(x float64) float64 {
	if x != x {
		return x
	}
	const (
		perLn2  = 1.44269504088896338700e+00
		ln2High = 6.93147180369123816490e-01 // 21 low bits are 0: times k is exact
		ln2Low  = 1.90821492927058770002e-10
	)
	k := math.Floor(float64(x*perLn2) + 0.5)
	r := (x - float64(k*ln2High)) - float64(k*ln2Low) // in [-0.35, 0.35]
	// Taylor: the first term left out is below 2^-57.
	const (
		c2, c3, c4, c5 = 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120
		c6, c7, c8, c9 = 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880
		c10, c11       = 1.0 / 3628800, 1.0 / 39916800
		c12, c13       = 1.0 / 479001600, 1.0 / 6227020800
	)
	r2 := float64(r * r)
	r4 := float64(r2 * r2)
	low := (c2 + float64(c3*r)) + float64((c4+float64(c5*r))*r2)
	middle := (c6 + float64(c7*r)) + float64((c8+float64(c9*r))*r2)
	high := (c10 + float64(c11*r)) + float64((c12+float64(c13*r))*r2)
	tail := low + float64((middle+float64(high*r4))*r4)
	sum := 1 + (r + float64(tail*r2))
	return sum * math.Float64frombits(uint64(int64(k)+1023)<<52)
}

// probability is the logistic link of XGBoost: its float32 formula, with an
// exponential that is at most a rounding away from the C library's.
func probability(margin float32) float32 {
	x := -margin
	if x > 88.7 { // XGBoost's bound, so that the power stays finite
		x = 88.7
	}
	if x < -105 { // the power is below 2^-151: nothing beside 1
		return 1
	}
	return 1 / (float32(exponent(float64(x))) + 1)
}

// baseMargin is the margin of a base_score that is a probability, as XGBoost
// computes it: in float32, bounded away from 0 and 1.
func baseMargin(p float32) float32 {
	p = min(max(p, 1e-6), 1-float32(1e-6))
	return -logarithm(1/p - 1)
}

// logarithm is logf of glibc (and of the ARM optimized routines) for positive
// normal x. A logarithm that rounds better differs from it for one x in 250,
// and then every margin of the model differs.
func logarithm(x float32) float32 {
	const (
		a0, a1, a2 = -0x1.00ea348b88334p-2, 0x1.5575b0be00b6ap-2, -0x1.ffffef20a4123p-2
		ln2        = 0x1.62e42fefa39efp-1
	)
	bits := math.Float32bits(x)
	offset := bits - 0x3f330000 // puts the fraction into [0.7, 1.4)
	row := logarithmTable[offset>>19&15]
	z := float64(math.Float32frombits(bits - offset&0xff800000))
	r := float64(z*row.inverse) - 1
	whole := row.logarithm + float64(float64(int32(offset)>>23)*ln2)
	r2 := float64(r * r)
	y := float64(float64(float64(a1*r)+a2) + float64(a0*r2))
	return float32(float64(y*r2) + (whole + r))
}

// logarithmTable holds 1/c and log(c) for a c near the middle of each sixteenth
// of the range.
var logarithmTable = [16]struct{ inverse, logarithm float64 }{
	{0x1.661ec79f8f3bep+0, -0x1.57bf7808caadep-2}, {0x1.571ed4aaf883dp+0, -0x1.2bef0a7c06ddbp-2},
	{0x1.49539f0f010bp+0, -0x1.01eae7f513a67p-2}, {0x1.3c995b0b80385p+0, -0x1.b31d8a68224e9p-3},
	{0x1.30d190c8864a5p+0, -0x1.6574f0ac07758p-3}, {0x1.25e227b0b8eap+0, -0x1.1aa2bc79c81p-3},
	{0x1.1bb4a4a1a343fp+0, -0x1.a4e76ce8c0e5ep-4}, {0x1.12358f08ae5bap+0, -0x1.1973c5a611cccp-4},
	{0x1.0953f419900a7p+0, -0x1.252f438e10c1ep-5}, {0x1p+0, 0x0p+0},
	{0x1.e608cfd9a47acp-1, 0x1.aa5aa5df25984p-5}, {0x1.ca4b31f026aap-1, 0x1.c5e53aa362eb4p-4},
	{0x1.b2036576afce6p-1, 0x1.526e57720db08p-3}, {0x1.9c2d163a1aa2dp-1, 0x1.bc2860d22477p-3},
	{0x1.886e6037841edp-1, 0x1.1058bc8a07ee1p-2}, {0x1.767dcf5534862p-1, 0x1.4043057b6ee09p-2},
}
