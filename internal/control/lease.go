package control

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// LeaseOptions limits the events that workers hold.
type LeaseOptions struct {
	// Tokens is the maximum number of events that all workers hold together; 0 is 16.
	Tokens int
	// Each is the maximum number of events that one worker holds; 0 is 10.
	Each int
	// Timeout is the maximum duration of a worker's call; 0 is 3 s.
	Timeout time.Duration
	// Period is how long a lease lasts without progress; 0 is Timeout plus 2 s. It must be longer
	// than Timeout; otherwise slow calls would be repeated.
	Period time.Duration
}

// Resolved returns the options with defaults for those that are 0. The error joins all errors in
// the options.
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
	list.check(o.Period <= o.Timeout, "a lease of %v ends before a call of %v: its event would be called twice", o.Period, o.Timeout)
	return o, errors.Join(list...)
}

// Leases grants tokens to workers, one for each event that a worker may hold, as long as the worker
// makes progress. One goroutine, the dispatcher, owns them. Their state is not durable: the log
// says which work remains.
//
//  1. A worker has at most one lease, of at most Each tokens. A lease is fenced: its
//     number is larger than that of every earlier lease.
//  2. A token is free, unused in a lease, or used by an event. Together they are Tokens.
//  3. An answer is progress, and so is a call of Progress. Receiving an event is progress
//     only if the worker held none before. After Period without progress the lease
//     lapses: its tokens become free, and its events are sent again.
//  4. For each event that was sent, either one answer is accepted, or the event is sent
//     again. Answers of a lapsed lease, and second answers, are refused.
//
// For a worker (a goroutine, a subprocess, a connection to a service):
//
//	lease := leases.Grant(now, worker)
//	token, ok := leases.Send(now, worker, event) // lease.Unused times
//	event, ok := leases.Done(now, token)         // as answers and errors come
//	for _, lapsed := range leases.Expire(now) {} // at Next; then Grant again
//
// A refused answer that was paid for is still journalled, so that the repeated event finds it. For
// a remote model, the number of tokens follows its limit: call
// Resize(endpoint.Concurrency.Stats().Limit) before Grant.
type Leases[E any] struct {
	options  LeaseOptions
	free     int // negative after Resize to fewer tokens than are granted
	fence    uint64
	number   uint64 // number of the newest token with an event
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

// Lease is the grant of a worker.
type Lease struct {
	Fence   uint64 // 0 means no lease
	Unused  int    // number of events that may be sent
	Expires time.Time
}

// Token identifies an event that a worker holds.
type Token struct{ Fence, Number uint64 }

// Lapsed is a lease that ended without progress, with its events in the order of sending. The
// events must be sent again, to any worker. The worker's owner must find out what happened to the
// worker before it grants it another lease.
type Lapsed[E any] struct {
	Worker string
	Fence  uint64
	Events []E
}

// LeaseStats counts tokens. At any time Free + Unused + Sent = Tokens, and Granted = Returned +
// Consumed + Expired + Unused + Sent.
type LeaseStats struct {
	Tokens, Free, Unused, Sent int

	Granted  uint64
	Returned uint64 // returned unused
	Consumed uint64 // used by an answer or an error
	Expired  uint64 // lapsed with their lease
	Lapsed   uint64 // lapsed leases
	Refused  uint64 // refused answers
}

// NewLeases returns Leases without any grant.
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

// Grant gives a worker as many tokens as are free and it may hold. It extends the worker's lease,
// if there is one. A lease that is due to lapse gets none: call Expire first.
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

// Send uses a token of a worker for an event. If ok is false, the worker has no unused token or its
// lease is due to lapse: send the event to another worker.
func (l *Leases[E]) Send(now time.Time, worker string, event E) (token Token, ok bool) {
	held := l.byWorker[worker]
	if held == nil || held.unused == 0 || !now.Before(held.expires) {
		return Token{}, false
	}
	if len(held.sent) == 0 { // until now no progress was expected
		held.expires = now.Add(l.options.Period)
	}
	held.unused--
	l.number++
	held.sent = append(held.sent, sentEvent[E]{l.number, event})
	return Token{held.fence, l.number}, true
}

// Done ends the call of an event, with an answer or an error. If ok is false, the answer is
// refused: its lease has lapsed, or the event is done. An answer that arrives before Expire has
// ended the lease is accepted, because the event was not sent again.
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

// Progress extends the lease of an event that a worker is processing, for example for a part of a
// streamed answer. If it returns false, the answer will be refused.
func (l *Leases[E]) Progress(now time.Time, token Token) bool {
	held := l.byFence[token.Fence]
	if held == nil || !slices.ContainsFunc(held.sent, func(s sentEvent[E]) bool { return s.number == token.Number }) {
		return false
	}
	held.expires = now.Add(l.options.Period)
	return true
}

// Return takes back the unused tokens of a worker. The worker keeps the events that it holds.
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

// Expire ends the leases without progress for Period and returns them, oldest first.
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

// Next returns when Expire is due; ok is false if there are no leases.
func (l *Leases[E]) Next() (at time.Time, ok bool) {
	for _, held := range l.byFence {
		if !ok || held.expires.Before(at) {
			at, ok = held.expires, true
		}
	}
	return at, ok
}

// Resize changes the number of tokens. If more are granted, no more are granted until enough have
// come back.
func (l *Leases[E]) Resize(tokens int) {
	tokens = max(tokens, 0)
	l.free += tokens - l.stats.Tokens
	l.stats.Tokens = tokens
}

// Stats returns the counts of tokens.
func (l *Leases[E]) Stats() LeaseStats {
	stats := l.stats
	stats.Free = l.free
	for _, held := range l.byFence {
		stats.Unused += held.unused
		stats.Sent += len(held.sent)
	}
	return stats
}
