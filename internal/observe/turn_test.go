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
