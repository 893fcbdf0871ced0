package pipeline

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/stream"
)

// Deliver opens the sinks of the pipeline and delivers its outputs to them, until ctx is done. Then
// it waits for the calls in flight and returns nil. It runs concurrently with Run, in this process
// or another one, and needs the topics that CreateTopics makes. If the pipeline has no sinks, it
// returns nil at once.
func (r *Runner) Deliver(ctx context.Context, log stream.Log) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range r.Sinks {
		group.Go(func() error { return r.deliver(ctx, log, i) })
	}
	return group.Wait()
}

// deliver is Deliver for one of the sinks.
func (r *Runner) deliver(ctx context.Context, log stream.Log, i int) (err error) {
	to := &r.Sinks[i]
	group := compile.GroupOf(&to.Sink, r.Name())
	defer r.ended.note(&err, group, deadletter.SinkGroup(group))()
	service, err := to.Open(ctx)
	if err != nil {
		return fmt.Errorf("open sink %q of pipeline %q: %w", to.Name, r.Name(), err)
	}
	defer service.Close()
	o := compile.OptionsOf(&to.Sink, r.Name())
	o.Logger, o.Fault = r.logger, r.fault
	o.Hurry = func() bool { return r.hurry.Load() > 0 }
	d, err := sinks.New(log, service, o, r.sunk[i])
	if err != nil {
		return err
	}
	return d.Run(ctx)
}

// DeliverDerived delivers the records that a topic holds at the call to a sink of the pipeline, and
// blocks until that is done. The topic has outputs that a generation recomputed from events that
// the sink already received. DeliverDerived uses another group than the sink's own. The group
// records the progress, so another call delivers only the rest.
func (r *Runner) DeliverDerived(ctx context.Context, log stream.Log, name, group, topic string) (delivered uint64, err error) {
	i := slices.IndexFunc(r.Sinks, func(s compile.Sunk) bool { return s.Name == name })
	inspector, ok := log.(stream.Inspector)
	switch {
	case i < 0:
		return 0, fmt.Errorf("pipeline %q has no sink %q", r.Name(), name)
	case !ok:
		return 0, fmt.Errorf("deliver to sink %q: a log of type %T cannot be inspected", name, log)
	}
	to := r.Sinks[i]
	to.From, to.Topic.Name, to.Topic.Group = topic, topic, group
	service, err := to.Open(ctx)
	if err != nil {
		return 0, fmt.Errorf("open sink %q of pipeline %q: %w", name, r.Name(), err)
	}
	defer service.Close()
	o := compile.OptionsOf(&to.Sink, r.Name())
	o.Group, o.Logger, o.Hurry = group, r.logger, func() bool { return true }
	metrics := &sinks.Metrics{}
	d, err := sinks.New(log, service, o, metrics)
	if err != nil {
		return 0, err
	}
	both, running := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(running)
	both.Go(func() error { return d.Run(running) })
	both.Go(func() error {
		defer stop()
		return r.waitIdle(running, log, inspector, Read{Group: group, Topic: topic})
	})
	err = both.Wait()
	return metrics.Delivered.Load(), err
}

// WaitDelivered blocks until the sinks have delivered everything that their topics held at the
// call. It returns an error if ctx ends or if a sink ended alone. Meanwhile file sinks complete
// their objects without waiting for more records.
func (r *Runner) WaitDelivered(ctx context.Context, log stream.Log) error {
	inspector, ok := log.(stream.Inspector)
	if !ok {
		return fmt.Errorf("wait for the sinks of pipeline %q: a log of type %T cannot be inspected", r.Name(), log)
	}
	r.hurry.Add(1)
	defer r.hurry.Add(-1)
	for _, read := range r.SinkReads() {
		if err := r.waitIdle(ctx, log, inspector, read); err != nil {
			return fmt.Errorf("wait for sink %q: %w", read.Group, err)
		}
	}
	return nil
}
