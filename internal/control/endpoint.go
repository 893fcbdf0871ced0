package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// EndpointOptions configures when calls to an endpoint may begin.
type EndpointOptions struct {
	Breaker     BreakerOptions
	Concurrency ConcurrencyOptions
}

// Resolved returns the options with defaults for those that are 0. The error joins all errors in
// the options.
func (o EndpointOptions) Resolved() (EndpointOptions, error) {
	breaker, first := o.Breaker.Resolved()
	concurrency, second := o.Concurrency.Resolved()
	return EndpointOptions{breaker, concurrency}, errors.Join(first, second)
}

// Admission says whether a call may begin.
type Admission int

// The values of Admission.
const (
	Admitted Admission = iota // make the call
	Busy                      // ask again when a call has ended
	Down                      // the breaker is open: pause, queue or fall back
)

// String returns the name of the admission in metrics.
func (a Admission) String() string { return [...]string{"admitted", "busy", "down"}[a] }

// Endpoint admits the calls to one model at one endpoint. It combines a breaker, which all members
// share, with a limit of concurrent calls. It is safe for concurrent use.
//
// A caller uses it as follows:
//
//	call, admission, wait := endpoint.Begin(time.Now(), weight)
//	// Busy: leave the work in its queue and ask again after the next End.
//	// Down: ask again after wait. With `open: pause` the member keeps its chunk
//	// and polls nothing meanwhile; with `queue` the work becomes queued, due after
//	// wait; with `fallback` the step takes its fallback at once.
//	endpoint.Observe(time.Now(), call, outcome) // as soon as the answer is there
//	endpoint.End(time.Now(), call)              // when it no longer counts as in flight
//
// The answer is journalled between Observe and End. A call keeps its place until the journal entry
// is committed, so that a crash repeats only calls that were in flight. Without a journal, End
// follows at once. The caller must call End for every admitted call, best with defer. This includes
// calls that panicked, and calls that were never made (these have no Observe). If a batch is split
// after a failure, each of its calls is a separate call here.
//
// The dispatcher of queued work calls Begin before it takes work from its FairQueue; there is one
// queue for each endpoint. internal/models/remote calls Begin within Predict, and waits there
// within the call's deadline. A refusal is not an attempt, neither of the record nor of the
// endpoint.
type Endpoint struct {
	Breaker     *Breaker
	Concurrency *Concurrency
	Readiness   *Readiness
	ledger      ledger

	mu   sync.Mutex
	line []*Slot // slots that found the endpoint busy, in the order of their turns
}

// Call is an admitted call.
type Call struct {
	passed BreakerCall
	turn   Turn
	mark   mark
}

// NewEndpoint returns an endpoint that is assumed to work.
func NewEndpoint(options EndpointOptions) (*Endpoint, error) {
	breaker, first := NewBreaker(options.Breaker)
	concurrency, second := NewConcurrency(options.Concurrency)
	if err := errors.Join(first, second); err != nil {
		return nil, err
	}
	return &Endpoint{Breaker: breaker, Concurrency: concurrency, Readiness: &Readiness{asking: make(chan struct{}, 1)}}, nil
}

// Begin asks for permission to make a call. The weight counts only if the options limit it. wait is
// the time after which to ask again. It is more than 0 if the endpoint is Down, or if it is Busy
// while its limit opens.
func (e *Endpoint) Begin(now time.Time, weight int64) (call Call, admission Admission, wait time.Duration) {
	// The breaker comes second. Otherwise a probe that it let through, but that found no room,
	// would block other callers.
	turn, wait, ok := e.Concurrency.Begin(now, weight)
	if !ok {
		return Call{}, Busy, wait
	}
	passed, wait := e.Breaker.Begin(now)
	if wait > 0 {
		e.Concurrency.End(turn)
		return Call{}, Down, wait
	}
	return Call{passed, turn, e.ledger.begin()}, Admitted, 0
}

// Observe reports the outcome of a call, once, as soon as it is known.
func (e *Endpoint) Observe(now time.Time, call Call, outcome Outcome) {
	if news := e.Concurrency.Observe(now, call.turn, outcome); !news && outcome == Overloaded {
		outcome = Abandoned // further refusals of the same overload are no new evidence
	}
	e.Breaker.Observe(now, call.passed, outcome)
}

// End ends a call, exactly once. If the call has an outcome, Observe must come first.
func (e *Endpoint) End(now time.Time, call Call) {
	e.Breaker.Observe(now, call.passed, Abandoned)
	e.Concurrency.End(call.turn)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.callFirst(now)
}

