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

// placesMax is the most hosts and buckets whose faults are counted.
const placesMax = 1024

// places keeps calls from hosts and buckets that fail, one by one: one that is down
// costs what is fetched from others nothing.
type places struct {
	options control.BreakerOptions
	now     func() time.Time
	dropped *atomic.Uint64 // counts those that were forgotten

	mu    sync.Mutex // guards what follows
	known map[string]*place
}

type place struct {
	*control.Breaker
	used time.Time
	why  error // its last fault
}

func newPlaces(options control.BreakerOptions, now func() time.Time, dropped *atomic.Uint64) *places {
	if _, err := options.Resolved(); err != nil {
		panic(fmt.Sprintf("fetch: %v", err))
	}
	return &places{options: options, now: now, dropped: dropped, known: map[string]*place{}}
}

// begin asks for a call of a place. end is to be told what came of it.
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
		return nil, away("%s failed often, and is not asked for %v: %w", name, max(wait.Round(time.Millisecond), time.Millisecond), why)
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
			panic(err) // newPlaces resolved the options
		}
		at = &place{Breaker: breaker}
		p.known[name] = at
	}
	at.used = p.now()
	return at
}

// forget forgets the place that was used longest ago.
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
