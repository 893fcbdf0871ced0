package control

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Readiness asks an endpoint whether it is ready, one request at a time. It is safe for concurrent
// use.
type Readiness struct {
	asking     chan struct{} // held by the caller that asks; guards the fields below
	began      time.Time     // start of the newest request with an answer
	ready      bool          // its answer
	asked, not atomic.Uint64
}

// ReadinessStats counts the requests of a Readiness.
type ReadinessStats struct {
	Asked uint64
	Not   uint64 // of these, answers that the endpoint is not ready, and timeouts
}

// Since reports whether the endpoint is ready, from a request that begins after a time. Waiting
// callers share the answer. If ctx ends first, the result is false, and the next caller asks again.
func (r *Readiness) Since(ctx context.Context, after time.Time, ask func(context.Context) error) bool {
	select {
	case r.asking <- struct{}{}:
		defer func() { <-r.asking }()
	case <-ctx.Done():
		return false
	}
	if r.began.After(after) {
		return r.ready
	}
	began := time.Now()
	ready := ask(ctx) == nil
	r.asked.Add(1)
	if !ready && !errors.Is(ctx.Err(), context.Canceled) {
		r.not.Add(1)
	}
	if ready || ctx.Err() == nil {
		r.began, r.ready = began, ready
	}
	return ready
}

// Stats returns the counts of requests and answers.
func (r *Readiness) Stats() ReadinessStats { return ReadinessStats{r.asked.Load(), r.not.Load()} }
