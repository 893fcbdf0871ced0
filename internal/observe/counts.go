package observe

import (
	"encoding/json"
	"sync/atomic"
)

// Counts are the totals of a task since its creation; each field only grows. An event is counted
// when its transaction is durable. The JSON names are those of the metrics without "afterbay_" and
// "_total".
type Counts struct {
	Events      uint64 `json:"events"`
	Outputs     uint64 `json:"outputs"`
	DeadLetters uint64 `json:"dead_letters"`
	Late        uint64 `json:"late_events"`
	Forced      uint64 `json:"order_forced"`         // events repartitioned after their turn in the time order of several partitions
	Spilled     uint64 `json:"order_spilled_events"` // events that waited for their turn and were moved to state
	Dropped     uint64 `json:"dropped_events"`
	Duplicates  uint64 `json:"duplicate_events"`
	Approximate uint64 `json:"approximate_outputs"` // outputs from windows that exceeded their max
	Steps       uint64 `json:"commits"`
	Assigned    uint64 `json:"partitions_assigned"`
	Rejoined    uint64 `json:"members_rejoined"`
	Timers      uint64 `json:"timers_fired"`
	ModelCounts
	KeyLoads     uint64 `json:"key_loads"`     // keys decoded from committed state
	KeyEvictions uint64 `json:"key_evictions"` // decoded keys evicted because memory was full

	TableLateRows     uint64 `json:"table_late_rows"`     // rows that arrived later than events wait for them
	TableBadRows      uint64 `json:"table_bad_rows"`      // table records with an unreadable envelope or key
	TableVersionsLost uint64 `json:"table_versions_lost"` // blocks of versions removed because their row had too many
	QueueCounts
}

// ModelCounts count the calls of models, and list elements. Most elements are scored.
type ModelCounts struct {
	Elements    uint64 `json:"each_elements"` // elements processed by the steps of an each
	ModelCalls  uint64 `json:"model_calls"`
	ModelRows   uint64 `json:"model_rows"`
	ModelFull   uint64 `json:"model_batches_full"`   // batches called because they were full
	ModelIdle   uint64 `json:"model_batches_idle"`   // batches called because no more rows were waiting
	ModelWaited uint64 `json:"model_batches_waited"` // batches called because the first row had waited long enough
	ModelDue    uint64 `json:"model_batches_due"`    // batches called because a deadline was near
}

// QueueCounts are the totals of the async queue.
type QueueCounts struct {
	Enqueued         uint64  `json:"async_queue_enqueued"`
	Retries          uint64  `json:"async_queue_retries"`
	Switches         uint64  `json:"throttle_switches"` // switches between reading and throttled, because of the length of the queue
	ThrottledSeconds float64 `json:"throttled_seconds"` // time during which members were throttled

	Dispatched  ByPriority[uint64]  `json:"async_queue_dispatched"`   // events with a started call
	WaitSeconds ByPriority[float64] `json:"async_queue_wait_seconds"` // time that they waited before it
}

// Counters are the live Counts of one member.
type Counters struct {
	Events, Outputs, DeadLetters, Late, Forced, Dropped, Duplicates atomic.Uint64
	Approximate, Spilled                                            atomic.Uint64
	Steps, Assigned, Rejoined, Timers                               atomic.Uint64
	KeyLoads, KeyEvictions                                          atomic.Uint64
	TableLateRows, TableBadRows, TableVersionsLost                  atomic.Uint64
	ModelCounters
	QueueCounters
}

// ModelCounters are the ModelCounts of one member. The model counts batches that members share.
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

// ByPriority holds a number for each event priority, high first. Its JSON form has the names of the
// priorities.
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
