package observe

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Member holds the counts, gauges and latencies of one member of a task. It has one writer.
type Member struct {
	Counters
	Gauges

	Generations sync.Map // partition of the member (int32) -> number of its generation (uint64)

	Latency Latency
	Trace   Trace
	cases   []caseMember // by route case

	Budget Budget                    // for each event; set before the first one
	Missed [phaseCount]atomic.Uint64 // events over the budget, by culprit
	Tracer *Tracer                   // makes spans of events; nil makes none
}

// caseMember holds the times of events that took one case of a route.
type caseMember struct {
	whole  Histogram
	limit  time.Duration // set before the first event; 0 uses the budget
	missed atomic.Uint64 // events over the limit
}

// Metrics are the counters and latencies of a task. They can be read at any time.
type Metrics struct {
	members []*Member
	cases   []string
	ordered bool
}

// NewMetrics returns metrics for a number of members. All values are zero.
func NewMetrics(members int) *Metrics {
	m := &Metrics{}
	for range members {
		m.members = append(m.members, &Member{})
	}
	return m
}

// Member returns the metrics of member i.
func (m *Metrics) Member(i int) *Member { return m.members[i] }

// SetOrdered declares that events wait for their turn in the time order of several source
// partitions. Call it before the task runs.
func (m *Metrics) SetOrdered() { m.ordered = true }

// Phases lists the phases of the task's events.
func (m *Metrics) Phases() []Phase { return PhasesOf(m.ordered) }

// Counts returns the sum over all members.
func (m *Metrics) Counts() Counts {
	var c Counts
	for _, s := range m.members {
		s.addTo(&c)
	}
	return c
}

// SetCases turns on separate measurements for the cases of a route; see Way.Case. Events of a case
// with a limit are compared with that limit instead of the budget. Call it before the task runs.
func (m *Metrics) SetCases(names []string, limits []time.Duration) {
	m.cases = names
	for _, s := range m.members {
		s.cases = make([]caseMember, len(names))
		for i, limit := range limits {
			s.cases[i].limit = limit
		}
	}
}

// Cases returns the names given to SetCases.
func (m *Metrics) Cases() []string { return m.cases }

// Case returns the distribution of the time of events that took case i, measured as in Whole.
func (m *Metrics) Case(i int) *Snapshot {
	var sum Snapshot
	for _, s := range m.members {
		sum.Add(&s.cases[i].whole)
	}
	return &sum
}

// CaseMissed returns the limit of case i, and how many of its events took longer. A limit of 0
// means that the case has none.
func (m *Metrics) CaseMissed(i int) (limit time.Duration, missed uint64) {
	for _, s := range m.members {
		limit = s.cases[i].limit
		missed += s.cases[i].missed.Load()
	}
	return limit, missed
}

// Phase returns the latencies of one phase, summed over the members.
func (m *Metrics) Phase(phase Phase) *Snapshot {
	var sum Snapshot
	for _, s := range m.members {
		sum.Add(s.Latency.Phase(phase))
	}
	return &sum
}

// Generations returns the generation number of each partition that the members have.
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

// Timings returns the newest timings of all members, in the order of their commit.
func (m *Metrics) Timings() []Timing {
	var list []Timing
	for _, s := range m.members {
		list = append(list, s.Trace.all()...)
	}
	slices.SortStableFunc(list, func(a, b Timing) int { return a.Committed.Compare(b.Committed) })
	return list
}
