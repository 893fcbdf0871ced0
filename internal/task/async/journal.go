package async

import (
	"errors"
	"time"

	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// kept is the journal beside a partition, and who waits for its answers. An answer
// is gone on with once the step that holds it is durable, so that a crash repeats
// only calls that were under way.
type kept struct {
	*journal.Journal
	waits  map[uint64]Task // by offset: for an answer that is on its way, or not durable
	sealed int             // steps with its changes that are not durable
}

func (d *Dispatcher) openJournal(a stream.Assigned) (*kept, error) {
	if d.plan.Journal == nil {
		return nil, nil
	}
	j, err := journal.Open(a.Partition, a.State, *d.plan.Journal)
	return &kept{Journal: j, waits: map[uint64]Task{}}, err
}

// ask adds an event to a call, unless the journal has the answer, or will have.
func (d *Dispatcher) ask(c *call, t Task, list *[]Task) error {
	if t.Err = c.add(t); t.Err != nil {
		*list = append(*list, t)
		return nil
	}
	by, p := c.how.Calling.Journal, t.Partition
	if by == operator.JournalNone {
		return nil
	}
	rows, last := &c.gather.Rows, len(c.tasks)-1
	values, bytes := rows.Row(last)
	info := c.how.Model.Info()
	request := journal.Request{Endpoint: c.how.Name, Version: info.Digest, Parameters: info.Request + c.how.Asks, Body: journal.AppendRow(nil, values, bytes)}
	if by == operator.JournalByEvent {
		request.Event = t.Row.Text(d.plan.ID)
	}
	t.key = request.Key()
	state, answer, err := p.journal.Ask(t.key, c.how.Name, uint64(t.Entry.Record.Offset))
	if err != nil {
		return err
	}
	if state == journal.Call {
		c.tasks[last] = t
		if by == operator.JournalByEvent {
			c.events = appendText(c.events, []byte(request.Event))
		}
		return nil
	}
	c.tasks, *rows = c.tasks[:last], rows.Slice(0, last)
	if state == journal.Wait {
		p.journal.waits[uint64(t.Entry.Record.Offset)] = t
		return nil
	}
	*list = append(*list, t.answered(answer, c.op))
	return nil
}

// takeKnown takes what is due of a stage whose endpoint is down and whose answer
// the journal has. The rest is due again when the endpoint may be asked.
func (d *Dispatcher) takeKnown(at int, again time.Duration, list *[]Task) error {
	for {
		e, some := d.next(at)
		if !some {
			return nil
		}
		p, w := e.Value.partition, e.Value.waiting
		if !w.looked {
			w.looked = true
			t, err := d.load(p, w)
			if err != nil {
				return err
			}
			c := newCall(d.batched(at), d.plan.Clock) // which is not made
			if err := d.ask(c, t, list); err != nil {
				return err
			}
			if len(c.tasks) == 0 {
				continue
			}
			p.journal.Fail(c.tasks[0].key)
		}
		p.Retry(w, d.now.Add(again).UnixMicro())
	}
}

// answered returns the task with an answer of the journal.
func (t Task) answered(answer []byte, op operator.Batched) Task {
	_, _, outputs := op.Columns()
	t.Answer = model.Answer{Scores: make([]float32, outputs), Texts: make([][]byte, op.How().Model.Info().Texts())}
	t.Err = journal.ReadAnswer(t.Answer.Scores, t.Answer.Texts, answer)
	t.Answered = t.Err == nil
	return t
}

// record puts what a call brought for an event into the journal. It reports
// whether the event is to wait for that to be durable.
func (d *Dispatcher) record(c *call, t Task) (wait bool, err error) {
	b, offset := t.Partition.journal, uint64(t.Entry.Record.Offset)
	if c.how.Calling.Journal == operator.JournalNone {
		return false, nil
	}
	if t.Err != nil {
		d.askAgain(&t)
		return false, nil
	}
	recorded, err := b.Record(t.key, c.answer(&t), t.Entry.Time)
	switch {
	case errors.Is(err, stream.ErrTooLarge): // it is used, and not kept
		d.askAgain(&t)
		return false, nil
	case err != nil:
		return false, err
	case recorded:
		d.store(t.Partition, nil)
		b.waits[offset] = t
		return true, nil
	}
	d.askAgain(&t) // there is an answer: it counts
	t.Partition.Retry(t.waiting, d.now.UnixMicro())
	return true, nil
}

// answer is what the journal keeps of an event's answer.
func (c *call) answer(t *Task) journal.Answer {
	return journal.Answer{Model: c.how.Name, Bytes: journal.AppendAnswer(nil, t.Answer.Scores, t.Answer.Texts), Units: 1, Price: c.how.Calling.Price}
}

// askAgain puts the events back that waited for the call of another, t.
func (d *Dispatcher) askAgain(t *Task) {
	p, caller := t.Partition, uint64(t.Entry.Record.Offset)
	for _, offset := range p.journal.Fail(t.key) {
		waiter, ok := p.journal.waits[offset]
		if !ok || offset == caller {
			continue
		}
		if delete(p.journal.waits, offset); d.owns(&waiter) {
			p.Retry(waiter.waiting, d.now.UnixMicro())
		}
	}
}

// Seal gives what journals change to the step that is committed next.
func (d *Dispatcher) Seal(change func(*Partition, []stream.Change)) {
	for _, p := range d.partitions {
		if p.journal == nil {
			continue
		}
		p.journal.sealed++
		if changes := p.journal.Changes(); len(changes) > 0 {
			change(p, changes)
		}
	}
}

// takeDurable goes on with the events whose answers became durable with a step.
func (d *Dispatcher) takeDurable() {
	for _, p := range d.partitions {
		if p.journal == nil || p.journal.sealed == 0 {
			continue
		}
		p.journal.sealed--
		for _, landed := range p.journal.Committed() {
			for _, waiter := range landed.Waiters {
				t, ok := p.journal.waits[waiter]
				if delete(p.journal.waits, waiter); ok && d.owns(&t) {
					d.durable = append(d.durable, t.answered(landed.Answer, d.batched(t.Entry.Stage)))
				}
			}
		}
	}
}
