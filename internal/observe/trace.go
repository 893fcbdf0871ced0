package observe

import (
	"slices"
	"sync"
	"time"
)

// traceMax is how many timings a member keeps.
const traceMax = 4096

// TurnsMax bounds the elements of Turns of all timings that a member keeps, or a directory.
const TurnsMax = 1 << 16

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

	Ordered bool  // events of the pipeline wait for their turn
	Turns   Turns // how they did

	events int
}

// Turns are how events that were computed together waited for their turn, in the order of their
// offsets. Nil is not known.
type Turns []Waited

// Waited is how events waited for their turn, one after the other, up to an offset.
type Waited struct {
	Next  int64         `json:"next"`
	Order time.Duration `json:"order_ns"`
	For   string        `json:"waited_for,omitempty"` // what they waited for last: a source partition, or a stage
}

// At returns how the event at an offset waited, and whether that is known.
func (list Turns) At(offset int64) (Waited, bool) {
	i := slices.IndexFunc(list, func(w Waited) bool { return offset < w.Next })
	if i < 0 {
		return Waited{}, false
	}
	return list[i], true
}

// add notes the event before the offset next.
func (list *Turns) add(next int64, turn Turn) {
	if last := len(*list) - 1; last >= 0 && (*list)[last].Order == turn.Waited && (*list)[last].For == turn.For {
		(*list)[last].Next = next
		return
	}
	*list = append(*list, Waited{next, turn.Waited, turn.For})
}

// Has reports whether an event is one of the events.
func (p *Timing) Has(topic string, partition int32, offset int64) bool {
	return p.Topic == topic && p.Partition == partition && offset >= p.First && offset < p.Next
}

// Trace keeps the newest timings of a member: what they cost is per chunk, not
// per event. How events waited for their turn is per event: the oldest timings lose that
// first. The zero value is empty.
type Trace struct {
	mu    sync.Mutex // guards all fields
	ring  []Timing
	next  int // the oldest, once the ring is full
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

// all returns what the trace has, in no order.
func (t *Trace) all() []Timing {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.ring)
}
