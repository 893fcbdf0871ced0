package task

import (
	"sync/atomic"

	"github.com/afterbay/afterbay/observe"
)

// Counts is what a task has done since it was made; each field only grows. An
// event is counted when its step is durable.
type Counts struct {
	Events, Outputs, DeadLetters, Late, Dropped, Steps, Rejoined uint64
	ModelCalls, ModelRows                                        uint64
}

type sessionMetrics struct {
	Events, Outputs, DeadLetters, Late, Dropped, Steps, Rejoined atomic.Uint64
	ModelCalls, ModelRows                                        atomic.Uint64
	latency                                                      observe.Latency
}

// Metrics are the counters and latencies of a task. They may be read at any
// time.
type Metrics struct{ sessions []*sessionMetrics }

// NewMetrics returns metrics for a number of sessions, all zero.
func NewMetrics(sessions int) *Metrics {
	m := &Metrics{}
	for range sessions {
		m.sessions = append(m.sessions, &sessionMetrics{})
	}
	return m
}

// Counts adds up the sessions.
func (m *Metrics) Counts() Counts {
	var c Counts
	for _, s := range m.sessions {
		c.Events += s.Events.Load()
		c.Outputs += s.Outputs.Load()
		c.DeadLetters += s.DeadLetters.Load()
		c.Late += s.Late.Load()
		c.Dropped += s.Dropped.Load()
		c.Steps += s.Steps.Load()
		c.Rejoined += s.Rejoined.Load()
		c.ModelCalls += s.ModelCalls.Load()
		c.ModelRows += s.ModelRows.Load()
	}
	return c
}

// Hop adds up the latencies of one hop over the sessions.
func (m *Metrics) Hop(hop observe.Hop) *observe.Snapshot {
	var sum observe.Snapshot
	for _, s := range m.sessions {
		sum.Add(s.latency.Hop(hop))
	}
	return &sum
}
