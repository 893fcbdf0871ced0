// Package optional calls optional interfaces of logs and their members, and has defaults for those
// that lack them.
package optional

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Pace returns the pace of a member. The default is 2 ms, 8,192 events and 1 MiB, which fits into
// the largest frame of any log.
func Pace(s stream.Member) stream.Pace {
	if p, ok := s.(stream.Pacer); ok {
		return p.Pace()
	}
	return stream.Pace{Interval: 2 * time.Millisecond, Events: 8192, Bytes: 1 << 20, RecordBytes: math.MaxInt}
}

// StatePartitions asks a Sizer. Any other log only knows whether the group ever committed. If it
// did, StatePartitions returns beside, the number of partitions of a topic that is created together
// with the state.
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
