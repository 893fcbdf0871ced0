package inspect

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/afterbay/afterbay/internal/state/deadletter"
)

// Letters implements Directory.
func (l *Local) Letters(ctx context.Context, pipeline string, f deadletter.Filter, all bool) iter.Seq2[deadletter.Letter, error] {
	return deadletter.Letters(ctx, l.Log, pipeline, f, all)
}

// Settle implements Directory.
func (l *Local) Settle(ctx context.Context, job deadletter.Job) iter.Seq2[deadletter.Progress, error] {
	return deadletter.Settle(ctx, l.Log, job)
}

// ErrNotStopped means that a pipeline cannot be resumed because it is not stopped.
var ErrNotStopped = errors.New("is not stopped")

// Resume implements Directory.
func (l *Local) Resume(_ context.Context, pipeline string) error {
	r, err := FindRunner(l.runners, pipeline)
	if err != nil {
		return err
	}
	if !r.Resume() {
		return fmt.Errorf("pipeline %q %w", pipeline, ErrNotStopped)
	}
	return nil
}
