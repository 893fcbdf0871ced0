package embedded

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// member is a stream.Member.
type member struct {
	log   *Log
	group *group
	wake  chan struct{} // one token: Poll returns early
	ready chan struct{} // one token: Poll may have records or assignments to return

	// Log.mu guards these fields.
	shares  []*share  // owned
	polling bool      // in a Poll that waits
	seen    time.Time // time of the last Poll
	err     error     // why the member is unusable
	pending bool      // a commit is outstanding

	early bool          // early reads are on
	ahead bool          // it has read early since its last commit
	idle  bool          // it waits in Poll and has no work
	took  time.Duration // from Poll to Commit, the last time

	available unread          // records for the current Poll
	turn      int             // index into shares at which the next Poll starts
	taken     []stream.Record // slice that the caller may use until the next Poll
}

// Poll implements stream.Member.
func (s *member) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	woken := false
	clear(s.taken) // release the memory that the records refer to
	for {
		select {
		case <-s.wake:
			woken = true
		default:
		}
		batch, overdue, err := s.look()
		if err == nil {
			batch.Records, err = s.fetch(&s.available, limit)
		}
		if err != nil {
			s.away()
			return stream.Batch{}, fmt.Errorf("poll: %w", err)
		}
		if woken || len(batch.Revoked)+len(batch.Assigned)+len(batch.Records) > 0 {
			s.away()
			return batch, nil
		}
		var timer <-chan time.Time
		if overdue != never {
			timer = time.After(overdue)
		}
		select {
		case <-s.ready:
		case <-s.wake:
			woken = true
		case <-timer:
		case <-ctx.Done():
			s.away()
			return stream.Batch{}, ctx.Err()
		}
	}
}

// away records that the member leaves Poll.
func (s *member) away() {
	s.log.mu.Lock()
	s.polling, s.idle, s.seen = false, false, time.Now()
	s.log.mu.Unlock()
}

// look moves shares to and from the member and records the available records. It returns how long
// to wait before an owner is overdue.
func (s *member) look() (batch stream.Batch, overdue time.Duration, err error) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.err != nil {
		return batch, 0, s.err
	}
	available := &s.available
	available.reset()
	s.polling, s.seen = true, time.Now()
	if !s.group.settled {
		s.settle(&batch)
	}
	overdue = never
	if !s.group.settled {
		for _, sh := range s.group.shares {
			if sh.target == s {
				overdue = min(overdue, sh.overdue())
			}
		}
	}
	for _, sh := range s.shares {
		if !sh.paused && !sh.revoked {
			end := sh.part.end(s.early)
			if n := int64(end) - sh.cursor.next.Load(); n > 0 {
				available.add(sh.cursor, n)
				s.ahead = s.ahead || end > sh.part.next
			}
		}
	}
	if s.early && available.records == 0 && len(batch.Revoked)+len(batch.Assigned) == 0 {
		s.rest()
	}
	return batch, overdue, nil
}

// settle moves shares to and from s.
func (s *member) settle(batch *stream.Batch) {
	g := s.group
	for _, sh := range g.shares {
		if sh.target == s && sh.overdue() <= 0 {
			g.remove(sh.owner, stream.ErrFenced)
		}
	}
	for _, sh := range g.shares {
		if sh.owner == s && sh.revoked && !s.pending {
			s.drop(sh)
			g.notify()
		}
		switch {
		case sh.owner == s && sh.target != s:
			if !sh.revoked {
				sh.revoked = true
				batch.Revoked = append(batch.Revoked, sh.part.Partition)
			}
		case sh.owner == nil && sh.target == s && !sh.writing:
			batch.Assigned = append(batch.Assigned, s.own(sh))
		}
	}
	g.settled = !slices.ContainsFunc(g.shares, func(sh *share) bool { return sh.owner != sh.target || sh.revoked })
}

// own makes s the owner of sh.
func (s *member) own(sh *share) stream.Assigned {
	next := max(sh.committed, sh.part.first())
	sh.owner, sh.paused = s, false
	sh.cursor = s.log.cursorAt(sh.part, next, s.ready)
	s.setEarly(sh.cursor)
	s.shares = append(s.shares, sh)
	return stream.Assigned{Partition: sh.part.Partition, Next: next, State: s.log.space(s.group.name, sh.part.Partition)}
}

// drop removes s as the owner of sh.
func (s *member) drop(sh *share) {
	sh.part.removeReader(sh.cursor)
	sh.owner, sh.revoked, sh.cursor, sh.wanted = nil, false, nil, time.Time{}
	s.shares = slices.DeleteFunc(s.shares, func(other *share) bool { return other == sh })
}

