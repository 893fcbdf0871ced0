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

// leases are those of the calls of a member. A call has a lease: the timeout of its
// model, and 2 s for the model to heed it. If a call does not end in that time, for
// example of a model in Go that hangs, its events go again and another call has its
// slot; an answer that comes later is refused, and kept by the journal.
type leases struct {
	stages  map[int]*control.Leases[*call]
	granted uint64
}

var errLapsed = fmt.Errorf("the call did not end when its time was over: %w", context.DeadlineExceeded)

// add gives leases to the calls of an operator. The endpoint bounds how many there are.
func (l *leases) add(at int, timeout time.Duration) {
	of, err := control.NewLeases[*call](control.LeaseOptions{Tokens: math.MaxInt32, Each: 1, Timeout: timeout})
	if err != nil {
		panic("async: " + err.Error()) // it was looked at when the pipeline was loaded
	}
	if l.stages == nil {
		l.stages = map[int]*control.Leases[*call]{}
	}
	l.stages[at] = of
}

// grant gives a call of an operator its lease.
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

// lapsed ends the leases that are over, and returns their calls.
func (l *leases) lapsed(now time.Time) (calls []*call) {
	for _, of := range l.stages {
		for _, lapsed := range of.Expire(now) {
			calls = append(calls, lapsed.Events...)
		}
	}
	return calls
}

// next returns when the next lease of an operator is over.
func (l *leases) next(at int) (time.Time, bool) { return l.stages[at].Next() }

// takeLapsed takes back the events of calls whose lease is over, as it would have with no
// answer in time. What the call itself writes is left alone.
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

// lapse returns the events of a call, each with the error of one that did not end.
func (c *call) lapse() []Task {
	tasks := make([]Task, len(c.tasks))
	for i := range c.tasks {
		t := &c.tasks[i]
		tasks[i] = Task{Partition: t.Partition, Entry: t.Entry, Row: t.Row, Err: errLapsed, waiting: t.waiting, key: t.key, ready: c.how.Calling.Ready == nil}
	}
	return tasks
}

// takeLate keeps the answers of a call whose lease was over before: who asks again
// finds them.
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
