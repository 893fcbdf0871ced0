package fetch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

// placesMax is the maximum number of hosts and buckets with a fault count.
const placesMax = 1024

// places holds a circuit breaker for each host and bucket. So one that is down does not slow down
// fetches from others.
type places struct {
	options control.BreakerOptions
	now     func() time.Time
	dropped *atomic.Uint64 // counts forgotten places

	mu    sync.Mutex // guards the fields below
	known map[string]*place
}

type place struct {
	*control.Breaker
	used time.Time
	why  error // last fault
}

func newPlaces(options control.BreakerOptions, now func() time.Time, dropped *atomic.Uint64) *places {
	if _, err := options.Resolved(); err != nil {
		panic(fmt.Sprintf("fetch: %v", err))
	}
	return &places{options: options, now: now, dropped: dropped, known: map[string]*place{}}
}

// begin asks for permission to call a place. The caller must pass the result of the call to end.
func (p *places) begin(name string) (end func(ctx context.Context, err error), err error) {
	if name == "" {
		return func(context.Context, error) {}, nil
	}
	at, now := p.of(name), p.now()
	call, wait := at.Begin(now)
	if wait > 0 {
		p.mu.Lock()
		why := at.why
		p.mu.Unlock()
		return nil, away("%s failed often: its breaker is open for %v: %w", name, max(wait.Round(time.Millisecond), time.Millisecond), why)
	}
	return func(ctx context.Context, err error) {
		outcome := control.Answered
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			outcome = control.Abandoned
		case err != nil && calling.BlameOf(err) == model.BlameSource:
			outcome = control.Faulted
			p.mu.Lock()
			at.why = err
			p.mu.Unlock()
		}
		at.Observe(p.now(), call, outcome)
	}, nil
}

func (p *places) of(name string) *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.known[name]
	if !ok {
		if len(p.known) >= placesMax {
			p.forget()
		}
		breaker, err := control.NewBreaker(p.options)
		if err != nil {
			panic(err) // newPlaces has validated the options
		}
		at = &place{Breaker: breaker}
		p.known[name] = at
	}
	at.used = p.now()
	return at
}

// forget removes the least recently used place.
func (p *places) forget() {
	oldest := ""
	for name, at := range p.known {
		if oldest == "" || at.used.Before(p.known[oldest].used) {
			oldest = name
		}
	}
	delete(p.known, oldest)
	p.dropped.Add(1)
}
