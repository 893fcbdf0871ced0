package pipeline

import (
	"context"
	"fmt"
	"time"
)

// findSchemas gets the ids of output schemas from the schema registry before any event is computed.
// It waits while the registry is away. It returns nil when ctx is done.
func (r *Runner) findSchemas(ctx context.Context) error {
	if r.offline {
		return nil
	}
	var said time.Time
	err := r.FindSchemas(ctx, !r.replayed, func(why error) {
		if time.Since(said) >= time.Minute {
			said = time.Now()
			r.logger.Warn("the schema registry does not respond: the pipeline has not started, and the engine tries again", "pipeline", r.Name(), "reason", why)
		}
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("pipeline %q: %w", r.Name(), err)
	}
	return nil
}
