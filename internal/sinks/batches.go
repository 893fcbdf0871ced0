package sinks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

const batchPollMax = 4096 // maximum number of records from one Poll

// errOwned means that the Writer knows another owner of a partition.
var errOwned = errors.New("another one writes its records")

// batches passes records to a Writer. Each partition has at most one call in flight, with the first
// records that it holds. So the finished records are always a prefix, and the offset to commit
// moves over it. Only records that were in flight are written again.
type batches struct{ *member[*lane] }

// lane is an assigned partition.
type lane struct {
	assigned
	claim   sink.Claim // nil before the partition is claimed
	next    stream.Offset
	passed  stream.Offset // after the newest cancel; cancels are not held
	safe    stream.Offset // the group's offset that is known to be durable
	behind  stream.Offset // no calls until safe reaches it: dead letters must be committed first
	sent    stream.Offset // offset in the outstanding commit
	held    []stream.Record
	bytes   int
	since   time.Time // arrival of the first held record
	letters []*delivery

	calling  bool
	asked    int // number of held records in the current or failed call
	attempts int
	begun    time.Time // start of the first attempt
	due      time.Time // time of the next attempt
	err      error     // error of the last attempt

	changed bool // there is something to commit
}

func (p *lane) awaited() bool { return p.calling }

func (p *lane) dirty(bool) bool { return p.changed }

func newBatches(ctx context.Context, d *Deliverer, s stream.Member, from reading) *batches {
	w := &batches{}
	w.member = newMember(ctx, d, s, from, w, batchPollMax)
	return w
}

func (w *batches) assign(_ context.Context, a stream.Assigned) (*lane, error) {
	return &lane{assigned: assigned{id: a.Partition}, next: a.Next, safe: a.Next}, nil
}

func (w *batches) hold(records []stream.Record, now time.Time) {
	for _, r := range records {
		p := w.part(r.Partition)
		if isCancel(&r) {
			p.passed = r.Offset + 1
			p.pass()
			continue
		}
		if len(p.held) == 0 {
			p.since = now
		}
		p.held = append(p.held, r)
		p.bytes += sizeOf(&r)
	}
}

// held returns the number of held records. A partition is full at twice the size of a call.
func (w *batches) held(p *lane) (records int, full bool) {
	return len(p.held), len(p.held) >= 2*w.options.Batch || p.bytes >= 2*w.options.BatchBytes
}

// settled updates the durable offsets. begin, which follows, then continues with partitions that
// waited for their dead letters.
func (w *batches) settled() {
	for _, p := range w.parts {
		p.safe = max(p.safe, p.sent)
	}
}

// begin starts calls for partitions in turn.
func (w *batches) begin(now time.Time) (due time.Time) {
	for p := range w.inTurn() {
		if p.calling || len(p.held) == 0 || p.safe < p.behind {
			continue
		}
		if w.options.Expire > 0 && p.attempts > 0 && now.Sub(p.begun) >= w.options.Expire {
			for i := range p.held[:p.asked] {
				w.refuse(p, &p.held[i], fmt.Errorf("not taken for %v: %w", w.options.Expire, p.err))
			}
			w.drop(p, now)
			p.attempts, p.behind = 0, p.next // the Writer's own position would pass them
			continue
		}
		at := p.due
		if p.attempts == 0 && len(p.held) < w.options.Batch && p.bytes < w.options.BatchBytes {
			at = p.since.Add(w.options.Wait)
		}
		switch {
		case at.After(now):
			due = sooner(due, at)
		case w.free():
			passed, wait := w.service.begin(now)
			if wait > 0 {
				return sooner(due, now.Add(wait))
			}
			w.write(p, passed, now)
		}
	}
	return due
}

