package reference

import (
	"math"
	"math/big"
)

// exponent is e to the x as the C library that XGBoost calls computes it: expf
// of glibc, which misses the nearest float32 once in some hundred times. x is
// between -100 and 88.7.
//
// e^x = 2^(k/32) * 2^r with k whole and r at most a sixty-fourth; 2^r is a
// polynomial of third degree, in float64 (glibc, sysdeps/ieee754/flt-32/e_expf.c).
func exponent(x float32) float32 {
	const (
		n          = 32
		c0, c1, c2 = 0x1.c6af84b912394p-5 / n / n / n, 0x1.ebfce50fac4f3p-3 / n / n, 0x1.62e42ff0c52d6p-1 / n
	)
	z := 0x1.71547652b82fep+0 * n * float64(x)
	k := math.RoundToEven(z)
	r := z - k
	power := float64(c0*r) + c1
	power = float64(power*float64(r*r)) + (float64(c2*r) + 1)
	return float32(power * math.Ldexp(root(int(k)&(n-1)), int(math.Floor(k/n))))
}

// root is the float64 nearest to 2 to the i/32, for i below 32.
func root(i int) float64 {
	v := new(big.Float).SetPrec(200).SetMantExp(big.NewFloat(1), i)
	for range 5 {
		v.Sqrt(v)
	}
	f, _ := v.Float64()
	return f
}
