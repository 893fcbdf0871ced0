package inspect

import (
	"context"
	"fmt"
	"iter"

	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/stream"
)

// viewed yields the records of a view.
func (l *Local) viewed(ctx context.Context, q Query) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		view, err := generation.ViewOf(ctx, l.Log, q.Topic)
		if err != nil {
			yield(stream.Record{}, fmt.Errorf("view of topic %q: %w", q.Topic, err))
			return
		}
		left, more := q.Limit, true
		all := func(q Query, takes func(*stream.Record) bool) {
			q.View, q.From, q.Limit = false, 0, 0
			for r, err := range l.Records(ctx, q) {
				if err == nil && !takes(&r) {
					continue
				}
				left--
				if more = yield(r, err) && err == nil && left != 0; !more {
					return
				}
			}
		}
		if view.Topic != "" {
			before := q
			before.Topic, before.Follow = view.Topic, false
			all(before, func(*stream.Record) bool { return true })
		}
		if more {
			all(q, view.Takes)
		}
	}
}
