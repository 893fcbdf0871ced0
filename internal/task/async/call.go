package async

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/task/clock"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
)

// Task is a queued event that was taken from its queue.
type Task struct {
	Partition *Partition
	Entry     *Entry
	Row       *value.Row
	Answered  bool // Answer holds the answer of its call; false if the call failed or there was none
	Answer    model.Answer
	Err       error // why it failed
	Fallback  bool  // its scores are the fallback
	Cancelled bool  // its client cancelled it

	waiting  *Waiting
	attempts int         // attempts that count against it after a call
	ready    bool        // the model was ready after the call failed
	key      journal.Key // journal key of its request, if there is a journal
}

// call is a call of a model for queued events.
type call struct {
	op       operator.Batched
	how      *operator.Batch // settings of op
	clock    clock.Clock
	event    operator.Event // event that is being added
	tasks    []Task
	gather   batch.Gather
	admitted control.Call
	step     uint64          // transaction that must be durable before the call frees its slot
	outlier  control.Outlier // of the first event, before the call
	events   []byte          // ids of its events, if each event has its own answer
	token    control.Token
	stage    int                // index in the plan's Stages
	cancel   context.CancelFunc // cancels the request to the model

	late, abandoned bool // outcome of the call at time at
	at              time.Time
}

func newCall(op operator.Batched, clock clock.Clock) *call {
	c := &call{op: op, how: op.How(), clock: clock}
	numbers, texts, _ := op.Columns()
	c.gather.Begin(numbers, texts)
	return c
}

// add adds an event. If the event cannot be scored, add returns an error and does not add it.
func (c *call) add(t Task) error {
	c.event = operator.Event{Record: &t.Entry.Record, Row: t.Row, Time: t.Entry.Time, Watermark: t.Entry.Watermark}
	err := c.op.Append(&c.gather.Rows, &c.event)
	if err == nil {
		if len(c.tasks) == 0 {
			c.outlier = t.waiting.outlier
		}
		c.tasks = append(c.tasks, t)
	}
	return err
}

// rowsMax returns the most events of a call. It is the number of rows in one request of the model,
// so that each answer is stored when it arrives.
func (c *call) rowsMax() int {
	calling := c.how.Calling
	most := c.how.Model.Info().RowsMax
	switch {
	case calling.Generative && calling.Journal == operator.JournalByEvent, len(c.tasks) > 0 && c.tasks[0].waiting.outlier.Alone():
		return 1
	case most > 0:
		return min(c.how.Size, most)
	}
	return c.how.Size
}

// run makes the call, and stores the result for each event.
func (c *call) run(ctx context.Context) {
	calling := c.how.Calling
	timed, cancel := calling.Context(ctx, string(c.events))
	defer cancel()
	_, _, outputs := c.op.Columns()
	err := c.gather.Run(timed, c.how.Model, outputs, c.how.Size, c.how.ByLength)
	late := error(nil)
	if err == nil && len(c.gather.Failed) == 0 {
		late = calling.Late(timed)
	}
	if calling.Journal == operator.JournalNone { // otherwise a late answer is stored in the journal and found by the next attempt
		err = cmp.Or(err, late)
	}
	for i := range c.tasks {
		if c.tasks[i].Err = c.named(err); err == nil {
			c.tasks[i].Answer, c.tasks[i].Answered = c.gather.Answer(i), true
		}
	}
	if err == nil {
		for _, f := range c.gather.Failed {
			t := &c.tasks[f.Row]
			t.Answered, t.Err = false, c.named(f.Err)
		}
	}
	c.late, c.abandoned, c.at = late != nil, ctx.Err() != nil, c.clock.Now()
	if len(c.tasks) == 1 { // a failure of several events blames none of them, unless others are answered
		c.tasks[0].ready = calling.Confirm(ctx, c.admitted, c.outlier, c.tasks[0].Err, c.at)
	}
}

// named adds the name of the score to an error, as a call inside the loop does.
func (c *call) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", c.how.Name, err)
}

// observe judges the failures of a call, and reports the Outcome to the endpoint.
func (c *call) observe(at time.Time, tasks []Task, late, abandoned bool) {
	calling, outcome := c.how.Calling, control.Abandoned
	if !abandoned {
		var failures []operator.Failure
		for i := range tasks {
			if o := &tasks[i].waiting.outlier; tasks[i].Err == nil {
				calling.Endpoint.Answered(o)
			} else {
				failures = append(failures, operator.Failure{Err: tasks[i].Err, Outlier: o, Ready: tasks[i].ready})
			}
		}
		outcome = calling.Judge(c.admitted, len(tasks)-len(failures), failures)
		for i := range tasks {
			if tasks[i].Err != nil {
				tasks[i].attempts, failures = failures[0].Attempts, failures[1:]
			}
		}
	}
	if late && outcome == control.Answered {
		outcome = control.Faulted
	}
	calling.Endpoint.Observe(at, c.admitted, outcome)
}

// end frees the slot of the call.
func (c *call) end() { c.how.Calling.Endpoint.End(c.clock.Now(), c.admitted) }

// calls runs the calls of a member outside its loop.
type calls struct {
	wake     func()
	clock    clock.Clock
	begun    context.Context // parent context of all calls
	cancel   context.CancelFunc
	group    sync.WaitGroup
	inFlight map[*call]bool // not taken yet; owned by the loop

	mu    sync.Mutex
	ended []*call
	parts map[*call]Part // parts of calls in flight
}

// newCalls returns an empty calls. It calls wake at the end of each call.
func newCalls(wake func(), clock clock.Clock) *calls {
	ctx, cancel := context.WithCancel(context.Background())
	return &calls{wake: wake, clock: clock, begun: ctx, cancel: cancel, inFlight: map[*call]bool{}, parts: map[*call]Part{}}
}

// start starts a call that has a slot.
func (d *calls) start(c *call) {
	d.inFlight[c] = true
	var begun context.Context
	begun, c.cancel = context.WithCancel(d.begun)
	d.group.Go(func() {
		defer c.cancel()
		c.run(d.listen(begun, c))
		d.mu.Lock()
		d.ended = append(d.ended, c)
		d.mu.Unlock()
		d.wake()
	})
}

// take removes and returns the calls that have ended.
func (d *calls) take() []*call {
	d.mu.Lock()
	defer d.mu.Unlock()
	ended := d.ended
	d.ended = nil
	for _, c := range ended {
		delete(d.inFlight, c)
	}
	return ended
}

// leaving reports whether calls are in flight for partitions that are being revoked.
func (d *calls) leaving() bool {
	for c := range d.inFlight {
		for i := range c.tasks {
			if c.tasks[i].Partition.leaving {
				return true
			}
		}
	}
	return false
}

// wait waits for the calls in flight, and cancels those that take longer than limit. No call can
// start after it.
func (d *calls) wait(limit time.Duration) {
	timer := d.clock.AfterFunc(limit, d.cancel)
	defer timer.Stop()
	d.group.Wait()
}
