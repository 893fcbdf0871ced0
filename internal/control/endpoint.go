package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// EndpointOptions say when calls to an endpoint begin.
type EndpointOptions struct {
	Breaker     BreakerOptions
	Concurrency ConcurrencyOptions
}

// Resolved returns the options with those that are 0 filled in, or all that is
// wrong with them.
func (o EndpointOptions) Resolved() (EndpointOptions, error) {
	breaker, first := o.Breaker.Resolved()
	concurrency, second := o.Concurrency.Resolved()
	return EndpointOptions{breaker, concurrency}, errors.Join(first, second)
}

// Admission says whether a call may begin.
type Admission int

// The admissions.
const (
	Admitted Admission = iota // make the call
	Busy                      // ask again when one of those under way has ended
	Down                      // the breaker is open: pause, queue or fall back
)

// String returns the admission as metrics name it.
func (a Admission) String() string { return [...]string{"admitted", "busy", "down"}[a] }

// Endpoint admits the calls to one model of one endpoint: by its breaker, which all
// members share, and by how many calls it bears. It is safe for concurrent use.
//
// Around a call, whoever makes it:
//
//	call, admission, wait := endpoint.Begin(time.Now(), weight)
//	// Busy: leave the work in its queue and ask again after the next End.
//	// Down: ask again after wait. With `open: pause` the member keeps its chunk
//	// and polls nothing meanwhile; with `queue` the work becomes queued, due after
//	// wait; with `fallback` the step takes its fallback at once.
//	endpoint.Observe(time.Now(), call, outcome) // as soon as the answer is there
//	endpoint.End(time.Now(), call)              // when it no longer counts as in flight
//
// Between Observe and End the answer is journalled: a call holds its place until
// that is committed, so that a crash asks again for no more than the calls that
// were in flight. Where nothing is journalled End follows at once. End is told of
// every call that was admitted, also where the call panicked or was never made
// (then without Observe), best by defer. Where a batch is taken apart after a
// failure, each of its calls is one here.
//
// The dispatcher of queued work asks Begin before it takes work from its FairQueue,
// one queue for each endpoint. internal/models/remote asks within Predict, in the place of a
// number of slots, and waits there within the call's deadline: what is refused is
// no attempt, neither of the record nor of the endpoint.
type Endpoint struct {
	Breaker     *Breaker
	Concurrency *Concurrency
	Readiness   *Readiness
	ledger      ledger

	mu   sync.Mutex
	line []*Slot // that found it busy, in the order of their turns
}

// Call is a call that was admitted.
type Call struct {
	passed BreakerCall
	turn   Turn
	mark   mark
}

// NewEndpoint returns an endpoint that is taken to work.
func NewEndpoint(options EndpointOptions) (*Endpoint, error) {
	breaker, first := NewBreaker(options.Breaker)
	concurrency, second := NewConcurrency(options.Concurrency)
	if err := errors.Join(first, second); err != nil {
		return nil, err
	}
	return &Endpoint{Breaker: breaker, Concurrency: concurrency, Readiness: &Readiness{asking: make(chan struct{}, 1)}}, nil
}

// Begin asks for a call of a weight, which counts only where the options bound it.
// wait is the time after which to ask again: more than 0 where the endpoint is Down,
// and where it is Busy while its limit opens.
func (e *Endpoint) Begin(now time.Time, weight int64) (call Call, admission Admission, wait time.Duration) {
	// The breaker comes second: a probe that it let through and that then found no
	// room would keep the others waiting.
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

// Observe tells what came of a call, once, when it is known.
func (e *Endpoint) Observe(now time.Time, call Call, outcome Outcome) {
	if news := e.Concurrency.Observe(now, call.turn, outcome); !news && outcome == Overloaded {
		outcome = Abandoned // the calls of one overload say the same
	}
	e.Breaker.Observe(now, call.passed, outcome)
}

// End ends a call, once, after Observe if there was anything to tell.
func (e *Endpoint) End(now time.Time, call Call) {
	e.Breaker.Observe(now, call.passed, Abandoned)
	e.Concurrency.End(call.turn)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.callFirst(now)
}

// Slot is a place for a caller that asks an endpoint again and again, such as a member.
// Slots that found the endpoint busy take turns, a call each, in the order in which they
// asked: a slot whose calls end does not get their places each time. A slot that does
// not ask within 20 ms of being woken has lost its turn. One goroutine owns a slot.
type Slot struct {
	endpoint *Endpoint
	wake     func()
	waits    bool      // it is in line
	called   time.Time // zero before it was
}

const patience = 20 * time.Millisecond

// Slot returns a slot. It calls wake, from anywhere, when it is its turn; wake must
// not block.
func (e *Endpoint) Slot(wake func()) *Slot { return &Slot{endpoint: e, wake: wake} }

// Begin is Endpoint.Begin for the slot. Where it is Busy wake is called once there
// may be room.
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
	case admission != Busy && s.waits: // then it is the first
		e.next()
		fallthrough
	case admission != Busy:
		if admission == Admitted {
			e.callFirst(now)
		}
	case s.waits:
		s.called = time.Time{} // it is to be called again
	default:
		s.waits = true
		e.line = append(e.line, s)
	}
	return call, admission, wait
}

// late reports whether a slot was called and did not come.
func (s *Slot) late(now time.Time) bool { return !s.called.IsZero() && now.Sub(s.called) > patience }

// next ends the turn of the first in line.
func (e *Endpoint) next() {
	e.line[0].waits, e.line[0].called = false, time.Time{}
	e.line = slices.Delete(e.line, 0, 1)
}

// callFirst tells the first in line that there may be room.
func (e *Endpoint) callFirst(now time.Time) {
	for len(e.line) > 0 && e.line[0].late(now) {
		e.next()
	}
	if len(e.line) > 0 && e.line[0].called.IsZero() {
		e.line[0].called = now
		e.line[0].wake()
	}
}

// Wait is Begin for who has one call to make: where the endpoint is busy it waits
// its turn, until ctx is done. The admission is then Busy.
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
		timer := time.NewTimer(patience) // someone before it may not come
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

// Leave takes the slot out of the line. It may be used again.
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

// Endpoints are the endpoints of a process. The zero value has none. It is safe for
// concurrent use.
type Endpoints struct {
	mu   sync.Mutex
	list []namedEndpoint // there are a few
}

type namedEndpoint struct {
	url, model string
	options    EndpointOptions
	endpoint   *Endpoint
}

// Of returns the endpoint that everyone shares who asks with the same URL, model
// and options. One is asked for when a pipeline is loaded, not for a call; it stays
// for as long as the process.
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

// Each calls a function with each endpoint, in the order in which they were first
// asked for, for metrics.
func (e *Endpoints) Each(f func(url, model string, endpoint *Endpoint)) {
	e.mu.Lock()
	list := e.list[:len(e.list):len(e.list)]
	e.mu.Unlock()
	for _, known := range list {
		f(known.url, known.model, known.endpoint)
	}
}
