package observe

import (
	"slices"
	"sync/atomic"
)

// Counts is what a task has done since it was made; each field only grows. An
// event is counted when its step is durable.
type Counts struct {
	Events, Outputs, DeadLetters, Late, Dropped, Duplicates uint64
	Approximate                                             uint64 // outputs made from windows beyond their max
	Steps, Assigned, Rejoined, Timers                       uint64
	ModelCalls, ModelRows                                   uint64
	KeyLoads, KeyEvictions                                  uint64 // keys decoded from the committed state, and forgotten for want of room
}

// Session is what one session of a task counts. It has one writer.
type Session struct {
	Events, Outputs, DeadLetters, Late, Dropped, Duplicates atomic.Uint64
	Approximate                                             atomic.Uint64
	Steps, Assigned, Rejoined, Timers                       atomic.Uint64
	ModelCalls, ModelRows                                   atomic.Uint64
	KeyLoads, KeyEvictions                                  atomic.Uint64
	Keys, KeyBytes, DueBytes                                atomic.Int64 // see Memory

	Latency Latency
	Trace   Trace
}

func (s *Session) addTo(c *Counts) {
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
	c.KeyLoads += s.KeyLoads.Load()
	c.KeyEvictions += s.KeyEvictions.Load()
}

// Metrics are the counters and latencies of a task. They may be read at any
// time.
type Metrics struct{ sessions []*Session }

// NewMetrics returns metrics for a number of sessions, all zero.
func NewMetrics(sessions int) *Metrics {
	m := &Metrics{}
	for range sessions {
		m.sessions = append(m.sessions, &Session{})
	}
	return m
}

// Session returns what session i counts.
func (m *Metrics) Session(i int) *Session { return m.sessions[i] }

// Counts adds up the sessions.
func (m *Metrics) Counts() Counts {
	var c Counts
	for _, s := range m.sessions {
		s.addTo(&c)
	}
	return c
}

// Memory is what a task keeps in memory of keys, beside what the log does, as
// of its newest commit.
type Memory struct {
	Keys, KeyBytes int64 // decoded keys
	DueBytes       int64 // when keys fall silent and timers are due
}

// Memory adds up the sessions.
func (m *Metrics) Memory() Memory {
	var sum Memory
	for _, s := range m.sessions {
		sum.Keys += s.Keys.Load()
		sum.KeyBytes += s.KeyBytes.Load()
		sum.DueBytes += s.DueBytes.Load()
	}
	return sum
}

// Hop adds up the latencies of one hop over the sessions.
func (m *Metrics) Hop(hop Hop) *Snapshot {
	var sum Snapshot
	for _, s := range m.sessions {
		sum.Add(s.Latency.Hop(hop))
	}
	return &sum
}

// Find returns the times of an event, where it is among the newest that a
// session still has.
func (m *Metrics) Find(topic string, partition int32, offset int64) (Passage, bool) {
	for _, s := range m.sessions {
		if p, ok := s.Trace.find(topic, partition, offset); ok {
			return p, true
		}
	}
	return Passage{}, false
}

// Passages returns the newest passages of all sessions, by their commit.
func (m *Metrics) Passages() []Passage {
	var list []Passage
	for _, s := range m.sessions {
		list = append(list, s.Trace.all()...)
	}
	slices.SortStableFunc(list, func(a, b Passage) int { return a.Committed.Compare(b.Committed) })
	return list
}
