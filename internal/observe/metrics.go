package observe

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Member is what one member of a task counts, holds and measures. It has one writer.
type Member struct {
	Counters
	Gauges

	Generations sync.Map // partition (int32) that the member has -> number of its generation (uint64)

	Latency Latency
	Trace   Trace
	cases   []caseMember // by the case of a route that events took

	Budget Budget                    // of each event, set before there are any
	Missed [phaseCount]atomic.Uint64 // events over it, by the culprit
	Tracer *Tracer                   // makes spans of events; nil is none
}

// caseMember is what events took that took a case of a route.
type caseMember struct {
	whole  Histogram
	limit  time.Duration // set before there are events; 0 is the budget's
	missed atomic.Uint64 // events over the limit
}

// Metrics are the counters and latencies of a task. They may be read at any
// time.
type Metrics struct {
	members []*Member
	cases   []string
	ordered bool
}

// NewMetrics returns metrics for a number of members, all zero.
func NewMetrics(members int) *Metrics {
	m := &Metrics{}
	for range members {
		m.members = append(m.members, &Member{})
	}
	return m
}

// Member returns what member i counts.
func (m *Metrics) Member(i int) *Member { return m.members[i] }

// SetOrdered says that events wait for their turn in the order of several source partitions. It is
// called before the task runs.
func (m *Metrics) SetOrdered() { m.ordered = true }

// Phases lists the phases that events have.
func (m *Metrics) Phases() []Phase { return PhasesOf(m.ordered) }

// Counts adds up the members.
func (m *Metrics) Counts() Counts {
	var c Counts
	for _, s := range m.members {
		s.addTo(&c)
	}
	return c
}

// SetCases measures events apart by the case of a route that they take, see
// Way.Case. Those of a case with a limit are compared with it, and not with the
// budget. It is called before the task runs.
func (m *Metrics) SetCases(names []string, limits []time.Duration) {
	m.cases = names
	for _, s := range m.members {
		s.cases = make([]caseMember, len(names))
		for i, limit := range limits {
			s.cases[i].limit = limit
		}
	}
}

// Cases are the names of SetCases.
func (m *Metrics) Cases() []string { return m.cases }

// Case adds up the times of events that took the case of an index, as Whole.
func (m *Metrics) Case(i int) *Snapshot {
	var sum Snapshot
	for _, s := range m.members {
		sum.Add(&s.cases[i].whole)
	}
	return &sum
}

// CaseMissed returns the limit of the case of an index, and how many of its events
// took longer; 0 is none.
func (m *Metrics) CaseMissed(i int) (limit time.Duration, missed uint64) {
	for _, s := range m.members {
		limit = s.cases[i].limit
		missed += s.cases[i].missed.Load()
	}
	return limit, missed
}

// Phase adds up the latencies of one phase over the members.
func (m *Metrics) Phase(phase Phase) *Snapshot {
	var sum Snapshot
	for _, s := range m.members {
		sum.Add(s.Latency.Phase(phase))
	}
	return &sum
}

// Generations returns the number of the generation of each partition that the
// members have.
func (m *Metrics) Generations() map[int32]uint64 {
	all := map[int32]uint64{}
	for _, s := range m.members {
		s.Generations.Range(func(partition, number any) bool {
			all[partition.(int32)] = number.(uint64)
			return true
		})
	}
	return all
}

// Timings returns the newest timings of all members, by their commit.
func (m *Metrics) Timings() []Timing {
	var list []Timing
	for _, s := range m.members {
		list = append(list, s.Trace.all()...)
	}
	slices.SortStableFunc(list, func(a, b Timing) int { return a.Committed.Compare(b.Committed) })
	return list
}
