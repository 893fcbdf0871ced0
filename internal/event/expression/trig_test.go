package expression

import (
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of bits anew")

// deep is enough bits for the multiples of pi in the largest float64.
const deep = 1400

// bigPi returns pi by Machin's formula, in integers.
func bigPi() *big.Float {
	arc := func(n int64) *big.Int {
		sum, term := new(big.Int), new(big.Int).Lsh(big.NewInt(1), deep+64)
		term.Quo(term, big.NewInt(n))
		for k := int64(1); term.Sign() != 0; k += 2 {
			part := new(big.Int).Quo(term, big.NewInt(k))
			if k%4 == 1 {
				sum.Add(sum, part)
			} else {
				sum.Sub(sum, part)
			}
			term.Quo(term, big.NewInt(n*n))
		}
		return sum
	}
	pi := arc(5)
	pi.Sub(pi.Mul(pi, big.NewInt(4)), arc(239))
	v := new(big.Float).SetPrec(deep).SetInt(pi.Mul(pi, big.NewInt(4)))
	return v.SetMantExp(v, -deep-64)
}

// bigSinCos returns sine and cosine of x by the power series, without its whole turns.
func bigSinCos(pi, x *big.Float) (sine, cosine *big.Float) {
	turn := new(big.Float).SetPrec(deep).Mul(pi, big.NewFloat(2))
	turns, _ := new(big.Float).SetPrec(deep).Quo(x, turn).Int(nil)
	rest := new(big.Float).SetPrec(deep).Sub(x, turn.Mul(turn, new(big.Float).SetPrec(deep).SetInt(turns)))
	rest.SetPrec(400)
	sums := [2]*big.Float{new(big.Float).SetPrec(400), new(big.Float).SetPrec(400)}
	term := big.NewFloat(1).SetPrec(400)
	for k := int64(0); k < 120; k++ {
		sum := sums[k%2]
		if k%4 < 2 {
			sum.Add(sum, term)
		} else {
			sum.Sub(sum, term)
		}
		term.Mul(term, rest)
		term.Quo(term, new(big.Float).SetInt64(k+1))
	}
	return sums[1], sums[0]
}

// angles returns numbers near 0, of common size, near multiples of pi/2, and of any size.
func angles(random *rand.Rand) float64 {
	switch random.IntN(5) {
	case 0:
		return random.NormFloat64() * math.Exp2(float64(-random.IntN(60)))
	case 1:
		return random.NormFloat64() * 10
	case 2: // the nearest floats to multiples of pi/2
		return float64(random.IntN(1<<20)) * (math.Pi / 2)
	case 3:
		return math.Copysign(math.Exp2(random.Float64()*1023), random.NormFloat64())
	}
	for {
		if v := math.Float64frombits(random.Uint64()); v-v == 0 {
			return v
		}
	}
}

// TestTrigonometryIsWithinItsUlps compares with values of 400 bits.
func TestTrigonometryIsWithinItsUlps(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random, pi := rand.New(rand.NewPCG(seed, 0)), bigPi()
	worst := map[string]float64{}
	most := map[string]float64{"sin": 1, "cos": 1, "asin": 1, "atan2": 2} // y/x is rounded before atan
	check := func(name string, got float64, off *big.Float, x ...float64) {
		if math.Abs(got) < 1e-300 {
			return // an ulp may be larger than the error of what is below
		}
		d := inUlps(off, got)
		if worst[name] = max(worst[name], d); d >= most[name] {
			t.Fatalf("%s%v = %v is %v ulps off", name, x, got, d)
		}
	}
	for range 2000 {
		x := angles(random)
		sine, cosine := bigSinCos(pi, wide(x))
		check("sin", sin(x), new(big.Float).Sub(wide(sin(x)), sine), x)
		check("cos", cos(x), new(big.Float).Sub(wide(cos(x)), cosine), x)
		// asin: the error is (sin(a)-x)/cos(a).
		if x = 2*random.Float64() - 1; random.IntN(4) == 0 {
			x *= math.Exp2(float64(-random.IntN(40)))
		}
		a := asin(x)
		sine, cosine = bigSinCos(pi, wide(a))
		check("asin", a, new(big.Float).Quo(sine.Sub(sine, wide(x)), cosine), x)
		// atan2: the error is the sine of the angle between (x, y) and the answer.
		y := random.NormFloat64() * math.Exp2(float64(random.IntN(80)-40))
		x = random.NormFloat64() * math.Exp2(float64(random.IntN(80)-40))
		a = atan2(y, x)
		sine, cosine = bigSinCos(pi, wide(a))
		cross := new(big.Float).Mul(sine, wide(x))
		cross.Sub(cross, new(big.Float).Mul(cosine, wide(y)))
		along := new(big.Float).Mul(cosine, wide(x))
		along.Add(along, new(big.Float).Mul(sine, wide(y)))
		check("atan2", a, cross.Quo(cross, along), y, x)
	}
	t.Logf("worst, in ulps: %v", worst)
}

// TestDistancesAgreeWithAnotherFormula compares geo_km with the formula of Vincenty for a
// sphere, of package math.
func TestDistancesAgreeWithAnotherFormula(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 20_000 {
		lat1, lon1 := random.Float64()*180-90, random.Float64()*360-180
		lat2, lon2 := random.Float64()*180-90, random.Float64()*360-180
		if i%2 == 0 { // near
			lat2, lon2 = min(90, lat1+random.Float64()/100), min(180, lon1+random.Float64()/100)
		}
		p, q, d := lat1*math.Pi/180, lat2*math.Pi/180, (lon2-lon1)*math.Pi/180
		over := math.Hypot(math.Cos(q)*math.Sin(d), math.Cos(p)*math.Sin(q)-math.Sin(p)*math.Cos(q)*math.Cos(d))
		want := EarthRadius * math.Atan2(over, math.Sin(p)*math.Sin(q)+math.Cos(p)*math.Cos(q)*math.Cos(d))
		if got := haversine(lat1, lon1, lat2, lon2); math.Abs(got-want) > 1e-6 && math.Abs(got-want) > want*1e-7 {
			t.Fatalf("geo_km(%v, %v, %v, %v) = %v, want %v", lat1, lon1, lat2, lon2, got, want)
		}
	}
	for _, v := range []float64{haversine(90, 0, -90, 0), haversine(0, -90, 0, 90), haversine(0.1, 0, -0.1, 180), haversine(45, -180, -45, 0)} {
		if math.Abs(v-math.Pi*EarthRadius) > 1e-6 {
			t.Errorf("half of the circumference is %v", v)
		}
	}
}

func TestEdgesOfTrigonometry(t *testing.T) {
	negative, tiny := math.Copysign(0, -1), math.SmallestNonzeroFloat64
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"sin(-0)", sin(negative), negative}, {"sin(tiny)", sin(tiny), tiny}, {"cos(0)", cos(0), 1}, {"cos(tiny)", cos(-tiny), 1}, {"asin(-0)", asin(negative), negative}, {"asin(1)", asin(1), math.Pi / 2}, {"asin(-1)", asin(-1), -math.Pi / 2},
		{"asin(1+)", asin(math.Nextafter(1, 2)), math.NaN()}, {"atan2(0, 1)", atan2(0, 1), 0}, {"atan2(-0, 1)", atan2(negative, 1), negative}, {"atan2(0, -1)", atan2(0, -1), math.Pi}, {"atan2(-0, -1)", atan2(negative, -1), -math.Pi},
		{"atan2(0, -0)", atan2(0, negative), math.Pi}, {"atan2(1, 0)", atan2(1, 0), math.Pi / 2}, {"atan2(-1, -0)", atan2(-1, negative), -math.Pi / 2}, {"atan2(1e300, 1e-300)", atan2(1e300, 1e-300), math.Pi / 2},
		{"atan2(1e-300, 1e300)", atan2(1e-300, 1e300), 0}, {"atan2(1e-300, -1e300)", atan2(1e-300, -1e300), math.Pi}, {"atan2(max, max)", atan2(math.MaxFloat64, math.MaxFloat64), math.Pi / 4}, {"atan2(tiny, tiny)", atan2(tiny, -tiny), 3 * math.Pi / 4},
		{"sin(max)", sin(math.MaxFloat64), 0.004961954789184062}, {"cos(max)", cos(math.MaxFloat64), -0.9999876894265599}, {"cos(6381956970095103*2^797)", cos(math.Ldexp(6381956970095103, 797)), -4.687165924254628e-19},
	} {
		if math.Float64bits(c.got) != math.Float64bits(c.want) && !(math.IsNaN(c.got) && math.IsNaN(c.want)) {
			t.Errorf("%s is %v, want %v", c.name, c.got, c.want)
		}
	}
}

