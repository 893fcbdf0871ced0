package decode_test

import (
	"github.com/afterbay/afterbay/internal/event/value"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// TestNumbersOfVectorsAreTheNearest reads numbers as they are written by programs,
// and the ones in the middle of two float32 and beside it, where rounding twice
// goes wrong.
func TestNumbersOfVectorsAreTheNearest(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	var texts []string
	for range 20_000 {
		v := math.Float32frombits(rng.Uint32())
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			continue
		}
		next := math.Nextafter32(v, math.MaxFloat32)
		middle := new(big.Float).SetPrec(200).Add(big.NewFloat(float64(v)), big.NewFloat(float64(next)))
		exact := middle.Quo(middle, big.NewFloat(2)).Text('e', 60)
		mantissa, exponent, _ := strings.Cut(exact, "e")
		texts = append(texts, strconv.FormatFloat(float64(v), 'g', -1, 32), strconv.FormatFloat(float64(v), 'e', 1+rng.IntN(17), 64),
			strconv.FormatFloat(rng.NormFloat64(), 'f', 1+rng.IntN(18), 64), exact, mantissa+"1e"+exponent, strings.TrimRight(mantissa, "0")+"e"+exponent)
	}
	texts = append(texts, "0", "-0", "0e30", "16777217", "16777219", "16777217.0000000000000001", "3.4028234e38", "3.4028235e38", "1e-45", "7e-46", "1.17549435e-38", "1.1754942e-38")
	scanner, schema, row := newScanner(t, "v number[1]")
	for _, text := range texts {
		text = strings.Replace(strings.Replace(text, "e+", "e", 1), ".e", ".0e", 1)
		want, wrong := strconv.ParseFloat(text, 32)
		err := scanner.Scan([]byte(`{"v":[`+text+`]}`), row)
		if wrong != nil || err != nil {
			if (wrong == nil) != (err == nil) {
				t.Errorf("seed %d: %s: %v, want %v", seed, text, err, wrong)
			}
			continue
		}
		if got := value.AppendVector[float32](row, nil, schema.Slots[0])[0]; math.Float32bits(got) != math.Float32bits(float32(want)) {
			t.Errorf("seed %d: %s is read as %v, want %v", seed, text, got, float32(want))
		}
	}
}
