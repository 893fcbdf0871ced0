package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/afterbay/afterbay/control"
	"github.com/afterbay/afterbay/stream"
)

const pollMax = 256 // records that one Poll brings

// worker is what a Deliverer knows in one session. One goroutine owns it; the
// calls have goroutines of their own, which only answer.
//
// Each turn: Poll, which ends early when a call was answered, a commit decided or
// the timer has come; answers; new calls; a commit, where there is something to
// commit and the one before is decided.
type worker struct {
	*Deliverer
	session stream.Session
	pace    stream.Pace

	partitions []*partition // that are assigned
	turns      int          // the partitions take turns in beginning calls
	calling    int
	most       int // calls at once
	waiting    int // records that are held, as counted

	pending   *stream.Pending // nil where none is undecided
	committed time.Time       // when the newest commit began
	timer     *time.Timer     // wakes Poll

	calls   context.Context // of the calls
	cancel  context.CancelFunc
	running sync.WaitGroup
	answers chan answer // has room for all
}

// answer is how a call ended.
type answer struct {
	*delivery
	passed control.BreakerCall
	err    error
	took   time.Duration
}

func newWorker(ctx context.Context, d *Deliverer, s stream.Session, concurrency int) *worker {
	w := &worker{
		Deliverer: d, session: s, pace: stream.PaceOf(s), most: concurrency,
		timer: time.AfterFunc(time.Hour, s.Wake), answers: make(chan answer, concurrency),
	}
	w.timer.Stop()
	w.calls, w.cancel = context.WithCancel(context.WithoutCancel(ctx)) // what was begun is waited for
	return w
}

// end ends the calls under way. Where the session is dead another one has its
// partitions, and calls for them again.
func (w *worker) end() {
	w.cancel()
	w.running.Wait()
	w.timer.Stop()
	w.metrics.Calling.Add(-int64(w.calling))
	w.count(0)
}

func (d *Deliverer) fault(stage string) {
	if d.options.Fault != nil {
		d.options.Fault(stage)
	}
}

// turn is one turn of the loop.
func (w *worker) turn(ctx context.Context) error {
	batch, err := w.session.Poll(ctx, pollMax)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return errors.Join(fmt.Errorf("poll: %w", err), w.settle()) // why the session is dead
	}
	for _, a := range batch.Assigned {
		p, err := newPartition(a, w.options.ids())
		if err != nil {
			return fmt.Errorf("restore %v: %w", a.Partition, err)
		}
		w.partitions = append(w.partitions, p)
	}
	for _, r := range batch.Records {
		w.partition(r.Partition).hold(r)
	}
	w.listen(time.Now())
	if len(batch.Revoked) > 0 {
		if err := w.revoke(batch.Revoked); err != nil {
			return err
		}
	}
	now := time.Now()
	due := w.begin(now)
	if err := w.commitDue(now, &due); err != nil {
		return err
	}
	w.bound()
	if !due.IsZero() {
		w.timer.Reset(due.Sub(now))
	}
	return nil
}

func (w *worker) partition(id stream.Partition) *partition {
	return w.partitions[slices.IndexFunc(w.partitions, func(p *partition) bool { return p.id == id })]
}

// revoke waits for the calls for partitions that go to another member, commits
// what they came to, and forgets the partitions.
func (w *worker) revoke(partitions []stream.Partition) error {
	going := func(p *partition) bool { return slices.Contains(partitions, p.id) }
	for slices.ContainsFunc(w.partitions, func(p *partition) bool { return going(p) && p.calling > 0 }) {
		w.answer(<-w.answers, time.Now())
	}
	if err := w.flush(); err != nil {
		return err
	}
	w.partitions = slices.DeleteFunc(w.partitions, going)
	return nil
}

// finish waits for the calls under way and commits what they came to.
func (w *worker) finish() error {
	for w.calling > 0 {
		w.answer(<-w.answers, time.Now())
	}
	return w.flush()
}

// listen takes the answers that are there.
func (w *worker) listen(now time.Time) {
	for {
		select {
		case a := <-w.answers:
			w.answer(a, now)
		default:
			return
		}
	}
}

// answer notes how a call ended.
func (w *worker) answer(a answer, now time.Time) {
	w.fault("answer")
	w.calling--
	w.metrics.Calling.Add(-1)
	a.part.calling--
	w.metrics.Call.Record(a.took, 1)
	var refusal *Refused
	var later *Later
	outcome, rest := control.Answered, time.Duration(0)
	switch {
	case a.err == nil:
		a.part.take(a.delivery)
		w.metrics.Delivered.Add(1)
		w.metrics.Fresh.Record(now.Sub(a.record.Time), 1)
	case errors.As(a.err, &refusal):
		w.refuse(a.delivery, a.err)
	default:
		w.metrics.Failures.Add(1)
		a.state, a.delivery.err, a.due = waiting, a.err, now.Add(backoff.Delay(a.id, a.attempts))
		if outcome = control.Faulted; errors.As(a.err, &later) {
			rest = later.After
		}
	}
	w.service.tell(w.options, now, a.passed, outcome, rest, a.err)
}

