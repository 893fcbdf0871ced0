package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/stream"
)

func TestDigestSeesEachPartOfARecord(t *testing.T) {
	record := func() stream.Record {
		return stream.Record{Time: time.UnixMicro(1), Key: []byte("key"), Value: []byte("value"), Headers: []stream.Header{{Key: "a", Value: []byte("b")}}}
	}
	sum := func(change func(*stream.Record)) string {
		d, r := newDigest(), record()
		change(&r)
		if err := d.consume(&r); err != nil {
			t.Fatal(err)
		}
		return string(d.hash.Sum(nil))
	}
	want := sum(func(*stream.Record) {})
	if sum(func(*stream.Record) {}) != want {
		t.Error("equal records have two digests")
	}
	for name, change := range map[string]func(*stream.Record){
		"time": func(r *stream.Record) { r.Time = time.UnixMicro(2) }, "key": func(r *stream.Record) { r.Key[0]++ }, "value": func(r *stream.Record) { r.Value[0]++ },
		"header": func(r *stream.Record) { r.Headers[0].Value[0]++ }, "header's key": func(r *stream.Record) { r.Headers[0].Key = "c" },
		"bounds": func(r *stream.Record) { r.Key, r.Value = []byte("keyv"), []byte("alue") }, "no header": func(r *stream.Record) { r.Headers = nil },
	} {
		if sum(change) == want {
			t.Errorf("%s: another record has the same digest", name)
		}
	}
}

func TestArrivalsAreAtRandomTimesInAllPartitions(t *testing.T) {
	const events, rate, partitions = 10_000, 1000, 3
	s := schedule{rate: rate, events: events, start: time.UnixMilli(1_800_000_000_000), arrivals: newArrivals(1, rate, events, partitions)}
	if !slices.Equal(s.arrivals, newArrivals(1, rate, events, partitions)) || slices.Equal(s.arrivals, newArrivals(2, rate, events, partitions)) {
		t.Error("events come by something else than the seed")
	}
	if !slices.IsSortedFunc(s.arrivals, func(a, b arrival) int { return cmp.Compare(a.after, b.after) }) {
		t.Error("times go back")
	}
	if took := s.arrivals[events-1].after.Seconds(); took < 9 || took > 11 {
		t.Errorf("%d events at %d a second took %f s", events, rate, took)
	}
	b, count := newBatch("posts", events), [partitions]int{}
	b.fill((&Options{Users: 10}).work().source(), events)
	s.stamp(b.records, 0)
	for i, r := range b.records {
		count[r.Partition.Index]++
		var event struct{ TS int64 }
		if err := json.Unmarshal(r.Value, &event); err != nil || event.TS != s.due(int64(i)).UnixMilli() {
			t.Fatalf("event %d is due at %v: %s, %v", i, s.due(int64(i)), r.Value, err)
		}
	}
	for p, n := range count {
		if n < events/partitions*9/10 {
			t.Errorf("partition %d has %d of %d events", p, n, events)
		}
	}
}

func TestSteadyFailsWhereSomethingGrows(t *testing.T) {
	level := partOfRun{resident: 100, files: 10, bytes: 1000}
	run := func(change func(*partOfRun, int)) error {
		parts := slices.Repeat([]partOfRun{level}, 10)
		for i := range parts {
			change(&parts[i], i)
		}
		return steady(parts)
	}
	if err := run(func(p *partOfRun, i int) { p.resident += float64(i % 2 * 10) }); err != nil {
		t.Error(err)
	}
	if err := run(func(p *partOfRun, i int) {
		if i == 0 || i == 9 { // the beginning, and one part out of line
			p.resident, p.files = 20*float64(i), 5*float64(i)
		}
	}); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*partOfRun, int){
		"memory grow":                 func(p *partOfRun, i int) { p.resident += 3 * float64(i) },
		"files grow":                  func(p *partOfRun, i int) { p.files += float64(i) },
		"bytes of the directory grow": func(p *partOfRun, i int) { p.bytes += 50 * float64(i) },
	} {
		if err := run(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestQuantilesOfTimesAreAHundredthTooHighAtMost(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	parts := []*times{{}, {}}
	var all []time.Duration
	for i := range 20_000 {
		d := time.Duration(r.Uint64() >> (1 + r.IntN(60)))
		parts[i%2].add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	merged := sum(parts)
	for _, share := range []float64{0, 0.1, 0.5, 0.99, 0.999, 1} {
		want := all[min(int(share*float64(len(all))), len(all)-1)]
		if got := merged.quantile(share); got < want || float64(got) > float64(want)*1.01 {
			t.Errorf("seed %d: quantile %v is %d, want %d", seed, share, got, want)
		}
	}
	if merged.count != int64(len(all)) || merged.most != all[len(all)-1] {
		t.Errorf("seed %d: %d times, the longest %v", seed, merged.count, merged.most)
	}
}

func TestNumberOfAnEventIsFoundInItsOutput(t *testing.T) {
	w := (&Options{Work: "baseline"}).work()
	for output, want := range map[string]int64{
		`{"event_id":"e000000123","score":0.5}`: 123, `{"event_id":"e1234567890"}`: 1234567890, `{"a":1,"event_id":"e7`: 7,
		`{"event_id":"e"}`: -1, `{"event_id":"e`: -1, `{}`: -1, ``: -1,
	} {
		got, ok := w.eventNumber([]byte(output))
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%s: %d, %v", output, got, ok)
		}
	}
}

// TestScheduleWaitsForNothingButItsTime sends events whose appends take longer
// than all senders together can bear: none is early or left out, and none that
// found a sender free is late.
func TestScheduleWaitsForNothingButItsTime(t *testing.T) {
	for name, took := range map[string]time.Duration{"quick": time.Millisecond, "slow": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				made := 0
				s := &schedule{rate: 5000, events: 2000, topic: "in", start: time.Now(), source: &source{next: func(dst []byte) (line, key []byte) {
					made++
					return binary.BigEndian.AppendUint32(dst, uint32(made-1)), nil
				}}}
				var mu sync.Mutex
				late := make(map[int64]time.Duration)
				err := s.run(t.Context(), func(_ context.Context, records ...stream.Record) error {
					now := time.Now()
					mu.Lock()
					for _, r := range records {
						n := int64(binary.BigEndian.Uint32(r.Value))
						late[n] = now.Sub(s.due(n))
					}
					mu.Unlock()
					time.Sleep(took)
					return nil
				})
				if err != nil || len(late) != 2000 || made != 2000 {
					t.Fatalf("%d of %d events were sent: %v", len(late), made, err)
				}
				for n, by := range late {
					if by < 0 || name == "quick" && by > tick {
						t.Errorf("event %d was sent %v after it was due", n, by)
					}
				}
				if latest := slices.Max(slices.Collect(maps.Values(late))); name == "slow" && latest < took/4 {
					t.Errorf("no event was more than %v late", latest)
				}
			})
		})
	}
}
func TestLagBeyondItsBoundFails(t *testing.T) {
	w := &lagWatch{measurement: &measurement{Program: &Program{Out: &strings.Builder{}}, options: &Options{Schedule: Schedule{MaxLag: time.Second}}}, most: time.Second}
	if err := w.report(); err != nil {
		t.Error(err)
	}
	w.most++
	if err := w.report(); err == nil || !strings.Contains(err.Error(), "more than 1s") {
		t.Error(err)
	}
}
