package async

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/clock"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// Plan holds the parts of a pipeline that a Dispatcher needs.
type Plan struct {
	Pipeline string
	Stages   []operator.Placed
	Labels   []string // labels of Stages; an entry is stored with the label of its operator
	Schema   *value.Schema
	ID       value.Slot // slot of the event id
	Ordered  bool
	Queues   bool
	Commands *Commands
	Journal  *journal.Spec     // nil if no operator has a journal
	Fairness operator.Fairness // resolved
	Tenants  *Tenants          // tenants of the process
	Clock    clock.Clock       // nil is the clock of the machine

	// Attach restores the part of a row that was not stored with it. It may be nil if no event has
	// Members.
	Attach func(view stream.View, p stream.Partition, members []byte, row *value.Row) error
}

// Dispatcher calls the models for the queued events of a member, and returns the events to resume.
// One goroutine owns it. Its clock only decides the order of calls: their results are in the log.
type Dispatcher struct {
	scheduler
	plan     Plan
	store    func(*Partition, *Entry)
	calls    *calls
	held     []*call        // ended calls, until their transactions are durable
	durable  []Task         // events with answers that became durable
	commands []given        // guarded by calls.mu
	timer    clock.Timer    // wakes the loop when an event or lease is due
	at       map[string]int // index of each operator, by label
	leases   leases         // leases of calls

	gated control.GateState // state at the newest Measure

	calledFor, rows, retries uint64 // calls, their rows, and rows that are retried
}

// Partition holds the queued events of a partition.
type Partition struct {
	*Queue
	ID      stream.Partition
	view    stream.View
	journal *kept // nil without a journal
	leaving bool
	queues  bool
	cancels []string // client events to cancel, by header.ClientEvent
}

// Cancels reports whether a record is a client's cancel of an event (header.Cancel) instead of an
// event. The following Next ends the cancelled event if it is queued by then.
func (p *Partition) Cancels(r *stream.Record) bool {
	client := header.Get(r, header.Cancel)
	if client != "" && p.queues {
		p.cancels = append(p.cancels, client)
	}
	return client != ""
}

const lookAgain = 100 * time.Millisecond // longest wait for an endpoint that takes no calls

// NewDispatcher returns a dispatcher without partitions. It calls wake, from any goroutine, when
// Next has work to do. It calls store to queue an event again in the current transaction. A nil
// entry only marks the partition as changed, so that the transaction commits.
func NewDispatcher(plan Plan, wake func(), store func(*Partition, *Entry)) *Dispatcher {
	if plan.Clock == nil {
		plan.Clock = clock.System
	}
	d := &Dispatcher{
		scheduler: scheduler{partitions: map[stream.Partition]*Partition{}, queues: map[int]*fairQueue{}},
		plan:      plan, store: store, calls: newCalls(wake, plan.Clock), timer: plan.Clock.AfterFunc(time.Hour, wake), at: map[string]int{},
	}
	d.timer.Stop()
	for at, label := range plan.Labels {
		d.at[label] = at
	}
	for at := range plan.Stages {
		if how := plan.Stages[at].How(); how != nil && how.Calling != nil {
			d.queues[at] = newFairQueue(&plan.Fairness, how.Calling, wake)
			d.leases.add(at, how.Calling.Timeout)
			d.stages = append(d.stages, at)
		}
	}
	plan.Commands.join(d, true)
	return d
}

// Restore adds a partition. If another pipeline stored its events, other describes that pipeline.
// Restore then returns ErrQueued if any event is queued.
func (d *Dispatcher) Restore(a stream.Assigned, other string) (*Partition, error) {
	p := &Partition{Queue: NewQueue(d.plan.Ordered), ID: a.Partition, view: a.State, queues: d.plan.Queues}
	if d.plan.Fairness.TenantMax > 0 {
		p.tenants = d.plan.Tenants
	}
	for entry, err := range a.State.Scan([]byte{statekey.Queued}) {
		if err != nil {
			return nil, err
		}
		if !d.plan.Queues {
			other = cmp.Or(other, "before its file was changed: run the earlier file")
		}
		if other != "" {
			return nil, &ErrQueued{d.plan.Pipeline, a.Partition, other}
		}
		e, err := d.parse(a.Partition, entry.Key, entry.Value)
		if err != nil {
			return nil, err
		}
		p.Queue.Restore(int64(e.Record.Offset), e.Record.Key, e.Head)
	}
	var err error
	if p.journal, err = d.openJournal(a); err != nil {
		return nil, err
	}
	d.partitions[p.ID] = p
	return p, nil
}

