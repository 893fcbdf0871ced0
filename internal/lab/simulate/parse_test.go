package simulate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRatesHaveUnits(t *testing.T) {
	for text, want := range map[string]float64{"500": 500, "500/s": 500, "0.5/ms": 500, "90/m": 1.5, "0": 0, "1e5": 100_000} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "x", "5/", "5/h", "NaN", "Inf/s", "1/2/s"} {
		if got, err := ParseRate(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestServiceHasAKind(t *testing.T) {
	for text, want := range map[string]Service{
		"4ms":             {From: 4 * time.Millisecond},
		"fixed:4ms":       {From: 4 * time.Millisecond},
		"exponential:2s":  {Kind: Exponential, From: 2 * time.Second},
		"uniform:2ms-6ms": {Kind: Uniform, From: 2 * time.Millisecond, To: 6 * time.Millisecond},
	} {
		if got, err := ParseService(text); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "4", "-4ms", "normal:4ms", "uniform:4ms", "uniform:6ms-2ms", "4ms-6ms", "exponential:2ms-3ms"} {
		if got, err := ParseService(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestTimesAreReadInOrder(t *testing.T) {
	ms := time.Millisecond
	for text, want := range map[string][]time.Duration{
		"3\n1.5\n\n 2 \n": {1500 * time.Microsecond, 2 * ms, 3 * ms},
		"4.1ms\n1s":       {4100 * time.Microsecond, time.Second},
		"2026-11-21T21:00:00.005Z\n2026-11-21T22:00:00+01:00\n": {0, 5 * ms},
	} {
		got, err := ReadTimes(strings.NewReader(text), "times")
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v %s", text, err, diff)
		}
	}
	for text, part := range map[string]string{
		"":                          "there is no time in it",
		"1\nx\n":                    `times:2: "x" is not a time`,
		"-1":                        "is not a time",
		"-1ms":                      "is not a time",
		"1e300":                     "is not a time",
		"NaN":                       "is not a time",
		"1\n2026-11-21T21:00:00Z\n": "times:2: ",
	} {
		if _, err := ReadTimes(strings.NewReader(text), "times"); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %s", text, err, part)
		}
	}
}

func TestArrivalsHaveNames(t *testing.T) {
	for _, a := range []Arrivals{Bernoulli, Poisson, Steady} {
		if got, err := ParseArrivals(a.String()); err != nil || got != a {
			t.Errorf("%v: %v, %v", a, got, err)
		}
	}
	if _, err := ParseArrivals("other"); err == nil {
		t.Error("arrivals that there are not")
	}
}
