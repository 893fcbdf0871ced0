package expression

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// ulps is the distance of two floats of one sign in units in the last place.
func ulps(a, b float64) uint64 {
	if a == b || math.IsNaN(a) && math.IsNaN(b) {
		return 0
	}
	if math.Signbit(a) != math.Signbit(b) || a-a != 0 || b-b != 0 {
		return math.MaxUint64
	}
	x, y := math.Float64bits(a), math.Float64bits(b)
	return max(x, y) - min(x, y)
}

const precision = 200 // bits of the reference

// bigExp returns e**x by halving x and the power series.
func bigExp(x *big.Float) *big.Float {
	const halvings = 40
	small := new(big.Float).SetMantExp(x, -halvings)
	sum, term := big.NewFloat(1).SetPrec(precision), big.NewFloat(1).SetPrec(precision)
	for i := int64(1); i < 12; i++ {
		term.Mul(term, small)
		term.Quo(term, new(big.Float).SetPrec(precision).SetInt64(i))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

// wide returns x with the precision of the reference.
func wide(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

// inUlps returns |difference| in units in the last place of v.
func inUlps(difference *big.Float, v float64) float64 {
	d, _ := new(big.Float).Quo(difference, wide(math.Nextafter(math.Abs(v), math.Inf(1))-math.Abs(v))).Float64()
	return math.Abs(d)
}

func TestExpAndLogAreWithinOneUlp(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		x := random.NormFloat64() * 100
		if math.Abs(x) < 700 {
			v := exp(x)
			if d := inUlps(new(big.Float).Sub(wide(v), bigExp(wide(x))), v); d >= 1 {
				t.Fatalf("exp(%v) = %v is %v ulps off", x, v, d)
			}
		}
		x = math.Abs(math.Float64frombits(random.Uint64()))
		if random.IntN(2) == 0 {
			x = 1 + random.NormFloat64()/8
		}
		if x-x != 0 || x <= 0 {
			continue
		}
		// ln x = y + ln(x / e**y), and the last logarithm is its argument less 1.
		y := log(x)
		rest := new(big.Float).Mul(wide(x), bigExp(wide(-y)))
		if d := inUlps(rest.Sub(rest, wide(1)), y); d >= 1 {
			t.Fatalf("log(%v) = %v is %v ulps off", x, y, d)
		}
	}
}

func TestPowStaysNearPackageMath(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 50_000 {
		x, y := random.NormFloat64()*100, random.NormFloat64()*10
		if got, want := pow(math.Abs(x), y), math.Pow(math.Abs(x), y); ulps(got, want) > 32 && want > 1e-300 {
			t.Fatalf("pow(%v, %v) = %v, want %v", math.Abs(x), y, got, want)
		}
		whole := float64(random.IntN(41) - 20)
		if got, want := pow(x, whole), math.Pow(x, whole); got != want {
			t.Fatalf("pow(%v, %v) = %v, want %v", x, whole, got, want)
		}
	}
}

// Where the assembly of package math is off: near the largest float64, and below
// the smallest normal one. The values are glibc's.
func TestExpAndLogHoldAtTheEndsOfTheRange(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"exp(709.7)", exp(709.7), 1.6549840276802644e+308},
		{"exp(-745.1)", exp(-745.1), 5e-324},
		{"log(5e-324)", log(5e-324), -744.4400719213812},
		{"log(1.815921920954773e-309)", log(1.815921920954773e-309), -710.9022004509743},
		{"pow(5e-324, 0.75)", pow(5e-324, 0.75), 3.3138930838428424e-243},
	} {
		if ulps(c.got, c.want) > 1 && math.Abs(c.got/c.want-1) > 1e-12 {
			t.Errorf("%s = %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestEdgesOfExpLogAndPow(t *testing.T) {
	negativeZero := math.Copysign(0, -1)
	for _, x := range []float64{0, negativeZero, 1, -1, 0.5, 1e-30, -1e-30, 1e300, -1e300, 709.8, -745.2, 1 << 53, math.MaxFloat64, 3, -3} {
		if got, want := exp(x), math.Exp(x); ulps(got, want) > 2 {
			t.Errorf("exp(%g) = %g, want %g", x, got, want)
		}
		if got, want := log(x), math.Log(x); ulps(got, want) > 2 {
			t.Errorf("log(%g) = %g, want %g", x, got, want)
		}
		for _, y := range []float64{0, negativeZero, 1, -1, 2, 3, -3, 0.5, -0.5, 0.75, 1.25, -2.5, 1e10, 1 << 53, 1<<53 - 1, 1e19, -1e19, 1e300} {
			got, want := pow(x, y), math.Pow(x, y)
			if x == 0 && y < 0 { // an error either way, of one sign here
				got, want = math.Abs(got), math.Abs(want)
			}
			if ulps(got, want) > 1 && !(math.IsInf(got, 1) && math.IsInf(want, 1)) {
				t.Errorf("pow(%g, %g) = %g, want %g", x, y, got, want)
			}
		}
	}
}

// The bits are part of the promise that one log gives one answer.
func TestExpLogAndPowKeepTheirBits(t *testing.T) {
	for _, c := range []struct {
		name string
		got  float64
		want uint64
	}{
		{"exp(1)", exp(1), 0x4005bf0a8b145769}, {"exp(-3.7)", exp(-3.7), 0x3f99511fc6871044}, {"exp(100.25)", exp(100.25), 0x48f8c39b9134bac4},
		{"log(2)", log(2), 0x3fe62e42fefa39ef}, {"log(0.1)", log(0.1), 0xc0026bb1bbb55515}, {"log(12345.678)", log(12345.678), 0x4022d79559791e31},
		{"pow(1.1, 10.3)", pow(1.1, 10.3), 0x40055a100d65c865}, {"pow(0.3, -2.7)", pow(0.3, -2.7), 0x4039cf20361e0164}, {"pow(7, 13)", pow(7, 13), 0x42368f08f8e70000},
	} {
		if got := math.Float64bits(c.got); got != c.want {
			t.Errorf("%s = %v, bits %#x, want %#x", c.name, c.got, got, c.want)
		}
	}
}
