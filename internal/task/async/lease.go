package async

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// A call has a lease: the timeout of its model, and 2 s for the model to heed it.
// Of one that does not end in that time, as of a model in Go that hangs, the events
// go again and the place is another's; its answer is refused when it comes after
// all, and kept by the journal.

var errLapsed = fmt.Errorf("the call did not end when its time was over: %w", context.DeadlineExceeded)

// lease gives a call its lease.
func (d *Dispatcher) lease(at int, c *call) {
	d.leased++
	worker := strconv.FormatUint(d.leased, 10)
	c.leases = d.turns[at].leases
	c.leases.Grant(d.now, worker)
	c.token, _ = c.leases.Send(d.now, worker, c)
}

// accepted ends the lease of a call. It reports whether its answer counts.
func (c *call) accepted(now time.Time) bool {
	_, ok := c.leases.Done(now, c.token)
	return ok
}

// takeLapsed takes back the events of calls whose lease is over.
func (d *Dispatcher) takeLapsed(step uint64, list *[]Task) error {
	for _, l := range d.turns {
		for _, lapsed := range l.leases.Expire(d.now) {
			for _, c := range lapsed.Events {
				if err := d.takeTasks(c, d.lapse(c), step, list); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// lapse ends a call that goes on, and returns its events as it would have with no
// answer in time. What the call itself writes is left alone.
func (d *Dispatcher) lapse(c *call) []Task {
	delete(d.calls.flying, c)
	tasks := make([]Task, len(c.tasks))
	for i := range c.tasks {
		t := &c.tasks[i]
		tasks[i] = Task{Partition: t.Partition, Entry: t.Entry, Row: t.Row, Err: errLapsed, waiting: t.waiting, key: t.key, ready: c.how.Calling.Ready == nil}
	}
	c.observe(d.now, tasks, false, false)
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
