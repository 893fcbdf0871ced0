package sinks

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// records yields the records of an object from the log.
func (d *Deliverer) records(ctx context.Context, o sink.Object) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		for r, err := range d.log.Tail(ctx, o.Partition, o.From) {
			switch {
			case errors.Is(err, stream.ErrTrimmed):
				err = fmt.Errorf("records of %v were deleted before the sink stored them: %w; increase the retention of the topic", o, err)
			case err != nil:
				err = fmt.Errorf("read %v: %w", o, err)
			case r.Offset >= o.To:
				return
			}
			kept := err != nil || !isCancel(&r)
			if kept && !yield(r, err) || err != nil || r.Offset+1 >= o.To {
				return
			}
		}
	}
}
