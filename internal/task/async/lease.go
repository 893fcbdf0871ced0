package async

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// leases holds the leases of the calls of a member. A lease lasts for the timeout of the model plus
// 2 s for the model to notice it. A call may exceed this, for example if a model in Go hangs. Then
// its events are called for again, and another call gets its slot. A later answer is refused, but
// the journal stores it.
type leases struct {
	stages  map[int]*control.Leases[*call]
	granted uint64
}

var errLapsed = fmt.Errorf("the call did not end after its timeout: %w", context.DeadlineExceeded)

// add creates the leases of an operator. The endpoint limits their number.
func (l *leases) add(at int, timeout time.Duration) {
	of, err := control.NewLeases[*call](control.LeaseOptions{Tokens: math.MaxInt32, Each: 1, Timeout: timeout})
	if err != nil {
		panic("async: " + err.Error()) // the options were validated when the pipeline was loaded
	}
	if l.stages == nil {
		l.stages = map[int]*control.Leases[*call]{}
	}
	l.stages[at] = of
}

// grant gives a lease to a call of an operator.
func (l *leases) grant(now time.Time, at int, c *call) {
	l.granted++
	worker := strconv.FormatUint(l.granted, 10)
	c.stage = at
	l.stages[at].Grant(now, worker)
	c.token, _ = l.stages[at].Send(now, worker, c)
}

// end ends the lease of a call. It reports whether the call's answer counts.
func (l *leases) end(now time.Time, c *call) bool {
	_, ok := l.stages[c.stage].Done(now, c.token)
	return ok
}

// lapsed ends the expired leases, and returns their calls.
func (l *leases) lapsed(now time.Time) (calls []*call) {
	for _, of := range l.stages {
		for _, lapsed := range of.Expire(now) {
			calls = append(calls, lapsed.Events...)
		}
	}
	return calls
}

// next returns when the next lease of an operator expires.
func (l *leases) next(at int) (time.Time, bool) { return l.stages[at].Next() }

// takeLapsed takes back the events of calls with an expired lease, as if the calls had timed out.
// The results that such a call writes later are ignored.
func (d *Dispatcher) takeLapsed(step uint64, list *[]Task) error {
	for _, c := range d.leases.lapsed(d.now) {
		delete(d.calls.inFlight, c)
		tasks := c.lapse()
		c.observe(d.now, tasks, false, false)
		if err := d.takeTasks(c, tasks, step, list); err != nil {
			return err
		}
	}
	return nil
}

// lapse returns the events of a call, each with a timeout error.
func (c *call) lapse() []Task {
	tasks := make([]Task, len(c.tasks))
	for i := range c.tasks {
		t := &c.tasks[i]
		tasks[i] = Task{Partition: t.Partition, Entry: t.Entry, Row: t.Row, Err: errLapsed, waiting: t.waiting, key: t.key, ready: c.how.Calling.Ready == nil}
	}
	return tasks
}

// takeLate stores the answers of a call with an expired lease, so that the next attempt finds them.
func (d *Dispatcher) takeLate(c *call, tasks []Task, _ uint64, _ *[]Task) error {
	if c.how.Calling.Journal == operator.JournalNone {
		return nil
	}
	for i := range tasks {
		t := &tasks[i]
		if t.Err != nil || d.partitions[t.Partition.ID] != t.Partition {
			continue
		}
		recorded, err := t.Partition.journal.Record(t.key, c.answer(t), t.Entry.Time)
		if err != nil && !errors.Is(err, stream.ErrTooLarge) {
			return err
		}
		if recorded {
			d.store(t.Partition, nil)
		}
	}
	return nil
}
