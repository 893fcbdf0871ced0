package observe

import "sync/atomic"

// Memory is what a task keeps in memory of keys, beside what the log does, as
// of its newest commit. Names in JSON are those of metrics without "afterbay_".
type Memory struct {
	Keys          int64             `json:"keys"`      // decoded
	KeyBytes      int64             `json:"key_bytes"` // of them
	ExpiryBytes   int64             `json:"expiry_bytes"`
	HeldBytes     int64             `json:"order_held_bytes"`    // of events that wait for their turn in the order of several partitions
	SpilledBytes  int64             `json:"order_spilled_bytes"` // of such events in state
	Queued        int64             `json:"async_queue_events"`
	Waiting       ByPriority[int64] `json:"async_queue_waiting_events"` // of these, those that no call has started for
	Throttled     int64             `json:"throttled_members"`          // that do not read for the length of the queue
	Down          int64             `json:"paused_members"`             // that do not read for an endpoint that is down
	ThrottledMost int64             `json:"-"`                          // microseconds that the member did not read that waited the longest
}

// Gauges are how one member stands as of its newest commit: its part of Memory.
type Gauges struct {
	Keys, KeyBytes, ExpiryBytes atomic.Int64
	HeldBytes, SpilledBytes     atomic.Int64
	Queued                      atomic.Int64
	Waiting                     [3]atomic.Int64 // by priority, no call has started for them
	Throttled, Down             atomic.Int64    // 1 while it does not read
}

// Memory adds up the members.
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