// write passes the first records of a partition to the service. It first claims the partition if
// necessary.
func (w *batches) write(p *lane, passed control.BreakerCall, now time.Time) {
	if p.attempts++; p.attempts == 1 {
		p.begun = now
	}
	bytes := 0
	for p.asked = 0; p.asked < min(len(p.held), w.options.Batch) && bytes < w.options.BatchBytes; p.asked++ {
		bytes += sizeOf(&p.held[p.asked])
	}
	p.calling = true
	claim, records, safe, next := p.claim, p.held[:p.asked], p.safe, p.next
	if claim == nil {
		w.call(passed, func(ctx context.Context) (err error) {
			claim, err = w.sink.Many.Claim(ctx, p.id, next)
			return err
		}, func(now time.Time, _ time.Duration, err error) (control.Outcome, error) {
			if p.calling = false; err != nil {
				return w.failed(p, now, err)
			}
			p.claim, p.due = claim, time.Time{}
			p.attempts--                  // attempts count writes, not claims
			return control.Abandoned, nil // only a write shows whether the service works
		})
		return
	}
	var outcome sink.Outcome
	w.call(passed, func(ctx context.Context) (err error) {
		outcome, err = claim.Write(ctx, safe, records)
		return err
	}, func(now time.Time, took time.Duration, err error) (control.Outcome, error) {
		if p.calling = false; err != nil {
			return w.failed(p, now, err)
		}
		p.attempts, p.err, p.due = 0, nil, time.Time{}
		w.metrics.Call.Record(took, 1)
		w.written(p, outcome, now)
		return control.Answered, nil
	})
}

// failed handles a failed call. It returns an error if another process owns the partition: the log
// may then have fenced this member.
func (w *batches) failed(p *lane, now time.Time, err error) (control.Outcome, error) {
	w.metrics.Failures.Add(1)
	p.claim = nil // the result of the call is unknown
	p.err, p.due = err, now.Add(backoff.Delay(p.id.String(), p.attempts))
	if errors.Is(err, stream.ErrFenced) {
		return control.Faulted, fmt.Errorf("%v: %w: %w", p.id, errOwned, err)
	}
	return control.Faulted, nil
}

// written handles a successful write. All its records are done or, if the Writer stopped, those up
// to the last refused one.
func (w *batches) written(p *lane, o sink.Outcome, now time.Time) {
	stopped := o.Stopped && len(o.Refused) > 0
	if stopped {
		p.asked = o.Refused[len(o.Refused)-1].Index + 1
	}
	for _, r := range o.Refused {
		w.refuse(p, &p.held[r.Index], &sink.Refused{Err: r.Err})
	}
	w.metrics.Delivered.Add(uint64(p.asked - len(o.Refused)))
	refused := o.Refused
	for i := range p.held[:p.asked] {
		if len(refused) > 0 && refused[0].Index == i {
			refused = refused[1:]
			continue
		}
		w.metrics.Fresh.Record(now.Sub(p.held[i].Time), 1)
	}
	w.metrics.Older.Add(uint64(o.Older))
	w.metrics.Foreign.Add(uint64(o.Foreign))
	w.drop(p, now)
	if stopped {
		p.behind = p.next
	}
}

// refuse turns a record into a dead letter.
func (w *batches) refuse(p *lane, r *stream.Record, err error) {
	w.metrics.Refused.Add(1)
	p.letters = append(p.letters, &delivery{record: *r, id: sink.IDOf(r), err: err, attempts: max(1, p.attempts)})
}

// drop removes the records of the last call from held.
func (w *batches) drop(p *lane, now time.Time) {
	for i := range p.held[:p.asked] {
		p.bytes -= sizeOf(&p.held[i])
	}
	p.next = p.held[p.asked-1].Offset + 1
	rest := copy(p.held, p.held[p.asked:])
	clear(p.held[rest:])
	p.held, p.asked, p.since, p.changed = p.held[:rest], 0, now, true
	p.pass()
}

// pass moves next past cancels if no held record is before them.
func (p *lane) pass() {
	if len(p.held) == 0 && p.passed > p.next {
		p.next, p.changed = p.passed, true
	}
}

// fill adds the offsets and dead letters to the commit. The offset moves past a refused record only
// together with its dead letter.
func (w *batches) fill(step *stream.Transaction, fits func(size int) bool) {
	for _, p := range w.parts {
		if !p.changed {
			continue
		}
		n := 0
		for ; n < len(p.letters) && fits(p.letters[n].size()+letterRoom); n++ {
			step.Outputs = append(step.Outputs, w.letter(p.letters[n], w.pace.RecordBytes))
		}
		if p.letters = p.letters[n:]; len(p.letters) > 0 {
			p.sent = p.letters[0].record.Offset
		} else {
			p.sent, p.letters, p.changed = p.next, nil, false
		}
		step.Offsets[p.id] = p.sent
	}
}

func sizeOf(r *stream.Record) int { return len(r.Key) + len(r.Value) + header.Bytes(r.Headers) }
