package embedded

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/internal/state"
)

// Stats holds counters since Open, and current sizes.
type Stats struct {
	Frames, Bytes uint64 // durable; each frame took one sync
	Requests      uint64 // appends, transactions and topics in the frames
	FusedSteps    uint64 // transactions in the same frame as their inputs
	// Queued and QueuedBytes count requests that wait for the next frame.
	Queued, QueuedBytes int
	SyncTimes
	Segments, Spares      int
	LogBytes              int64 // of the segments
	RetiredSegments       uint64
	RingBytes             int64
	ColdReads             uint64 // fetches not served from the ring
	RefusedAppends        uint64 // for lack of disk space
	Applied, Checkpointed uint64 // newest frame visible to readers; newest frame in the checkpoint
	CutBytes              int64  // cut off by recovery in this Open
	State                 state.Stats
	Limits                Limits
}

// SyncTimes measures how long it takes to make frames durable.
type SyncTimes struct {
	// SyncTotal is the time of all writes and syncs of frames. SyncP50 and SyncP99 are quantiles
	// with an error of up to 1/8. SyncMax is the longest.
	SyncTotal, SyncP50, SyncP99, SyncMax time.Duration
}

// Limits holds the limits of a log, from its Options or their defaults.
type Limits struct {
	SegmentBytes, RetainBytes   int64 // RetainBytes 0 means unlimited
	RingBytes, StateMemoryBytes int64
	GroupEvents, GroupBytes     int
	QueueBytes                  int
	FramesInFlight              int
}

type counters struct {
	frames, bytes, requests, fused, cold, refused, retired atomic.Uint64

	syncTotal, syncMax atomic.Int64
	syncs              [64 * 8]atomic.Uint64 // histogram with eight buckets per doubling of nanoseconds
}

// frame counts a frame with a write and sync time of d.
func (c *counters) frame(bytes int, d time.Duration) {
	c.frames.Add(1)
	c.bytes.Add(uint64(bytes))
	c.syncTotal.Add(int64(d))
	c.syncMax.Store(max(c.syncMax.Load(), int64(d)))
	c.syncs[bucket(uint64(d))].Add(1)
}

// bucket returns the bucket of a time: its highest bit and the next three.
func bucket(d uint64) int {
	n := bits.Len64(d)
	if n < 4 {
		return int(d)
	}
	return n*8 + int(d>>(n-4)&7)
}

// quantile returns the lower end of the bucket that contains quantile q of the syncs.
func (c *counters) quantile(q float64) time.Duration {
	left := uint64(math.Ceil(q * float64(c.frames.Load())))
	for i := range c.syncs {
		n := c.syncs[i].Load()
		if n >= left && n > 0 {
			if i < 8 {
				return time.Duration(i)
			}
			return time.Duration(uint64(8+i%8) << (i/8 - 4))
		}
		left -= min(left, n)
	}
	return 0
}

// Stats returns the log's counts.
func (l *Log) Stats() Stats {
	c := &l.stats
	spares, _ := l.spares.count()
	retired := c.retired.Load() // before segments, so that no segment counts as both
	l.mu.Lock()
	segments, ring := len(l.segments), l.ring.bytes
	logBytes := int64(0)
	for _, s := range l.segments {
		logBytes += s.size
	}
	l.mu.Unlock()
	queued, _, queuedBytes, _ := l.queue.size()
	o := &l.opts
	return Stats{
		Frames: c.frames.Load(), Bytes: c.bytes.Load(), Requests: c.requests.Load(), FusedSteps: c.fused.Load(),
		Queued: queued, QueuedBytes: queuedBytes, LogBytes: logBytes,
		SyncTimes: SyncTimes{
			SyncTotal: time.Duration(c.syncTotal.Load()), SyncMax: time.Duration(c.syncMax.Load()),
			SyncP50: c.quantile(.5), SyncP99: c.quantile(.99),
		},
		Segments: segments, Spares: spares, RetiredSegments: retired,
		RingBytes: ring, ColdReads: c.cold.Load(), RefusedAppends: c.refused.Load(),
		Applied: l.applied.Load(), Checkpointed: l.store.Applied(),
		CutBytes: l.recovery.CutBytes, State: l.store.Stats(),
		Limits: Limits{
			SegmentBytes: o.SegmentBytes, RetainBytes: o.RetainBytes, RingBytes: o.RingBytes, StateMemoryBytes: o.StateMemoryBytes,
			GroupEvents: o.GroupEvents, GroupBytes: o.GroupBytes, QueueBytes: o.QueueBytes, FramesInFlight: 1,
		},
	}
}
