package async

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// newDispatcher returns a dispatcher with a stage that calls, and a partition.
func newDispatcher(t *testing.T, ordered bool, fairness operator.Fairness) (*Dispatcher, *Partition) {
	t.Helper()
	endpoint, err := control.NewEndpoint(control.EndpointOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d := NewDispatcher(Plan{
		Stages: []operator.Placed{{Operator: &operator.Score{Batch: operator.Batch{Calling: &operator.Calling{Endpoint: endpoint}}}}}, Ordered: ordered, Queues: true,
		Commands: &Commands{}, Fairness: fairness, Tenants: &Tenants{},
	}, func() {}, nil)
	t.Cleanup(d.Close)
	p := &Partition{Queue: NewQueue(ordered), ID: stream.Partition{Topic: "in"}}
	p.tenants = d.plan.Tenants
	d.partitions[p.ID], d.now = p, time.UnixMicro(1000)
	return d, p
}

// TestEventsThatEndBeforeTheirTurnsAreForgotten queues and expires events while
// nothing is called for: what the turns hold is bounded by what is queued.
func TestEventsThatEndBeforeTheirTurnsAreForgotten(t *testing.T) {
	d, p := newDispatcher(t, false, operator.Fairness{})
	for offset := range int64(10_000) {
		p.Restore(offset, nil, Head{Tenant: fmt.Sprint(offset % 3), Since: offset})
		d.schedule(0)
		if offset >= 10 {
			for _, w := range p.TakeSince(0, offset-10) {
				p.Remove(w.Offset)
			}
		}
	}
	if n := d.queues[0].Len(); n > 2*p.Len()+65 {
		t.Errorf("%d turns of %d events", n, p.Len())
	}
	var left []int64
	for _, w, ok := d.take(0); ok; _, w, ok = d.take(0) {
		left = append(left, w.Offset)
	}
	if slices.Sort(left); len(left) != p.Len() || left[0] != 9_990 {
		t.Errorf("%v are called for, %d are queued", left, p.Len())
	}
}

// TestEventIsCalledForOnceInItsTurn queues, calls for, puts back and ends events at
// random: each that is due is taken once, and all are in the end.
func TestEventIsCalledForOnceInItsTurn(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	d, p := newDispatcher(t, false, operator.Fairness{})
	out, next := map[int64]*Waiting{}, int64(0)
	for turn := 0; turn < 5_000 || p.Len() > 0; turn++ {
		d.now = d.now.Add(time.Millisecond)
		if turn < 5_000 {
			p.Restore(next, nil, Head{Class: control.Class(random.IntN(3) - 1), Tenant: fmt.Sprint(random.IntN(3)), Due: d.now.UnixMicro() + random.Int64N(20_000)})
			next++
		}
		d.schedule(0)
		if w := p.Get(random.Int64N(next)); w != nil && w.scheduled && random.IntN(2) == 0 { // as an order does
			p.takeOut(w)
			p.Retry(w, d.now.UnixMicro())
			d.schedule(0)
		}
		for range random.IntN(4) {
			_, w, ok := d.take(0)
			if !ok {
				break
			}
			if out[w.Offset] != nil || w.Due > d.now.UnixMicro() {
				t.Fatalf("%d is called for twice, or %d µs early", w.Offset, w.Due-d.now.UnixMicro())
			}
			out[w.Offset] = w
		}
		for offset, w := range out {
			if random.IntN(3) > 0 {
				continue
			}
			if delete(out, offset); random.IntN(2) == 0 {
				p.Remove(offset)
			} else {
				p.Retry(w, d.now.UnixMicro()+random.Int64N(5_000))
			}
		}
	}
}

func TestEventBehindWhichAnUrgentOneWaitsTakesItsTurn(t *testing.T) {
	d, p := newDispatcher(t, true, operator.Fairness{})
	for offset := range int64(100) {
		p.Restore(offset, fmt.Append(nil, offset), Head{Class: control.NormalClass})
	}
	p.Restore(100, []byte("k"), Head{Class: control.LowClass})
	p.Restore(101, []byte("k"), Head{Class: control.NormalClass})
	d.schedule(0)
	p.Restore(102, []byte("k"), Head{Class: control.HighClass})
	d.schedule(0)
	for _, want := range []int64{100, 101, 102} { // a turn of the normal class may be on
		at := slices.IndexFunc(make([]int, 10), func(int) bool {
			_, w, ok := d.take(0)
			return ok && w.Offset == want
		})
		if at < 0 {
			t.Fatalf("%d is not among the next 10", want)
		}
		p.Remove(want)
		d.schedule(0)
	}
}

func TestTenantsCountWhatIsQueued(t *testing.T) {
	d, p := newDispatcher(t, true, operator.Fairness{})
	queued := d.plan.Tenants.Queued
	for offset := range int64(6) {
		p.Restore(offset, []byte("k"), Head{Tenant: fmt.Sprint(offset % 2)})
	}
	p.Restore(0, []byte("k"), Head{Tenant: "0"}) // again
	p.Remove(1)
	p.Remove(1)
	if a, b := queued("0"), queued("1"); a != 3 || b != 2 {
		t.Errorf("%d and %d are queued", a, b)
	}
	d.Forget(p.ID)
	if a, b := queued("0"), queued("1"); a != 0 || b != 0 || len(d.plan.Tenants.queued) != 0 {
		t.Errorf("%d and %d are queued where the partition went", a, b)
	}
}
