package observe

import (
	"slices"
	"sync"
	"time"
)

// traceMax is the number of timings that a member keeps.
const traceMax = 4096

// TurnsMax limits the total number of elements of Turns in the timings of a member or a directory.
const TurnsMax = 1 << 16

// Timing is the timing of events that were computed together. They are from one partition, with
// offsets from First to Next-1.
type Timing struct {
	Topic       string
	Partition   int32
	First, Next int64

	Begun     time.Time     // start of the computation of their chunk
	Feature   time.Duration // decoding, features and expressions; of the whole chunk
	Model     time.Duration // model calls; of the whole chunk
	Emit      time.Duration // building outputs; of the whole chunk
	Made      time.Time     // when the chunk was ready to commit
	Committed time.Time     // when its transaction was durable

	Ordered bool  // events of the pipeline wait for their turn
	Turns   Turns // how long they waited

	events int
}

// Turns describe how long events that were computed together waited for their turn, in the order of
// their offsets. nil means unknown.
type Turns []Waited

// Waited is the waiting time of consecutive events with offsets below Next.
type Waited struct {
	Next  int64         `json:"next"`
	Order time.Duration `json:"order_ns"`
	For   string        `json:"waited_for,omitempty"` // the source partition or stage that they waited for last
}

// At returns the waiting time of the event at an offset. The bool is false if it is unknown.
func (list Turns) At(offset int64) (Waited, bool) {
	i := slices.IndexFunc(list, func(w Waited) bool { return offset < w.Next })
	if i < 0 {
		return Waited{}, false
	}
	return list[i], true
}

// add adds the waiting time of the event just before the offset next.
func (list *Turns) add(next int64, turn Turn) {
	if last := len(*list) - 1; last >= 0 && (*list)[last].Order == turn.Waited && (*list)[last].For == turn.For {
		(*list)[last].Next = next
		return
	}
	*list = append(*list, Waited{next, turn.Waited, turn.For})
}

// Has reports whether the event at an offset is one of the timing's events.
func (p *Timing) Has(topic string, partition int32, offset int64) bool {
	return p.Topic == topic && p.Partition == partition && offset >= p.First && offset < p.Next
}

// Trace keeps the newest timings of a member. A timing takes memory per chunk, not per event,
// except for Turns. The oldest timings lose their Turns first. The zero value is empty.
type Trace struct {
	mu    sync.Mutex // guards all fields
	ring  []Timing
	next  int // index of the oldest timing, once the ring is full
	turns int // elements of all Turns
}

// Add appends timings.
func (t *Trace) Add(timings ...Timing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range timings {
		t.turns += len(p.Turns)
		if len(t.ring) < traceMax {
			t.ring = append(t.ring, p)
			continue
		}
		t.turns -= len(t.ring[t.next].Turns)
		t.ring[t.next] = p
		t.next = (t.next + 1) % traceMax
	}
	for i := t.next; t.turns > TurnsMax; i++ {
		oldest := &t.ring[i%len(t.ring)]
		t.turns -= len(oldest.Turns)
		oldest.Turns = nil
	}
}

// all returns all timings, in no particular order.
func (t *Trace) all() []Timing {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.ring)
}
