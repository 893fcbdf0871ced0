package observe

import (
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Counts is what a task has done since it was made; each field only grows. An
// event is counted when its transaction is durable. Names in JSON are those of metrics
// without "afterbay_" and "_total".
type Counts struct {
	Events           uint64  `json:"events"`
	Outputs          uint64  `json:"outputs"`
	DeadLetters      uint64  `json:"dead_letters"`
	Late             uint64  `json:"late_events"`
	Dropped          uint64  `json:"dropped_events"`
	Duplicates       uint64  `json:"duplicate_events"`
	Approximate      uint64  `json:"approximate_outputs"` // made from windows beyond their max
	Steps            uint64  `json:"commits"`
	Assigned         uint64  `json:"partitions_assigned"`
	Rejoined         uint64  `json:"members_rejoined"`
	Timers           uint64  `json:"timers_fired"`
	ModelCalls       uint64  `json:"model_calls"`
	ModelRows        uint64  `json:"model_rows"`
	ModelFull        uint64  `json:"model_batches_full"`   // batches that were called because they were full,
	ModelIdle        uint64  `json:"model_batches_idle"`   // because no more rows were waiting,
	ModelWaited      uint64  `json:"model_batches_waited"` // because the first row had waited,
	ModelDue         uint64  `json:"model_batches_due"`    // because a deadline was near
	KeyLoads         uint64  `json:"key_loads"`            // keys decoded from the committed state
	KeyEvictions     uint64  `json:"key_evictions"`        // decoded keys that left memory because it was full
	Parkings         uint64  `json:"async_queue_enqueued"`
	Retries          uint64  `json:"async_queue_retries"`
	Switches         uint64  `json:"throttle_switches"` // between reading and not, for the length of the async queue
	ThrottledSeconds float64 `json:"throttled_seconds"` // that members did not read for it

	Turns       ByPriority[uint64]  `json:"async_queue_dispatched"`   // events for which a call started
	WaitSeconds ByPriority[float64] `json:"async_queue_wait_seconds"` // that they waited for it
}

// ByPriority are numbers of the priorities of events, high first. In JSON they have the
// names of the priorities.
type ByPriority[T uint64 | int64 | float64] [3]T

type named[T any] struct {
	High   T `json:"high"`
	Normal T `json:"normal"`
	Low    T `json:"low"`
}

// MarshalJSON implements json.Marshaler.
func (p ByPriority[T]) MarshalJSON() ([]byte, error) { return json.Marshal(named[T]{p[0], p[1], p[2]}) }

// UnmarshalJSON implements json.Unmarshaler.
func (p *ByPriority[T]) UnmarshalJSON(data []byte) error {
	var n named[T]
	err := json.Unmarshal(data, &n)
	*p = ByPriority[T]{n.High, n.Normal, n.Low}
	return err
}

// Member is what one member of a task counts. It has one writer.
type Member struct {
	Events, Outputs, DeadLetters, Late, Dropped, Duplicates atomic.Uint64
	Approximate                                             atomic.Uint64
	Steps, Assigned, Rejoined, Timers                       atomic.Uint64
	ModelCalls, ModelRows                                   atomic.Uint64
	ModelFull, ModelIdle                                    atomic.Uint64
	KeyLoads, KeyEvictions                                  atomic.Uint64
	Parkings, Retries                                       atomic.Uint64
	Switches, ThrottledMicros                               atomic.Uint64
	Turns, TurnMicros                                       [3]atomic.Uint64
	Due                                                     [3]atomic.Int64 // see Memory
	Parked, Throttled, Down                                 atomic.Int64    // see Memory
	Keys, KeyBytes, DueBytes                                atomic.Int64    // see Memory

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

func (s *Member) addTo(c *Counts) {
	c.Events += s.Events.Load()
	c.Outputs += s.Outputs.Load()
	c.DeadLetters += s.DeadLetters.Load()
	c.Late += s.Late.Load()
	c.Dropped += s.Dropped.Load()
	c.Duplicates += s.Duplicates.Load()
	c.Approximate += s.Approximate.Load()
	c.Steps += s.Steps.Load()
	c.Assigned += s.Assigned.Load()
	c.Rejoined += s.Rejoined.Load()
	c.Timers += s.Timers.Load()
	c.ModelCalls += s.ModelCalls.Load()
	c.ModelRows += s.ModelRows.Load()
	c.ModelFull += s.ModelFull.Load()
	c.ModelIdle += s.ModelIdle.Load()
	c.KeyLoads += s.KeyLoads.Load()
	c.KeyEvictions += s.KeyEvictions.Load()
	c.Parkings += s.Parkings.Load()
	c.Retries += s.Retries.Load()
	c.Switches += s.Switches.Load()
	c.ThrottledSeconds += float64(s.ThrottledMicros.Load()) / 1e6
	for class := range s.Turns {
		c.Turns[class] += s.Turns[class].Load()
		c.WaitSeconds[class] += float64(s.TurnMicros[class].Load()) / 1e6
	}
}

// Metrics are the counters and latencies of a task. They may be read at any
// time.
type Metrics struct {
	members []*Member
	cases   []string
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

// Counts adds up the members.
func (m *Metrics) Counts() Counts {
	var c Counts
	for _, s := range m.members {
		s.addTo(&c)
	}
	return c
}

// Memory is what a task keeps in memory of keys, beside what the log does, as
// of its newest commit. Names in JSON are those of metrics without "afterbay_".
type Memory struct {
	Keys          int64             `json:"keys"`      // decoded
	KeyBytes      int64             `json:"key_bytes"` // of them
	DueBytes      int64             `json:"expiry_bytes"`
	Queued        int64             `json:"async_queue_events"`
	Waiting       ByPriority[int64] `json:"async_queue_waiting_events"` // of these, those that no call has started for
	Throttled     int64             `json:"throttled_members"`          // that do not read for the length of the queue
	Down          int64             `json:"paused_members"`             // that do not read for an endpoint that is down
	ThrottledMost int64             `json:"-"`                          // microseconds that the member did not read that waited the longest
}

// Memory adds up the members.
func (m *Metrics) Memory() Memory {
	var sum Memory
	for _, s := range m.members {
		sum.Keys += s.Keys.Load()
		sum.KeyBytes += s.KeyBytes.Load()
		sum.DueBytes += s.DueBytes.Load()
		sum.Queued += s.Parked.Load()
		sum.Throttled += s.Throttled.Load()
		for class := range s.Due {
			sum.Waiting[class] += s.Due[class].Load()
		}
		sum.Down += s.Down.Load()
		sum.ThrottledMost = max(sum.ThrottledMost, int64(s.ThrottledMicros.Load()))
	}
	return sum
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

// Passages returns the newest passages of all members, by their commit.
func (m *Metrics) Passages() []Passage {
	var list []Passage
	for _, s := range m.members {
		list = append(list, s.Trace.all()...)
	}
	slices.SortStableFunc(list, func(a, b Passage) int { return a.Committed.Compare(b.Committed) })
	return list
}
