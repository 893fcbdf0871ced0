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

// Tenants counts the events that each tenant has parked in a process. The zero
// value has none. It is safe for concurrent use.
type Tenants struct {
	mu     sync.Mutex
	parked map[string]int
}

func (t *Tenants) add(tenant string, events int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.parked == nil {
		t.parked = map[string]int{}
	}
	if t.parked[tenant] += events; t.parked[tenant] == 0 {
		delete(t.parked, tenant)
	}
}

// Parked returns how many events of a tenant are parked.
func (t *Tenants) Parked(tenant string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.parked[tenant]
}

// afterQuota is how long a client waits if its tenant has as many events parked as it
// may. The time at which one of them ends is unknown.
const afterQuota = time.Second

// Class says whose turn an event that is to be parked will be. The error is the
// event's: there is no class of it, or its tenant has as many parked as it may.
func (d *Dispatcher) Class(head *Head, row *value.Row) error {
	f := &d.plan.Fairness
	class, tenant, err := f.Of(row)
	if err != nil {
		return err
	}
	if most := f.TenantMax; most > 0 && d.plan.Tenants.Parked(tenant) >= most {
		return &deadletter.Ending{Code: deadletter.TenantQuota, After: afterQuota, Err: fmt.Errorf("tenant %q has %d queued events, the limit of tenant.max", tenant, most)}
	}
	head.Class, head.Tenant = class, strings.Clone(tenant) // the row's texts are those of its record
	return nil
}

// turns is the parked events of a stage that are due, in the order in which they
// are called for.
type turns struct {
	*control.FairQueue[turn]
	seat  *control.Seat // at the endpoint
	first []turn        // taken from the queue and put back before the others
}

// Len returns how many events wait for their turn.
func (t *turns) Len() int { return t.FairQueue.Len() + len(t.first) }

// putBack has the event that was taken last be the next.
func (t *turns) putBack(p *Partition, w *Waiting, now time.Time) {
	w.turn = true
	t.first = append(t.first, turn{p, w, now})
}

// turn is an event that was due. It is in vain where the event was taken, ended or
// put back meanwhile: FairQueue forgets what it is told to only now and then.
type turn struct {
	partition *Partition
	waiting   *Waiting
	since     time.Time
}

func newTurns(f *operator.Fairness, c *operator.Calling, wake func()) *turns {
	options := f.Weights
	options.Max, options.TenantMax = math.MaxInt, 0 // what is parked is bounded elsewhere
	queue, err := control.NewFairQueue[turn](options)
	if err != nil {
		panic("park: " + err.Error()) // they were looked at when the pipeline was loaded
	}
	return &turns{FairQueue: queue, seat: c.Endpoint.Seat(wake)}
}

// scheduler says which queued event of a session is called for next: those of the stages
// in turns, and of a stage by class and tenant.
type scheduler struct {
	partitions map[stream.Partition]*Partition
	turns      map[int]*turns // by stage
	stages     []int          // of turns
	first      int            // of stages, that is served first
	now        time.Time

	called [3]uint64 // by class
	waited [3]time.Duration
}

// Len returns how many events are parked.
func (s *scheduler) Len() (n int) {
	for _, p := range s.partitions {
		n += p.Len()
	}
	return n
}

// vain reports whether an event of the turns is not to be called for any more.
func (s *scheduler) vain(t turn) bool {
	return !t.waiting.turn || t.partition.leaving || s.partitions[t.partition.ID] != t.partition || t.partition.Get(t.waiting.Offset) != t.waiting
}

// line has the events of a stage that are due take their turns, and returns when
// the next one is; ok is false where none is to come.
func (s *scheduler) line(at int) (next int64, ok bool) {
	now, l := s.now.UnixMicro(), s.turns[at]
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
			w.turn = true
			if err := l.Push(s.now, control.Entry[turn]{Class: w.Class, Tenant: w.Tenant, Value: turn{p, w, s.now}}); err != nil {
				panic("park: " + err.Error()) // it has no bound
			}
		}
	}
	if l.Len() > 2*s.Len()+64 {
		l.DeleteFunc(s.vain)
	}
	return next, ok
}

// take takes the event of a stage whose turn it is. It stays parked.
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

// next takes a turn that is not in vain.
func (s *scheduler) next(at int) (e control.Entry[turn], ok bool) {
	l := s.turns[at]
	for {
		if n := len(l.first); n > 0 {
			e, ok = control.Entry[turn]{Class: l.first[0].waiting.Class, Value: l.first[0]}, true
			l.first = slices.Delete(l.first, 0, 1)
		} else if e, ok = l.Take(s.now); !ok {
			return e, false
		}
		if !s.vain(e.Value) {
			e.Value.waiting.turn = false
			return e, true
		}
	}
}

// untried reports whether a parked event of the stage has failed once at most. While
// there is one, nothing is read: it tries whether the endpoint works again. Where all
// have failed again as probes it may be their own fault, so that others are read to try.
func (s *scheduler) untried(at int) bool {
	for _, p := range s.partitions {
		if !p.leaving && p.Untried(at) {
			return true
		}
	}
	return false
}

// Measure adds what was done since it was called last, and notes how the gate stands,
// whether an endpoint is waited for, and how many events of each class are due.
func (d *Dispatcher) Measure(m *observe.Session, gate control.GateState, down bool) {
	m.Parked.Store(int64(gate.Depth))
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
	for _, l := range d.turns {
		for class, n := range l.Stats().Waiting {
			due[class] += n
		}
	}
	for class := range due {
		m.Turns[class].Add(d.called[class])
		m.TurnMicros[class].Add(uint64(d.waited[class].Microseconds()))
		m.Due[class].Store(int64(due[class]))
	}
	d.called, d.waited = [3]uint64{}, [3]time.Duration{}
}
