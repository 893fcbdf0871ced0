package async

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

func TestEntryIsReadBackAsItWas(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	text := func() []byte { return []byte(fmt.Sprint(rng.Uint64())[:rng.IntN(10)]) }
	place := stream.Partition{Topic: "in", Index: 3}
	for range 300 {
		e := &Entry{
			Head: Head{Class: control.Class(rng.IntN(3) - 1), Tenant: string(text()), Behind: rng.IntN(2) == 0, Answered: rng.IntN(2) == 0, Attempts: rng.IntN(4), Shown: rng.IntN(3), Time: rng.Int64(), Watermark: -rng.Int64(), Since: rng.Int64(), Due: -rng.Int64N(1e9), Late: rng.IntN(2) == 0, Over: rng.IntN(2) == 0},
			Step: string(text()),
			Record: stream.Record{
				Partition: place, Offset: stream.Offset(rng.Int64()), Time: time.UnixMicro(rng.Int64N(1e15)).UTC(), Value: text(),
			},
			Ended: uint8(rng.IntN(3)), Error: string(text()), Row: text(),
		}
		if rng.IntN(2) == 0 {
			e.Record.Key = text()
		}
		for range rng.IntN(3) {
			e.Record.Headers = append(e.Record.Headers, stream.Header{Key: string(text()), Value: text()})
			e.Approximate, e.Fallback = append(e.Approximate, string(text())), append(e.Fallback, string(text()))
		}
		got, err := Parse(place, statekey.AppendQueued(nil, int64(e.Record.Offset)), e.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(e, got); d != "" {
			t.Fatal(d)
		}
	}
}

func testRow() (*value.Schema, *value.Row) {
	schema := &value.Schema{}
	for i, kind := range []value.Kind{value.Bool, value.Int, value.Number, value.Time, value.String, value.Bytes, value.String} {
		if _, err := schema.Add(fmt.Sprint("v", i), value.Type{Kind: kind, Optional: true}); err != nil {
			panic(err)
		}
	}
	return schema, &schema.NewRows(1)[0]
}

func TestRowIsReadBackAsItWas(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		schema, row := testRow()
		for _, slot := range schema.Slots {
			switch {
			case rng.IntN(3) == 0:
			case slot.Type.Kind.Text():
				row.SetText(slot, fmt.Sprint(rng.Uint64())[:rng.IntN(9)])
			default:
				row.SetInt(slot, int64(rng.Uint64()))
			}
		}
		_, got := testRow()
		if err := ReadRow(AppendRow(nil, row, schema), got, schema); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(row, got, cmpopts.IgnoreUnexported(value.Row{})); d != "" {
			t.Fatal(d)
		}
	}
}

