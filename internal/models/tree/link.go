package tree

import "math"

// exponent is expf of glibc (and of the ARM optimized routines): e to the x to within 0.51 units in
// the last place. For two of all float32 values, the result differs if the C library fuses products
// and sums, as it does on some processors.
func exponent(x float32) float32 {
	switch {
	case x > 0x1.62e42ep6:
		return float32(math.Inf(1))
	case x < -0x1.9fe368p6:
		return 0
	case x != x:
		return x
	}
	const (
		perLn2     = 0x1.71547652b82fep+0 * 32 // 32nds of a power of two
		shift      = 0x1.8p52                  // rounds the number it is added to
		c0, c1, c2 = 0x1.c6af84b912394p-5 / (1 << 15), 0x1.ebfce50fac4f3p-3 / (1 << 10), 0x1.62e42ff0c52d6p-1 / (1 << 5)
	)
	z := float64(perLn2 * float64(x))
	rounded := z + shift
	whole := math.Float64bits(rounded)
	r := z - (rounded - shift)
	r2 := float64(r * r)
	y := float64((float64(c0*r)+c1)*r2) + (float64(c2*r) + 1)
	return float32(y * math.Float64frombits(exponentTable[whole%32]+whole<<47))
}

// exponentTable holds the bits of 2^(i/32), minus i/32 at the position of the exponent.
var exponentTable = [32]uint64{
	0x3ff0000000000000, 0x3fefd9b0d3158574, 0x3fefb5586cf9890f, 0x3fef9301d0125b51,
	0x3fef72b83c7d517b, 0x3fef54873168b9aa, 0x3fef387a6e756238, 0x3fef1e9df51fdee1,
	0x3fef06fe0a31b715, 0x3feef1a7373aa9cb, 0x3feedea64c123422, 0x3feece086061892d,
	0x3feebfdad5362a27, 0x3feeb42b569d4f82, 0x3feeab07dd485429, 0x3feea47eb03a5585,
	0x3feea09e667f3bcd, 0x3fee9f75e8ec5f74, 0x3feea11473eb0187, 0x3feea589994cce13,
	0x3feeace5422aa0db, 0x3feeb737b0cdc5e5, 0x3feec49182a3f090, 0x3feed503b23e255d,
	0x3feee89f995ad3ad, 0x3feeff76f2fb5e47, 0x3fef199bdd85529c, 0x3fef3720dcef9069,
	0x3fef5818dcfba487, 0x3fef7c97337b9b5f, 0x3fefa4afa2a490da, 0x3fefd0765b6e4540,
}

// probability is the logistic link of XGBoost: its formula, in float32.
func probability(margin float32) float32 {
	x := -margin
	if x > 88.7 { // XGBoost's bound, so that the power stays finite
		x = 88.7
	}
	return 1 / (exponent(x) + 1)
}

// baseMargin returns the margin of a base_score that is a probability, as XGBoost computes it: in
// float32, bounded away from 0 and 1.
func baseMargin(p float32) float32 {
	p = min(max(p, 1e-6), 1-float32(1e-6))
	return -logarithm(1/p - 1)
}

// logarithm is logf of glibc (and of the ARM optimized routines) for positive finite x. A more
// accurate logarithm differs from it for one x in 250, and then every margin of the model differs.
func logarithm(x float32) float32 {
	const (
		a0, a1, a2 = -0x1.00ea348b88334p-2, 0x1.5575b0be00b6ap-2, -0x1.ffffef20a4123p-2
		ln2        = 0x1.62e42fefa39efp-1
	)
	bits := math.Float32bits(x)
	if bits < 1<<23 { // subnormal
		bits = math.Float32bits(x*(1<<23)) - 23<<23
	}
	offset := bits - 0x3f330000 // puts the fraction into [0.7, 1.4)
	row := logarithmTable[offset>>19&15]
	z := float64(math.Float32frombits(bits - offset&0xff800000))
	r := float64(z*row.inverse) - 1
	whole := row.logarithm + float64(float64(int32(offset)>>23)*ln2)
	r2 := float64(r * r)
	y := float64(float64(float64(a1*r)+a2) + float64(a0*r2))
	return float32(float64(y*r2) + (whole + r))
}

// logarithmTable holds 1/c and log(c) for a c near the middle of each sixteenth of the range.
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
