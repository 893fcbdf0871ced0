package expression

import (
	"math"
	"math/bits"
)

// sin, cos, asin and atan2 give the same bits on every architecture, like exp, log and pow
// (portable.go). The methods and coefficients come from FreeBSD's k_sin.c, k_cos.c, e_asin.c,
// s_atan.c and e_atan2.c (Sun Microsystems, 1993). Errors stay below 1 ulp, and below 2 for atan2.

const (
	pi2Hi = 1.57079632679489655800e+00 // pi/2
	pi2Lo = 6.12323399573676603587e-17
)

// sin returns the sine of a finite x in radians.
func sin(x float64) float64 { return turned(x, 0) }

// cos returns the cosine of a finite x in radians.
func cos(x float64) float64 { return turned(x, 1) }

// turned returns the sine of x + turns*pi/2.
func turned(x float64, turns uint64) float64 {
	quadrant, hi, lo := reduced(x)
	quadrant += turns
	var r float64
	if quadrant&1 == 0 {
		r = sinKernel(hi, lo)
	} else {
		r = cosKernel(hi, lo)
	}
	if quadrant&2 != 0 {
		return -r
	}
	return r
}

// sinKernel returns the sine of hi+lo. |hi| is at most pi/4.
func sinKernel(hi, lo float64) float64 {
	const (
		s1 = -1.66666666666666324348e-01
		s2 = 8.33333333332248946124e-03
		s3 = -1.98412698298579493134e-04
		s4 = 2.75573137070700676789e-06
		s5 = -2.50507602534068634195e-08
		s6 = 1.58969099521155010221e-10
	)
	if math.Abs(hi) < 1.0/(1<<27) {
		return hi
	}
	z := float64(hi * hi)
	w := float64(z * z)
	r := s2 + float64(z*(s3+float64(z*s4))) + float64(float64(z*w)*(s5+float64(z*s6)))
	v := float64(z * hi)
	return hi - ((float64(z*(float64(0.5*lo)-float64(v*r))) - lo) - float64(v*s1))
}

// cosKernel returns the cosine of hi+lo. |hi| is at most pi/4.
func cosKernel(hi, lo float64) float64 {
	const (
		c1 = 4.16666666666666019037e-02
		c2 = -1.38888888888741095749e-03
		c3 = 2.48015872894767294178e-05
		c4 = -2.75573143513906633035e-07
		c5 = 2.08757232129817482790e-09
		c6 = -1.13596475577881948265e-11
	)
	z := float64(hi * hi)
	w := float64(z * z)
	r := float64(z*(c1+float64(z*(c2+float64(z*c3))))) + float64(float64(w*w)*(c4+float64(z*(c5+float64(z*c6)))))
	half := float64(0.5 * z)
	rest := 1 - half
	return rest + (((1 - rest) - half) + (float64(z*r) - float64(hi*lo)))
}

// reduced returns x - n*pi/2 as hi+lo, which is at most pi/4, and n modulo 4. It uses the method of
// Payne and Hanek: it multiplies x with the significant bits of 4/pi, in integers.
func reduced(x float64) (quadrant uint64, hi, lo float64) {
	const pi4 = math.Pi / 4
	if math.Abs(x) <= pi4 {
		return 0, x, 0
	}
	mantissa := math.Float64bits(x)&(1<<52-1) | 1<<52
	exponent := int(math.Float64bits(x)>>52&0x7ff) - 1023 - 52
	// |x| is mantissa * 2**exponent. Bits of 4/pi that contribute only multiples of 8 eighth turns do
	// not matter.
	at := uint(exponent + 61)
	digit, shift := at/64, at%64
	word := func(i uint) uint64 { return fourOverPi[digit+i]<<shift | fourOverPi[digit+i+1]>>(64-shift) }
	_, upper := bits.Mul64(word(0), mantissa)
	middle, middleLow := bits.Mul64(word(1), mantissa)
	lower, _ := bits.Mul64(word(2), mantissa)
	low, carry := bits.Add64(middleLow, lower, 0)
	high, _ := bits.Add64(upper, middle, carry)
	// high:low is |x|*4/pi modulo 8, with 125 bits of fraction.
	eighths := high >> 61
	high, low = high<<3|low>>61, low<<3
	negative := eighths&1 == 1
	if negative { // nearer to the next quarter turn
		eighths++
		low, carry = bits.Sub64(0, low, 0)
		high, _ = bits.Sub64(0, high, carry)
	}
	hi, lo = scaled(high, low)
	quadrant = eighths >> 1 & 3
	if negative != (x < 0) {
		hi, lo = -hi, -lo
	}
	if x < 0 {
		quadrant = -quadrant & 3
	}
	return quadrant, hi, lo
}