// Slot is the place of a caller that calls an endpoint repeatedly, such as a member. Slots that
// found the endpoint busy take turns, one call each, in the order of asking. So a slot cannot
// always take the places of its own ended calls. A slot that does not ask within 20 ms of its wake
// loses its turn. One goroutine owns a slot.
type Slot struct {
	endpoint *Endpoint
	wake     func()
	waits    bool      // it is in the line
	called   time.Time // when it was woken; zero before
}

const patience = 20 * time.Millisecond

// Slot returns a slot. The endpoint calls wake, from any goroutine, when it is the slot's turn;
// wake must not block.
func (e *Endpoint) Slot(wake func()) *Slot { return &Slot{endpoint: e, wake: wake} }

// Begin is Endpoint.Begin for the slot. If the endpoint is Busy, it calls wake once when there may
// be room.
func (s *Slot) Begin(now time.Time, weight int64) (call Call, admission Admission, wait time.Duration) {
	e := s.endpoint
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.line) > 0 && e.line[0] != s && e.line[0].late(now) {
		e.next()
	}
	admission = Busy
	if len(e.line) == 0 || e.line[0] == s {
		call, admission, wait = e.Begin(now, weight)
	}
	switch {
	case admission != Busy && s.waits: // then it is the first in the line
		e.next()
		fallthrough
	case admission != Busy:
		if admission == Admitted {
			e.callFirst(now)
		}
	case s.waits:
		s.called = time.Time{} // it must be woken again
	default:
		s.waits = true
		e.line = append(e.line, s)
	}
	return call, admission, wait
}

// late reports whether a slot was woken and did not ask in time.
func (s *Slot) late(now time.Time) bool { return !s.called.IsZero() && now.Sub(s.called) > patience }

// next ends the turn of the first slot in the line.
func (e *Endpoint) next() {
	e.line[0].waits, e.line[0].called = false, time.Time{}
	e.line = slices.Delete(e.line, 0, 1)
}

// callFirst wakes the first slot in the line, because there may be room.
func (e *Endpoint) callFirst(now time.Time) {
	for len(e.line) > 0 && e.line[0].late(now) {
		e.next()
	}
	if len(e.line) > 0 && e.line[0].called.IsZero() {
		e.line[0].called = now
		e.line[0].wake()
	}
}

// Wait is Begin for a single call. If the endpoint is busy, it blocks until it is the caller's
// turn, or until ctx is done; the admission is then Busy.
func (e *Endpoint) Wait(ctx context.Context, weight int64) (call Call, admission Admission) {
	room := make(chan struct{}, 1)
	slot := e.Slot(func() {
		select {
		case room <- struct{}{}:
		default:
		}
	})
	for {
		if call, admission, _ = slot.Begin(time.Now(), weight); admission != Busy {
			return call, admission
		}
		timer := time.NewTimer(patience) // a slot before it may not ask
		select {
		case <-room:
		case <-timer.C:
		case <-ctx.Done():
		}
		if timer.Stop(); ctx.Err() != nil {
			slot.Leave(time.Now())
			return Call{}, Busy
		}
	}
}

// Leave removes the slot from the line. The slot may be used again.
func (s *Slot) Leave(now time.Time) {
	e := s.endpoint
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.waits {
		e.line = slices.DeleteFunc(e.line, func(o *Slot) bool { return o == s })
		s.waits, s.called = false, time.Time{}
		e.callFirst(now)
	}
}

// Endpoints holds the endpoints of a process. The zero value is empty. It is safe for concurrent
// use.
type Endpoints struct {
	mu   sync.Mutex
	list []namedEndpoint // short enough for a linear search
}

type namedEndpoint struct {
	url, model string
	options    EndpointOptions
	endpoint   *Endpoint
}

// Of returns the endpoint for a URL, model and options. Callers with the same arguments share it.
// Call Of when a pipeline is loaded, not for each call. An endpoint stays for the lifetime of the
// process.
func (e *Endpoints) Of(url, model string, options EndpointOptions) (*Endpoint, error) {
	options, err := options.Resolved()
	if err != nil {
		return nil, fmt.Errorf("options of endpoint %s, model %s: %w", url, model, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, known := range e.list {
		if known.url == url && known.model == model && known.options == options {
			return known.endpoint, nil
		}
	}
	endpoint, err := NewEndpoint(options)
	if err != nil {
		return nil, err
	}
	e.list = append(e.list, namedEndpoint{url, model, options, endpoint})
	return endpoint, nil
}

// Each calls f with each endpoint, in the order of creation, for metrics.
func (e *Endpoints) Each(f func(url, model string, endpoint *Endpoint)) {
	e.mu.Lock()
	list := e.list[:len(e.list):len(e.list)]
	e.mu.Unlock()
	for _, known := range list {
		f(known.url, known.model, known.endpoint)
	}
}
