// Package observe collects the metrics of a task: counts, lag, memory, and the time of events in
// each phase, with traces and budgets.
package observe

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
)

const (
	subBits = 4 // 16 buckets per octave: a quantile is at most 1/16 too high
	buckets = (64 - subBits) << subBits
)

// Histogram counts durations in logarithmic buckets. One goroutine can record while others read.
// The zero value is empty.
type Histogram struct {
	counts [buckets]atomic.Uint64
	sum    atomic.Int64 // nanoseconds
}

// Record adds n events of duration d; a negative d counts as 0.
func (h *Histogram) Record(d time.Duration, n int) {
	d = max(d, 0)
	h.counts[bucketOf(uint64(d))].Add(uint64(n))
	h.sum.Add(int64(d) * int64(n))
}

func bucketOf(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)<<subBits + int(v>>shift) - 1<<subBits
}

// upper returns the largest duration of a bucket, in nanoseconds.
func upper(bucket int) uint64 {
	if bucket < 1<<subBits {
		return uint64(bucket)
	}
	shift := bucket>>subBits - 1
	return uint64(bucket-shift<<subBits+1)<<shift - 1
}

// tally collects durations for a Histogram, without an atomic addition for each. One goroutine owns
// it. The zero value is empty.
type tally struct {
	counts  [buckets]uint32
	touched []uint16 // non-empty buckets
	sum     int64    // nanoseconds
}

// add adds n events of duration d; a negative d counts as 0.
func (t *tally) add(d time.Duration, n int) {
	d = max(d, 0)
	b := bucketOf(uint64(d))
	if t.counts[b] == 0 {
		t.touched = append(t.touched, uint16(b))
	}
	t.counts[b] += uint32(n)
	t.sum += int64(d) * int64(n)
}

// moveTo adds the counts to h and empties the tally.
func (t *tally) moveTo(h *Histogram) {
	for _, b := range t.touched {
		h.counts[b].Add(uint64(t.counts[b]))
		t.counts[b] = 0
	}
	h.sum.Add(t.sum)
	t.touched, t.sum = t.touched[:0], 0
}

// Snapshot is the state of a Histogram at one moment, or the sum of several.
type Snapshot struct {
	Counts [buckets]uint64
	Count  uint64
	Sum    time.Duration
}

// Add adds the counts of h.
func (s *Snapshot) Add(h *Histogram) {
	for i := range h.counts {
		n := h.counts[i].Load()
		s.Counts[i] += n
		s.Count += n
	}
	s.Sum += time.Duration(h.sum.Load())
}

// Quantile returns the duration that a share q (0 to 1) of the events did not exceed. The result is
// at most 1/16 too high. It is 0 if there are no events.
func (s *Snapshot) Quantile(q float64) time.Duration {
	rank := uint64(q * float64(s.Count))
	var seen uint64
	for i, n := range s.Counts {
		if seen += n; n > 0 && (seen > rank || seen == s.Count) {
			return time.Duration(upper(i))
		}
	}
	return 0
}

// Each yields the upper bound and the count of every non-empty bucket.
func (s *Snapshot) Each(yield func(upper time.Duration, n uint64) bool) {
	for i, n := range s.Counts {
		if n > 0 && !yield(time.Duration(upper(i)), n) {
			return
		}
	}
}

// Phase is a phase of the processing of an event.
type Phase int

// Phases in their order. The total is queue + order + feature + model + emit + commit.
const (
	Queue   Phase = iota // from the append until the event is read; includes repartitioning
	Order                // waiting for its turn, if several source partitions are read in time order
	Feature              // decoding, features, expressions
	Model                // model calls
	Emit                 // building the outputs
	Commit               // until the outputs are durable
	phaseCount
)

// Phases lists every phase in order.
var Phases = [...]Phase{Queue, Order, Feature, Model, Emit, Commit}

// PhasesOf lists the phases of a pipeline in order. Order is a phase only if events wait for their
// turn.
func PhasesOf(ordered bool) []Phase {
	return slices.DeleteFunc(slices.Clone(Phases[:]), func(p Phase) bool { return p == Order && !ordered })
}

// String returns the phase's name in metrics.
func (h Phase) String() string {
	return [...]string{"queue", "order", "feature", "model", "emit", "commit"}[h]
}

// Latency holds one histogram for each phase of a member, and one for the total.
type Latency struct {
	phases [phaseCount]Histogram
	whole  Histogram

	queue, order, together tally // collected by a Way for the histograms
}

// Record adds n events that spent d in phase.
func (l *Latency) Record(phase Phase, d time.Duration, n int) { l.phases[phase].Record(d, n) }

// Phase returns the histogram of a phase.
func (l *Latency) Phase(phase Phase) *Histogram { return &l.phases[phase] }
