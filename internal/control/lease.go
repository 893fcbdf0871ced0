package control

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// LeaseOptions bound what workers hold.
type LeaseOptions struct {
	// Tokens is how many events all workers may hold together: 16 where it is 0.
	Tokens int
	// Each is how many a worker may hold: 10 where it is 0.
	Each int
	// Timeout is the most that a call of a worker takes: 3 s where it is 0.
	Timeout time.Duration
	// Period is how long a lease lasts without progress: Timeout and 2 s where it
	// is 0. It must be longer than Timeout, or slow calls would go again.
	Period time.Duration
}

// Resolved returns the options with those that are 0 filled in, or all that is
// wrong with them.
func (o LeaseOptions) Resolved() (LeaseOptions, error) {
	if o.Tokens == 0 {
		o.Tokens = 16
	}
	if o.Each == 0 {
		o.Each = 10
	}
	if o.Timeout == 0 {
		o.Timeout = 3 * time.Second
	}
	if o.Period == 0 {
		o.Period = o.Timeout + 2*time.Second
	}
	var list complaints
	list.check(o.Tokens < 0, "%d tokens are negative", o.Tokens)
	list.check(o.Each < 0, "%d tokens each are negative", o.Each)
	list.check(o.Timeout < 0, "a timeout of %v is negative", o.Timeout)
	list.check(o.Period <= o.Timeout, "a lease of %v ends before a call of %v: its event would go again", o.Period, o.Timeout)
	return o, errors.Join(list...)
}

// Leases lend tokens to workers, one for each event that a worker may hold, for as
// long as it makes progress. One goroutine owns them, the dispatcher; whatever they
// say is lost with it, and the log says what is to be done.
//
//  1. A worker has at most one lease, of at most Each tokens. It is fenced: its
//     number is larger than that of every lease before.
//  2. A token is free, unused in a lease, or with an event. The three make Tokens.
//  3. An answer is progress, as is what Progress is told; being sent an event is
//     not, but for the first after a time of none. Without progress for Period the
//     lease lapses: its tokens are free, its events go again.
//  4. Of an event that was sent either the answer is taken, once, or it goes again:
//     answers of a lease that lapsed are refused, as are second ones.
//
// For a worker (a goroutine, a subprocess, a connection to a service):
//
//	lease := leases.Grant(now, worker)
//	token, ok := leases.Send(now, worker, event) // lease.Unused times
//	event, ok := leases.Done(now, token)         // as answers and errors come
//	for _, lapsed := range leases.Expire(now) {} // at Next; then Grant again
//
// A refused answer that was paid for is journalled all the same, and the event that
// went again finds it there. Tokens of a remote model follow what it bears:
// Resize(endpoint.Concurrency.Stats().Limit) before Grant.
type Leases[E any] struct {
	options  LeaseOptions
	free     int // less than 0 after Resize to less than there are out
	fence    uint64
	number   uint64 // of the newest token with an event
	byWorker map[string]*lease[E]
	byFence  map[uint64]*lease[E]
	stats    LeaseStats
}

type lease[E any] struct {
	worker  string
	fence   uint64
	unused  int
	expires time.Time
	sent    []sentEvent[E] // in order
}

type sentEvent[E any] struct {
	number uint64
	event  E
}

// Lease is what a worker may do.
type Lease struct {
	Fence   uint64 // 0 is no lease
	Unused  int    // events that may be sent
	Expires time.Time
}

// Token is an event that a worker holds.
type Token struct{ Fence, Number uint64 }

// Lapsed is a lease that ended without progress, and its events in the order in
// which they were sent. They are to go again, to any worker. What became of the
// worker is for its owner to find out, before it is granted another lease.
type Lapsed[E any] struct {
	Worker string
	Fence  uint64
	Events []E
}

// LeaseStats is what became of tokens. At any time Free + Unused + Sent = Tokens,
// and Granted = Returned + Consumed + Expired + Unused + Sent.
type LeaseStats struct {
	Tokens, Free, Unused, Sent int

	Granted  uint64
	Returned uint64 // unused
	Consumed uint64 // by an answer or an error
	Expired  uint64 // with their lease
	Lapsed   uint64 // leases
	Refused  uint64 // answers
}

// NewLeases returns leases, none granted.
func NewLeases[E any](options LeaseOptions) (*Leases[E], error) {
	o, err := options.Resolved()
	if err != nil {
		return nil, fmt.Errorf("options of leases: %w", err)
	}
	return &Leases[E]{
		options: o, free: o.Tokens,
		byWorker: make(map[string]*lease[E]), byFence: make(map[uint64]*lease[E]),
		stats: LeaseStats{Tokens: o.Tokens},
	}, nil
}

