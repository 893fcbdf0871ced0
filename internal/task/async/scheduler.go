package async

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// Tenants counts the queued events of each tenant in a process. The zero value is empty. It is safe
// for concurrent use.
type Tenants struct {
	mu     sync.Mutex
	queued map[string]int
}

func (t *Tenants) add(tenant string, events int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queued == nil {
		t.queued = map[string]int{}
	}
	if t.queued[tenant] += events; t.queued[tenant] == 0 {
		delete(t.queued, tenant)
	}
}

// Queued returns how many events of a tenant are queued.
func (t *Tenants) Queued(tenant string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queued[tenant]
}

// afterQuota is how long a client waits if its tenant has reached its limit of queued events. The
// time when one of them ends is unknown.
const afterQuota = time.Second

// Class sets the class and tenant of an event before it is queued. The error is the event's: its
// class cannot be computed, or its tenant has reached its limit of queued events.
func (d *Dispatcher) Class(head *Head, row *value.Row) error {
	f := &d.plan.Fairness
	class, tenant, err := f.Of(row)
	if err != nil {
		return err
	}
	if most := f.TenantMax; most > 0 && d.plan.Tenants.Queued(tenant) >= most {
		return &deadletter.Ending{Code: deadletter.TenantQuota, After: afterQuota, Err: fmt.Errorf("tenant %q has %d queued events, the limit of tenant.max", tenant, most)}
	}
	head.Class, head.Tenant = class, strings.Clone(tenant) // the row's texts share memory with its record
	return nil
}

// fairQueue holds the due events of an operator, in the order of their calls.
type fairQueue struct {
	*control.FairQueue[dueEvent]
	slot  *control.Slot // slot at the endpoint
	first []dueEvent    // taken from the queue and put back at its front
}

// Len returns how many events are due.
func (t *fairQueue) Len() int { return t.FairQueue.Len() + len(t.first) }

// putBack makes the event that was taken last the next one.
func (t *fairQueue) putBack(p *Partition, w *Waiting, now time.Time) {
	w.scheduled = true
	t.first = append(t.first, dueEvent{p, w, now})
}

// dueEvent is an event that was due. It is stale if the event has since been taken, ended or put
// back. FairQueue removes stale events only occasionally.
type dueEvent struct {
	partition *Partition
	waiting   *Waiting
	since     time.Time
}

func newFairQueue(f *operator.Fairness, c *operator.Calling, wake func()) *fairQueue {
	options := f.Weights
	options.Max, options.TenantMax = math.MaxInt, 0 // the queue is bounded elsewhere
	queue, err := control.NewFairQueue[dueEvent](options)
	if err != nil {
		panic("async: " + err.Error()) // the options were validated when the pipeline was loaded
	}
	return &fairQueue{FairQueue: queue, slot: c.Endpoint.Slot(wake)}
}

// scheduler decides which queued event of a member is called for next. The operators take turns.
// Within an operator, class and tenant decide.
type scheduler struct {
	partitions map[stream.Partition]*Partition
	queues     map[int]*fairQueue // by operator
	stages     []int              // operators with a fair queue
	first      int                // index in stages of the operator that is served first
	now        time.Time

	called [3]uint64 // calls by class
	waited [3]time.Duration
}

// Len returns how many events are queued.
func (s *scheduler) Len() (n int) {
	for _, p := range s.partitions {
		n += p.Len()
	}
	return n
}

// stale reports whether an event of a fair queue no longer needs a call.
func (s *scheduler) stale(t dueEvent) bool {
	return !t.waiting.scheduled || t.partition.leaving || s.partitions[t.partition.ID] != t.partition || t.partition.Get(t.waiting.Offset) != t.waiting
}

// schedule moves the due events of an operator into its fair queue. It returns when the next one is
// due. ok is false if there is no next one.
func (s *scheduler) schedule(at int) (next int64, ok bool) {
	now, l := s.now.UnixMicro(), s.queues[at]
	for _, p := range s.partitions {
		if p.leaving {
			continue
		}
		for {
			due, some := p.Due(at)
			if !some {
				break
			}
			if due > now {
				if !ok || due < next {
					next, ok = due, true
				}
				break
			}
			w := p.Take(at)
			w.scheduled = true
			if err := l.Push(s.now, control.Entry[dueEvent]{Class: w.Class, Tenant: w.Tenant, Value: dueEvent{p, w, s.now}}); err != nil {
				panic("async: " + err.Error()) // the fair queue is unbounded
			}
		}
	}
	if l.Len() > 2*s.Len()+64 {
		l.DeleteFunc(s.stale)
	}
	return next, ok
}

// take takes the next event of an operator. It stays queued.
func (s *scheduler) take(at int) (p *Partition, w *Waiting, ok bool) {
	e, ok := s.next(at)
	if !ok {
		return nil, nil, false
	}
	class := e.Class - control.HighClass
	s.called[class]++
	s.waited[class] += s.now.Sub(e.Value.since)
	return e.Value.partition, e.Value.waiting, true
}

// next takes the first event that is not stale.
func (s *scheduler) next(at int) (e control.Entry[dueEvent], ok bool) {
	l := s.queues[at]
	for {
		if n := len(l.first); n > 0 {
			e, ok = control.Entry[dueEvent]{Class: l.first[0].waiting.Class, Value: l.first[0]}, true
			l.first = slices.Delete(l.first, 0, 1)
		} else if e, ok = l.Take(s.now); !ok {
			return e, false
		}
		if !s.stale(e.Value) {
			e.Value.waiting.scheduled = false
			return e, true
		}
	}
}

// untried reports whether a queued event of the operator has failed at most once. While there is
// such an event, reading stops, and the event probes the endpoint. If all events have failed again
// as probes, they may be the cause themselves. Then new events are read to probe the endpoint.
func (s *scheduler) untried(at int) bool {
	for _, p := range s.partitions {
		if !p.leaving && p.Untried(at) {
			return true
		}
	}
	return false
}

// Measure adds the counts since the last call to the metrics. It also records the state of the
// gate, whether a required endpoint is down, and how many events of each class are due.
func (d *Dispatcher) Measure(m *observe.Member, gate control.GateState, down bool) {
	m.Queued.Store(int64(gate.Depth))
	for _, is := range []struct {
		figure *atomic.Int64
		yes    bool
	}{{&m.Throttled, gate.Throttled}, {&m.Down, down}} {
		if is.figure.Store(0); is.yes {
			is.figure.Store(1)
		}
	}
	m.Switches.Add(uint64(gate.Switches - d.gated.Switches))
	m.ThrottledMicros.Add(uint64(gate.Paused.Microseconds() - d.gated.Paused.Microseconds()))
	d.gated = gate
	m.ModelCalls.Add(d.calledFor)
	m.ModelRows.Add(d.rows)
	m.Retries.Add(d.retries)
	d.calledFor, d.rows, d.retries = 0, 0, 0
	var due [3]int
	for _, l := range d.queues {
		for class, n := range l.Stats().Waiting {
			due[class] += n
		}
	}
	for class := range due {
		m.Dispatched[class].Add(d.called[class])
		m.WaitMicros[class].Add(uint64(d.waited[class].Microseconds()))
		m.Waiting[class].Store(int64(due[class]))
	}
	d.called, d.waited = [3]uint64{}, [3]time.Duration{}
}
