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

const (
	archivePollMax = 4096        // records that one Poll brings, of which little is kept
	hurryEvery     = time.Second // that somebody may want to see the end
)

// archiver is what a Deliverer knows in one session where it has an archive. One
// goroutine owns it; the calls have goroutines of their own, which only answer.
//
// Each turn: Poll; the records are counted; answers; the commit before, where it is
// decided; objects that are complete; calls; a commit, where there is something to
// commit and none is outstanding.
type archiver struct {
	*Deliverer
	session stream.Session
	pace    stream.Pace
	group   string

	spans  []*span
	turns  int // the partitions take turns in beginning calls
	making int
	most   int // calls at once
	held   int // records, as counted

	pending    *stream.Pending // nil where none is undecided
	committing []*span         // what it is of
	committed  time.Time       // when the newest commit began
	timer      *time.Timer     // wakes Poll

	calls   context.Context // of the calls
	cancel  context.CancelFunc
	running sync.WaitGroup
	answers chan madeObject // has room for all
}

// madeObject is how a call ended.
type madeObject struct {
	*span
	*letters
	passed control.BreakerCall
	kept   int
	err    error
	took   time.Duration
}

func newArchiver(ctx context.Context, d *Deliverer, s stream.Session, from reading) *archiver {
	w := &archiver{
		Deliverer: d, session: s, pace: stream.PaceOf(s), group: from.group, most: from.concurrency,
		timer: time.AfterFunc(time.Hour, s.Wake), answers: make(chan madeObject, from.concurrency),
	}
	w.timer.Stop()
	w.calls, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return w
}

// end ends the calls under way: whoever has their partitions next makes the same
// objects.
func (w *archiver) end() {
	w.cancel()
	w.running.Wait()
	w.timer.Stop()
	w.metrics.Calling.Add(-int64(w.making))
	w.count(0)
}

// finish commits the objects that are made, and ends the calls under way.
func (w *archiver) finish() error {
	w.cancel()
	for w.making > 0 {
		w.answer(<-w.answers, time.Now())
	}
	return w.flush()
}

// hurried reports that nobody waits for more records.
func (w *archiver) hurried() bool { return w.options.Hurry != nil && w.options.Hurry() }

// turn is one turn of the loop.
func (w *archiver) turn(ctx context.Context) error {
	batch, err := w.session.Poll(ctx, archivePollMax)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return errors.Join(fmt.Errorf("poll: %w", err), w.settle()) // why the session is dead
	}
	for _, a := range batch.Assigned {
		s, err := newSpan(a)
		if err != nil {
			return fmt.Errorf("restore %v: %w", a.Partition, err)
		}
		w.skip(ctx, s)
		w.spans = append(w.spans, s)
	}
	now := time.Now()
	w.come(batch.Records, now)
	w.listen(now)
	if len(batch.Revoked) > 0 {
		if err := w.revoke(batch.Revoked); err != nil {
			return err
		}
	}
	if err := w.decided(); err != nil {
		return err
	}
	due := w.complete(now, len(batch.Records) == 0)
	w.begin(now, &due)
	w.commitDue(now, &due)
	w.bound()
	if !due.IsZero() {
		w.timer.Reset(due.Sub(now))
	}
	return nil
}

// skip begins behind what retention removed before the partition was assigned.
// What it removes later, of an object that was decided, is an error of its making.
func (w *archiver) skip(ctx context.Context, s *span) {
	inspector, ok := w.log.(stream.Inspector)
	if !ok || s.phase != counting {
		return
	}
	first, _, err := inspector.Offsets(ctx, s.id)
	if err != nil || first <= s.from { // an error comes again where it matters
		return
	}
	if s.from > 0 {
		w.options.Logger.Warn("records are gone before they were kept: keep the topic for longer", "sink", w.group, "partition", s.id.String(), "from", s.from, "to", first)
	}
	s.from, s.end = first, first
	s.object.From, s.object.To = first, first
}

// come counts records.
func (w *archiver) come(records []stream.Record, now time.Time) {
	for len(records) > 0 {
		id, n := records[0].Partition, 1
		for n < len(records) && records[n].Partition == id {
			n++
		}
		marks := make([]mark, n)
		for i := range marks {
			marks[i] = mark{records[i].Offset, sizeOf(&records[i]), now}
		}
		i := slices.IndexFunc(w.spans, func(s *span) bool { return s.id == id })
		w.spans[i].come(marks, w.options.Objects, w.sink.Whole.Form)
		records = records[n:]
	}
}

// revoke commits what the partitions came to that go to another member, and
// forgets them: what is being made the other member makes too.
func (w *archiver) revoke(partitions []stream.Partition) error {
	if err := w.flush(); err != nil {
		return err
	}
	w.spans = slices.DeleteFunc(w.spans, func(s *span) bool {
		s.gone = slices.Contains(partitions, s.id)
		return s.gone
	})
	return nil
}

