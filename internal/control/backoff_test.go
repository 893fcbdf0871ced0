package control_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/afterbay/afterbay/internal/control"
)

func TestBackoffIsTheSameForARecordAndAttempt(t *testing.T) {
	for _, c := range []struct {
		id      string
		attempt int
		want    time.Duration
	}{ // what is stored by one build is due at the same time in another
		{"fraud:0:17:0", 1, 197588726},
		{"fraud:0:17:0", 2, 198634626},
		{"fraud:0:18:0", 1, 175297949},
		{"", 1, 152738905},
	} {
		if got := (control.Backoff{}).Delay(c.id, c.attempt); got != c.want {
			t.Errorf("%q, attempt %d: %d, want %d", c.id, c.attempt, got, c.want)
		}
	}
}

func TestBackoffStaysBelowItsCeiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := control.Backoff{
			Base: time.Duration(rapid.Int64Range(1, math.MaxInt64/2).Draw(t, "base")),
			Max:  time.Duration(rapid.Int64Range(math.MaxInt64/2, math.MaxInt64).Draw(t, "max")),
		}
		id, attempt := rapid.String().Draw(t, "id"), rapid.IntRange(-1, 1000).Draw(t, "attempt")
		ceiling := b.Base
		for n := 1; n < attempt && ceiling < b.Max; n++ {
			if ceiling > b.Max/2 {
				ceiling = b.Max
			} else {
				ceiling *= 2
			}
		}
		if got := b.Delay(id, attempt); got < 0 || got > ceiling || got != b.Delay(id, attempt) {
			t.Fatalf("%d, ceiling %d", got, ceiling)
		}
	})
}

// TestJitterIsFull sees that ids that follow one another, as those of a partition
// do, wait for anything up to the ceiling, whatever they waited for before.
func TestJitterIsFull(t *testing.T) {
	const ids, cells = 20_000, 10
	for attempt := 1; attempt <= 10; attempt++ {
		ceiling := min(200*time.Millisecond<<(attempt-1), 30*time.Second)
		var seen, before [cells]int
		var product float64
		for n := range ids {
			id := fmt.Sprintf("fraud:3:%d:0", n)
			share := float64((control.Backoff{}).Delay(id, attempt)) / float64(ceiling)
			previous := float64((control.Backoff{}).Delay(id, attempt+1)) / float64(min(2*ceiling, 30*time.Second))
			seen[min(int(share*cells), cells-1)]++
			before[min(int(previous*cells), cells-1)]++
			product += (share - 0.5) * (previous - 0.5)
		}
		for cell, n := range seen { // 2,000 expected, of a deviation of 42
			if n < 1780 || n > 2220 {
				t.Errorf("attempt %d: %d of %d wait for tenth %d of the ceiling", attempt, n, ids, cell)
			}
		}
		if r := product / ids * 12; math.Abs(r) > 0.035 { // five deviations
			t.Errorf("attempts %d and %d are correlated by %.3f", attempt, attempt+1, r)
		}
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	var b control.Backoff
	for attempts, want := range []bool{false, false, false, true, true} {
		if got := b.Exhausted(attempts); got != want {
			t.Errorf("%d attempts: %v", attempts, got)
		}
	}
	if b.Attempts = 1; !b.Exhausted(1) {
		t.Error("one attempt is followed by another")
	}
}

func ExampleBackoff() {
	var backoff control.Backoff // 3 attempts, from 200 ms
	failed := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for attempt := 1; !backoff.Exhausted(attempt); attempt++ {
		due := failed.Add(backoff.Delay("fraud:0:17:0", attempt))
		fmt.Println(attempt, due.Sub(failed) <= 200*time.Millisecond<<(attempt-1))
	}
	// Output:
	// 1 true
	// 2 true
}
