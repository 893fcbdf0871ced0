package sinks

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

const (
	archivePollMax = 4096        // maximum number of records from one Poll; little of each is held
	hurryEvery     = time.Second // how often to check Options.Hurry
)

// archiver passes records to an Archive. It holds only counts of them: the records of an object are
// read from the log when it is made.
type archiver struct {
	*member[*span]
	committing []*span // spans in the outstanding commit
	quiet      bool    // the last Poll returned no records
}

func newArchiver(ctx context.Context, d *Deliverer, s stream.Member, from reading) *archiver {
	w := &archiver{}
	w.member = newMember(ctx, d, s, from, w, archivePollMax)
	return w
}

// finish commits the finished objects and cancels the calls in flight. The next owner of the
// partitions makes the same objects.
func (w *archiver) finish() error {
	w.cancel()
	return w.member.finish()
}

// hurried reports whether the caller does not want to wait for more records.
func (w *archiver) hurried() bool { return w.options.Hurry != nil && w.options.Hurry() }

func (w *archiver) assign(ctx context.Context, a stream.Assigned) (*span, error) {
	s, err := newSpan(a)
	if err == nil {
		w.skip(ctx, s)
	}
	return s, err
}

// skip starts after records that retention removed before the partition was assigned. If retention
// later removes records of an object with a decided range, making that object fails.
func (w *archiver) skip(ctx context.Context, s *span) {
	inspector, ok := w.log.(stream.Inspector)
	if !ok || s.phase != counting {
		return
	}
	first, _, err := inspector.Offsets(ctx, s.id)
	if err != nil || first <= s.from { // if the error persists, a later call reports it
		return
	}
	if s.from > 0 {
		w.options.Logger.Warn("retention removed records before the sink wrote them: increase the retention of the topic", "sink", w.from.group, "partition", s.id.String(), "from", s.from, "to", first)
	}
	s.from, s.end = first, first
	s.object.From, s.object.To = first, first
}

// hold counts records.
func (w *archiver) hold(records []stream.Record, now time.Time) {
	w.quiet = len(records) == 0
	for len(records) > 0 {
		id, n := records[0].Partition, 1
		for n < len(records) && records[n].Partition == id {
			n++
		}
		marks := make([]mark, n)
		for i := range marks {
			marks[i] = mark{records[i].Offset, sizeOf(&records[i]), now}
		}
		w.part(id).come(marks, w.options.Objects, w.sink.Whole.Form)
		records = records[n:]
	}
}

// held returns the number of counted records. A partition with an object in progress is full.
func (w *archiver) held(s *span) (records int, full bool) { return s.held(), s.phase != counting }

func (w *archiver) settled() {
	for _, s := range w.committing {
		s.committed(w.options.Objects, w.sink.Whole.Form)
	}
}

// begin closes the objects that are complete, and starts making objects in turn, up to the
// concurrency limit.
func (w *archiver) begin(now time.Time) time.Time {
	due := w.complete(now)
	for s := range w.inTurn() {
		switch {
		case s.phase != making || s.busy || !w.free():
			continue
		case s.due.After(now):
			due = sooner(due, s.due)
			continue
		}
		passed, wait := w.service.begin(now)
		if wait > 0 {
			return sooner(due, now.Add(wait))
		}
		w.keep(s, passed)
	}
	return due
}

// complete closes the objects that have waited long enough, and returns when to check again.
func (w *archiver) complete(now time.Time) (due time.Time) {
	for _, s := range w.parts {
		if s.phase != counting || s.rows == 0 {
			continue
		}
		over, at := s.complete(now, w.options.Objects.Wait)
		if over || w.quiet && w.hurried() {
			s.decide(s.end, w.sink.Whole.Form)
			continue
		}
		due = sooner(sooner(due, at), now.Add(hurryEvery))
	}
	return due
}

func (w *archiver) object(s *span) sink.Object {
	return sink.Object{Group: w.from.group, Partition: s.id, From: s.object.From, To: s.object.To, Form: s.object.Form}
}

// keep starts making an object.
func (w *archiver) keep(s *span, passed control.BreakerCall) {
	s.busy = true
	o, l, kept := w.object(s), &letters{Deliverer: w.Deliverer, pace: w.pace, noted: s.object.Noted}, 0
	w.call(passed, func(ctx context.Context) (err error) {
		kept, err = w.sink.Whole.Keep(ctx, o, w.records(ctx, o), l.refuse)
		return err
	}, func(now time.Time, took time.Duration, err error) (control.Outcome, error) {
		s.busy = false
		w.metrics.Call.Record(took, 1)
		return w.kept(s, l, kept, now, err), nil
	})
}

// kept handles the result of making an object.
func (w *archiver) kept(s *span, l *letters, kept int, now time.Time, err error) control.Outcome {
	var split *sink.Split
	switch {
	case !slices.Contains(w.parts, s), err != nil && w.calls.Err() != nil: // another member makes it
	case err == nil:
		s.phase, s.letters, s.offsets = noting, l.list, l.offset
		w.metrics.Delivered.Add(uint64(kept))
		w.metrics.Refused.Add(uint64(len(l.list)))
	case errors.As(err, &split) && split.At > s.object.From && split.At < s.object.To:
		s.cut(split.At)
	default:
		w.metrics.Failures.Add(1)
		s.attempts++
		s.due = now.Add(backoff.Delay(s.id.String(), s.attempts))
		w.options.Logger.Warn("the sink cannot write an object and retries", "sink", w.from.group, "object", w.object(s).String(), "attempt", s.attempts, "reason", err)
		return control.Faulted
	}
	return control.Answered
}

// fill adds decided and finished objects to the commit.
func (w *archiver) fill(step *stream.Transaction, fits func(size int) bool) {
	w.committing = w.committing[:0]
	for _, s := range w.parts {
		if s.dirty(false) {
			s.step(step, fits)
			w.committing = append(w.committing, s)
		}
	}
}
