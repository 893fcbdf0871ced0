package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
)

// TestCallsHaveThePlacesThatAreThere asks chat servers of 64 places, of 4 that refuse
// more calls with 429, and of 4 that let more calls wait without a word.
func TestCallsHaveThePlacesThatAreThere(t *testing.T) {
	t.Parallel() // it waits more than it computes
	const concurrency = 64
	var figures []string
	run := func(t *testing.T, s *chatStub, short, long int) (calls int) {
		t.Helper()
		n := short
		if *callsTimed {
			n = long
		}
		p := chatPipeline(t, s.start(t), lang.Calling{Timeout: 20 * time.Second, Attempts: 20, Concurrency: concurrency}, steps.Score{Async: true})
		answer := runChats(t, s, p, poisoned(n))
		if outputs, dead := len(answer.Values("out")), len(answer.Values("chats.dlq")); outputs != n || dead != 0 || s.most > concurrency {
			t.Fatalf("%d outputs of %d, %d dead letters, %d calls at a time", outputs, n, dead, s.most)
		}
		for _, times := range s.asked {
			calls += times
		}
		t.Logf("%d questions: %d calls, %d at a time, by code %v", n, calls, s.most, s.codes)
		return calls
	}
	figure := func(t *testing.T, name string, value float64, unit string, fine bool) {
		figures = append(figures, fmt.Sprintf("slots.%s %.1f %s", name, value, unit))
		if *callsTimed && !fine {
			t.Errorf("%s: %.1f %s", name, value, unit)
		}
	}
	t.Run("idle", func(t *testing.T) {
		s := &chatStub{takes: 800 * time.Millisecond, slots: concurrency, queues: true}
		run(t, s, 1, 64)
		took := spanOf(s.spans)
		figure(t, "idle.first-64", took.Seconds(), "s", took < 2400*time.Millisecond)
	})
	t.Run("busy", func(t *testing.T) {
		s := &chatStub{takes: 800 * time.Millisecond, slots: concurrency, queues: true}
		if run(t, s, 1, 20*concurrency); *callsTimed {
			used := usedFromSecondGeneration(s.spans, concurrency)
			figure(t, "busy.used", 100*used, "%", used >= 0.9)
		}
	})
	t.Run("refuses", func(t *testing.T) {
		s := &chatStub{takes: 100 * time.Millisecond, slots: 4}
		calls := run(t, s, 20, 170)
		refused := float64(calls-len(s.asked)) / float64(calls)
		figure(t, "refuses.refused", 100*refused, "%", refused <= 0.1)
	})
	t.Run("queues", func(t *testing.T) {
		s := &chatStub{takes: 100 * time.Millisecond, slots: 4, queues: true}
		run(t, s, 20, 1200)
		flying := mostOfLastHalf(s.spans)
		figure(t, "queues.in-flight", float64(flying), "calls", flying <= 8)
	})
	if *callsTimed {
		fmt.Fprintln(t.Output(), strings.Join(figures, "\n"))
	}
}

// spanOf returns the time from the first beginning to the last end.
func spanOf(spans []span) time.Duration {
	from, to := spans[0].from, spans[0].to
	for _, s := range spans {
		if s.from.Before(from) {
			from = s.from
		}
		if s.to.After(to) {
			to = s.to
		}
	}
	return to.Sub(from)
}

// usedFromSecondGeneration returns the share of slots that calls have from the first
// answer to the last beginning.
func usedFromSecondGeneration(spans []span, slots int) float64 {
	from, to := spans[0].to, spans[0].from // spans are in the order of their ends
	for _, s := range spans {
		if s.from.After(to) {
			to = s.from
		}
	}
	used := time.Duration(0)
	for _, s := range spans {
		began, ended := s.from, s.to
		if began.Before(from) {
			began = from
		}
		if ended.After(to) {
			ended = to
		}
		used += max(ended.Sub(began), 0)
	}
	return float64(used) / float64(to.Sub(from)) / float64(slots)
}

// mostOfLastHalf returns the most calls at a time, of those that began last.
func mostOfLastHalf(spans []span) (most int) {
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	for i := len(spans) / 2; i < len(spans); i++ {
		flying := 0
		for _, s := range spans[:i+1] {
			if s.to.After(spans[i].from) {
				flying++
			}
		}
		most = max(most, flying)
	}
	return most
}
