package keyed

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/stream"
)

func terms(t *testing.T) *Terms {
	t.Helper()
	w, err := feature.ParseWindow("60s/5s")
	if err != nil {
		t.Fatal(err)
	}
	set, err := feature.NewSet([]feature.Spec{
		{Name: "n", Windows: []feature.Window{w}, Aggregates: []feature.Aggregate{feature.Count}},
		{Name: "gap", Elapsed: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &Terms{Sets: [2]*feature.Set{set}, Retention: time.Minute, Keep: time.Hour}
}

// TestKeysAreLookedAtWhenTheirSilenceEndsSomething loads keys at a watermark: one
// with windows that have ended, one without any, one with an event since.
func TestKeysAreLookedAtWhenTheirSilenceEndsSomething(t *testing.T) {
	s := terms(t)
	const second, minute, hour = int64(1e6), int64(60e6), int64(3600e6)
	headers := map[string][]byte{}
	for key, newest := range map[string]int64{"ended": 0, "without": second, "fresh": 2 * minute, "known": 0} {
		cell := s.Sets[0].NewCell()
		if err := s.Sets[0].Add(cell, 0, newest, 1); err != nil {
			t.Fatal(err)
		}
		if key == "without" {
			s.End(0, cell, Windows)
		}
		s.Sets[0].Changes(cell, nil, func(_, value []byte) { headers[key] = append([]byte(nil), value...) })
	}
	var scan iter.Seq2[stream.Entry, error] = func(yield func(stream.Entry, error) bool) {
		for key, header := range headers {
			if !yield(stream.Entry{Key: []byte("e" + key), Value: header}, nil) {
				return
			}
		}
	}
	q := s.NewQueue(&due.Queue{})
	if err := q.Load(1<<20, func(key []byte) bool { return string(key) == "known" }, scan); err != nil {
		t.Fatal(err)
	}
	type look struct {
		key string
		at  int64
		end Ended
	}
	want := []look{{"ended", minute, Windows}, {"fresh", 3 * minute, Windows}, {"ended", hour, All}, {"without", hour + second, All}, {"fresh", hour + 2*minute, All}}
	for _, w := range want {
		if q.Until(w.at - 1) {
			t.Errorf("before %v there is one", w)
		}
		at := q.Pop(w.at, make([]Look, 2))
		if got := (look{at[0].Key, at[0].At, at[0].End}); got != w || len(at) != 1 {
			t.Errorf("got %v, want %v", got, w)
		}
	}
	if q.Until(1<<60) || !s.Outlives() || s.Longest() != 0 {
		t.Error("there are more")
	}
}

func ExampleTerms_Ended() {
	t := Terms{Retention: time.Hour, Keep: 30 * 24 * time.Hour}
	for _, silence := range []time.Duration{time.Minute, 2 * time.Hour, 31 * 24 * time.Hour} {
		fmt.Println(silence, t.Ended(0, silence.Microseconds()))
	}
	// Output:
	// 1m0s 0
	// 2h0m0s 1
	// 744h0m0s 2
}
