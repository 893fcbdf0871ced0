package control

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Readiness asks an endpoint whether it is ready, one question at a time. It is safe
// for concurrent use.
type Readiness struct {
	asking     chan struct{} // held by the caller that asks, and guards what follows
	began      time.Time     // when the newest question with an answer did
	ready      bool          // its answer
	asked, not atomic.Uint64
}

// ReadinessStats counts the questions of a Readiness.
type ReadinessStats struct {
	Asked uint64
	Not   uint64 // of these, the answers that the endpoint is not ready, and no answer in time
}

// Since reports whether the endpoint is ready, by a question that begins after a time.
// Callers that wait share such an answer. It is false if ctx ends first, and then the next
// caller asks again.
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

// Stats returns what the questions were answered.
func (r *Readiness) Stats() ReadinessStats { return ReadinessStats{r.asked.Load(), r.not.Load()} }
