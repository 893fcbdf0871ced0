package embedded

import (
	"slices"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// With early reads, the writer and the members that asked for them build one frame together:
//
//  1. The writer takes requests from the queue and decides at once which
//     appends fail. It refuses them on a full disk, and drops repeated records.
//     After that no append can be withdrawn, and no member has read it yet.
//  2. The writer offers the inputs. In a frame, inputs precede all outputs, and
//     all earlier frames are durable. So the inputs have their final offsets,
//     whatever happens to a transaction. Outputs are never read early.
//  3. The writer waits for the transactions of idle members, for at most
//     Options.GroupInterval. It puts them into the frame after the inputs.
//  4. A later transaction stays in the queue for a later frame.
//
// So no transaction precedes its inputs. The writer writes all offered inputs or the log fails. So
// no member can commit results of records that were never written.
//
// A member that misses one frame would miss all later ones, because its transaction would still
// wait when the next inputs are offered. So when the member has no other work, the writer writes
// its transaction at once in a separate frame. The member is then ready for the next inputs.
//
// The writer does not wait for a member that needs longer than the interval. Such a member still
// reads early, and computes during the sync.

var _ stream.EarlyReader = (*member)(nil)

// ReadEarly implements stream.EarlyReader.
func (s *member) ReadEarly(on bool) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.early = on
	for _, sh := range s.shares {
		s.setEarly(sh.cursor)
	}
	s.log.awaited.answered(s)
}

// setEarly lets c read early if s does. The caller must hold mu.
func (s *member) setEarly(c *cursor) {
	if c.early = nil; s.early {
		c.early = s
	}
}

// rest records that s is idle. The caller must hold mu.
func (s *member) rest() {
	s.idle = true
	s.log.awaited.answered(s)
	if s.pending && s.quick() {
		s.log.queue.hurry(s)
	}
}

// quick reports whether the writer should wait for the transaction of s. The caller must hold mu.
func (s *member) quick() bool { return s.took <= s.log.opts.GroupInterval }

// moveOn records that s commits r. The caller must hold mu.
func (s *member) moveOn(r *request) {
	r.ahead, s.ahead = s.ahead, false
	if s.early {
		s.took = time.Since(s.seen)
	}
}

// answer ends the writer's wait for s.
func (l *Log) answer(s *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaited.answered(s)
}

// awaited holds the members with transactions that the frame in flight waits for. Log.mu guards it.
type awaited struct {
	members []*member
	none    chan struct{} // one token: the last member has answered
}

// answered ends the wait for s. The caller must hold mu.
func (a *awaited) answered(s *member) {
	i := slices.Index(a.members, s)
	if i < 0 {
		return
	}
	if a.members = slices.Delete(a.members, i, i+1); len(a.members) == 0 {
		signal(a.none)
	}
}

// add wakes s to read early. If s is expected to be quick, the writer waits for its transaction.
func (a *awaited) add(s *member) {
	if s.idle && !s.pending && s.quick() && !slices.Contains(a.members, s) {
		a.members = append(a.members, s)
	}
	signal(s.ready)
}

// offer makes the inputs of a frame readable early, and records which members the writer waits for.
// It returns false if no member reads early.
func (w *writer) offer(taken []*request) bool {
	l := w.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range taken {
		for _, p := range r.pieces {
			if r.member != nil || !p.part.readEarly() {
				continue
			}
			if len(p.part.early) == 0 {
				w.offered = append(w.offered, p.part)
			}
			p.part.early = append(p.part.early, block{seq: w.next, first: p.part.end(true), count: p.count, body: p.body})
		}
	}
	for _, p := range w.offered {
		for _, c := range p.readers {
			if c.early != nil {
				l.awaited.add(c.early)
			}
		}
	}
	return len(w.offered) > 0
}

// readEarly reports whether a member reads p early.
func (p *partition) readEarly() bool {
	return slices.ContainsFunc(p.readers, func(c *cursor) bool { return c.early != nil })
}

// answers waits for the awaited transactions. It returns those that may join a frame that already
// has this many bytes.
func (w *writer) answers(bytes int) []*request {
	l := w.log
	if !w.wait() {
		return nil
	}
	most := min(int64(l.opts.MaxFrameBytes), w.current.size-w.current.end) - int64(2*frameHeader+bytes)
	steps := w.admit(l.queue.takeSteps(int(most)))
	for _, r := range steps {
		if r.ahead {
			l.stats.fused.Add(1)
		}
	}
	return steps
}

// wait blocks until no member is awaited, or for at most GroupInterval. It returns false if it did
// not have to wait.
func (w *writer) wait() bool {
	l := w.log
	for first := true; ; first = false {
		l.mu.Lock()
		n := len(l.awaited.members)
		l.mu.Unlock()
		if n == 0 {
			return !first
		}
		if first {
			w.timer.Reset(l.opts.GroupInterval)
		}
		select {
		case <-l.awaited.none:
		case <-w.timer.C:
			l.mu.Lock()
			l.awaited.members = l.awaited.members[:0]
			l.mu.Unlock()
			return true
		case <-l.closing:
			return true
		}
	}
}

// withdraw ends early reads of the offered inputs. They are now durable or will never be.
func (w *writer) withdraw() {
	l := w.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range w.offered {
		p.early = nil
	}
	clear(w.offered)
	w.offered, l.awaited.members = w.offered[:0], l.awaited.members[:0]
}
