package baseline_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/lab/demo/baseline"
)

func events(o baseline.Options, n int) []byte {
	var all []byte
	for g := baseline.NewGenerator(o); n > 0; n-- {
		all, _ = g.Append(all)
		all = append(all, '\n')
	}
	return all
}

func TestOneSeedGivesTheSameEvents(t *testing.T) {
	o := baseline.Options{Seed: 1, Zipf: 1}
	first := events(o, 10_000)
	if !bytes.Equal(first, events(o, 10_000)) {
		t.Error("one seed gives two lists of events")
	}
	o.Seed = 2
	if bytes.Equal(first, events(o, 10_000)) {
		t.Error("two seeds give one list of events")
	}
}

// TestEventsAreWhatThePipelineReads checks each field of each event, and the
// shares and disorder that scripts/baseline.py has too.
func TestEventsAreWhatThePipelineReads(t *testing.T) {
	const n = 50_000
	type event struct {
		EventID string `json:"event_id"`
		UserID  string `json:"user_id"`
		TS      int64
		Amount  float64
		Country, Channel, Device,
		Text string
	}
	g := baseline.NewGenerator(baseline.Options{Seed: 3, Zipf: 1})
	counts := map[string]float64{}
	var newest, behind, longest int64
	var logs, size float64
	for i := range n {
		line, key := g.Append(nil)
		var e event
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if want := fmt.Sprintf("e%09d", i); e.EventID != want || e.UserID != string(key) || len(line) > baseline.LineBytesMax {
			t.Fatalf("%s: key %s, want id %s", line, key, want)
		}
		size += float64(len(line)) / n
		logs += math.Log(e.Amount+0.005) / n
		counts[e.Country]++
		counts[e.Channel]++
		counts[e.Device]++
		if late := newest - e.TS; late > 0 {
			behind++
			longest = max(longest, late)
		}
		newest = max(newest, e.TS)
	}
	for name, share := range map[string]float64{"US": .35, "NG": .03, "ZA": .03, "web": .4, "api": .15, "partner": .05, "ios": .35, "other": .05} {
		if got := counts[name] / n; math.Abs(got-share) > .01 {
			t.Errorf("%s has a share of %.3f, want %.3f", name, got, share)
		}
	}
	if span := newest - 1_760_000_000_000; span < n*20-3000 || span > n*20 {
		t.Errorf("%d events take %d ms", n, span)
	}
	if share := float64(behind) / n; share < .2 || share > .4 || longest < 2000 || longest > 8000 {
		t.Errorf("%.2f of the events are out of order, by up to %d ms", share, longest)
	}
	if math.Abs(logs-3.2) > .05 || size < 240 || size > 270 {
		t.Errorf("mean logarithm of amounts %.2f, want 3.2; mean size %.0f bytes", logs, size)
	}
}

func TestUsersAreAsBusyAsTheExponentSays(t *testing.T) {
	for _, test := range []struct {
		users  int
		zipf   float64
		events float64
	}{{100_000, 1, 1e6}, {100_000, 1.3, 1e6}, {100_000, 0.5, 2e5}, {1000, 0, 2e5}, {7, 1, 2e5}, {1, 1, 1e4}, {1_000_000, 1.3, 2e5}} {
		g := baseline.NewGenerator(baseline.Options{Seed: 5, Users: test.users, Zipf: test.zipf})
		counts := map[string]int{}
		buffer := make([]byte, 0, baseline.LineBytesMax)
		for range int(test.events) {
			_, key := g.Append(buffer)
			counts[string(key)]++
		}
		sum := 0.0
		for k := 1; k <= test.users; k++ {
			sum += math.Pow(float64(k), -test.zipf)
		}
		sorted := slices.Sorted(maps.Values(counts))
		slices.Reverse(sorted)
		for _, rank := range []int{1, 2, 5} {
			if rank > len(sorted) || test.zipf < 1 && rank > 1 { // ranks that are too close to be told apart
				continue
			}
			p := math.Pow(float64(rank), -test.zipf) / sum
			if got := float64(sorted[rank-1]) / test.events; math.Abs(got-p) > 5*math.Sqrt(p/test.events) {
				t.Errorf("%d users, exponent %v: rank %d has a share of %.5f, want %.5f", test.users, test.zipf, rank, got, p)
			}
		}
		if want := min(test.users, 1000); len(sorted) < want {
			t.Errorf("%d users, exponent %v: only %d users in %.0f events", test.users, test.zipf, len(sorted), test.events)
		}
	}
}

func TestEventsCostNoAllocation(t *testing.T) {
	g := baseline.NewGenerator(baseline.Options{Zipf: 1})
	buffer := make([]byte, 0, baseline.LineBytesMax)
	if n := testing.AllocsPerRun(1000, func() { g.Append(buffer) }); n > 0 {
		t.Errorf("%v allocations an event", n)
	}
}

func TestOptionsOutOfBoundsAreRefused(t *testing.T) {
	for want, o := range map[string]baseline.Options{
		"-1 users": {Users: -1}, "100000001 users": {Users: 100_000_001},
		"exponent -1": {Zipf: -1}, "exponent NaN": {Zipf: math.NaN()}, "exponent 11": {Zipf: 11},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := (baseline.Options{}).Validate(); err != nil {
		t.Error(err)
	}
}

func BenchmarkAppend(b *testing.B) {
	g := baseline.NewGenerator(baseline.Options{Zipf: 1})
	buffer := make([]byte, 0, baseline.LineBytesMax)
	b.ReportAllocs()
	for b.Loop() {
		g.Append(buffer)
	}
}
