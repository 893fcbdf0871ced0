package generation

import (
	"context"

	"github.com/afterbay/afterbay/stream"
)

// Idle is a member that gets no partitions, without joining a group. Members of simulated logs
// embed it.
type Idle struct{ wake chan struct{} }

var _ stream.Member = (*Idle)(nil)

// NewIdle returns a member that gets no partitions.
func NewIdle() *Idle { return &Idle{wake: make(chan struct{}, 1)} }

// Poll implements stream.Member. It blocks until Wake or the end of ctx.
func (s *Idle) Poll(ctx context.Context, _ int) (stream.Batch, error) {
	select {
	case <-s.wake:
		return stream.Batch{}, nil
	case <-ctx.Done():
		return stream.Batch{}, ctx.Err()
	}
}

// Pause implements stream.Member.
func (s *Idle) Pause(...stream.Partition) {}

// Resume implements stream.Member.
func (s *Idle) Resume(...stream.Partition) {}

// Commit implements stream.Member. It always fails with stream.ErrFenced.
func (s *Idle) Commit(stream.Transaction) *stream.Pending {
	p := stream.NewPending()
	p.Decide(stream.ErrFenced)
	return p
}

// Wake implements stream.Member.
func (s *Idle) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close implements stream.Member.
func (s *Idle) Close() error { return nil }