// Grant gives a worker as many tokens as are free and it may hold, within its lease
// where it has one. A lease that is due to lapse gets none: Expire comes first.
func (l *Leases[E]) Grant(now time.Time, worker string) Lease {
	held, ok := l.byWorker[worker]
	switch {
	case ok && !now.Before(held.expires):
		return Lease{}
	case !ok && l.free <= 0:
		return Lease{}
	case !ok:
		l.fence++
		held = &lease[E]{worker: worker, fence: l.fence, expires: now.Add(l.options.Period)}
		l.byWorker[worker], l.byFence[held.fence] = held, held
	}
	tokens := max(min(l.options.Each-held.unused-len(held.sent), l.free), 0)
	l.free -= tokens
	held.unused += tokens
	l.stats.Granted += uint64(tokens)
	return Lease{Fence: held.fence, Unused: held.unused, Expires: held.expires}
}

// Send spends an unused token of a worker on an event. Where ok is false there is
// none, or the lease is due to lapse, and the event is to go to another worker.
func (l *Leases[E]) Send(now time.Time, worker string, event E) (token Token, ok bool) {
	held := l.byWorker[worker]
	if held == nil || held.unused == 0 || !now.Before(held.expires) {
		return Token{}, false
	}
	if len(held.sent) == 0 { // it owed no progress before
		held.expires = now.Add(l.options.Period)
	}
	held.unused--
	l.number++
	held.sent = append(held.sent, sentEvent[E]{l.number, event})
	return Token{held.fence, l.number}, true
}

// Done ends the call of an event, with an answer or an error. Where ok is false the
// answer is refused: its lease has lapsed, or the event is done. An answer that
// comes before Expire found the lease lapsed is taken: nothing went again.
func (l *Leases[E]) Done(now time.Time, token Token) (event E, ok bool) {
	held := l.byFence[token.Fence]
	if held != nil {
		at := slices.IndexFunc(held.sent, func(s sentEvent[E]) bool { return s.number == token.Number })
		if at >= 0 {
			event = held.sent[at].event
			held.sent = slices.Delete(held.sent, at, at+1)
			held.expires = now.Add(l.options.Period)
			l.free++
			l.stats.Consumed++
			l.endIfEmpty(held)
			return event, true
		}
	}
	l.stats.Refused++
	return event, false
}

// Progress keeps the lease of an event that a worker is at, such as at a part of a
// streamed answer. Where it returns false the answer will be refused.
func (l *Leases[E]) Progress(now time.Time, token Token) bool {
	held := l.byFence[token.Fence]
	if held == nil || !slices.ContainsFunc(held.sent, func(s sentEvent[E]) bool { return s.number == token.Number }) {
		return false
	}
	held.expires = now.Add(l.options.Period)
	return true
}

// Return takes back the unused tokens of a worker. The events that it holds stay
// with it.
func (l *Leases[E]) Return(worker string) {
	held := l.byWorker[worker]
	if held == nil {
		return
	}
	l.free += held.unused
	l.stats.Returned += uint64(held.unused)
	held.unused = 0
	l.endIfEmpty(held)
}

func (l *Leases[E]) endIfEmpty(held *lease[E]) {
	if held.unused == 0 && len(held.sent) == 0 {
		l.end(held)
	}
}

func (l *Leases[E]) end(held *lease[E]) {
	delete(l.byWorker, held.worker)
	delete(l.byFence, held.fence)
}

// Expire ends the leases that made no progress for Period, the oldest first, and
// returns them.
func (l *Leases[E]) Expire(now time.Time) []Lapsed[E] {
	var lapsed []Lapsed[E]
	for _, held := range l.byFence {
		if now.Before(held.expires) {
			continue
		}
		tokens := held.unused + len(held.sent)
		l.free += tokens
		l.stats.Expired += uint64(tokens)
		l.stats.Lapsed++
		l.end(held)
		end := Lapsed[E]{Worker: held.worker, Fence: held.fence}
		for _, s := range held.sent {
			end.Events = append(end.Events, s.event)
		}
		lapsed = append(lapsed, end)
	}
	slices.SortFunc(lapsed, func(a, b Lapsed[E]) int { return cmp.Compare(a.Fence, b.Fence) })
	return lapsed
}

// Next returns when Expire is due; ok is false where there is no lease.
func (l *Leases[E]) Next() (at time.Time, ok bool) {
	for _, held := range l.byFence {
		if !ok || held.expires.Before(at) {
			at, ok = held.expires, true
		}
	}
	return at, ok
}

// Resize changes how many tokens there are. Where more are out none is granted
// until enough came back.
func (l *Leases[E]) Resize(tokens int) {
	tokens = max(tokens, 0)
	l.free += tokens - l.stats.Tokens
	l.stats.Tokens = tokens
}

// Stats returns what became of the tokens.
func (l *Leases[E]) Stats() LeaseStats {
	stats := l.stats
	stats.Free = l.free
	for _, held := range l.byFence {
		stats.Unused += held.unused
		stats.Sent += len(held.sent)
	}
	return stats
}