// listen takes the answers that are there.
func (w *archiver) listen(now time.Time) {
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
func (w *archiver) answer(a madeObject, now time.Time) {
	w.fault("answer")
	w.making--
	w.metrics.Calling.Add(-1)
	w.metrics.Call.Record(a.took, 1)
	s := a.span
	s.busy = false
	var split *Split
	outcome := control.Answered
	switch {
	case s.gone || a.err != nil && w.calls.Err() != nil:
	case a.err == nil:
		s.phase, s.letters, s.offsets = noting, a.list, a.offset
		w.metrics.Delivered.Add(uint64(a.kept))
		w.metrics.Refused.Add(uint64(len(a.list)))
	case errors.As(a.err, &split) && split.At > s.object.From && split.At < s.object.To:
		s.cut(split.At)
	default:
		w.metrics.Failures.Add(1)
		s.attempts++
		s.due = now.Add(backoff.Delay(s.id.String(), s.attempts))
		outcome = control.Faulted
		w.options.Logger.Warn("an object cannot be kept: it is tried again", "sink", w.group, "object", w.object(s).String(), "attempt", s.attempts, "reason", a.err)
	}
	w.service.tell(w.options, now, a.passed, outcome, 0, a.err)
}

// complete ends the objects that have waited for long enough, and returns when to
// look again. Quiet says that there is nothing to read.
func (w *archiver) complete(now time.Time, quiet bool) (due time.Time) {
	for _, s := range w.spans {
		if s.phase != counting || s.rows == 0 {
			continue
		}
		over, at := s.complete(now, w.options.Objects.Wait)
		if over || quiet && w.hurried() {
			s.decide(s.end, w.sink.Whole.Form)
			continue
		}
		due = sooner(sooner(due, at), now.Add(hurryEvery))
	}
	return due
}

func (w *archiver) object(s *span) Object {
	return Object{Group: w.group, Partition: s.id, From: s.object.From, To: s.object.To, Form: s.object.Form}
}

// begin makes the objects whose turn it is, as many as may be made at once.
func (w *archiver) begin(now time.Time, due *time.Time) {
	w.turns++
	for i := range w.spans {
		s := w.spans[(w.turns+i)%len(w.spans)]
		switch {
		case s.phase != making || s.busy || w.making == w.most:
			continue
		case s.due.After(now):
			*due = sooner(*due, s.due)
			continue
		}
		passed, wait := w.service.begin(now)
		if wait > 0 {
			*due = sooner(*due, now.Add(wait))
			return
		}
		w.call(s, passed)
	}
}

// call makes an object.
func (w *archiver) call(s *span, passed control.BreakerCall) {
	s.busy = true
	w.making++
	w.metrics.Calling.Add(1)
	w.fault("call")
	o, l := w.object(s), &letters{Deliverer: w.Deliverer, pace: w.pace, noted: s.object.Noted}
	w.running.Go(func() {
		ctx, cancel := context.WithTimeout(w.calls, w.options.Timeout)
		defer cancel()
		begun := time.Now()
		kept, err := w.sink.Whole.Keep(ctx, o, w.records(ctx, o), l.refuse)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("not kept in %v: %w; a larger timeout gives it more time", w.options.Timeout, err)
		}
		w.answers <- madeObject{s, l, passed, kept, err, time.Since(begun)}
		w.session.Wake()
	})
}

// bound pauses the partitions of which an object is made, and resumes the others.
func (w *archiver) bound() {
	held := 0
	for _, s := range w.spans {
		held += s.held()
		switch pause := s.phase != counting; {
		case pause && !s.paused:
			w.session.Pause(s.id)
		case !pause && s.paused:
			w.session.Resume(s.id)
		}
		s.paused = s.phase != counting
	}
	w.count(held)
	w.metrics.Resting.Store(w.service.down())
}

// count says how many records are held.
func (w *archiver) count(held int) {
	w.metrics.Waiting.Add(int64(held - w.held))
	w.held = held
}

// decided settles the outstanding commit where it is decided; Poll returns when it
// is.
func (w *archiver) decided() error {
	if w.pending != nil {
		select {
		case <-w.pending.Done():
			return w.settle()
		default:
		}
	}
	return nil
}

// commitDue commits what there is where its time has come; else due is not after
// that.
func (w *archiver) commitDue(now time.Time, due *time.Time) {
	if w.pending != nil || !slices.ContainsFunc(w.spans, dirty) {
		return
	}
	if at := w.committed.Add(w.pace.Interval); at.After(now) {
		*due = sooner(*due, at)
		return
	}
	w.commit()
}

func dirty(s *span) bool { return s.phase == deciding || s.phase == noting }

// flush commits the objects that are made, and waits for it.
func (w *archiver) flush() error {
	if err := w.settle(); err != nil {
		return err
	}
	for slices.ContainsFunc(w.spans, func(s *span) bool { return s.phase == noting }) {
		w.commit()
		if err := w.settle(); err != nil {
			return err
		}
	}
	return nil
}

// commit makes a step of what is decided and made, after the one before it was
// decided.
func (w *archiver) commit() {
	step := stream.Step{Offsets: map[stream.Partition]stream.Offset{}}
	bytes := 0
	full := func(r *stream.Record) bool {
		size := sizeOf(r)
		if bytes > 0 && bytes+size > w.pace.Bytes {
			return true
		}
		bytes += size
		return false
	}
	w.committing = w.committing[:0]
	for _, s := range w.spans {
		if dirty(s) {
			s.step(&step, full)
			w.committing = append(w.committing, s)
		}
	}
	w.fault("write")
	w.pending, w.committed = w.session.Commit(step), time.Now()
	w.fault("sync")
}

// settle waits for the outstanding commit, where there is one.
func (w *archiver) settle() error {
	if w.pending == nil {
		return nil
	}
	if err := w.pending.Wait(context.Background()); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	w.fault("after")
	w.pending = nil
	for _, s := range w.committing {
		s.committed(w.options.Objects, w.sink.Whole.Form)
	}
	return nil
}
