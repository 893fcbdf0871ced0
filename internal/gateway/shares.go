package gateway

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// shares bounds how many of something each tenant has at a time, so that none takes
// all that there are.
type shares struct {
	each int64
	mu   sync.Mutex // guards of
	of   map[string]*share
}

// share is that of a tenant, while somebody has or waits for one of it.
type share struct {
	*semaphore.Weighted
	users int
}

func newShares(each int64) shares { return shares{each: each, of: map[string]*share{}} }

// acquire waits until the tenant has one less than it may, or ctx is done. Release
// gives it back.
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
