package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/afterbay/afterbay/control"
	"github.com/afterbay/afterbay/header"
	"github.com/afterbay/afterbay/stream"
)

const batchPollMax = 4096 // records that one Poll brings

// errOwned says that a Writer knows another owner of a partition.
var errOwned = errors.New("another one writes its records")

// batches is what a Deliverer with a Writer knows in one session, as worker is of
// one with a Sink. Each partition has one call under way at most, of the first
// records that it holds, so what is done is always a prefix: the offset to commit
// moves over it, and the service is asked to write nothing again but what was in
// flight.
type batches struct {
	*Deliverer
	session stream.Session
	pace    stream.Pace

	parts   []*lane // that are assigned
	turns   int     // they take turns in beginning calls
	calling int
	most    int // calls at once
	waiting int // records that are held, as counted

	pending   *stream.Pending // nil where none is undecided
	committed time.Time       // when the newest commit began
	timer     *time.Timer     // wakes Poll

	calls   context.Context // of the calls
	cancel  context.CancelFunc
	running sync.WaitGroup
	answers chan written // has room for all
}

// lane is a partition that is assigned.
type lane struct {
	id      stream.Partition
	claim   Claim // nil before it is claimed
	next    stream.Offset
	safe    stream.Offset // the group's offset, as far as it is known to be durable
	behind  stream.Offset // no call is made before it is safe: dead letters are to be committed first
	sent    stream.Offset // in the commit under way
	held    []stream.Record
	bytes   int
	since   time.Time // when the first of them came
	letters []*delivery

	calling  bool
	asked    int // of held are in the call, or were in the one that failed
	attempts int
	begun    time.Time // of the first attempt
	due      time.Time // of the next one
	err      error     // of the newest one

	changed bool // there is something to commit
	paused  bool
}

// written is how a call ended.
type written struct {
	*lane
	claim   Claim // that a call for one returned
	outcome Outcome
	passed  control.BreakerCall
	err     error
	took    time.Duration
}

func newBatches(ctx context.Context, d *Deliverer, s stream.Session, concurrency int) *batches {
	w := &batches{
		Deliverer: d, session: s, pace: stream.PaceOf(s), most: concurrency,
		timer: time.AfterFunc(time.Hour, s.Wake), answers: make(chan written, concurrency),
	}
	w.timer.Stop()
	w.calls, w.cancel = context.WithCancel(context.WithoutCancel(ctx)) // what was begun is waited for
	return w
}

// end ends the calls under way.
func (w *batches) end() {
	w.cancel()
	w.running.Wait()
	w.timer.Stop()
	w.metrics.Calling.Add(-int64(w.calling))
	w.count(0)
}

// turn is one turn of the loop.
func (w *batches) turn(ctx context.Context) error {
	batch, err := w.session.Poll(ctx, batchPollMax)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return errors.Join(fmt.Errorf("poll: %w", err), w.settle())
	}
	now := time.Now()
	for _, a := range batch.Assigned {
		w.parts = append(w.parts, &lane{id: a.Partition, next: a.Next, safe: a.Next})
	}
	for _, r := range batch.Records {
		p := w.parts[slices.IndexFunc(w.parts, func(p *lane) bool { return p.id == r.Partition })]
		if len(p.held) == 0 {
			p.since = now
		}
		p.held = append(p.held, r)
		p.bytes += sizeOf(&r)
	}
	if err := w.listen(); err != nil {
		return err
	}
	if len(batch.Revoked) > 0 {
		if err := w.revoke(batch.Revoked); err != nil {
			return err
		}
	}
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

