package fraud_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/afterbay/afterbay/internal/lab/demo/fraud"
)

const (
	events       = 200_000
	eventsDigest = "871845b121333c982c86e64830a70b9343a1d38931c4c7cc4bf26e96df4c28fc"
	labelsDigest = "99e261a19f835274a7b271bf595c67386eb65b519ae9fcd641ed70e544b6e830"
)

func generate(t *testing.T, seed uint64) (lines, labels []byte, stats fraud.Stats) {
	t.Helper()
	var out, csv bytes.Buffer
	stats, err := fraud.Generate(&out, fraud.Options{Seed: seed, Events: events, Labels: &csv})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), csv.Bytes(), stats
}

func TestOneSeedGivesTheSameBytesOnEveryMachine(t *testing.T) {
	lines, labels, _ := generate(t, 1)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{"events": {lines, eventsDigest}, "labels": {labels, labelsDigest}} {
		sum := sha256.Sum256(c.data)
		if got := hex.EncodeToString(sum[:]); got != c.want {
			t.Errorf("%s of seed 1: sha256 %s, want %s", name, got, c.want)
		}
	}
	if other, _, _ := generate(t, 2); bytes.Equal(lines, other) {
		t.Error("seeds 1 and 2 give the same events")
	}
}

func TestEventsHoldWhatStatsCount(t *testing.T) {
	lines, labels, stats := generate(t, 3)
	split := bytes.Split(bytes.TrimSuffix(lines, []byte("\n")), []byte("\n"))
	if len(split) != events || stats.Events != events {
		t.Fatalf("%d lines, %d counted, want %d", len(split), stats.Events, events)
	}
	malformed := 0
	for _, line := range split {
		var event struct {
			TX, Customer *string
			Amount       *float64
			TS           *int64
		}
		err := json.Unmarshal(line, &event)
		future := event.TS != nil && *event.TS > 4_000_000_000_000
		if err != nil || event.Customer == nil || event.TS == nil || future || !json.Valid(line) || bytes.ContainsRune(line, '�') || !bytes.Equal(bytes.ToValidUTF8(line, nil), line) {
			malformed++
		}
	}
	if malformed != stats.Malformed.Total() {
		t.Errorf("%d malformed lines, %d counted", malformed, stats.Malformed.Total())
	}
	rows, err := csv.NewReader(bytes.NewReader(labels)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	frauds := map[string]int{}
	for _, row := range rows[1:] {
		if row[1] == "1" {
			frauds[row[2]]++
		}
	}
	want := map[string]int{"burst": stats.Burst, "terminal": stats.Terminal, "takeover": stats.Takeover}
	if fmt.Sprint(frauds) != fmt.Sprint(want) || len(frauds) != 3 {
		t.Errorf("labels count %v, stats %v", frauds, want)
	}
	if stats.OutOfOrder == 0 || stats.Late == 0 || stats.Malformed.Truncated == 0 {
		t.Errorf("too orderly: %+v", stats)
	}
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for _, o := range []fraud.Options{{Events: -1}, {Customers: -1}, {Terminals: 5}, {Rate: 5000}} {
		if _, err := fraud.Generate(&bytes.Buffer{}, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

func TestFewCustomersAreEnough(t *testing.T) {
	n := 0
	for range fraud.Events(fraud.Options{Seed: 1, Events: 50_000, Customers: 1, Terminals: 100}) {
		n++
	}
	if n != 50_000 {
		t.Errorf("%d events, want 50000", n)
	}
}

func BenchmarkEvents(b *testing.B) {
	b.ReportAllocs()
	n := 0
	for range fraud.Events(fraud.Options{Events: b.N}) {
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "lines/s")
}

func ExampleEvents() {
	for line := range fraud.Events(fraud.Options{Seed: 1, Events: 1}) {
		fmt.Printf("%s\n", line)
	}
	// Output: {"tx":"t000000000","customer":"c001355","amount":15.90,"terminal":"m16539","country":"IN","channel":"contactless","ts":1759999997227}
}
