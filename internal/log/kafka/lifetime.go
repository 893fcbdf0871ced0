package kafka

import (
	"context"
	"errors"
	"sync"

	"github.com/afterbay/afterbay/stream"
)

// lifetime is that of a member. It ends once, for the first reason given; nothing of the
// member begins after that, and leave waits for what began before.
type lifetime struct {
	ctx    context.Context // ends with it
	cancel context.CancelFunc
	work   sync.WaitGroup // goroutines
	over   chan struct{}  // closed when nothing of the member is left

	mu     sync.Mutex // guards reason, and that no work begins after it; nothing else is locked under it
	reason error
}

func newLifetime() *lifetime {
	l := &lifetime{over: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// begin runs work beside its caller, unless the member is dead.
func (l *lifetime) begin(work func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason != nil {
		return false
	}
	l.work.Go(work)
	return true
}

// end reports whether reason is the first.
func (l *lifetime) end(reason error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason != nil {
		return false
	}
	l.reason = reason
	l.cancel()
	return true
}

// explain says more of a lifetime that ended with stream.ErrFenced.
func (l *lifetime) explain(reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.reason, stream.ErrFenced) {
		l.reason = reason
	}
}

// dead returns why the member ended, or nil.
func (l *lifetime) dead() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}