// bitFunctions are the functions of testdata/bits.txt.
var bitFunctions = map[string]func(x []float64) float64{
	"sin": func(x []float64) float64 { return sin(x[0]) }, "cos": func(x []float64) float64 { return cos(x[0]) }, "asin": func(x []float64) float64 { return asin(x[0]) },
	"atan2": func(x []float64) float64 { return atan2(x[0], x[1]) }, "exp": func(x []float64) float64 { return exp(x[0]) }, "log": func(x []float64) float64 { return log(x[0]) },
	"pow": func(x []float64) float64 { return pow(x[0], x[1]) }, "geo_km": func(x []float64) float64 { return haversine(x[0], x[1], x[2], x[3]) },
}

// TestFunctionsKeepTheirBits holds functions to the bits of a table, of numbers and results:
// they are part of the promise that one log gives one answer, on each architecture.
func TestFunctionsKeepTheirBits(t *testing.T) {
	const path = "testdata/bits.txt"
	if *update {
		if err := os.WriteFile(path, []byte(bitsTable()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	table, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(table), "\n"), "\n")
	if len(lines) < 1600 {
		t.Errorf("%d lines", len(lines))
	}
	for i, line := range lines {
		words := strings.Fields(line)
		var x []float64
		for _, word := range words[1:] {
			v, err := strconv.ParseUint(word, 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			x = append(x, math.Float64frombits(v))
		}
		last := len(x) - 1
		if got := bitFunctions[words[0]](x[:last]); math.Float64bits(got) != math.Float64bits(x[last]) {
			t.Errorf("%s:%d: %s%v is %v, bits %016x, want %s", path, i+1, words[0], x[:last], got, math.Float64bits(got), words[last+1])
		}
	}
}

// bitsTable returns a new table.
func bitsTable() string {
	random := rand.New(rand.NewPCG(24, 0))
	var table strings.Builder
	line := func(name string, x ...float64) {
		table.WriteString(name)
		for _, v := range append(x, bitFunctions[name](x)) {
			fmt.Fprintf(&table, " %016x", math.Float64bits(v))
		}
		table.WriteByte('\n')
	}
	for range 200 {
		x, y, small := angles(random), angles(random), 2*random.Float64()-1
		line("sin", x)
		line("cos", x)
		line("atan2", y, x)
		line("asin", small)
		line("exp", small*700)
		line("log", math.Abs(x)+1e-300)
		line("pow", math.Abs(small), y/(1+math.Abs(y))*50)
		line("geo_km", small*90, (2*random.Float64()-1)*180, (2*random.Float64()-1)*90, (2*random.Float64()-1)*180)
	}
	return table.String()
}
