package remote

import (
	"context"
	"slices"
	"sync"
)

// tokens bounds a sum over calls under way. Who waits first goes first, so that a
// large call is not passed for ever by small ones.
type tokens struct {
	most int

	mu      sync.Mutex
	free    int
	waiting []*wait
}

type wait struct {
	n     int
	ready chan struct{} // closed when it has them
}

func newTokens(most int) *tokens { return &tokens{most: most, free: most} }

// take waits for n, and returns what gives them back. A call that is larger than
// all goes alone.
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
		t.wake() // it may have kept others behind it
	}
	t.mu.Unlock()
	if at < 0 { // it got them meanwhile
		give()
	}
	return nil, fault(Late, "%d tokens were under way: %w", t.most, ctx.Err())
}

func (t *tokens) wake() {
	for len(t.waiting) > 0 && t.waiting[0].n <= t.free {
		t.free -= t.waiting[0].n
		close(t.waiting[0].ready)
		t.waiting = slices.Delete(t.waiting, 0, 1)
	}
}
