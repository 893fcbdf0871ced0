package sinks

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/log/optional"
	"github.com/afterbay/afterbay/stream"
)

// member is a member of a Deliverer: what worker, batches and archiver, which
// embed it, have in common. One goroutine owns it; the calls have goroutines of
// their own, which only answer.
//
// Each turn: Poll, which ends early when a call was answered, a commit decided or
// the timer has come; answers; the commit before, where it is decided; new calls; a
// commit, where there is something to commit and none is outstanding.
type member[P part] struct {
	*Deliverer
	member stream.Member
	pace   stream.Pace
	from   reading
	way    way[P]
	most   int // records that one Poll brings

	parts   []P // that are assigned
	turns   int // they take turns in beginning calls
	calling int
	waiting int // records that are held, as counted

	pending   *stream.Pending // nil where none is undecided
	committed time.Time       // when the newest commit began
	timer     *time.Timer     // wakes Poll

	calls   context.Context // of the calls
	cancel  context.CancelFunc
	running sync.WaitGroup
	answers chan answer // has room for all
}

// way is how a member hands records on. The member calls it, in its goroutine.
type way[P part] interface {
	assign(ctx context.Context, a stream.Assigned) (P, error)
	hold(records []stream.Record, now time.Time)

	// begin begins calls, and returns when to look again; zero where nothing is
	// waited for but what wakes Poll.
	begin(now time.Time) (due time.Time)

	// held returns how many records of a partition are, and whether it is to be
	// paused since they are too many.
	held(p P) (records int, full bool)

	// fill makes a step of what is to be committed. It adds an output only where
	// fits says so of its size.
	fill(step *stream.Transaction, fits func(size int) bool)

	// settled follows each step that is committed, before calls are begun.
	settled()
}

// part is a partition that is assigned.
type part interface {
	own() *assigned
	awaited() bool // a call is under way whose end is waited for before another member has it

	// dirty reports whether there is something to commit; where the partition is
	// left, something that another member does not come to without it.
	dirty(left bool) bool
}

// assigned is what a member knows of every partition.
type assigned struct {
	id     stream.Partition
	paused bool
}

func (a *assigned) own() *assigned { return a }

// answer is how a call ended.
type answer struct {
	passed control.BreakerCall
	took   time.Duration
	err    error
	note   note
}

// note takes up how a call ended. After an error the member is not to be gone on
// with.
type note func(now time.Time, took time.Duration, err error) (control.Outcome, error)

func newMember[P part](ctx context.Context, d *Deliverer, s stream.Member, from reading, how way[P], most int) *member[P] {
	m := &member[P]{
		Deliverer: d, member: s, pace: optional.Pace(s), from: from, way: how, most: most,
		timer: time.AfterFunc(time.Hour, s.Wake), answers: make(chan answer, from.concurrency),
	}
	m.timer.Stop()
	m.calls, m.cancel = context.WithCancel(context.WithoutCancel(ctx)) // what was begun is waited for
	return m
}

// end ends the calls under way. Where the member is dead another one has its
// partitions, and calls for them again.
func (m *member[P]) end() {
	m.cancel()
	m.running.Wait()
	m.timer.Stop()
	m.metrics.Calling.Add(-int64(m.calling))
	m.count(0)
}

func (d *Deliverer) fault(stage string) {
	if d.options.Fault != nil {
		d.options.Fault(stage)
	}
}

// turn is one turn of the loop.
func (m *member[P]) turn(ctx context.Context) error {
	batch, err := m.member.Poll(ctx, m.most)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return errors.Join(fmt.Errorf("poll: %w", err), m.settle()) // why the member is dead
	}
	for _, a := range batch.Assigned {
		p, err := m.way.assign(ctx, a)
		if err != nil {
			return fmt.Errorf("restore %v: %w", a.Partition, err)
		}
		m.parts = append(m.parts, p)
	}
	m.way.hold(batch.Records, time.Now())
	if err := m.listen(); err != nil {
		return err
	}
	if len(batch.Revoked) > 0 {
		if err := m.revoke(batch.Revoked); err != nil {
			return err
		}
	}
	if err := m.decided(); err != nil {
		return err
	}
	now := time.Now()
	due := m.way.begin(now)
	m.commitDue(now, &due)
	m.bound()
	switch {
	case due.After(now):
		m.timer.Reset(due.Sub(now))
	case !due.IsZero():
		m.member.Wake()
	}
	return nil
}

func (m *member[P]) part(id stream.Partition) P {
	return m.parts[slices.IndexFunc(m.parts, func(p P) bool { return p.own().id == id })]
}