// ErrQueued says that another pipeline queued events.
type ErrQueued struct {
	Pipeline  string
	Partition stream.Partition
	Other     string // how that pipeline differs, and what to do
}

// Error says what to do next.
func (e *ErrQueued) Error() string {
	return fmt.Sprintf("events of pipeline %q in %v were queued %s until `afterbay queue ls` shows none", e.Pipeline, e.Partition, e.Other)
}

// parse parses an entry and finds its operator.
func (d *Dispatcher) parse(p stream.Partition, key, data []byte) (*Entry, error) {
	e, err := Parse(p, key, data)
	if err != nil {
		return nil, err
	}
	at, ok := d.at[e.Step]
	if !ok {
		return nil, &ErrUnknownStep{d.plan.Pipeline, p, e.Record.Offset, e.Step}
	}
	e.Stage = at
	return e, nil
}

// ErrUnknownStep says that an event was queued for a step that the pipeline lacks.
type ErrUnknownStep struct {
	Pipeline  string
	Partition stream.Partition
	Offset    stream.Offset
	Step      string // its label
}

// Error says what to do next.
func (e *ErrUnknownStep) Error() string {
	return fmt.Sprintf("the event %v@%d of pipeline %q was queued for the step `%s`, which the pipeline does not have: run the version of afterbay that queued it, or remove the event with `afterbay queue drop`", e.Partition, e.Offset, e.Pipeline, e.Step)
}

// Leave stops new calls for partitions that are being revoked.
func (d *Dispatcher) Leave(partitions []stream.Partition) {
	for _, id := range partitions {
		if p := d.partitions[id]; p != nil {
			p.leaving = true
		}
	}
}

// Leaving reports whether calls are in flight for partitions that are being revoked. The next owner
// of these partitions would repeat the calls.
func (d *Dispatcher) Leaving() bool { return d.calls.leaving() }

// Forget removes a partition. Results of its calls are ignored.
func (d *Dispatcher) Forget(p stream.Partition) {
	if gone := d.partitions[p]; gone != nil {
		gone.empty()
	}
	delete(d.partitions, p)
}

// Calling reports whether calls hold slots at endpoints. Only Next and Settle free these slots.
func (d *Dispatcher) Calling() bool { return len(d.calls.inFlight)+len(d.held) > 0 }

// Settle records that the transactions up to step are durable.
func (d *Dispatcher) Settle(step uint64) {
	for _, p := range d.partitions {
		p.Settle(step)
	}
	d.takeDurable()
	n := 0
	for ; n < len(d.held) && d.held[n].step <= step; n++ {
		d.held[n].end()
	}
	d.held = slices.Delete(d.held, 0, n)
}

// Drain waits for the calls in flight, at most for limit. No call can start after it.
func (d *Dispatcher) Drain(limit time.Duration) { d.calls.wait(limit) }

// Close cancels the calls in flight, waits for them and frees their slots.
func (d *Dispatcher) Close() {
	d.plan.Commands.join(d, false)
	d.refuseCommands()
	d.timer.Stop()
	d.calls.cancel()
	d.calls.group.Wait()
	for _, c := range d.calls.take() {
		if d.leases.end(d.plan.Clock.Now(), c) {
			c.end()
		}
	}
	for _, c := range d.held {
		c.end()
	}
	d.held = nil
	for _, l := range d.queues {
		l.slot.Leave(d.plan.Clock.Now())
	}
	for p := range d.partitions {
		d.Forget(p)
	}
}

// Next returns the events to resume, sorted by partition and offset. Unless ending is set, it also
// starts calls for others. Events with an answer, or with the fallback, resume after their
// operator. Events with an error are given up. The others begin with their operator. down says that
// a required endpoint is down, so that reading must stop. A call with resumed events keeps its slot
// until transaction step is durable.
func (d *Dispatcher) Next(now time.Time, step uint64, ending bool) (list []Task, down bool, err error) {
	d.now = now
	if list, err = d.takeCommands(); err == nil {
		err = d.takeCancels(&list)
	}
	if err != nil {
		return nil, false, err
	}
	d.abandon(len(list) > 0)
	for _, t := range d.durable {
		if d.owns(&t) {
			list = append(list, t)
		}
	}
	d.durable = nil
	if err := errors.Join(d.takeEnded(step, &list), d.takeLapsed(step, &list)); err != nil {
		return nil, false, err
	}
	for _, p := range d.partitions {
		for _, waiting := range p.Ready() {
			t, err := d.load(p, waiting)
			if err != nil {
				return nil, false, err
			}
			list = append(list, t)
		}
	}
	if !ending {
		again := time.Duration(0)
		if again, down, err = d.dispatch(&list); err != nil {
			return nil, false, err
		}
		if d.timer.Stop(); again > 0 {
			d.timer.Reset(again)
		}
	}
	slices.SortFunc(list, func(a, b Task) int {
		return cmp.Or(cmp.Compare(a.Partition.ID.Index, b.Partition.ID.Index), cmp.Compare(a.waiting.Offset, b.waiting.Offset))
	})
	return list, down, nil
}

