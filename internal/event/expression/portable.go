package expression

import "math"

// exp, log and pow give the same bits on every architecture. Package math does not promise this: it
// uses assembly on some, and compilers may fuse a product into a sum unless the product is
// converted explicitly. The methods and coefficients come from FreeBSD's e_exp.c and e_log.c (Sun
// Microsystems, 1993), as in Go's package math. Errors stay below 1 ulp for exp and log.

const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
)

// exp returns e**x for a finite x, or +Inf beyond the range.
func exp(x float64) float64 {
	const (
		log2e = 1.44269504088896338700e+00
		p1    = 1.66666666666666657415e-01
		p2    = -2.77777777770155933842e-03
		p3    = 6.61375632143793436117e-05
		p4    = -1.65339022054652515390e-06
		p5    = 4.13813679705723846039e-08
	)
	switch {
	case x > 7.09782712893383973096e+02:
		return math.Inf(1)
	case x < -7.45133219101941108420e+02:
		return 0
	case math.Abs(x) < 1.0/(1<<28):
		return 1 + x
	}
	// x = k*ln2 + r with |r| <= ln2/2, and r = hi - lo for extra precision.
	k := int(float64(log2e*x) + math.Copysign(0.5, x))
	hi := x - float64(float64(k)*ln2Hi)
	lo := float64(float64(k) * ln2Lo)
	r := hi - lo
	t := float64(r * r)
	c := p4 + float64(t*p5)
	c = p3 + float64(t*c)
	c = p2 + float64(t*c)
	c = p1 + float64(t*c)
	c = r - float64(t*c)
	y := 1 - ((lo - float64(r*c)/(2-c)) - hi)
	return math.Ldexp(y, k)
}

// log returns the natural logarithm of a finite x: NaN below 0, -Inf at 0.
func log(x float64) float64 {
	const (
		l1 = 6.666666666666735130e-01
		l2 = 3.999999999940941908e-01
		l3 = 2.857142874366239149e-01
		l4 = 2.222219843214978396e-01
		l5 = 1.818357216161805012e-01
		l6 = 1.531383769920937332e-01
		l7 = 1.479819860511658591e-01
	)
	switch {
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	fraction, exponent := math.Frexp(x)
	if fraction < math.Sqrt2/2 {
		fraction *= 2
		exponent--
	}
	f, k := fraction-1, float64(exponent)
	s := f / (2 + f)
	s2 := float64(s * s)
	s4 := float64(s2 * s2)
	t1 := l5 + float64(s4*l7)
	t1 = l3 + float64(s4*t1)
	t1 = l1 + float64(s4*t1)
	t2 := l4 + float64(s4*l6)
	t2 = l2 + float64(s4*t2)
	r := float64(s2*t1) + float64(s4*t2)
	half := float64(0.5*f) * f
	half = float64(half)
	return float64(k*ln2Hi) - ((half - (float64(s*(half+r)) + float64(k*ln2Lo))) - f)
}

// pow returns x**y for finite x and y. It is NaN if x < 0 and y is no integer, and infinite beyond
// the range. For an integer y only the products are rounded.
func pow(x, y float64) float64 {
	switch {
	case y == 0 || x == 1:
		return 1
	case x == 0 && y < 0:
		return math.Inf(1)
	case x == 0:
		if math.Mod(y, 2) == 1 {
			return x // keeps the sign of -0
		}
		return 0
	case y == 0.5:
		return math.Sqrt(x)
	case y == -0.5:
		return 1 / math.Sqrt(x)
	}
	whole, part := math.Modf(math.Abs(y))
	switch {
	case part != 0 && x < 0:
		return math.NaN()
	case whole >= 1<<63 && x == -1: // such a y is even
		return 1
	case whole >= 1<<63 && (math.Abs(x) < 1) == (y > 0):
		return 0
	case whole >= 1<<63:
		return math.Inf(1)
	}
	product, exponent := 1.0, 0
	if part > 0.5 {
		part--
		whole++
	}
	if part != 0 {
		product = exp(float64(part * log(x)))
	}
	// Compute the rest by squaring, with powers of two kept apart so that nothing overflows.
	fraction, e := math.Frexp(x)
	for i := int64(whole); i != 0; i >>= 1 {
		if e < -1<<12 || e > 1<<12 {
			exponent += e
			break
		}
		if i&1 == 1 {
			product = float64(product * fraction)
			exponent += e
		}
		fraction = float64(fraction * fraction)
		e <<= 1
		if fraction < 0.5 {
			fraction += fraction
			e--
		}
	}
	if y < 0 {
		product, exponent = 1/product, -exponent
	}
	return math.Ldexp(product, exponent)
}