// revoke waits for the calls for partitions that go to another member, commits
// what they came to, and forgets the partitions.
func (w *batches) revoke(partitions []stream.Partition) error {
	going := func(p *lane) bool { return slices.Contains(partitions, p.id) }
	for slices.ContainsFunc(w.parts, func(p *lane) bool { return going(p) && p.calling }) {
		if err := w.answer(<-w.answers); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	w.parts = slices.DeleteFunc(w.parts, going)
	return nil
}

// finish waits for the calls under way and commits what they came to.
func (w *batches) finish() error {
	for w.calling > 0 {
		if err := w.answer(<-w.answers); err != nil {
			return err
		}
	}
	return w.flush()
}

// listen takes the answers that are there.
func (w *batches) listen() error {
	for {
		select {
		case a := <-w.answers:
			if err := w.answer(a); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// answer notes how a call ended. The error is that another one owns the partition:
// then the session is not to be gone on with, as it may be the one that the log
// has forgotten.
func (w *batches) answer(a written) error {
	w.fault("answer")
	now := time.Now()
	w.calling--
	w.metrics.Calling.Add(-1)
	p := a.lane
	p.calling = false
	outcome, rest := control.Answered, time.Duration(0)
	if a.err == nil {
		p.due = time.Time{}
		if a.claim != nil {
			p.claim, outcome = a.claim, control.Abandoned // a write is to say whether it works
			p.attempts--                                  // it is the records that are tried
		} else {
			p.attempts, p.err = 0, nil
			w.metrics.Call.Record(a.took, 1)
			w.take(p, a.outcome, now)
		}
	} else {
		p.claim = nil // what the call came to is not known
		w.metrics.Failures.Add(1)
		outcome = control.Faulted
		var later *Later
		if errors.As(a.err, &later) {
			rest = later.After
		}
		p.err, p.due = a.err, now.Add(backoff.Delay(p.id.String(), p.attempts))
	}
	w.service.tell(w.options, now, a.passed, outcome, rest, a.err)
	if errors.Is(a.err, stream.ErrFenced) {
		return fmt.Errorf("%v: %w: %w", p.id, errOwned, a.err)
	}
	return nil
}

// take notes that the records that were asked for are done, or those until the
// last refused one where the Writer stopped.
func (w *batches) take(p *lane, o Outcome, now time.Time) {
	stopped := o.Stopped && len(o.Refused) > 0
	if stopped {
		p.asked = o.Refused[len(o.Refused)-1].Index + 1
	}
	for _, r := range o.Refused {
		w.refuse(p, &p.held[r.Index], &Refused{r.Err})
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

// refuse makes a record a dead letter.
func (w *batches) refuse(p *lane, r *stream.Record, err error) {
	w.metrics.Refused.Add(1)
	p.letters = append(p.letters, &delivery{record: *r, id: IDOf(r), err: err, attempts: max(1, p.attempts)})
}

// drop lets the records leave that were asked for.
func (w *batches) drop(p *lane, now time.Time) {
	for i := range p.held[:p.asked] {
		p.bytes -= sizeOf(&p.held[i])
	}
	p.next = p.held[p.asked-1].Offset + 1
	rest := copy(p.held, p.held[p.asked:])
	clear(p.held[rest:])
	p.held, p.asked, p.since, p.changed = p.held[:rest], 0, now, true
}

// begin calls for the partitions whose turn it is, and returns when to look again;
// zero where nothing is waited for but what wakes Poll.
func (w *batches) begin(now time.Time) (due time.Time) {
	w.turns++
	for i := range w.parts {
		p := w.parts[(w.turns+i)%len(w.parts)]
		if p.calling || len(p.held) == 0 || p.safe < p.behind {
			continue
		}
		if w.options.Expire > 0 && p.attempts > 0 && now.Sub(p.begun) >= w.options.Expire {
			for i := range p.held[:p.asked] {
				w.refuse(p, &p.held[i], fmt.Errorf("not taken for %v: %w", w.options.Expire, p.err))
			}
			w.drop(p, now)
			p.attempts, p.behind = 0, p.next // a position of the Writer would pass them
			continue
		}
		at := p.due
		if p.attempts == 0 && len(p.held) < w.options.Batch && p.bytes < w.options.BatchBytes {
			at = p.since.Add(w.options.Wait)
		}
		switch {
		case at.After(now):
			due = sooner(due, at)
		case w.calling < w.most:
			passed, wait := w.service.begin(now)
			if wait > 0 {
				return sooner(due, now.Add(wait))
			}
			w.call(p, passed, now)
		}
	}
	return due
}

// call hands the first records of a partition to the service, or claims the
// partition first.
func (w *batches) call(p *lane, passed control.BreakerCall, now time.Time) {
	if p.attempts++; p.attempts == 1 {
		p.begun = now
	}
	bytes := 0
	for p.asked = 0; p.asked < min(len(p.held), w.options.Batch) && bytes < w.options.BatchBytes; p.asked++ {
		bytes += sizeOf(&p.held[p.asked])
	}
	p.calling = true
	w.calling++
	w.metrics.Calling.Add(1)
	w.fault("call")
	claim, records, safe, next := p.claim, p.held[:p.asked], p.safe, p.next
	w.running.Go(func() {
		ctx, cancel := context.WithTimeout(w.calls, w.options.Timeout)
		defer cancel()
		a, begun := written{lane: p, passed: passed}, time.Now()
		if claim == nil {
			a.claim, a.err = w.sink.Many.Claim(ctx, p.id, next)
		} else {
			a.outcome, a.err = claim.Write(ctx, safe, records)
		}
		if a.err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			a.err = fmt.Errorf("no answer in %v: %w", w.options.Timeout, a.err)
		}
		a.took = time.Since(begun)
		w.answers <- a
		w.session.Wake()
	})
}

// bound pauses the partitions that hold twice what a call takes, and resumes those
// that do not any more.
func (w *batches) bound() {
	held := 0
	for _, p := range w.parts {
		held += len(p.held)
		switch full := len(p.held) >= 2*w.options.Batch || p.bytes >= 2*w.options.BatchBytes; {
		case !p.paused && full:
			p.paused = true
			w.session.Pause(p.id)
		case p.paused && !full:
			p.paused = false
			w.session.Resume(p.id)
		}
	}
	w.count(held)
	w.metrics.Resting.Store(w.service.down())
}

// count says how many records are held.
func (w *batches) count(held int) {
	w.metrics.Waiting.Add(int64(held - w.waiting))
	w.waiting = held
}

// commitDue settles the commit that is decided, and commits what there is where
// its time has come; else due is not after that.
func (w *batches) commitDue(now time.Time, due *time.Time) error {
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

func (w *batches) dirty() bool {
	return slices.ContainsFunc(w.parts, func(p *lane) bool { return p.changed })
}

// flush commits all that there is to commit, and waits for it.
func (w *batches) flush() error {
	for w.dirty() {
		if err := w.commit(); err != nil {
			return err
		}
	}
	return w.settle()
}

// commit makes a step of what is done, after the one before it was decided. The
// offset moves over a record that was refused with its dead letter only.
func (w *batches) commit() error {
	if err := w.settle(); err != nil {
		return err
	}
	step, bytes := stream.Step{Offsets: map[stream.Partition]stream.Offset{}}, 0
	for _, p := range w.parts {
		if !p.changed {
			continue
		}
		n := 0
		for ; n < len(p.letters) && (bytes == 0 || bytes+p.letters[n].size()+letterRoom <= w.pace.Bytes); n++ {
			step.Outputs = append(step.Outputs, w.letter(p.letters[n], w.pace.RecordBytes))
			bytes += p.letters[n].size() + letterRoom
		}
		if p.letters = p.letters[n:]; len(p.letters) > 0 {
			p.sent = p.letters[0].record.Offset
		} else {
			p.sent, p.letters, p.changed = p.next, nil, false
		}
		step.Offsets[p.id] = p.sent
	}
	w.fault("write")
	w.pending, w.committed = w.session.Commit(step), time.Now()
	w.fault("sync")
	return nil
}

// settle waits for the outstanding commit, where there is one.
func (w *batches) settle() error {
	if w.pending == nil {
		return nil
	}
	if err := w.pending.Wait(context.Background()); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	w.fault("after")
	w.pending = nil
	for _, p := range w.parts {
		if before := p.safe; before < p.sent {
			if p.safe = p.sent; before < p.behind {
				w.session.Wake() // its next call may begin
			}
		}
	}
	return nil
}

func sizeOf(r *stream.Record) int { return len(r.Key) + len(r.Value) + header.Bytes(r.Headers) }
