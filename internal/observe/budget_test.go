package observe_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/stream"
)

const ms = time.Millisecond

func TestPhasesWithoutAShareHaveEqualPartsOfTheRest(t *testing.T) {
	type shares = [6]time.Duration // queue, order, feature, model, emit, commit
	for _, c := range []struct {
		p99          time.Duration
		shares, want shares
		ordered      bool
		wrong        string
	}{
		{p99: 50 * ms, want: shares{10 * ms, 0, 10 * ms, 10 * ms, 10 * ms, 10 * ms}},
		{p99: 60 * ms, ordered: true, want: shares{10 * ms, 10 * ms, 10 * ms, 10 * ms, 10 * ms, 10 * ms}},
		{p99: 60 * ms, ordered: true, shares: shares{0, 20 * ms}, want: shares{8 * ms, 20 * ms, 8 * ms, 8 * ms, 8 * ms, 8 * ms}},
		{p99: 50 * ms, shares: shares{0, 0, 5 * ms, 25 * ms}, want: shares{20 * ms / 3, 0, 5 * ms, 25 * ms, 20 * ms / 3, 20 * ms / 3}},
		{p99: 50 * ms, shares: shares{ms, 0, ms, ms, ms, ms}, want: shares{ms, 0, ms, ms, ms, ms}},
		{p99: 50 * ms, shares: shares{10 * ms, 0, 10 * ms, 10 * ms, 10 * ms, 10 * ms}, want: shares{10 * ms, 0, 10 * ms, 10 * ms, 10 * ms, 10 * ms}},
		{p99: 50 * ms, shares: shares{51 * ms}, wrong: "more than the p99"},
		{p99: 50 * ms, shares: shares{50 * ms}, wrong: "for feature, model, emit, commit"},
		{p99: 50 * ms, ordered: true, shares: shares{50 * ms}, wrong: "for order, feature, model, emit, commit"},
		{},
	} {
		b, err := observe.NewBudget(c.p99, c.shares, observe.PhasesOf(c.ordered))
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%v of %v: %v", c.shares, c.p99, err)
		}
		if b.Phases != c.want {
			t.Errorf("%v of %v: %v, want %v", c.shares, c.p99, b.Phases, c.want)
		}
	}
}

// TestMissIsOfThePhaseThatTookTheMostBeyondItsShare takes events through a member
// by hand: each is one of offsets 0, 1, ...
func TestMissIsOfThePhaseThatTookTheMostBeyondItsShare(t *testing.T) {
	m := observe.NewMetrics(1)
	b, err := observe.NewBudget(50*ms, [6]time.Duration{observe.Queue: 10 * ms, observe.Feature: 5 * ms, observe.Model: 25 * ms, observe.Emit: 5 * ms, observe.Commit: 5 * ms}, observe.PhasesOf(false))
	if err != nil {
		t.Fatal(err)
	}
	m.SetBudget(b)
	s := m.Member(0)
	start := time.Unix(1000, 0)
	var way observe.Way
	step := func(feature, model, emit, commit time.Duration, queues ...time.Duration) {
		made := start.Add(feature + model + emit)
		way.Chunk(s, observe.Timing{Begun: start, Feature: feature, Model: model, Emit: emit, Made: made}, len(queues))
		for i, queue := range queues {
			r := stream.Record{Partition: stream.Partition{Topic: "in", Index: int32(i % 2)}, Offset: stream.Offset(i), Time: start.Add(-queue)}
			if queue < 0 {
				r.Headers = []stream.Header{{Key: header.Position}} // a pipeline wrote it
			}
			way.Event(s, &r, observe.Turn{})
		}
		way.Commit(s, made.Add(commit))
		way = way.Emptied()
	}
	step(5*ms, 25*ms, 5*ms, 5*ms, 10*ms)               // just within
	step(5*ms, 25*ms, 5*ms, 5*ms, 11*ms, 10*ms)        // one over: its queue
	step(ms, 45*ms, ms, 2*ms, 2*ms, -1, 40*ms, 100*ms) // model; unknown, and so within; queue, queue
	step(ms, ms, ms, 60*ms, ms, ms, ms)                // the commit, thrice
	spent := m.Spent()
	missed := map[string]uint64{}
	for _, h := range spent.By {
		missed[h.String()] = h.Missed
	}
	want := map[string]uint64{"queue": 3, "feature": 0, "model": 1, "emit": 0, "commit": 3}
	if diff := cmp.Diff(want, missed); diff != "" || spent.Missed() != 7 || spent.Events != 10 {
		t.Errorf("%d of %d events missed (-want +got):\n%s", spent.Missed(), spent.Events, diff)
	}
	if worst, ok := spent.Worst(); !ok || worst.Missed != 3 {
		t.Errorf("the worst is %v", worst)
	}
	near := func(got, want time.Duration) bool { return got >= want && got <= want+want/16 }
	if !near(spent.Whole.P99, 149*ms) || !near(spent.By[4].P99, 60*ms) || spent.By[4].Share != 5*ms {
		t.Errorf("whole %v, commit %v", spent.Whole, spent.By[4])
	}
	if bound := spent.Bound(); !near(bound, (100+5+45+5+60)*ms) {
		t.Errorf("bound %v", bound)
	}
	all := m.Timings()
	p := all[slices.IndexFunc(all, func(p observe.Timing) bool { return p.Has("in", 1, 1) })]
	if p.First != 1 || p.Next != 2 || !p.Begun.Equal(start) {
		t.Errorf("timing %+v", p)
	}
}

func ExampleMetrics_Spent() {
	m := observe.NewMetrics(1)
	b, _ := observe.NewBudget(50*time.Millisecond, [6]time.Duration{observe.Model: 30 * time.Millisecond}, observe.PhasesOf(false))
	m.SetBudget(b)
	start := time.Now()
	var way observe.Way
	way.Chunk(m.Member(0), observe.Timing{Begun: start, Model: 60 * time.Millisecond, Made: start.Add(60 * time.Millisecond)}, 1)
	way.Event(m.Member(0), &stream.Record{Partition: stream.Partition{Topic: "payments"}, Offset: 17, Time: start.Add(-2 * time.Millisecond)}, observe.Turn{})
	way.Commit(m.Member(0), start.Add(64*time.Millisecond))
	spent := m.Spent()
	worst, _ := spent.Worst()
	fmt.Println(spent.Missed(), "of", spent.Events, "events missed, most of them by", worst.Phase, "whose share is", worst.Share)
	// Output: 1 of 1 events missed, most of them by model whose share is 30ms
}
