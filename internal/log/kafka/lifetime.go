package kafka

import (
	"context"
	"errors"
	"sync"

	"github.com/afterbay/afterbay/stream"
)

// lifetime is the lifetime of a member. It ends once, with the first reason given. After that no
// work of the member begins, and leave waits for the work that began before.
type lifetime struct {
	ctx    context.Context // ends with the lifetime
	cancel context.CancelFunc
	work   sync.WaitGroup // goroutines
	over   chan struct{}  // closed when the member has released everything

	mu     sync.Mutex // guards reason and the start of work; no other mutex is locked while it is held
	reason error
}

func newLifetime() *lifetime {
	l := &lifetime{over: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// begin runs work in a goroutine, unless the member has ended.
func (l *lifetime) begin(work func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason != nil {
		return false
	}
	l.work.Go(work)
	return true
}

// end ends the lifetime. It reports whether reason is the first one.
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

// explain replaces the reason of a lifetime that ended with stream.ErrFenced.
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
