package profile_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/observe/profile"
)

func made(t *testing.T, b profile.Bins) *profile.Profile {
	t.Helper()
	p, err := profile.New(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func encode(t *testing.T, p *profile.Profile) string {
	t.Helper()
	data, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// random counts n values of all kinds in a profile that pick chooses for each.
func random(r *rand.Rand, n int, pick func() *profile.Profile) {
	for range n {
		switch p := pick(); r.IntN(8) {
		case 0:
			p.Missing()
		case 1:
			p.Number(r.NormFloat64() * 1e12)
		case 2:
			p.Text(string(rune('a' + r.IntN(8))))
		default:
			p.Number(r.NormFloat64())
		}
	}
}

// TestAnyGroupingGivesEqualBytes counts the same values without a merge, and in 1, 2 and 8 parts that it merges in random order.
func TestAnyGroupingGivesEqualBytes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, bins := range []profile.Bins{{Edges: []float64{-1, 0, 1}, Decimals: 9}, {Categories: []string{"a", "c", "d"}}} {
		whole := made(t, bins)
		random(rand.New(rand.NewPCG(seed, 0)), 5000, func() *profile.Profile { return whole })
		want := encode(t, whole)
		for _, parts := range []int{1, 2, 8} {
			var of []*profile.Profile
			for range parts {
				of = append(of, made(t, bins))
			}
			split := rand.New(rand.NewPCG(seed, uint64(parts)))
			random(rand.New(rand.NewPCG(seed, 0)), 5000, func() *profile.Profile { return of[split.IntN(parts)] })
			split.Shuffle(parts, func(i, j int) { of[i], of[j] = of[j], of[i] })
			sum := made(t, bins)
			for _, part := range of {
				if err := sum.Merge(part); err != nil {
					t.Fatal(err)
				}
			}
			got := encode(t, sum)
			if got != want {
				t.Errorf("%d parts:\n%s\nno parts:\n%s", parts, got, want)
			}
			again, err := profile.Decode([]byte(got))
			if err != nil || encode(t, again) != got {
				t.Errorf("read back: %v", err)
			}
		}
	}
}

func TestCountsOfValues(t *testing.T) {
	p := made(t, profile.Bins{Edges: []float64{0, 10}, Decimals: 2})
	for _, v := range []float64{-1, 0, 9.99, 10, 1e300} {
		p.Number(v)
	}
	p.Text("x")
	p.Missing()
	const want = `{"edges":[0,10],"decimals":2,"counts":[1,2,2],"missing":2,"outside":1,"sum":"1899","squares":"2008001"}`
	if got := encode(t, p); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if n, mean, variance := p.Moments(); n != 4 || mean != 4.7475 || variance != 27.66126875 {
		t.Errorf("moments: %v %v %v", n, mean, variance)
	}
	c := made(t, profile.Bins{Categories: []string{"card", "cash"}})
	for _, v := range []string{"cash", "coin", "cash"} {
		c.Text(v)
	}
	c.Number(1)
	if got := c.Counts(); got[0] != 0 || got[1] != 2 || c.Unseen() != 1 || c.Absent() != 1 {
		t.Errorf("counts %v, unseen %d, absent %d", got, c.Unseen(), c.Absent())
	}
}

func TestRefusedBinsAndBytes(t *testing.T) {
	for _, c := range []struct {
		bins profile.Bins
		want string
	}{
		{profile.Bins{}, "no edges"},
		{profile.Bins{Edges: []float64{1}, Categories: []string{"a"}}, "name one"},
		{profile.Bins{Edges: []float64{1, 1}}, "ascend"},
		{profile.Bins{Categories: []string{"b", "a"}}, "ascend"},
		{profile.Bins{Edges: make([]float64, profile.EdgesMax+1)}, "at most"},
		{profile.Bins{Categories: make([]string, profile.CategoriesMax+1)}, "at most"},
		{profile.Bins{Edges: []float64{1}, Decimals: 10}, "decimals"},
	} {
		if _, err := profile.New(c.bins); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v; want %q", c.bins, err, c.want)
		}
	}
	for text, want := range map[string]string{
		`{`: "unexpected end",
		`{"edges":[0],"counts":[1],"sum":"0","squares":"0"}`:                                 "counts: 1",
		`{"edges":[0],"counts":[1,0],"sum":"x","squares":"0"}`:                               "not an integer",
		`{"edges":[0],"counts":[1,0],"sum":"` + strings.Repeat("1", 61) + `","squares":"0"}`: "61 digits",
		`{"edges":[0.0],"counts":[1,0],"sum":"0","squares":"0"}`:                             "not written by Encode",
	} {
		if _, err := profile.Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	a, b := made(t, profile.Bins{Edges: []float64{1}}), made(t, profile.Bins{Edges: []float64{2}})
	if a.Merge(b) == nil {
		t.Error("merged other bins")
	}
}

func TestQuantilesPartValuesEvenly(t *testing.T) {
	values := make([]float64, 1000)
	for i := range values {
		values[i] = float64((i * 7) % 1000)
	}
	edges := profile.Quantiles(values, 3)
	if len(edges) != 3 || edges[0] != 250 || edges[1] != 500 || edges[2] != 750 {
		t.Errorf("edges %v", edges)
	}
	if edges := profile.Quantiles([]float64{5, 5, 5, 5}, 3); len(edges) != 1 || edges[0] != 5 {
		t.Errorf("edges of one value: %v", edges)
	}
	if edges := profile.Quantiles(nil, 3); edges != nil {
		t.Errorf("edges of none: %v", edges)
	}
}
