package sinks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

const pollMax = 256 // maximum number of records from one Poll

// worker passes records to a Sink.
type worker struct{ *member[*partition] }

func newWorker(ctx context.Context, d *Deliverer, s stream.Member, from reading) *worker {
	w := &worker{}
	w.member = newMember(ctx, d, s, from, w, pollMax)
	return w
}

func (w *worker) assign(_ context.Context, a stream.Assigned) (*partition, error) {
	return newPartition(a, w.options.ids())
}

func (w *worker) hold(records []stream.Record, _ time.Time) {
	for _, r := range records {
		w.part(r.Partition).hold(r)
	}
}

func (w *worker) held(p *partition) (records int, full bool) { return len(p.held), p.full() }

// settled does nothing: the next calls do not depend on a commit.
func (w *worker) settled() {}

// begin starts calls for records in turn, up to the concurrency limit.
func (w *worker) begin(now time.Time) (due time.Time) {
	refuses := false // the service allows no call now
	for p := range w.inTurn() {
		for _, d := range p.held {
			if d.state != waiting || !d.first() {
				continue
			}
			unchecked := !d.checked
			d.checked = true
			switch {
			case unchecked && d.part.knows(d):
				d.state, d.part.changed = repeated, true
				w.metrics.Repeated.Add(1)
			case w.options.Expire > 0 && d.attempts > 0 && now.Sub(d.begun) >= w.options.Expire:
				w.refuse(d, fmt.Errorf("not taken for %v: %w", w.options.Expire, d.err))
			case d.due.After(now):
				due = sooner(due, d.due)
			case w.free() && !refuses:
				passed, wait := w.service.begin(now)
				if refuses = wait > 0; refuses {
					due = sooner(due, now.Add(wait))
					continue
				}
				w.deliver(d, passed, now)
			}
		}
	}
	return due
}

// deliver passes a record to the service.
func (w *worker) deliver(d *delivery, passed control.BreakerCall, now time.Time) {
	if d.attempts++; d.attempts == 1 {
		d.begun = now
	}
	d.state = calling
	d.part.calling++
	w.call(passed, func(ctx context.Context) error {
		return w.sink.Each.Deliver(ctx, d.id, &d.record)
	}, func(now time.Time, took time.Duration, err error) (control.Outcome, error) {
		d.part.calling--
		w.metrics.Call.Record(took, 1)
		return w.note(d, now, err), nil
	})
}

// note handles the result of a call for a record.
func (w *worker) note(d *delivery, now time.Time, err error) control.Outcome {
	var refusal *sink.Refused
	switch {
	case err == nil:
		d.part.take(d)
		w.metrics.Delivered.Add(1)
		w.metrics.Fresh.Record(now.Sub(d.record.Time), 1)
	case errors.As(err, &refusal):
		w.refuse(d, err)
	default:
		w.metrics.Failures.Add(1)
		d.state, d.err, d.due = waiting, err, now.Add(backoff.Delay(d.id, d.attempts))
		return control.Faulted
	}
	return control.Answered
}

// refuse marks a record to become a dead letter.
func (w *worker) refuse(d *delivery, reason error) {
	d.state, d.err, d.part.changed = refused, reason, true
	w.metrics.Refused.Add(1)
}

// fill removes finished records. The offset moves past a refused record only together with its dead
// letter.
func (w *worker) fill(step *stream.Transaction, fits func(size int) bool) {
	letter := func(d *delivery) bool {
		if !fits(d.size() + letterRoom) {
			return false
		}
		step.Outputs = append(step.Outputs, w.letter(d, w.pace.RecordBytes))
		return true
	}
	for _, p := range w.parts {
		if p.changed {
			p.pass(letter)
			step.Changes = p.changes(step.Changes)
			step.Offsets[p.id] = p.next
		}
	}
}