// inTurn yields the partitions, from another one on each time.
func (m *member[P]) inTurn() iter.Seq[P] {
	m.turns++
	return func(yield func(P) bool) {
		for i := range m.parts {
			if !yield(m.parts[(m.turns+i)%len(m.parts)]) {
				return
			}
		}
	}
}

// revoke waits for the calls for partitions that go to another member, commits
// what they came to, and forgets the partitions.
func (m *member[P]) revoke(partitions []stream.Partition) error {
	going := func(p P) bool { return slices.Contains(partitions, p.own().id) }
	for slices.ContainsFunc(m.parts, func(p P) bool { return going(p) && p.awaited() }) {
		if err := m.take(<-m.answers); err != nil {
			return err
		}
	}
	if err := m.flush(); err != nil {
		return err
	}
	m.parts = slices.DeleteFunc(m.parts, going)
	return nil
}

// finish waits for the calls under way and commits what they came to.
func (m *member[P]) finish() error {
	for m.calling > 0 {
		if err := m.take(<-m.answers); err != nil {
			return err
		}
	}
	return m.flush()
}

// free reports whether one more call may be made.
func (m *member[P]) free() bool { return m.calling < m.from.concurrency }

// call makes a call of the service beside the loop, which then notes how it ended.
func (m *member[P]) call(passed control.BreakerCall, ask func(ctx context.Context) error, note note) {
	m.calling++
	m.metrics.Calling.Add(1)
	m.fault("call")
	m.running.Go(func() {
		ctx, cancel := context.WithTimeout(m.calls, m.options.Timeout)
		defer cancel()
		begun := time.Now()
		err := ask(ctx)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("no answer in %v: %w; a larger timeout gives it more time", m.options.Timeout, err)
		}
		m.answers <- answer{passed, time.Since(begun), err, note}
		m.member.Wake()
	})
}

// listen takes the answers that are there.
func (m *member[P]) listen() error {
	for {
		select {
		case a := <-m.answers:
			if err := m.take(a); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (m *member[P]) take(a answer) error {
	m.fault("answer")
	m.calling--
	m.metrics.Calling.Add(-1)
	now := time.Now()
	outcome, err := a.note(now, a.took, a.err)
	m.service.tell(m.options, now, a.passed, outcome, a.err)
	return err
}

// bound pauses the partitions that hold too much, and resumes those that do not
// any more.
func (m *member[P]) bound() {
	waiting := 0
	for _, p := range m.parts {
		held, full := m.way.held(p)
		waiting += held
		switch a := p.own(); {
		case full && !a.paused:
			a.paused = true
			m.metrics.Pauses.Add(1)
			m.member.Pause(a.id)
		case !full && a.paused:
			a.paused = false
			m.member.Resume(a.id)
		}
	}
	m.count(waiting)
	m.metrics.Resting.Store(m.service.down())
}

// count says how many records are held.
func (m *member[P]) count(held int) {
	m.metrics.Waiting.Add(int64(held - m.waiting))
	m.waiting = held
}

// decided settles the outstanding commit where it is decided; Poll returns when it
// is.
func (m *member[P]) decided() error {
	if m.pending != nil {
		select {
		case <-m.pending.Done():
			return m.settle()
		default:
		}
	}
	return nil
}

// commitDue commits what there is where its time has come; else due is not after
// that.
func (m *member[P]) commitDue(now time.Time, due *time.Time) {
	if m.pending != nil || !m.dirty(false) {
		return
	}
	if at := m.committed.Add(m.pace.Interval); at.After(now) {
		*due = sooner(*due, at)
		return
	}
	m.commit()
}

func (m *member[P]) dirty(left bool) bool {
	return slices.ContainsFunc(m.parts, func(p P) bool { return p.dirty(left) })
}

// flush commits what another member would not come to, and waits for it.
func (m *member[P]) flush() error {
	err := m.settle()
	for err == nil && m.dirty(true) {
		m.commit()
		err = m.settle()
	}
	return err
}

// commit makes a step of what is done, after the one before it was decided.
func (m *member[P]) commit() {
	step, bytes := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{}}, 0
	m.way.fill(&step, func(size int) bool {
		if bytes > 0 && bytes+size > m.pace.Bytes {
			return false
		}
		bytes += size
		return true
	})
	m.fault("write")
	m.pending, m.committed = m.member.Commit(step), time.Now()
	m.fault("sync")
}

// settle waits for the outstanding commit, where there is one.
func (m *member[P]) settle() error {
	if m.pending == nil {
		return nil
	}
	if err := m.pending.Wait(context.Background()); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	m.fault("after")
	m.pending = nil
	m.way.settled()
	return nil
}

// sooner returns the earlier of two times, of which the zero one is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
