package observe

import "sync/atomic"

// Memory is the memory that a task uses for keys and queues at its newest commit. The memory of the
// log is extra. The JSON names are those of the metrics without "afterbay_".
type Memory struct {
	Keys          int64             `json:"keys"`      // decoded keys
	KeyBytes      int64             `json:"key_bytes"` // size of the decoded keys
	ExpiryBytes   int64             `json:"expiry_bytes"`
	HeldBytes     int64             `json:"order_held_bytes"`    // events that wait for their turn in the time order of several partitions
	SpilledBytes  int64             `json:"order_spilled_bytes"` // such events that were moved to state
	Queued        int64             `json:"async_queue_events"`
	Waiting       ByPriority[int64] `json:"async_queue_waiting_events"` // queued events without a started call
	Throttled     int64             `json:"throttled_members"`          // members that pause reading because of the length of the queue
	Down          int64             `json:"paused_members"`             // members that pause reading because an endpoint is down
	ThrottledMost int64             `json:"-"`                          // longest throttled time of a member, in microseconds
}

// Gauges are the part of Memory of one member, at its newest commit.
type Gauges struct {
	Keys, KeyBytes, ExpiryBytes atomic.Int64
	HeldBytes, SpilledBytes     atomic.Int64
	Queued                      atomic.Int64
	Waiting                     [3]atomic.Int64 // by priority: events without a started call
	Throttled, Down             atomic.Int64    // 1 while the member pauses reading
}

// Memory returns the sum over all members.
func (m *Metrics) Memory() Memory {
	var sum Memory
	for _, s := range m.members {
		sum.Keys += s.Keys.Load()
		sum.KeyBytes += s.KeyBytes.Load()
		sum.ExpiryBytes += s.ExpiryBytes.Load()
		sum.HeldBytes += s.HeldBytes.Load()
		sum.SpilledBytes += s.SpilledBytes.Load()
		sum.Queued += s.Queued.Load()
		sum.Throttled += s.Throttled.Load()
		for class := range s.Waiting {
			sum.Waiting[class] += s.Waiting[class].Load()
		}
		sum.Down += s.Down.Load()
		sum.ThrottledMost = max(sum.ThrottledMost, int64(s.ThrottledMicros.Load()))
	}
	return sum
}
