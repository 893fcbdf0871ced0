package observe_test

import (
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/stream"
)

// TestEventsThatWaitedAlikeAreEachCounted has two chunks of three events in a step,
// the second of which is too slow.
func TestEventsThatWaitedAlikeAreEachCounted(t *testing.T) {
	m := observe.NewMetrics(1)
	b, err := observe.NewBudget(20*ms, [6]time.Duration{}, observe.PhasesOf(false))
	if err != nil {
		t.Fatal(err)
	}
	m.SetBudget(b)
	m.SetCases([]string{"chat", "call"}, nil)
	s := m.Member(0)
	start := time.Unix(1000, 0)
	var way observe.Way
	for round := range 2 {
		for chunk, feature := range []time.Duration{ms, 30 * ms} {
			made := start.Add(feature)
			way.Chunk(s, observe.Timing{Begun: start.Add(-time.Duration(chunk) * 40 * ms), Feature: feature, Made: made}, 3)
			for i := range 3 {
				r := stream.Record{Partition: stream.Partition{Topic: "in"}, Offset: stream.Offset(3*chunk + i), Time: start.Add(-time.Duration(chunk)*40*ms - 2*ms)}
				way.Case = i * chunk // none, or of the second chunk 0, 1 and 2
				way.Event(s, &r, observe.Turn{})
			}
		}
		way.Commit(s, start.Add(5*ms))
		way = way.Emptied()
		whole, spent := m.Whole(), m.Spent()
		n := uint64(round + 1)
		for i, name := range m.Cases() {
			if c := m.Case(i); c.Count != n || c.Sum != time.Duration(n)*47*ms {
				t.Errorf("%d events of %s took %v", c.Count, name, c.Sum)
			}
		}
		// 2 ms of queue, and 5 ms or 45 ms until the commit.
		if want := time.Duration(n) * 3 * (7 + 47) * ms; whole.Count != 6*n || whole.Sum != want || spent.Missed() != 3*n || m.Phase(observe.Queue).Sum != time.Duration(n)*12*ms {
			t.Errorf("%d events took %v, want %v, %d missed, queue %v", whole.Count, whole.Sum, want, spent.Missed(), m.Phase(observe.Queue).Sum)
		}
	}
}

// TestCaseWithALimitIsComparedWithItAlone has chats keep the budget, calls a limit of
// their own above it, and images one below it.
func TestCaseWithALimitIsComparedWithItAlone(t *testing.T) {
	m := observe.NewMetrics(1)
	b, err := observe.NewBudget(20*ms, [6]time.Duration{}, observe.PhasesOf(false))
	if err != nil {
		t.Fatal(err)
	}
	m.SetBudget(b)
	m.SetCases([]string{"chat", "call", "image"}, []time.Duration{0, 100 * ms, 5 * ms})
	s, start := m.Member(0), time.Unix(1000, 0)
	var way observe.Way
	for _, took := range []time.Duration{10 * ms, 50 * ms, 200 * ms} {
		way.Chunk(s, observe.Timing{Begun: start, Made: start}, 4)
		for i := range 4 {
			way.Case = i
			way.Event(s, &stream.Record{Partition: stream.Partition{Topic: "in"}, Offset: stream.Offset(i), Time: start}, observe.Turn{})
		}
		way.Commit(s, start.Add(took))
		way = way.Emptied()
	}
	type caseMissed struct {
		limit  time.Duration
		missed uint64
	}
	for i, want := range []caseMissed{{0, 0}, {100 * ms, 1}, {5 * ms, 3}} {
		if limit, missed := m.CaseMissed(i); (caseMissed{limit, missed}) != want {
			t.Errorf("case %d: %d events missed %v, want %+v", i, missed, limit, want)
		}
	}
	if spent := m.Spent(); spent.Missed() != 4 || spent.Own != 6 || spent.Events != 12 { // of no case and of chat, twice
		t.Errorf("%d of %d events missed the budget, %d have their own", spent.Missed(), spent.Events, spent.Own)
	}
}

// BenchmarkWay is what the phases of an event cost, in steps of 1,024.
func BenchmarkWay(b *testing.B) {
	const events = 1024
	s := observe.NewMetrics(1).Member(0)
	start := time.Unix(1000, 0)
	records := make([]stream.Record, events)
	for i := range records {
		records[i] = stream.Record{
			Partition: stream.Partition{Topic: "in", Index: int32(i / 256)}, Offset: stream.Offset(i), Time: start.Add(time.Duration(i) * -10 * time.Microsecond),
		}
	}
	var way observe.Way
	b.ReportAllocs()
	for n := 0; n < b.N; n += events {
		way.Chunk(s, observe.Timing{Begun: start, Feature: time.Millisecond, Made: start.Add(time.Millisecond)}, events)
		for i := range records {
			way.Event(s, &records[i], observe.Turn{})
		}
		way.Commit(s, start.Add(3*time.Millisecond))
		way = way.Emptied()
	}
}