// unread lists the records that a Poll may read.
type unread struct {
	cursors []*cursor
	waiting []int64 // number of records, by cursor
	records int64   // total of waiting
}

func (u *unread) reset() {
	clear(u.cursors)
	*u = unread{cursors: u.cursors[:0], waiting: u.waiting[:0]}
}

func (u *unread) add(c *cursor, n int64) {
	u.cursors, u.waiting = append(u.cursors, c), append(u.waiting, n)
	u.records += n
}

// least returns how many records cursor i gets at least in a batch of limit records: half of an
// even share.
func (u *unread) least(i, limit int) float64 {
	return min(float64(limit)/float64(2*len(u.cursors)), float64(u.waiting[i]))
}

// fetch returns records from each cursor in proportion to its unread records. So cursors that are
// behind advance through the log together and share file reads. Each cursor gets at least its
// least, even if another is far behind. Each call starts at another cursor.
func (s *member) fetch(u *unread, limit int) ([]stream.Record, error) {
	if len(u.cursors) == 0 || limit <= 0 {
		return nil, nil
	}
	s.turn++
	records := slices.Grow(s.taken[:0], int(min(int64(limit), u.records)))
	waiting, kept := float64(u.records), 0.0
	for i := range u.cursors {
		kept += u.least(i, limit)
	}
	for left := len(u.cursors); left > 0; left-- {
		i := (s.turn + left) % len(u.cursors)
		least, room := u.least(i, limit), limit-len(records)
		kept -= least
		share := max(least, min(float64(room)*float64(u.waiting[i])/waiting, float64(room)-kept))
		waiting -= float64(u.waiting[i])
		var err error
		records, err = u.cursors[i].read(records, min(room, int(math.Ceil(share))))
		if err != nil && len(records) == 0 {
			return nil, err // otherwise the next Poll returns the error
		}
	}
	s.taken = records
	return records, nil
}

// Seek implements stream.Seeker.
func (s *member) Seek(p stream.Partition, next stream.Offset) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for _, sh := range s.shares {
		if c := sh.cursor; sh.part.Partition == p && int64(next) > c.next.Load() {
			c.next.Store(int64(next))
			c.blocks = nil
		}
	}
}

// Pause implements stream.Member.
func (s *member) Pause(partitions ...stream.Partition) { s.setPaused(partitions, true) }

// Resume implements stream.Member.
func (s *member) Resume(partitions ...stream.Partition) { s.setPaused(partitions, false) }

func (s *member) setPaused(partitions []stream.Partition, paused bool) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for _, sh := range s.shares {
		if slices.Contains(partitions, sh.part.Partition) {
			sh.paused = paused
		}
	}
}

var errOutstanding = errors.New("a commit is outstanding: wait for it before the next")

// Commit implements stream.Member. If a transaction exceeds the limit of a frame, the error is
// stream.ErrTooLarge and the log wrote nothing.
func (s *member) Commit(step stream.Transaction) *stream.Pending {
	l, pending := s.log, stream.NewPending()
	r, err := l.stepRequest(s, &step)
	l.mu.Lock()
	switch {
	case s.err != nil:
		err = s.err
	case s.pending:
		err = errOutstanding
	case err == nil:
		s.pending = true
		s.moveOn(r)
	}
	if err != nil {
		s.group.remove(s, stream.ErrFenced)
	}
	l.mu.Unlock()
	if err == nil {
		r.decide = pending.Decide
		if _, err = l.queue.add(r); err != nil {
			s.decided(r, err)
		} else if r.ahead {
			l.answer(s)
		}
	}
	if err != nil {
		pending.Decide(fmt.Errorf("commit: %w", err))
		s.Wake()
	}
	return pending
}

// admit accepts a transaction for the frame being built if the member owns all of its partitions.
func (s *member) admit(r *request) error {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.err != nil {
		return fmt.Errorf("commit: %w", s.err)
	}
	for _, sh := range r.shares {
		if sh.owner != s {
			return fmt.Errorf("commit: %v: %w", sh.part.Partition, stream.ErrFenced)
		}
	}
	for _, sh := range r.shares {
		sh.writing = true
	}
	r.admitted = true
	return nil
}

// decided ends an outstanding commit.
func (s *member) decided(r *request, err error) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.pending = false
	if r.admitted {
		for _, sh := range r.shares {
			sh.writing = false
		}
	}
	if err != nil {
		s.group.remove(s, stream.ErrFenced)
	}
	if !s.group.settled {
		s.group.notify()
	}
}

// Wake implements stream.Member.
func (s *member) Wake() { signal(s.wake) }

// Close implements stream.Member.
func (s *member) Close() error {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.group.remove(s, stream.ErrClosed)
	return nil
}