// scaled returns the fraction high:low of 2**128, multiplied by pi/4, as hi+lo.
func scaled(high, low uint64) (hi, lo float64) {
	const (
		pi4Hi = pi2Hi / 2
		pi4Lo = pi2Lo / 2
	)
	zeros := bits.LeadingZeros64(high)
	if zeros == 64 {
		high, low = low, 0
		zeros += bits.LeadingZeros64(high)
		high <<= zeros & 63
	} else {
		high, low = high<<zeros|low>>(64-zeros), low<<zeros
	}
	top := float64(high >> 11)                           // 53 bits, exact
	rest := float64(high&(1<<11-1)<<42 | low>>22)        // the next 53
	hi1 := math.Ldexp(top, -53-zeros)                    // exact
	lo1 := math.Ldexp(rest, -53-53-zeros)                // exact
	product, remainder := exactProduct(hi1, pi4Hi)       // hi1 * pi4Hi
	remainder += float64(hi1*pi4Lo) + float64(lo1*pi4Hi) // and smaller terms
	hi = product + remainder
	return hi, remainder - (hi - product)
}

// exactProduct returns a*b as a sum of two floats, with the method of Dekker and Veltkamp: it
// splits each factor into halves with exact products.
func exactProduct(a, b float64) (product, remainder float64) {
	product = float64(a * b)
	aHi, aLo := halves(a)
	bHi, bLo := halves(b)
	remainder = float64(aLo*bLo) - (((product - float64(aHi*bHi)) - float64(aLo*bHi)) - float64(aHi*bLo))
	return product, remainder
}

func halves(v float64) (hi, lo float64) {
	c := float64(v * (1<<27 + 1))
	hi = c - (c - v)
	return hi, v - hi
}

// fourOverPi holds the binary digits of 4/pi. The first word is its integer part.
var fourOverPi = [...]uint64{
	0x0000000000000001, 0x45f306dc9c882a53, 0xf84eafa3ea69bb81, 0xb6c52b3278872083,
	0xfca2c757bd778ac3, 0x6e48dc74849ba5c0, 0x0c925dd413a32439, 0xfc3bd63962534e7d,
	0xd1046bea5d768909, 0xd338e04d68befc82, 0x7323ac7306a673e9, 0x3908bf177bf25076,
	0x3ff12fffbc0b301f, 0xde5e2316b414da3e, 0xda6cfd9e4f96136e, 0x9e8c7ecd3cbfd45a,
	0xea4f758fd7cbe2f6, 0x7a0e73ef14a525d4, 0xd7f6bf623f1aba10, 0xac06608df8f6d757,
}

// asin returns the inverse sine of x in radians, or NaN if |x| is above 1.
func asin(x float64) float64 {
	const pi4 = pi2Hi / 2
	a := math.Abs(x)
	switch {
	case a > 1:
		return math.NaN()
	case a == 1:
		return float64(x*pi2Hi) + float64(x*pi2Lo)
	case a < 1.0/(1<<27):
		return x
	case a < 0.5:
		return x + float64(x*asinRatio(float64(x*x)))
	}
	z := float64((1 - a) * 0.5)
	s, r := math.Sqrt(z), asinRatio(z)
	var t float64
	if a >= 0.975 {
		t = pi2Hi - (float64(2*(s+float64(s*r))) - pi2Lo)
	} else {
		w := math.Float64frombits(math.Float64bits(s) &^ (1<<32 - 1))
		c := float64((z - float64(w*w)) / (s + w))
		p := float64(float64(2*s)*r) - (pi2Lo - float64(2*c))
		t = pi4 - (p - (pi4 - float64(2*w)))
	}
	return math.Copysign(t, x)
}

