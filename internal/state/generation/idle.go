package generation

import (
	"context"

	"github.com/afterbay/afterbay/stream"
)

// Idle is a session that gets nothing, of a group that is not joined. Sessions of what
// only looks like a log build on it.
type Idle struct{ wake chan struct{} }

var _ stream.Session = (*Idle)(nil)

// NewIdle returns a session that gets nothing.
func NewIdle() *Idle { return &Idle{wake: make(chan struct{}, 1)} }

// Poll implements stream.Session: it waits for Wake or the end of ctx.
func (s *Idle) Poll(ctx context.Context, _ int) (stream.Batch, error) {
	select {
	case <-s.wake:
		return stream.Batch{}, nil
	case <-ctx.Done():
		return stream.Batch{}, ctx.Err()
	}
}

// Pause implements stream.Session.
func (s *Idle) Pause(...stream.Partition) {}

// Resume implements stream.Session.
func (s *Idle) Resume(...stream.Partition) {}

// Commit implements stream.Session: nothing is its own.
func (s *Idle) Commit(stream.Step) *stream.Pending {
	p := stream.NewPending()
	p.Decide(stream.ErrFenced)
	return p
}

// Wake implements stream.Session.
func (s *Idle) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close implements stream.Session.
func (s *Idle) Close() error { return nil }
