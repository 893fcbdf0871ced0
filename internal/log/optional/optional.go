// Package optional asks logs and their members for what only some of them can tell, and
// knows what holds for the others.
package optional

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Pace returns the pace of a member, and 2 ms, 8,192 events and 1 MiB, which
// fit in the largest frame of any log, where it says none.
func Pace(s stream.Member) stream.Pace {
	if p, ok := s.(stream.Pacer); ok {
		return p.Pace()
	}
	return stream.Pace{Interval: 2 * time.Millisecond, Events: 8192, Bytes: 1 << 20, RecordBytes: math.MaxInt}
}

// StatePartitions asks a Sizer. Another log only knows whether the group ever committed;
// then it returns beside, the number of partitions of a topic that is made with the state.
func StatePartitions(ctx context.Context, log stream.Log, group, topic string, beside int32) (int32, error) {
	if s, ok := log.(stream.Sizer); ok {
		if n, err := s.StatePartitions(ctx, group, topic); !errors.Is(err, errors.ErrUnsupported) {
			return n, err
		}
	}
	inspector, ok := log.(stream.Inspector)
	if !ok || beside == 0 {
		return 0, nil
	}
	groups, err := inspector.Groups(ctx)
	if err != nil || !slices.Contains(groups, group) {
		return 0, err
	}
	return beside, nil
}
