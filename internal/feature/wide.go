package feature

import (
	"math"
	"math/bits"
)

// wide is an integer modulo 2^128, in two's complement. Intermediate sums may wrap; a result in
// range is exact.
type wide struct{ hi, lo uint64 }

func (a wide) add(b wide) wide {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return wide{hi, lo}
}

func (a wide) sub(b wide) wide {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(a.hi, b.hi, borrow)
	return wide{hi, lo}
}

// mul returns the product of two integers.
func mul(a, b int64) wide {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return wide{hi - uint64(a>>63)&uint64(b) - uint64(b>>63)&uint64(a), lo}
}

// times returns the product of a and an integer.
func (a wide) times(n int64) wide {
	hi, lo := bits.Mul64(a.lo, uint64(n))
	return wide{hi + a.hi*uint64(n) - uint64(n>>63)&a.lo, lo}
}

func wideOf(n int64) wide { return wide{uint64(n >> 63), uint64(n)} }

// magnitude returns the absolute value and whether a is negative.
func (a wide) magnitude() (m wide, negative bool) {
	if int64(a.hi) < 0 {
		return wide{}.sub(a), true
	}
	return a, false
}

// float returns the float nearest to a.
func (a wide) float() float64 {
	m, negative := a.magnitude()
	f := m.unsigned()
	if negative {
		return -f
	}
	return f
}

// unsigned returns the float nearest to a, taken as 0 to 2^128.
func (a wide) unsigned() float64 {
	n := bits.LeadingZeros64(a.hi)
	top := a.hi<<n | a.lo>>(64-n)
	if a.lo<<n != 0 {
		top |= 1 // below the precision of a float, and decides ties
	}
	if a.hi == 0 {
		top = a.lo
		n = 64
	}
	return math.Ldexp(float64(top), 64-n)
}

// over returns the nearest integer to a/n, and the rest: a = q*n + rest, and rest is between -n/2
// and n/2. The quotient must fit an int64, and n must be at least 1.
func (a wide) over(n int64) (q, rest int64) {
	m, negative := a.magnitude()
	quotient, left := bits.Div64(m.hi, m.lo, uint64(n))
	q, rest = int64(quotient), int64(left)
	if rest > n/2 {
		q, rest = q+1, rest-n
	}
	if negative {
		return -q, -rest
	}
	return q, rest
}
