package embedded

import (
	"slices"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Reading early, the writer and the members that asked for it work on one
// frame together:
//
//  1. The writer takes what waits. What may fail about an append is decided
//     then: it is refused on a full disk, or loses the records that the log
//     has, before anybody can read it, and it can no longer be taken back.
//  2. It offers the inputs. In a frame they stand before all outputs, and the
//     frames before it are durable. So their offsets are those that they keep,
//     whatever becomes of any step, and outputs are never read early.
//  3. It awaits the steps of the members that had nothing to do, for at most
//     Options.GroupInterval, and takes them into the frame behind its inputs.
//  4. A step that comes later stays in the queue, which is behind them too.
//
// So no step precedes its inputs, and what is offered is written or the log
// fails: nobody can commit what came of records that do not come to be.
//
// A member that misses its frame would miss all that follow: when inputs are
// offered its step still waits. So once it has nothing else to do its step is
// written at once, in a frame of its own, and it is ready for the next inputs.
// A member that needs longer than the interval is not awaited. It still reads
// early, and computes during the sync.

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

// setEarly lets c read early if s does. Its caller holds mu.
func (s *member) setEarly(c *cursor) {
	if c.early = nil; s.early {
		c.early = s
	}
}

// rest notes that s has nothing to do. Its caller holds mu.
func (s *member) rest() {
	s.idle = true
	s.log.awaited.answered(s)
	if s.pending && s.quick() {
		s.log.queue.hurry(s)
	}
}

// quick reports whether the step of s is worth waiting for. Its caller holds mu.
func (s *member) quick() bool { return s.took <= s.log.opts.GroupInterval }

// moveOn notes that s commits r. Its caller holds mu.
func (s *member) moveOn(r *request) {
	r.ahead, s.ahead = s.ahead, false
	if s.early {
		s.took = time.Since(s.seen)
	}
}

// answer ends the wait for s.
func (l *Log) answer(s *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaited.answered(s)
}

// awaited are the members whose steps the frame in flight waits for. Log.mu guards them.
type awaited struct {
	members []*member
	none    chan struct{} // one token: no member is awaited any more
}

// answered ends the wait for s.
func (a *awaited) answered(s *member) {
	i := slices.Index(a.members, s)
	if i < 0 {
		return
	}
	if a.members = slices.Delete(a.members, i, i+1); len(a.members) == 0 {
		signal(a.none)
	}
}

// add tells s that there is something to read early, and notes that its step is awaited if
// it will be quick.
func (a *awaited) add(s *member) {
	if s.idle && !s.pending && s.quick() && !slices.Contains(a.members, s) {
		a.members = append(a.members, s)
	}
	signal(s.ready)
}

// offer lets the inputs of a frame be read early, and notes whose steps are
// awaited. It returns false where nobody reads them.
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

// answers waits for the steps that are awaited and returns those that may be
// written, in a frame that has so many bytes.
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

// wait waits until nobody is awaited. It returns false where nobody was.
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

// withdraw ends reading early, when the inputs are durable or never will be.
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
