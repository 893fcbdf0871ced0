package profile_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/afterbay/afterbay/internal/observe/profile"
)

// counted returns a profile with these counts.
func counted(t *testing.T, edges []float64, counts []uint64) *profile.Profile {
	t.Helper()
	p, err := profile.Decode([]byte(`{"edges":` + raw(t, edges) + `,"counts":` + raw(t, counts) + `,"sum":"0","squares":"0"}`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func raw(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestDistancesEqualSciPyAndEvidently compares with testdata/golden.json, which testdata/golden.py wrote.
func TestDistancesEqualSciPyAndEvidently(t *testing.T) {
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Cases []struct {
			Edges              []float64
			Reference, Current []uint64
			KS, JS, W1, PSI    float64
		}
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Cases) != 40 {
		t.Fatalf("%d cases", len(golden.Cases))
	}
	for i, c := range golden.Cases {
		reference, current := counted(t, c.Edges, c.Reference), counted(t, c.Edges, c.Current)
		for _, d := range []struct {
			name string
			of   func(a, b *profile.Profile) (float64, error)
			want float64
		}{{"KS", profile.KS, c.KS}, {"JS", profile.JensenShannon, c.JS}, {"W1", profile.Wasserstein, c.W1}, {"PSI", profile.PSI, c.PSI}} {
			got, err := d.of(reference, current)
			if err != nil || !(math.Abs(got-d.want) <= 1e-12*max(1, d.want)) {
				t.Errorf("case %d: %s %v, %v; want %v", i, d.name, got, err, d.want)
			}
		}
	}
}

func TestNoDistance(t *testing.T) {
	a, b := counted(t, []float64{0}, []uint64{1, 1}), counted(t, []float64{1}, []uint64{1, 1})
	c := made(t, profile.Bins{Categories: []string{"a"}})
	c.Text("a")
	for _, of := range []func(a, b *profile.Profile) (float64, error){profile.KS, profile.JensenShannon, profile.Wasserstein, profile.PSI} {
		if _, err := of(a, b); err == nil {
			t.Error("a distance of other bins")
		}
		if _, err := of(a, made(t, a.Bins)); err == nil {
			t.Error("a distance from no values")
		}
	}
	if _, err := profile.KS(c, c); err == nil {
		t.Error("KS of categories")
	}
}

const (
	paneEvents = 1000
	panes      = 20
)

// firstAlarms returns the first of the panes that CUSUM alarms on, and the first that PSI does, or panes.
func firstAlarms(t *testing.T, seed uint64, drift float64) (byCUSUM, byPSI int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	values := make([]float64, 100_000)
	for i := range values {
		values[i] = r.NormFloat64()
	}
	bins := profile.Bins{Edges: profile.Quantiles(values, profile.DefaultEdges), Decimals: 6}
	reference := made(t, bins)
	for _, v := range values {
		reference.Number(v)
	}
	sum := profile.CUSUM{Slack: profile.DefaultSlack, Alarm: profile.DefaultAlarm}
	byCUSUM, byPSI = panes, panes
	for i := range panes {
		pane := made(t, bins)
		for range paneEvents {
			pane.Number(r.NormFloat64() + drift)
		}
		alarm, err := sum.Add(reference, pane)
		if err != nil {
			t.Fatal(err)
		}
		psi, err := profile.PSI(reference, pane)
		if err != nil {
			t.Fatal(err)
		}
		if alarm {
			byCUSUM = min(byCUSUM, i)
		}
		if psi > profile.DefaultAlarmPSI {
			byPSI = min(byPSI, i)
		}
	}
	return byCUSUM, byPSI
}

func TestDriftIsAlarmedAndItsAbsenceIsNot(t *testing.T) {
	alarms := 0
	for seed := range uint64(100) {
		if byCUSUM, byPSI := firstAlarms(t, seed, 0); min(byCUSUM, byPSI) < panes {
			alarms++
		}
	}
	t.Logf("%d of 100 seeds without drift alarmed", alarms)
	if alarms > 1 {
		t.Errorf("%d of 100 seeds without drift alarmed; at most 1", alarms)
	}
	for seed := range uint64(10) {
		for _, drift := range []float64{0.5, -0.5} {
			byCUSUM, byPSI := firstAlarms(t, seed, drift)
			t.Logf("seed %d, drift %v: alarmed in pane %d by CUSUM, %d by PSI", seed, drift, byCUSUM, byPSI)
			if byCUSUM >= 5 || byPSI >= 5 {
				t.Errorf("seed %d: drift of %v is alarmed in pane %d by CUSUM, %d by PSI; want one of the first 5", seed, drift, byCUSUM, byPSI)
			}
		}
	}
}
