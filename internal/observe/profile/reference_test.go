package profile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/observe/profile"
)

func TestReferenceIsALineForEachFeature(t *testing.T) {
	amount, country := made(t, profile.NumberBins([]float64{1, 2, 3.5})), made(t, profile.TextBins(map[string]int{"DE": 20, "FR": 12}, 32))
	amount.Number(2.5)
	country.Text("<GB>")
	r := &profile.Reference{Model: "fraud", Rows: 1, Digest: "ab", Features: map[string]*profile.Profile{"country": country, "amount": amount}}
	const want = `{"version":1,"model":"fraud","rows":1,"rows_sha256":"ab","features":{
"amount":{"edges":[2,3.5],"decimals":9,"counts":[0,1,0],"sum":"2500000000","squares":"6250000000000000000"},
"country":{"categories":["DE","FR"],"counts":[0,0,1],"sum":"0","squares":"0"}
}}
`
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got := string(data); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	again, err := profile.DecodeReference(data)
	if err != nil || again.Model != "fraud" || again.Rows != 1 || !again.Features["amount"].Numeric() || again.Features["country"].Numeric() || again.Features["country"].Unseen() != 1 {
		t.Errorf("%+v, %v", again, err)
	}
	for old, want := range map[string]string{
		`"version":1`: "version 2", `"edges":[2,3.5]`: "feature \"amount\"", `{"version"`: "invalid character", `"model":`: "not written by Encode",
	} {
		text := strings.Replace(string(data), old, map[string]string{`"version":1`: `"version":2`, `"edges":[2,3.5]`: `"edges":[2]`, `{"version"`: `{version"`, `"model":`: `"model": `}[old], 1)
		if _, err := profile.DecodeReference([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	if _, err := profile.DecodeReference([]byte(`{"version":1}`)); err == nil || !strings.Contains(err.Error(), "0 features") {
		t.Errorf("no features: %v", err)
	}
}

func TestBinsOfATrainingSample(t *testing.T) {
	if b := profile.NumberBins(nil); !slices.Equal(b.Edges, []float64{0}) || b.Check() != nil {
		t.Errorf("no numbers: %+v", b)
	}
	for largest, want := range map[float64]int{0: 9, 1: 9, 9e6: 9, 1e7: 8, 1e15: 0, 1e300: 0} {
		if b := profile.NumberBins([]float64{-largest, 0}); b.Decimals != want || b.Check() != nil {
			t.Errorf("up to %v: %d decimals, want %d", largest, b.Decimals, want)
		}
	}
	counts := map[string]int{"often": 1000, "enough": 100, "seldom": 99, strings.Repeat("x", 129): 1000}
	if b := profile.TextBins(counts, 100_000); !slices.Equal(b.Categories, []string{"enough", "often"}) {
		t.Errorf("%+v", b)
	}
	if b := profile.TextBins(map[string]int{"a": 9}, 9); !slices.Equal(b.Categories, []string{""}) || b.Check() != nil {
		t.Errorf("few rows: %+v", b)
	}
	many := map[string]int{}
	for i := range 1000 {
		many[fmt.Sprint(i)] = 50
	}
	if b := profile.TextBins(many, 50_000); len(b.Categories) != profile.CategoriesMax || b.Check() != nil {
		t.Errorf("%d categories", len(b.Categories))
	}
}