// asinRatio is a rational approximation of (asin(x)-x)/x in z = x*x.
func asinRatio(z float64) float64 {
	const (
		p0 = 1.66666666666666657415e-01
		p1 = -3.25565818622400915405e-01
		p2 = 2.01212532134862925881e-01
		p3 = -4.00555345006794114027e-02
		p4 = 7.91534994289814532176e-04
		p5 = 3.47933107596021167570e-05
		q1 = -2.40339491173441421878e+00
		q2 = 2.02094576023350569471e+00
		q3 = -6.88283971605453293030e-01
		q4 = 7.70381505559019352791e-02
	)
	p := p3 + float64(z*(p4+float64(z*p5)))
	p = p1 + float64(z*(p2+float64(z*p)))
	p = float64(z * (p0 + float64(z*p)))
	q := q2 + float64(z*(q3+float64(z*q4)))
	q = 1 + float64(z*(q1+float64(z*q)))
	return p / q
}

// atan returns the inverse tangent of a finite x in radians.
func atan(x float64) float64 {
	a := math.Abs(x)
	var base, baseLo float64
	switch {
	case a >= 1<<66:
		return math.Copysign(pi2Hi+pi2Lo, x)
	case a < 1.0/(1<<27):
		return x
	case a < 7.0/16:
		return x - float64(x*atanSeries(x))
	case a < 11.0/16:
		base, baseLo = 4.63647609000806093515e-01, 2.26987774529616870924e-17
		a = (float64(2*a) - 1) / (2 + a)
	case a < 19.0/16:
		base, baseLo = pi2Hi/2, pi2Lo/2
		a = (a - 1) / (a + 1)
	case a < 39.0/16:
		base, baseLo = 9.82793723247329054082e-01, 1.39033110312309984516e-17
		a = (a - 1.5) / (1 + float64(1.5*a))
	default:
		base, baseLo = pi2Hi, pi2Lo
		a = -1 / a
	}
	return math.Copysign(base-((float64(a*atanSeries(a))-baseLo)-a), x)
}

// atanSeries approximates (x-atan(x))/x for a small x.
func atanSeries(x float64) float64 {
	const (
		a0  = 3.33333333333329318027e-01
		a1  = -1.99999999998764832476e-01
		a2  = 1.42857142725034663711e-01
		a3  = -1.11111104054623557880e-01
		a4  = 9.09088713343650656196e-02
		a5  = -7.69187620504482999495e-02
		a6  = 6.66107313738753120669e-02
		a7  = -5.83357013379057348645e-02
		a8  = 4.97687799461593236017e-02
		a9  = -3.65315727442169155270e-02
		a10 = 1.62858201153657823623e-02
	)
	z := float64(x * x)
	w := float64(z * z)
	even := a6 + float64(w*(a8+float64(w*a10)))
	even = a2 + float64(w*(a4+float64(w*even)))
	even = float64(z * (a0 + float64(w*even)))
	odd := a5 + float64(w*(a7+float64(w*a9)))
	odd = a1 + float64(w*(a3+float64(w*odd)))
	odd = float64(w * odd)
	return even + odd
}

// atan2 returns the angle of the point (x, y) in radians, from -pi to pi. The angle of the origin
// is 0 or pi by the sign of x, with the sign of y.
func atan2(y, x float64) float64 {
	const piLo = 1.2246467991473531772e-16
	if x == 0 && y != 0 {
		return math.Copysign(pi2Hi+pi2Lo, y)
	}
	var z float64 // angle in the first quadrant
	switch _, above := math.Frexp(y); {
	case y == 0:
	case above-exponentOf(x) > 60:
		z = pi2Hi + float64(0.5*piLo)
	case x < 0 && above-exponentOf(x) < -60:
	default:
		z = atan(math.Abs(y) / math.Abs(x))
	}
	if math.Signbit(x) {
		z = math.Pi - (z - piLo)
	}
	return math.Copysign(z, y)
}

func exponentOf(x float64) int {
	_, e := math.Frexp(x)
	return e
}

// EarthRadius is the mean radius of the earth in kilometres that geo_km uses: R1 of the
// International Union of Geodesy and Geophysics, for the ellipsoid of GPS (WGS 84).
const EarthRadius = 6371.0088

// haversine returns the distance of two places on a sphere in kilometres. Latitudes and longitudes
// are in degrees. The result is at most half of the circumference: rounding cannot take the sine
// above 1.
func haversine(lat1, lon1, lat2, lon2 float64) float64 {
	const degree = math.Pi / 180
	dLat, dLon := sin(float64((lat2-lat1)*(degree/2))), sin(float64((lon2-lon1)*(degree/2)))
	a := float64(dLat*dLat) + float64(float64(cos(float64(lat1*degree))*cos(float64(lat2*degree)))*float64(dLon*dLon))
	return float64(2 * EarthRadius * asin(math.Sqrt(min(a, 1))))
}
