package order

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Readers holds the members of a process that read topics of one pipeline in order. Other
// goroutines may inspect them while they read.
type Readers struct {
	Now func() time.Time // clock for measurements

	mu     sync.Mutex // guards the fields below
	all    map[*Reader]bool
	waited map[Holder]time.Duration
}

// Holder says what events wait for.
type Holder struct {
	Source int32  // number of the source partition that has not passed them; below 0 if they wait for none
	By     string // field of the stage with a missing answer; "" if none
	Stage  bool   // events wait for the answer of stage By, or in a stage for the value of an event
}

// Nothing is the Holder of events that do not wait.
var Nothing = Holder{Source: -1}

// Reader is one member of Readers.
type Reader struct {
	of     *Readers
	mu     sync.Mutex // guards the parts of member while it polls and commits
	member *member    // nil until it joins
	newest *part      // last partition passed to Held
}

// Standing is the progress of a partition that is read in order.
type Standing struct {
	stream.Partition
	Next      stream.Offset // number of the next released event
	Read      stream.Offset // log offset after the last record read
	Frontiers map[int32]Key // by source number
	Held      int           // events that were read and not released, without those in state
	Spilled   bool          // some events are in state
	Open      int           // events that were read and are in no transaction, including held ones
	First     Key           // key of the first held event
	Waits     Holder        // what that event waits for
	Since     time.Time     // start of that wait
}

// Reader returns a Reader for Options.Reader. The caller must close it.
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

// Close removes the reader when its member no longer reads.
func (r *Reader) Close() {
	r.count(r.of.Now())
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	delete(r.of.all, r)
}

// join sets the member that the reader observes.
func (r *Reader) join(m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.member = m
}

// lock locks the reader and returns the time. The caller must unlock it.
func (r *Reader) lock() time.Time {
	r.mu.Lock()
	return r.of.Now()
}

// Waited returns how long events have waited, by Holder, summed over all partitions. The values
// only grow.
func (r *Readers) Waited() map[Holder]time.Duration {
	now := r.Now()
	for _, reader := range r.readers() {
		reader.count(now)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.waited)
}

// count adds the waits until now.
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

// readers returns the open readers.
func (r *Readers) readers() []*Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.all))
}

// Standing returns the progress of all partitions of the members, by topic and index.
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

// waits adds the time since the last check to the waits of a partition.
func (r *Readers) waits(p *part, now time.Time) {
	if p.waitsFor == Nothing || !now.After(p.looked) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waited[p.waitsFor] += now.Sub(p.looked)
	p.looked = now
}

// Held returns how long an event of the newest Poll was held after it was read, and its last
// Holder. Only the member's own goroutine may call it, before the transaction of the event.
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

// standing returns the progress of the partition.
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

// holder returns what the first held event waits for.
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
		return Nothing // the next Poll releases it
	case h.place.key.Source < 0 && p.spilled.empty() && !p.merger.HoldsOf(len(p.sources)+1):
		return Nothing // the turn of an answered ask: a later event advances time to it
	}
	if behind := p.merger.Behind(); behind < len(p.sources) {
		return Holder{Source: p.sources[behind]}
	}
	source, _ := p.forced.turns[0].Event()
	return Holder{Source: source}
}

// look records what events wait for from now on.
func (p *part) look(now time.Time) {
	p.looked = now
	was := p.waiting.first
	if of := p.holder(); of != p.waitsFor || was.Before(p.waiting.first) {
		p.waitsFor, p.since = of, now
	}
}