// load reads a queued event from the state.
func (d *Dispatcher) load(p *Partition, waiting *Waiting) (Task, error) {
	key := statekey.AppendQueued(nil, waiting.Offset)
	data, err := p.view.Get(key)
	if err != nil {
		return Task{}, err
	}
	t := Task{Partition: p, Row: &d.plan.Schema.NewRows(1)[0], waiting: waiting}
	if t.Entry, err = d.parse(p.ID, key, data); err != nil {
		return Task{}, err
	}
	t.Entry.Shown, waiting.showing = waiting.Shown, false // the stored value may be older
	if t.Entry.Over {
		return t, nil // it has no row
	}
	if err := ReadRow(t.Entry.Row, t.Row, d.plan.Schema); err != nil {
		return Task{}, fmt.Errorf("%v@%d: %w", p.ID, waiting.Offset, ErrDamaged)
	}
	if len(t.Entry.Members) > 0 {
		if err := d.plan.Attach(p.view, p.ID, t.Entry.Members, t.Row); err != nil {
			return Task{}, err
		}
	}
	return t, nil
}

// owns reports whether an event is still queued here. It is not if its partition was revoked or the
// event ended.
func (d *Dispatcher) owns(t *Task) bool {
	p := t.Partition
	return d.partitions[p.ID] == p && p.Get(t.waiting.Offset) == t.waiting && !t.waiting.dropped
}

// takeEnded takes the results of ended calls, and adds the events to resume.
func (d *Dispatcher) takeEnded(step uint64, list *[]Task) error {
	for _, c := range d.calls.take() {
		take := d.takeLate
		if d.leases.end(d.now, c) {
			take = d.takeTasks
			c.observe(c.at, c.tasks, c.late, c.abandoned)
		}
		if err := take(c, c.tasks, step, list); err != nil {
			return err
		}
	}
	return nil
}

// takeTasks takes the results of a call for its events.
func (d *Dispatcher) takeTasks(c *call, tasks []Task, step uint64, list *[]Task) error {
	brought, calling := false, c.how.Calling
	for _, t := range tasks {
		if d.partitions[t.Partition.ID] != t.Partition {
			continue
		}
		wait, err := d.record(c, t) // also answers that no event waits for
		if err != nil {
			return err
		}
		if brought = brought || wait; wait || !d.owns(&t) {
			continue
		}
		if t.Err == nil || calling.Exhausted(t.Err, t.attempts) || d.expired(&t, calling) {
			t.Entry.Attempts = max(t.Entry.Attempts, t.attempts)
			*list, brought = append(*list, t), true
			continue
		}
		d.retry(t, calling)
	}
	if !brought {
		c.end()
		return nil
	}
	c.step = step
	d.held = append(d.held, c)
	return nil
}

// retry schedules another call for an event. It stores attempts that count against the event. Of
// other failures it stores the first error. It stores a different error only at the 2nd, 4th, 8th
// ... failure, because a write for each would cost as many writes as there are retries.
func (d *Dispatcher) retry(t Task, c *operator.Calling) {
	d.retries++
	t.waiting.faults++
	n, why := t.waiting.faults, t.Err.Error()
	due := d.now.Add(c.Delay(t.Row.Text(d.plan.ID), n, t.Err)).UnixMicro()
	if t.attempts <= t.Entry.Attempts && (why == t.Entry.Error || t.Entry.Error != "" && n&(n-1) != 0) {
		t.Partition.Retry(t.waiting, due)
		return
	}
	t.Entry.Due, t.Entry.Error, t.Entry.Attempts = due, why, max(t.Entry.Attempts, t.attempts)
	d.store(t.Partition, t.Entry)
}