// refuse makes a record a dead letter.
func (w *worker) refuse(d *delivery, reason error) {
	d.state, d.err, d.part.changed = refused, reason, true
	w.metrics.Refused.Add(1)
}

// begin calls for the records whose turn it is, as many as may be called for at
// once, and returns when to look again; zero where nothing is waited for but
// what wakes Poll.
func (w *worker) begin(now time.Time) (due time.Time) {
	refuses := false // the service
	w.turns++
	for i := range w.partitions {
		for _, d := range w.partitions[(w.turns+i)%len(w.partitions)].held {
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
			case w.calling < w.most && !refuses:
				passed, wait := w.service.begin(now)
				if refuses = wait > 0; refuses {
					due = sooner(due, now.Add(wait))
					continue
				}
				w.call(d, passed, now)
			}
		}
	}
	return due
}

// sooner returns the earlier of two times, of which the zero one is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// call hands a record to the service.
func (w *worker) call(d *delivery, passed control.BreakerCall, now time.Time) {
	if d.attempts++; d.attempts == 1 {
		d.begun = now
	}
	d.state = calling
	d.part.calling++
	w.calling++
	w.metrics.Calling.Add(1)
	w.fault("call")
	w.running.Go(func() {
		ctx, cancel := context.WithTimeout(w.calls, w.options.Timeout)
		defer cancel()
		begun := time.Now()
		err := w.sink.Each.Deliver(ctx, d.id, &d.record)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("no answer in %v: %w", w.options.Timeout, err)
		}
		w.answers <- answer{d, passed, err, time.Since(begun)}
		w.session.Wake()
	})
}

// bound pauses the partitions that hold too much, and resumes those that do not
// any more.
func (w *worker) bound() {
	held := 0
	for _, p := range w.partitions {
		held += len(p.held)
		switch {
		case !p.paused && p.full():
			p.paused = true
			w.session.Pause(p.id)
		case p.paused && p.roomy():
			p.paused = false
			w.session.Resume(p.id)
		}
	}
	w.count(held)
	w.metrics.Resting.Store(w.service.down())
}

// count says how many records are held.
func (w *worker) count(held int) {
	w.metrics.Waiting.Add(int64(held - w.waiting))
	w.waiting = held
}

// commitDue settles the commit that is decided, and commits what there is where
// its time has come; else due is not after that.
func (w *worker) commitDue(now time.Time, due *time.Time) error {
	if w.pending != nil {
		select {
		case <-w.pending.Done():
			if err := w.settle(); err != nil {
				return err
			}
		default:
			return nil // Poll returns when it is decided
		}
	}
	if !w.dirty() {
		return nil
	}
	if at := w.committed.Add(w.pace.Interval); at.After(now) {
		*due = sooner(*due, at)
		return nil
	}
	return w.commit()
}

func (w *worker) dirty() bool {
	return slices.ContainsFunc(w.partitions, func(p *partition) bool { return p.changed })
}

// flush commits all that there is to commit, and waits for it.
func (w *worker) flush() error {
	for w.dirty() {
		if err := w.commit(); err != nil {
			return err
		}
	}
	return w.settle()
}

// commit makes a step of what is done, after the one before it was decided.
func (w *worker) commit() error {
	if err := w.settle(); err != nil {
		return err
	}
	step := stream.Step{Offsets: map[stream.Partition]stream.Offset{}}
	bytes := 0
	full := func(d *delivery) bool {
		if bytes > 0 && bytes+d.size()+letterRoom > w.pace.Bytes {
			return true
		}
		step.Outputs = append(step.Outputs, w.letter(d, w.pace.RecordBytes))
		bytes += d.size() + letterRoom
		return false
	}
	for _, p := range w.partitions {
		if p.changed {
			p.pass(full)
			step.Changes = p.changes(step.Changes)
			step.Offsets[p.id] = p.next
		}
	}
	w.fault("write")
	w.pending, w.committed = w.session.Commit(step), time.Now()
	w.fault("sync")
	return nil
}

// settle waits for the outstanding commit, where there is one.
func (w *worker) settle() error {
	if w.pending == nil {
		return nil
	}
	if err := w.pending.Wait(context.Background()); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	w.fault("after")
	w.pending = nil
	return nil
}