// An entry of a version before names a step of the plan by its number.
func TestEntryOfAnOlderVersionIsRefused(t *testing.T) {
	data := (&Entry{}).Append(nil)
	for old := byte(1); old < entryVersion; old++ {
		data[0] = old
		if _, err := Parse(stream.Partition{Topic: "in"}, statekey.AppendQueued(nil, 7), data); !errors.Is(err, ErrOlder) {
			t.Error(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	e := &Entry{Record: stream.Record{Key: []byte("k"), Value: []byte("v"), Headers: []stream.Header{{Key: "h", Value: []byte("x")}}}, Fallback: []string{"m"}}
	f.Add(e.Append(nil))
	f.Add([]byte{entryVersion, 3, 0, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		schema, row := testRow()
		e, err := Parse(stream.Partition{}, statekey.AppendQueued(nil, 7), data)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrOlder) {
				t.Error(err)
			}
			return
		}
		if _, err := Parse(stream.Partition{}, statekey.AppendQueued(nil, 7), e.Append(nil)); err != nil {
			t.Errorf("what was read cannot be written and read: %v", err)
		}
		if err := ReadRow(e.Row, row, schema); err != nil && !errors.Is(err, ErrDamaged) {
			t.Error(err)
		}
	})
}

// queueing does to an ordered queue what a dispatcher does, and checks what it gives.
type queueing struct {
	*testing.T
	rng    *rand.Rand
	queue  *Queue
	step   uint64
	offset int64            // of the next event
	steps  map[int64]uint64 // that make events durable, by offset
	line   map[string][]int64
	taken  map[int64]*Waiting
}

func (p *queueing) take(w *Waiting) {
	if first := p.line[w.key][0]; first != w.Offset {
		p.Fatalf("%d was taken before %d of its key", w.Offset, first)
	}
	if p.steps[w.Offset] >= p.step {
		p.Fatalf("%d was taken before it was durable", w.Offset)
	}
	if p.taken[w.Offset] != nil {
		p.Fatalf("%d was taken twice", w.Offset)
	}
	p.taken[w.Offset] = w
}

func (p *queueing) enqueue(at int64, key string, behind bool) {
	p.steps[at] = p.step
	p.queue.Add(at, []byte(key), Head{Stage: p.rng.IntN(2), Behind: behind, Due: p.rng.Int64N(100)}, p.step)
}

func (p *queueing) add() {
	key := fmt.Sprint(p.rng.IntN(4))
	if others := len(p.line[key]) > 0; p.queue.Before(key, p.offset) != others || p.queue.Holds(key) != others {
		p.Fatalf("key %s: before %t", key, p.queue.Before(key, p.offset))
	}
	p.line[key] = append(p.line[key], p.offset)
	p.enqueue(p.offset, key, len(p.line[key]) > 1)
	p.offset++
}

func (p *queueing) takeSome() {
	for _, w := range p.queue.Ready() {
		p.take(w)
	}
	for _, stage := range p.queue.Stages() {
		if due, ok := p.queue.Due(stage); ok && p.rng.IntN(2) == 0 {
			w := p.queue.Take(stage)
			if w.Due != due || w.Stage != stage || w.Behind {
				p.Fatalf("taken: %+v, due %d", w, due)
			}
			p.take(w)
		}
	}
}

// endSome puts some of what was taken back, and ends some.
func (p *queueing) endSome() {
	for _, at := range slices.Sorted(maps.Keys(p.taken)) {
		w := p.taken[at]
		switch p.rng.IntN(4) {
		case 0:
			delete(p.taken, at)
			if w.Behind {
				p.enqueue(at, w.key, false)
			} else {
				p.queue.Retry(w, p.rng.Int64N(100))
			}
		case 1:
			delete(p.taken, at)
			p.line[w.key] = p.line[w.key][1:]
			p.queue.Remove(at)
		}
	}
}

// TestQueueKeepsTheOrderOfKeys queues, settles, calls for, repeats and ends events
// at random. What is taken is durable and the first of its key, what is due comes
// by time, and all of it is taken in the end.
func TestQueueKeepsTheOrderOfKeys(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		p := &queueing{T: t, rng: rng, queue: NewQueue(true), step: 1, steps: map[int64]uint64{}, line: map[string][]int64{}, taken: map[int64]*Waiting{}}
		for turn := 0; turn < 300 || p.queue.Len() > 0; turn++ {
			if turn < 300 {
				for range rng.IntN(3) {
					p.add()
				}
			}
			p.takeSome()
			p.endSome()
			if rng.IntN(2) == 0 {
				p.queue.Settle(p.step)
				p.step++
			}
		}
		for key, left := range p.line {
			if len(left) > 0 {
				t.Fatalf("key %s: %v were never taken", key, left)
			}
		}
	}
}

func TestOldEventsAreTakenFromAStage(t *testing.T) {
	q := NewQueue(false)
	for i := range int64(10) {
		q.Restore(i, nil, Head{Since: 10 - i, Due: i})
	}
	var offsets []int64
	for _, w := range q.TakeSince(0, 3) {
		offsets = append(offsets, w.Offset)
	}
	if due, _ := q.Due(0); !slices.Equal(offsets, []int64{7, 8, 9}) || due != 0 || q.Len() != 10 {
		t.Errorf("taken %v, the next is due at %d of %d", offsets, due, q.Len())
	}
	q.Remove(8)
	if q.Get(8) != nil || q.Len() != 9 {
		t.Error("an event that was removed is there")
	}
}
