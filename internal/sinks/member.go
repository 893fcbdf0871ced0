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

// member is a member of a Deliverer's group, the common part of worker, batches and archiver, which
// embed it. One goroutine owns it. Calls run in goroutines of their own, which only send an answer.
//
// Each turn performs these steps: Poll, which ends early on an answer, a decided commit or the
// timer; handle answers; settle the last commit if it is decided; start new calls; and start a
// commit if there is something to commit and no commit is outstanding.
type member[P part] struct {
	*Deliverer
	member stream.Member
	pace   stream.Pace
	from   reading
	way    way[P]
	most   int // maximum number of records from one Poll

	parts   []P // assigned partitions
	turns   int // rotates which partition starts calls first
	calling int
	waiting int // held records, as last counted in the metrics

	pending   *stream.Pending // the outstanding commit, or nil
	committed time.Time       // start of the last commit
	timer     *time.Timer     // wakes Poll

	calls   context.Context // context of the calls
	cancel  context.CancelFunc
	running sync.WaitGroup
	answers chan answer // has room for all calls
}

// way is the strategy for delivering records. The member calls it in its own goroutine.
type way[P part] interface {
	assign(ctx context.Context, a stream.Assigned) (P, error)
	hold(records []stream.Record, now time.Time)

	// begin starts calls, and returns when to call it again; zero if only an event that wakes Poll
	// can make it necessary.
	begin(now time.Time) (due time.Time)

	// held returns the number of held records of a partition, and whether it holds so many that it
	// must be paused.
	held(p P) (records int, full bool)

	// fill builds a transaction of everything that must be committed. It adds an output only if
	// fits returns true for its size.
	fill(step *stream.Transaction, fits func(size int) bool)

	// settled runs after each successful commit, before calls are started.
	settled()
}

// part is an assigned partition.
type part interface {
	own() *assigned
	awaited() bool // a call is in flight that must end before another member may own the partition

	// dirty reports whether there is something to commit. If the partition is being revoked (left),
	// it only counts work that the next owner would not repeat.
	dirty(left bool) bool
}

// assigned is the common state of partitions.
type assigned struct {
	id     stream.Partition
	paused bool
}

func (a *assigned) own() *assigned { return a }

// answer is the result of a call.
type answer struct {
	passed control.BreakerCall
	took   time.Duration
	err    error
	note   note
}

// note handles the result of a call. If it returns an error, the member must end.
type note func(now time.Time, took time.Duration, err error) (control.Outcome, error)

func newMember[P part](ctx context.Context, d *Deliverer, s stream.Member, from reading, how way[P], most int) *member[P] {
	m := &member[P]{
		Deliverer: d, member: s, pace: optional.Pace(s), from: from, way: how, most: most,
		timer: time.AfterFunc(time.Hour, s.Wake), answers: make(chan answer, from.concurrency),
	}
	m.timer.Stop()
	m.calls, m.cancel = context.WithCancel(context.WithoutCancel(ctx)) // running calls may finish after ctx is done
	return m
}

// end cancels the calls in flight. If the member is dead, another one owns its partitions and
// repeats the calls.
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

// turn runs one turn of the loop.
func (m *member[P]) turn(ctx context.Context) error {
	batch, err := m.member.Poll(ctx, m.most)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return errors.Join(fmt.Errorf("poll: %w", err), m.settle()) // the commit's error says why the member is dead
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

// inTurn yields the partitions, starting with a different one each time.
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

// revoke waits for the calls of revoked partitions, commits their results, and removes the
// partitions.
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

// finish waits for the calls in flight and commits their results.
func (m *member[P]) finish() error {
	for m.calling > 0 {
		if err := m.take(<-m.answers); err != nil {
			return err
		}
	}
	return m.flush()
}

// free reports whether another call may start.
func (m *member[P]) free() bool { return m.calling < m.from.concurrency }

// call calls the service in a new goroutine. The loop later passes the result to note.
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

// listen handles the available answers.
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

// bound pauses the partitions that hold too much, and resumes those that no longer do.
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

// count updates the metric of held records.
func (m *member[P]) count(held int) {
	m.metrics.Waiting.Add(int64(held - m.waiting))
	m.waiting = held
}

// decided settles the outstanding commit if it is decided. Poll returns when that happens.
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

// commitDue starts a commit if its time has come. Otherwise it moves due forward to that time.
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

// flush commits the work that another member would not repeat, and waits for the commit.
func (m *member[P]) flush() error {
	err := m.settle()
	for err == nil && m.dirty(true) {
		m.commit()
		err = m.settle()
	}
	return err
}

// commit starts a transaction of the finished work. The previous commit must be settled.
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

// settle waits for the outstanding commit, if there is one.
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

// sooner returns the earlier of two times. The zero time means none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
