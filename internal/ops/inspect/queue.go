package inspect

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/stream"
)

// Queued yields the events in the async queue of a pipeline, by partition and offset. It ends after
// an error.
func Queued(ctx context.Context, d Directory, pipeline string) iter.Seq2[*async.Entry, error] {
	return func(yield func(*async.Entry, error) bool) {
		for e, err := range d.Entries(ctx, pipeline, nil) {
			var queued *async.Entry
			if err == nil {
				if e.Kind != string(rune(statekey.Queued)) {
					continue
				}
				if queued, err = parseQueued(e); err == nil && queued.Over {
					continue // the event has left the queue
				}
			}
			if !yield(queued, err) || err != nil {
				return
			}
		}
	}
}

func parseQueued(e Entry) (*async.Entry, error) {
	key, err := e.Stored()
	if err != nil {
		return nil, fmt.Errorf("partition %d: %w", e.Partition, errors.Join(async.ErrDamaged, err))
	}
	return async.Parse(stream.Partition{Index: e.Partition}, key, e.Value)
}
