package observe_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/stream"
)

// TestWaitingForATurnIsAPhase has copies that were appended 30 ms before they are computed. Of that
// the first waited 20 ms for its turn. The second is of a pipeline's output: its append is not known.
func TestWaitingForATurnIsAPhase(t *testing.T) {
	m := observe.NewMetrics(1)
	m.SetOrdered()
	b, err := observe.NewBudget(25*ms, [6]time.Duration{observe.Queue: 11 * ms}, m.Phases())
	if err != nil {
		t.Fatal(err)
	}
	m.SetBudget(b)
	var spans []observe.Span
	m.SetTracer(&observe.Tracer{Pipeline: "shops", Share: 1, Add: func(more []observe.Span) { spans = append(spans, more...) }})
	start := time.Unix(1000, 0)
	var way observe.Way
	way.Chunk(m.Member(0), observe.Timing{Begun: start, Feature: ms, Made: start.Add(ms)}, 2)
	for i, turn := range []observe.Turn{
		{Ordered: true, Appended: start.Add(-30 * ms).UnixMicro(), Waited: 20 * ms, For: "payments/3"},
		{Ordered: true, Waited: 2 * ms},
	} {
		r := stream.Record{Partition: stream.Partition{Topic: "shops.repartition"}, Offset: stream.Offset(i), Time: start.Add(-time.Hour), Headers: []stream.Header{{Key: header.Source}}}
		way.Event(m.Member(0), &r, turn)
	}
	way.Commit(m.Member(0), start.Add(3*ms))
	spent, got := m.Spent(), []string{}
	for _, h := range spent.By {
		got = append(got, fmt.Sprint(h.Phase, " ", m.Phase(h.Phase).Count, " ", m.Phase(h.Phase).Sum, " ", h.Missed))
	}
	want := []string{"queue 1 10ms 0", "order 2 22ms 1", "feature 2 2ms 0", "model 2 0s 0", "emit 2 0s 0", "commit 2 4ms 0"}
	if diff := cmp.Diff(want, got); diff != "" || m.Whole().Sum != 38*ms {
		t.Errorf("whole %v: %s", m.Whole().Sum, diff)
	}
	timing := m.Timings()[0]
	if diff := cmp.Diff(observe.Turns{{1, 20 * ms, "payments/3"}, {2, 2 * ms, ""}}, timing.Turns); diff != "" || !timing.Ordered {
		t.Error(diff)
	}
	got = nil
	for _, s := range spans {
		if s.Name == "queue" || s.Name == "order" {
			got = append(got, fmt.Sprint(s.Name, " ", s.Start.Sub(start), " to ", s.End.Sub(start), " ", s.Attributes))
		}
	}
	want = []string{"queue -30ms to -20ms []", "order -20ms to 0s [{afterbay.waited_for payments/3 0}]", "queue -2ms to -2ms []", "order -2ms to 0s []"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestTurnsAreKeptWithinTheirBound has more events that waited alone than a member keeps, in chunks
// of a thousand, and one that went through the queue.
func TestTurnsAreKeptWithinTheirBound(t *testing.T) {
	m := observe.NewMetrics(1)
	const chunks, each = observe.TurnsMax/750 + 5, 1000
	for chunk := range chunks {
		var way observe.Way
		way.Chunk(m.Member(0), observe.Timing{Begun: time.Unix(1000, 0)}, each)
		for i := range each {
			r := stream.Record{Offset: stream.Offset(chunk*each + i)}
			way.Event(m.Member(0), &r, observe.Turn{Ordered: true, Waited: time.Duration(i / 2 * 2), For: fmt.Sprint("payments/", i%2*(i/500))})
		}
		way.Commit(m.Member(0), time.Unix(1001, int64(chunk)))
	}
	var way observe.Way
	way.Chunk(m.Member(0), observe.Timing{Begun: time.Unix(1000, 0)}, 0)
	way.Queued(m.Member(0), &stream.Record{Offset: chunks * each}, observe.Turn{Ordered: true}, time.Unix(999, 0))
	way.Commit(m.Member(0), time.Unix(1002, 0))
	kept, all := 0, m.Timings()
	for i, p := range all {
		kept += len(p.Turns)
		if known := i >= len(all)-1-observe.TurnsMax/750 && i < len(all)-1; (p.Turns != nil) != known || !p.Ordered {
			t.Errorf("timing %d of %d has %d turns", i, len(all), len(p.Turns))
		}
	}
	if kept > observe.TurnsMax || kept < observe.TurnsMax-750 {
		t.Errorf("%d turns are kept", kept)
	}
	newest := all[len(all)-2]
	if w, known := newest.Turns.At(newest.First + 999); !known || w.Order != 998 || w.For != "payments/1" {
		t.Errorf("%+v, %v", w, known)
	}
	if w, known := newest.Turns.At(newest.First + 1); !known || w.Order != 0 || w.Next != newest.First+2 {
		t.Errorf("%+v, %v", w, known)
	}
	if _, known := newest.Turns.At(newest.Next); known {
		t.Error("an event of another chunk is known")
	}
}
