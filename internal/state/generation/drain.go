package generation

import (
	"context"

	"github.com/afterbay/afterbay/internal/log/optional"
	"github.com/afterbay/afterbay/stream"
)

// Drain returns a log on which pipelines read no new records. They only finish their queued events.
func Drain(log Log) Log { return draining{log} }

type draining struct{ Log }

// Join implements stream.Log.
func (l draining) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	s, err := l.Log.Join(ctx, group, topics...)
	if err != nil {
		return nil, err
	}
	return &drained{Member: s}, nil
}

// drained is a member with all partitions paused.
type drained struct{ stream.Member }

// Pace implements stream.Pacer.
func (s *drained) Pace() stream.Pace { return optional.Pace(s.Member) }

// Poll implements stream.Member.
func (s *drained) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	batch, err := s.Member.Poll(ctx, limit)
	for _, a := range batch.Assigned {
		s.Member.Pause(a.Partition)
	}
	batch.Records = nil // records that arrived with the assignment; they are not committed
	return batch, err
}

// Pause implements stream.Member.
func (s *drained) Pause(...stream.Partition) {}

// Resume implements stream.Member.
func (s *drained) Resume(...stream.Partition) {}
