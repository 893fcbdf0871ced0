package reprocess

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/state/generation"
)

const (
	lookEvery = 100 * time.Millisecond // interval between looks at the progress
	showEvery = time.Second
)

// name stores the number, the group and the topics of the generation in the progress.
func (r *run) name() {
	r.progress.Generation, r.progress.Group = r.begun.Generation, generation.Group(r.runner.Name(), r.begun.Generation)
	for _, topic := range r.begun.Outputs {
		if topic = r.begun.TopicOf(topic); !slices.Contains(r.progress.Topics, topic) {
			r.progress.Topics = append(r.progress.Topics, topic)
		}
	}
	for i := range r.parts {
		r.progress.First = append(r.progress.First, r.parts[i].first)
		if r.begun.From != nil {
			r.progress.First[i] = max(r.parts[i].first, r.begun.From[i])
		}
	}
	r.progress.Into, r.progress.Sink = r.begun.Into, r.sink
}

// deliver delivers the results of the generation to a sink.
func (r *run) deliver(ctx context.Context) error {
	if r.live {
		r.name()
	}
	from := ""
	for _, s := range r.runner.Sinks {
		if s.Name == r.sink {
			from = s.From
		}
	}
	n, err := r.runner.DeliverDerived(ctx, r.log, r.sink, r.progress.Group+"."+r.sink, r.begun.TopicOf(from))
	r.progress.Delivered = n
	if err != nil || !r.live {
		return err
	}
	r.progress.Done = true
	return r.show(ctx)
}

// work runs the generation until the job is done.
func (r *run) work(ctx context.Context) error {
	r.name()
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { // work reads ended before it returns
		ended <- r.runner.Run(running, generation.Derive(r.log, r.runner.Name(), r.begun, r.job.Rate))
	}()
	wait := func() error {
		stop()
		err := <-ended
		ended <- nil
		return err
	}
	err := r.catchUp(ctx, ended)
	if err == nil && r.job.Switch && r.job.HandOver != nil {
		if err = wait(); err == nil {
			err = r.job.HandOver(ctx, r.begun, r.given)
		}
	} else if err == nil && r.job.Switch {
		err = generation.HandOver(ctx, r.log, r.runner.Name(), r.read.Topic, r.begun, r.given)
		if err == nil {
			r.job.Follow = false
			err = r.catchUp(ctx, ended) // until it has caught up with the live generation
		}
	}
	if err = errors.Join(err, wait()); err == nil && r.sink != "" && ctx.Err() == nil {
		err = r.deliver(ctx)
	}
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.progress.Done = true
	return r.show(ctx)
}

func (r *run) given(l generation.Live) { r.progress.Live = append(r.progress.Live, l) }

// catchUp waits until the generation has reached a recent position of the live one and its async
// queue is empty. If the job is to follow, catchUp waits until ctx is done.
func (r *run) catchUp(ctx context.Context, ended chan error) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for first := true; ; first = false {
		there, err := r.look(ctx, first)
		if err == nil && there {
			there, err = r.idle(ctx, r.progress.Group)
		}
		if err != nil {
			return err
		}
		r.progress.CaughtUp = r.progress.CaughtUp || there
		if there && !r.job.Follow || time.Since(r.shown) >= showEvery {
			if err := r.show(ctx); err != nil {
				return err
			}
		}
		if there && !r.job.Follow {
			return nil
		}
		select {
		case <-ticker.C:
		case err := <-ended:
			ended <- nil
			return cmp.Or(err, ctx.Err(), errors.New("it ended unexpectedly"))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look records the progress of the generation. there reports whether it has processed everything
// that the live group had committed at the previous look.
func (r *run) look(ctx context.Context, first bool) (there bool, err error) {
	there = !first
	r.progress.Events, r.progress.Of = 0, 0
	for i := range r.parts {
		p := &r.parts[i]
		done, err := generation.Committed(ctx, r.log, r.progress.Group, p.Partition)
		if err != nil {
			return false, err
		}
		there = there && done >= p.until
		until, err := generation.Committed(ctx, r.log, r.begun.Group, p.Partition)
		if err != nil {
			return false, err
		}
		if r.begun.To != nil {
			until = min(until, r.begun.To[p.Index])
		}
		p.until = until
		r.progress.Events += int64(max(0, done-p.first))
		r.progress.Of += int64(max(0, until-p.first))
	}
	return there, nil
}

// show yields the progress to the caller.
func (r *run) show(ctx context.Context) error {
	if !r.shown.IsZero() {
		r.progress.Rate = float64(r.progress.Events-r.before) / time.Since(r.shown).Seconds()
	}
	r.shown, r.before = time.Now(), r.progress.Events
	if r.progress.CaughtUp || r.progress.Done {
		models, err := r.paid(ctx, r.progress.Group)
		if err != nil {
			return fmt.Errorf("read the journal: %w", err)
		}
		r.progress.Models = models
	}
	if !r.yield(r.progress, nil) {
		return errLeft
	}
	return nil
}
