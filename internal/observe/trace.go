package observe

import (
	"slices"
	"sync"
	"time"
)

// traceMax is how many timings a member keeps.
const traceMax = 4096

// Timing is how events that were computed together came through: those of one
// partition, with offsets from First up to Next.
type Timing struct {
	Topic       string
	Partition   int32
	First, Next int64

	Begun     time.Time     // when their chunk was taken up
	Feature   time.Duration // decoding, features and expressions, of the whole chunk
	Model     time.Duration // model calls, likewise
	Emit      time.Duration // making outputs, likewise
	Made      time.Time     // when the chunk was ready to be committed
	Committed time.Time     // when its step was durable

	events int
}

// Has reports whether an event is one of the events.
func (p *Timing) Has(topic string, partition int32, offset int64) bool {
	return p.Topic == topic && p.Partition == partition && offset >= p.First && offset < p.Next
}

// Trace keeps the newest timings of a member: what they cost is per chunk, not
// per event. The zero value is empty.
type Trace struct {
	mu   sync.Mutex // guards all fields
	ring []Timing
	next int
}

// Add appends timings.
func (t *Trace) Add(timings ...Timing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range timings {
		if len(t.ring) < traceMax {
			t.ring = append(t.ring, p)
			continue
		}
		t.ring[t.next] = p
		t.next = (t.next + 1) % traceMax
	}
}

// all returns what the trace has, in no order.
func (t *Trace) all() []Timing {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.ring)
}
