package gateway

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// shares is a semaphore for each tenant, so that no tenant can take everything.
type shares struct {
	each int64
	mu   sync.Mutex // guards of
	of   map[string]*share
}

// share is the semaphore of a tenant. It exists while a request holds it or waits for it.
type share struct {
	*semaphore.Weighted
	users int
}

func newShares(each int64) shares { return shares{each: each, of: map[string]*share{}} }

// acquire blocks until the tenant is below its limit, or ctx is done. The caller must call release.
func (s *shares) acquire(ctx context.Context, tenant string) (release func(), err error) {
	s.mu.Lock()
	own := s.of[tenant]
	if own == nil {
		own = &share{Weighted: semaphore.NewWeighted(s.each)}
		s.of[tenant] = own
	}
	own.users++
	s.mu.Unlock()
	if err := own.Acquire(ctx, 1); err != nil {
		s.leave(tenant, own)
		return nil, err
	}
	return func() {
		own.Release(1)
		s.leave(tenant, own)
	}, nil
}

func (s *shares) leave(tenant string, own *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(s.of, tenant)
	}
}
