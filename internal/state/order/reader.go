package order

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Readers are the members of a process that read topics of one pipeline in order. They may
// be looked at while they read.
type Readers struct {
	Now func() time.Time // the clock by which they measure

	mu     sync.Mutex // guards what follows
	all    map[*Reader]bool
	waited map[Holder]time.Duration
}

// Holder is what events wait for.
type Holder struct {
	Source int32  // number of the source partition that has not passed them; below 0 is none
	By     string // the field by which a stage has not answered; "" is none
	Stage  bool   // events wait for a stage: its answer by By, or in a stage what an event says to it
}

// Nothing is the Holder of events that wait for nothing.
var Nothing = Holder{Source: -1}

// Reader is one member of Readers.
type Reader struct {
	of     *Readers
	mu     sync.Mutex // guards the parts of member while it polls and commits
	member *member    // nil before it joins
	newest *part      // that Held was asked about
}

// Standing is how a partition that is read in order stands.
type Standing struct {
	stream.Partition
	Next      stream.Offset // number of the next event that is released
	Read      stream.Offset // of the log, behind all that was read
	Frontiers map[int32]Key // by number of the source
	Held      int           // events that were read and not released, but for those in state
	Spilled   bool          // there are events in state
	Open      int           // events that were read and are in no step, the held ones included
	First     Key           // place of the first event that is held
	Waits     Holder        // what it waits for
	Since     time.Time     // from when on it waited for that
}

// Reader returns one that a log has to be made with. The caller closes it.
func (r *Readers) Reader() *Reader {
	of := &Reader{of: r}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all, r.waited = map[*Reader]bool{}, map[Holder]time.Duration{}
	}
	r.all[of] = true
	return of
}

// Close says that the member reads no more.
func (r *Reader) Close() {
	r.count(r.of.Now())
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	delete(r.of.all, r)
}

// join has the reader look at a member.
func (r *Reader) join(m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.member = m
}

// lock has nobody look until the reader is unlocked, and returns the time.
func (r *Reader) lock() time.Time {
	r.mu.Lock()
	return r.of.Now()
}

// Waited returns how long events have waited for what held them, the time of all partitions
// added up. It only grows.
func (r *Readers) Waited() map[Holder]time.Duration {
	now := r.Now()
	for _, reader := range r.readers() {
		reader.count(now)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.waited)
}

// count notes how long events have waited until now.
func (r *Reader) count(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.member == nil {
		return
	}
	for _, p := range r.member.turns {
		r.of.waits(p, now)
	}
}

// readers returns those that read now.
func (r *Readers) readers() []*Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.all))
}

// Standing returns how the partitions of the members stand, by topic and index.
func (r *Readers) Standing() (list []Standing) {
	for _, reader := range r.readers() {
		list = reader.standing(list)
	}
	slices.SortFunc(list, func(a, b Standing) int { return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index)) })
	return list
}

func (r *Reader) standing(list []Standing) []Standing {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.member == nil {
		return list
	}
	for _, p := range r.member.parts {
		list = append(list, p.standing())
	}
	return list
}

// waits notes that events of a partition have waited for something until now.
func (r *Readers) waits(p *part, now time.Time) {
	if p.waitsFor == Nothing || !now.After(p.looked) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waited[p.waitsFor] += now.Sub(p.looked)
	p.looked = now
}

// Held returns how long an event of the newest Poll was held after it was read, and for what
// last. Only the member's own goroutine may ask, before the step of the event.
func (r *Reader) Held(id stream.Partition, number stream.Offset) (time.Duration, Holder) {
	p := r.newest
	if p == nil || p.id != id {
		p = r.member.parts[id]
		r.newest = p
	}
	if p == nil || number < p.stepped.next || number >= p.next() {
		return 0, Nothing
	}
	h := p.given.rest()[number-p.stepped.next]
	return h.waited, h.holder
}

// standing returns how the partition stands.
func (p *part) standing() Standing {
	s := Standing{Partition: p.id, Next: p.next(), Read: p.read, Spilled: !p.spilled.empty() || p.unplaced.offsets.len() > 0, Frontiers: map[int32]Key{}, Waits: p.waitsFor, Since: p.since}
	for i, number := range p.sources {
		s.Frontiers[number] = p.merger.At(i)
	}
	for _, h := range p.window.rest() {
		if h.event && !h.done {
			s.Open++
			if !h.released {
				s.Held++
			}
		}
	}
	if s.Waits != Nothing {
		s.First = p.waiting.first
	}
	return s
}

// holder returns what the first event that is held waits for.
func (p *part) holder() Holder {
	h, ok := p.head()
	if h != nil {
		p.waiting.first = h.place.key
	}
	switch {
	case h == nil:
		of, first := p.unplaced.waits(p.window.rest())
		if of != Nothing {
			p.waiting.first = first
		}
		return of
	case ok && len(h.open) > 0:
		return stageOf(h)
	case ok:
		return Nothing // it is released with the next Poll
	case h.place.key.Source < 0 && p.spilled.empty() && !p.merger.HoldsOf(len(p.sources)+1):
		return Nothing // the turn of an ask that was answered: a later event moves time on to it
	}
	if behind := p.merger.Behind(); behind < len(p.sources) {
		return Holder{Source: p.sources[behind]}
	}
	source, _ := p.forced.turns[0].Event()
	return Holder{Source: source}
}

// look notes what events wait for from now on.
func (p *part) look(now time.Time) {
	p.looked = now
	was := p.waiting.first
	if of := p.holder(); of != p.waitsFor || was.Before(p.waiting.first) {
		p.waitsFor, p.since = of, now
	}
}
