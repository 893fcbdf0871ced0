package async

import (
	"errors"
	"time"

	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// kept is the journal of a partition, and the events that wait for its answers. An event resumes
// once the transaction with its answer is durable, so that a crash repeats only calls in flight.
type kept struct {
	*journal.Journal
	waits  map[uint64]Task // by offset: events that wait for an answer in flight, or not durable yet
	sealed int             // transactions with its changes that are not durable
}

func (d *Dispatcher) openJournal(a stream.Assigned) (*kept, error) {
	if d.plan.Journal == nil {
		return nil, nil
	}
	j, err := journal.Open(a.Partition, a.State, *d.plan.Journal)
	return &kept{Journal: j, waits: map[uint64]Task{}}, err
}

// ask adds an event to a call, unless the journal has the answer or is about to have it.
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

// takeKnown takes the due events of an operator that have their answer in the journal, while the
// endpoint is down. The other events are due again when the endpoint may be called.
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
			c := newCall(d.batched(at), d.plan.Clock) // this call is never started
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

// record stores the result of a call for an event in the journal. It reports whether the event must
// wait until that is durable.
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
	case errors.Is(err, stream.ErrTooLarge): // the answer is used, but not stored
		d.askAgain(&t)
		return false, nil
	case err != nil:
		return false, err
	case recorded:
		d.store(t.Partition, nil)
		b.waits[offset] = t
		return true, nil
	}
	d.askAgain(&t) // the journal already has an answer, and that one counts
	t.Partition.Retry(t.waiting, d.now.UnixMicro())
	return true, nil
}

// answer returns the journal's form of an event's answer.
func (c *call) answer(t *Task) journal.Answer {
	return journal.Answer{Model: c.how.Name, Bytes: journal.AppendAnswer(nil, t.Answer.Scores, t.Answer.Texts), Units: 1, Price: c.how.Calling.Price}
}

// askAgain puts back the events that waited for the call of t.
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

// Seal passes the changes of journals to the transaction that commits next.
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

// takeDurable collects the events with answers that became durable.
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