// expired reports whether an event has waited for too long, and sets its error.
func (d *Dispatcher) expired(t *Task, c *operator.Calling) bool {
	waited := time.Duration(d.now.UnixMicro()-t.Entry.Since) * time.Microsecond
	if c.Expire == 0 || waited < c.Expire {
		return false
	}
	err := fmt.Errorf("was queued for %v", waited.Round(time.Millisecond))
	switch {
	case t.Err != nil:
		err = fmt.Errorf("%w, and at last: %w", err, t.Err)
	case t.Entry.Error != "":
		err = fmt.Errorf("%w, and when it was: %s", err, t.Entry.Error)
	}
	t.Err = &deadletter.Ending{Code: deadletter.Expired, After: max(c.Backoff.Max, time.Second), Err: err}
	return true
}

// dispatch starts calls for due events. It adds the events to give up to the list. It returns the
// time after which there may be more work, or 0 to wait for an event. It also returns whether a
// required endpoint is down.
func (d *Dispatcher) dispatch(list *[]Task) (again time.Duration, down bool, err error) {
	soon := func(in time.Duration) {
		if in = max(in, time.Millisecond); again == 0 || in < again {
			again = in
		}
	}
	d.first++ // rotate, because operators may share an endpoint
	for i := range d.stages {
		at := d.stages[(d.first+i)%len(d.stages)]
		if next, some := d.schedule(at); some {
			soon(time.Duration(next-d.now.UnixMicro()) * time.Microsecond)
		}
		if lapse, some := d.leases.next(at); some {
			soon(lapse.Sub(d.now))
		}
		calling, waiting := d.plan.Stages[at].How().Calling, d.queues[at]
		if waiting.Len() == 0 {
			waiting.slot.Leave(d.now)
		}
		for waiting.Len() > 0 {
			c := newCall(d.batched(at), d.plan.Clock)
			admitted, admission, wait := waiting.slot.Begin(d.now, 0)
			if c.admitted = admitted; admission == control.Admitted {
				if err := d.fill(c, at, list); err != nil {
					return 0, false, err
				}
				continue
			}
			down = down || admission == control.Down && calling.Open == operator.OpenPause && d.untried(at)
			soon(cmp.Or(min(wait, lookAgain), lookAgain/5))
			if admission == control.Down && calling.Journal != operator.JournalNone {
				if err := d.takeKnown(at, wait, list); err != nil {
					return 0, false, err
				}
			}
			if err := d.takeOld(at, admission == control.Down && calling.Open == operator.OpenFallback, list); err != nil {
				return 0, false, err
			}
			break
		}
	}
	return again, down, nil
}

// fill takes the due events for one call, and starts the call.
func (d *Dispatcher) fill(c *call, at int, list *[]Task) error {
	for len(c.tasks) < c.rowsMax() {
		p, waiting, some := d.take(at)
		if !some {
			break
		}
		t, err := d.load(p, waiting)
		if err != nil {
			c.end()
			return err
		}
		if d.expired(&t, c.how.Calling) {
			*list = append(*list, t)
		} else if waiting.outlier.Alone() && len(c.tasks) > 0 {
			d.queues[at].putBack(p, waiting, d.now)
			break
		} else if err := d.ask(c, t, list); err != nil {
			c.end()
			return err
		}
	}
	if len(c.tasks) == 0 {
		c.end()
		return nil
	}
	if !c.how.Finds { // lookups count themselves
		d.calledFor++
		d.rows += uint64(len(c.tasks))
	}
	d.leases.grant(d.now, at, c)
	d.calls.start(c)
	return nil
}

// takeOld takes the events that have waited too long for an endpoint that takes no calls. If
// fallback is set, it takes all waiting events and gives them the fallback.
func (d *Dispatcher) takeOld(at int, fallback bool, list *[]Task) error {
	c, before := d.plan.Stages[at].How().Calling, d.now
	if !fallback {
		if c.Expire == 0 {
			return nil
		}
		before = before.Add(-c.Expire)
	}
	for _, p := range d.partitions {
		if p.leaving {
			continue
		}
		for _, waiting := range p.TakeSince(at, before.UnixMicro()) {
			t, err := d.load(p, waiting)
			if err != nil {
				return err
			}
			t.Fallback = !d.expired(&t, c) && fallback
			*list = append(*list, t)
		}
	}
	return nil
}

// batched returns the operator at an index, which must be Batched.
func (d *Dispatcher) batched(at int) operator.Batched {
	return d.plan.Stages[at].Operator.(operator.Batched)
}
