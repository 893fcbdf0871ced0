package remote

import (
	"context"
	"slices"
	"sync"
)

// tokens bounds the sum of tokens over concurrent calls. Waiters are served in order, so that small
// calls cannot starve a large one.
type tokens struct {
	most int

	mu      sync.Mutex
	free    int
	waiting []*wait
}

type wait struct {
	n     int
	ready chan struct{} // closed when the waiter has its tokens
}

func newTokens(most int) *tokens { return &tokens{most: most, free: most} }

// take waits for n tokens, and returns a function that returns them. A call with more tokens than
// the limit runs alone.
func (t *tokens) take(ctx context.Context, n int) (give func(), err error) {
	w := &wait{min(n, t.most), make(chan struct{})}
	give = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.free += w.n
		t.wake()
	}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.wake()
	t.mu.Unlock()
	select {
	case <-w.ready:
		return give, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	at := slices.Index(t.waiting, w)
	if at >= 0 {
		t.waiting = slices.Delete(t.waiting, at, at+1)
		t.wake() // it may have blocked waiters behind it
	}
	t.mu.Unlock()
	if at < 0 { // it got its tokens meanwhile
		give()
	}
	return nil, fault(Late, "%d tokens were in flight: %w", t.most, ctx.Err())
}

func (t *tokens) wake() {
	for len(t.waiting) > 0 && t.waiting[0].n <= t.free {
		t.free -= t.waiting[0].n
		close(t.waiting[0].ready)
		t.waiting = slices.Delete(t.waiting, 0, 1)
	}
}
