package expression_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// standard is encoding/json without HTML escaping.
func standard(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

func TestTextAndNumbersAreWrittenAsEncodingJSONWritesThem(t *testing.T) {
	var schema value.Schema
	text, _ := schema.Add("text", value.Type{Kind: value.String})
	number, _ := schema.Add("number", value.Type{Kind: value.Number})
	raw, _ := schema.Add("raw", value.Type{Kind: value.Bytes})
	vector, _ := schema.Add("vector", value.Type{Kind: value.Vector, Size: 3})
	row := &schema.NewRows(1)[0]
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	texts := []string{"", "a", "\"\\/<>&", "\x00\x01\b\f\n\r\t\x1f\x7f", "é世😀", "\u2028\u2029\u2027", "a\xffb\xc3", "\xed\xa0\x80", "\ufffd"}
	for range 2000 {
		b := make([]byte, random.IntN(20))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		texts = append(texts, string(b))
	}
	for _, s := range texts {
		row.SetText(text, s)
		row.SetText(raw, s)
		if got, want := string(expression.AppendValue(nil, row, &text)), standard(t, s); got != want {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
		if got, want := string(expression.AppendValue(nil, row, &raw)), standard(t, []byte(s)); got != want {
			t.Errorf("bytes %q: got %s, want %s", s, got, want)
		}
	}
	for range 2000 {
		list := make([]float32, 3)
		for i := range list {
			if list[i] = math.Float32frombits(random.Uint32()); list[i]-list[i] != 0 {
				list[i] = 1e-6
			}
		}
		row.SetVector(vector, list)
		if got, want := string(expression.AppendValue(nil, row, &vector)), standard(t, list); got != want {
			t.Errorf("%v: got %s, want %s", list, got, want)
		}
	}
	numbers := []float64{0, math.Copysign(0, -1), 1, -1.5, 1e20, 1e21, -1e21, 1e-6, 9.99e-7, 1e-9, 1e-10, 1e100, math.MaxFloat64, math.SmallestNonzeroFloat64, 123456789.125}
	for range 5000 {
		if v := math.Float64frombits(random.Uint64()); v-v == 0 {
			numbers = append(numbers, v)
		}
	}
	for _, v := range numbers {
		row.SetNumber(number, v)
		if got, want := string(expression.AppendValue(nil, row, &number)), standard(t, v); got != want {
			t.Errorf("%g: got %s, want %s", v, got, want)
		}
	}
}

func TestOtherKindsAreWrittenAsJSON(t *testing.T) {
	var schema value.Schema
	ok, _ := schema.Add("ok", value.Type{Kind: value.Bool})
	n, _ := schema.Add("n", value.Type{Kind: value.Int})
	at, _ := schema.Add("at", value.Type{Kind: value.Time})
	gone, _ := schema.Add("gone", value.Type{Kind: value.Time, Optional: true})
	row := &schema.NewRows(1)[0]
	row.SetBool(ok, true)
	row.SetInt(n, math.MinInt64)
	row.SetInt(at, -1)
	dst := []byte("[")
	for _, s := range schema.Slots {
		dst = append(expression.AppendValue(dst, row, &s), ',')
	}
	if want := `[true,-9223372036854775808,"1969-12-31T23:59:59.999999Z",null,`; string(dst) != want {
		t.Errorf("got %s, want %s", dst, want)
	}
	row.SetBool(ok, false)
	row.SetInt(gone, 253402300799999999)
	dst = expression.AppendValue(expression.AppendValue(nil, row, &ok), row, &gone)
	if want := `false"9999-12-31T23:59:59.999999Z"`; string(dst) != want {
		t.Errorf("got %s, want %s", dst, want)
	}
}
