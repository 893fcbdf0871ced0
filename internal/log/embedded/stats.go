package embedded

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/internal/state"
)

// Stats are counts since Open, and sizes at this moment.
type Stats struct {
	Frames, Bytes uint64 // written and durable; each frame took one sync
	Requests      uint64 // appends, steps and topics in them
	FusedSteps    uint64 // in the frame of the inputs that they are made of
	// Queued and QueuedBytes wait for the frame after the one in flight.
	Queued, QueuedBytes int
	SyncTimes
	Segments, Spares      int
	LogBytes              int64 // of the segments
	RetiredSegments       uint64
	RingBytes             int64
	ColdReads             uint64 // fetches that missed the ring
	RefusedAppends        uint64 // for want of space
	Applied, Checkpointed uint64 // newest frame readers see; newest the checkpoint has
	CutBytes              int64  // by the recovery of this Open
	State                 state.Stats
	Limits                Limits
}

// SyncTimes says how long frames take to be durable.
type SyncTimes struct {
	// SyncTotal is the time of all writes and syncs of frames, SyncP50 and
	// SyncP99 quantiles of them to 1/8, SyncMax the longest.
	SyncTotal, SyncP50, SyncP99, SyncMax time.Duration
}

// Limits are the bounds of a log, as its Options or their defaults say.
type Limits struct {
	SegmentBytes, RetainBytes   int64 // RetainBytes 0 is none
	RingBytes, StateMemoryBytes int64
	GroupEvents, GroupBytes     int
	QueueBytes                  int
	FramesInFlight              int
}

type counters struct {
	frames, bytes, requests, fused, cold, refused, retired atomic.Uint64

	syncTotal, syncMax atomic.Int64
	syncs              [64 * 8]atomic.Uint64 // by time: eight buckets to a doubling of nanoseconds
}

// frame counts a frame that was written and synced in d.
func (c *counters) frame(bytes int, d time.Duration) {
	c.frames.Add(1)
	c.bytes.Add(uint64(bytes))
	c.syncTotal.Add(int64(d))
	c.syncMax.Store(max(c.syncMax.Load(), int64(d)))
	c.syncs[bucket(uint64(d))].Add(1)
}

// bucket returns the bucket of a time: its highest bit and the three after it.
func bucket(d uint64) int {
	n := bits.Len64(d)
	if n < 4 {
		return int(d)
	}
	return n*8 + int(d>>(n-4)&7)
}

// quantile returns the lower end of the bucket with the q-th part of the syncs.
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
	retired := c.retired.Load() // before segments: none is counted as both
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
