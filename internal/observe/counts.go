package observe

import (
	"encoding/json"
	"sync/atomic"
)

// Counts is what a task has done since it was made; each field only grows. An
// event is counted when its transaction is durable. Names in JSON are those of metrics
// without "afterbay_" and "_total".
type Counts struct {
	Events      uint64 `json:"events"`
	Outputs     uint64 `json:"outputs"`
	DeadLetters uint64 `json:"dead_letters"`
	Late        uint64 `json:"late_events"`
	Forced      uint64 `json:"order_forced"`         // events that were copied after their turn in the order of several partitions
	Spilled     uint64 `json:"order_spilled_events"` // that waited for their turn in that order and became state
	Dropped     uint64 `json:"dropped_events"`
	Duplicates  uint64 `json:"duplicate_events"`
	Approximate uint64 `json:"approximate_outputs"` // made from windows beyond their max
	Steps       uint64 `json:"commits"`
	Assigned    uint64 `json:"partitions_assigned"`
	Rejoined    uint64 `json:"members_rejoined"`
	Timers      uint64 `json:"timers_fired"`
	ModelCounts
	KeyLoads     uint64 `json:"key_loads"`     // keys decoded from the committed state
	KeyEvictions uint64 `json:"key_evictions"` // decoded keys that left memory because it was full

	TableLateRows     uint64 `json:"table_late_rows"`     // rows that came later than an event waits for them
	TableBadRows      uint64 `json:"table_bad_rows"`      // records of tables whose envelope or key cannot be read
	TableVersionsLost uint64 `json:"table_versions_lost"` // blocks of versions that were removed because their row has too many
	QueueCounts
}

// ModelCounts are the calls of models, and the elements of lists, most of which are scored.
type ModelCounts struct {
	Elements    uint64 `json:"each_elements"` // for which the steps of an each were done
	ModelCalls  uint64 `json:"model_calls"`
	ModelRows   uint64 `json:"model_rows"`
	ModelFull   uint64 `json:"model_batches_full"`   // batches that were called because they were full,
	ModelIdle   uint64 `json:"model_batches_idle"`   // because no more rows were waiting,
	ModelWaited uint64 `json:"model_batches_waited"` // because the first row had waited,
	ModelDue    uint64 `json:"model_batches_due"`    // because a deadline was near
}

// QueueCounts are what the async queue has done.
type QueueCounts struct {
	Enqueued         uint64  `json:"async_queue_enqueued"`
	Retries          uint64  `json:"async_queue_retries"`
	Switches         uint64  `json:"throttle_switches"` // between reading and not, for the length of the queue
	ThrottledSeconds float64 `json:"throttled_seconds"` // that members did not read for it

	Dispatched  ByPriority[uint64]  `json:"async_queue_dispatched"`   // events for which a call started
	WaitSeconds ByPriority[float64] `json:"async_queue_wait_seconds"` // that they waited for it
}

// Counters are the Counts of one member, while it counts.
type Counters struct {
	Events, Outputs, DeadLetters, Late, Forced, Dropped, Duplicates atomic.Uint64
	Approximate, Spilled                                            atomic.Uint64
	Steps, Assigned, Rejoined, Timers                               atomic.Uint64
	KeyLoads, KeyEvictions                                          atomic.Uint64
	TableLateRows, TableBadRows, TableVersionsLost                  atomic.Uint64
	ModelCounters
	QueueCounters
}

// ModelCounters are the ModelCounts of one member. Batches that members share are counted by the model.
type ModelCounters struct {
	ModelCalls, ModelRows atomic.Uint64
	Elements              atomic.Uint64
	ModelFull, ModelIdle  atomic.Uint64
}

// QueueCounters are the QueueCounts of one member.
type QueueCounters struct {
	Enqueued, Retries         atomic.Uint64
	Switches, ThrottledMicros atomic.Uint64
	Dispatched, WaitMicros    [3]atomic.Uint64 // by priority
}

func (s *Counters) addTo(c *Counts) {
	c.Events += s.Events.Load()
	c.Outputs += s.Outputs.Load()
	c.DeadLetters += s.DeadLetters.Load()
	c.Late += s.Late.Load()
	c.Forced += s.Forced.Load()
	c.Spilled += s.Spilled.Load()
	c.Dropped += s.Dropped.Load()
	c.Duplicates += s.Duplicates.Load()
	c.Approximate += s.Approximate.Load()
	c.Steps += s.Steps.Load()
	c.Assigned += s.Assigned.Load()
	c.Rejoined += s.Rejoined.Load()
	c.Timers += s.Timers.Load()
	c.KeyLoads += s.KeyLoads.Load()
	c.KeyEvictions += s.KeyEvictions.Load()
	c.TableLateRows += s.TableLateRows.Load()
	c.TableBadRows += s.TableBadRows.Load()
	c.TableVersionsLost += s.TableVersionsLost.Load()
	s.ModelCounters.addTo(&c.ModelCounts)
	s.QueueCounters.addTo(&c.QueueCounts)
}

func (s *ModelCounters) addTo(c *ModelCounts) {
	c.Elements += s.Elements.Load()
	c.ModelCalls += s.ModelCalls.Load()
	c.ModelRows += s.ModelRows.Load()
	c.ModelFull += s.ModelFull.Load()
	c.ModelIdle += s.ModelIdle.Load()
}

func (s *QueueCounters) addTo(c *QueueCounts) {
	c.Enqueued += s.Enqueued.Load()
	c.Retries += s.Retries.Load()
	c.Switches += s.Switches.Load()
	c.ThrottledSeconds += float64(s.ThrottledMicros.Load()) / 1e6
	for class := range s.Dispatched {
		c.Dispatched[class] += s.Dispatched[class].Load()
		c.WaitSeconds[class] += float64(s.WaitMicros[class].Load()) / 1e6
	}
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
