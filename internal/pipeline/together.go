package pipeline

import (
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/stream"
)

// CreateTopics makes the topics of pipelines, like Runner.CreateTopics. It skips a pipeline if its
// input got more partitions, unless all inputs did.
func CreateTopics(ctx context.Context, log stream.Log, runners []*Runner) error {
	var ended []error
	for _, r := range runners {
		err := r.CreateTopics(ctx, log)
		switch {
		case Outgrown(err):
			ended = append(ended, err)
		case err != nil:
			return err
		}
	}
	if len(ended) < len(runners) {
		return nil
	}
	return errors.Join(ended...)
}

// RunChain runs pipelines and their sinks until ctx is done. If one of them fails, RunChain ends
// all and returns the error.
//
// If its input or topic gets more partitions, a pipeline or sink ends alone. RunChain logs that,
// and the others continue. RunChain returns the error when the last pipeline has ended.
// Runner.Ended and Snapshot.Ended report it earlier.
func RunChain(ctx context.Context, log stream.Log, runners []*Runner) error {
	group, ctx := errgroup.WithContext(ctx)
	var mu sync.Mutex // guards left and ended
	left := len(runners)
	var ended []error
	alone := func(err error, what string, pipeline *Runner, is int) error {
		if !Outgrown(err) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		ended = append(ended, err)
		if left -= is; left == 0 {
			return err
		}
		pipeline.logger.Error(what+" ended, and the others continue", "pipeline", pipeline.Name(), "reason", err)
		return nil
	}
	for _, r := range runners {
		group.Go(func() error { return alone(r.Run(ctx, log), "a pipeline", r, 1) })
		for i := range r.Sinks {
			group.Go(func() error { return alone(r.deliver(ctx, log, i), "a sink", r, 0) })
		}
	}
	if err := group.Wait(); err != nil && !Outgrown(err) {
		ended = append(ended, err)
	}
	return errors.Join(ended...)
}

// Outgrown reports whether err is a stream.PartitionsError. Such an error ends one pipeline or sink
// alone.
func Outgrown(err error) bool {
	_, ok := errors.AsType[*stream.PartitionsError](err)
	return ok
}

// Ended returns the error that ended Run while RunChain continues: a stream.PartitionsError. It is
// nil while the pipeline runs.
func (r *Runner) Ended() error { return r.ended.of(r.Name()) }

// ended holds the errors of groups of a Runner that ended alone.
type ended struct {
	mu  sync.Mutex // guards why
	why map[string]error
}

// note records that groups run. The returned function records that they ended, if err is then a
// stream.PartitionsError.
func (e *ended) note(err *error, groups ...string) func() {
	set := func(why error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.why == nil {
			e.why = map[string]error{}
		}
		for _, group := range groups {
			e.why[group] = why
		}
	}
	set(nil)
	return func() {
		if Outgrown(*err) {
			set(*err)
		}
	}
}

func (e *ended) of(group string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.why[group]
}

// Chain is compile.Chain for runners. If it finds no problem, pipelines broadcast their watermarks
// from now on if others copy their outputs.
func Chain(runners []*Runner) (order []int, found map[int]spec.Problems) {
	all := compiledOf(runners)
	order, found = compile.Chain(all)
	if len(found) == 0 {
		follow(runners, all)
	}
	return order, found
}

// follow tells each pipeline the upstream pipelines of the topics that it copies, and marks these
// as followed.
func follow(runners []*Runner, all []*compile.Compiled) {
	for _, r := range runners {
		r.followed = false
	}
	for _, r := range runners {
		for i, from := range r.Copies {
			upstreams := compile.Upstreams(all, r.Compiled, from.Topic)
			r.tasks[1+i].Follow(upstreams)
			for _, u := range upstreams {
				at := slices.IndexFunc(runners, func(o *Runner) bool { return o.Name() == u.Pipeline })
				runners[at].followed = true
			}
		}
	}
	for _, r := range runners {
		r.tasks[0].TellWatermarks(r.followed)
	}
}

// Arrivals is compile.Arrivals for runners.
func Arrivals(runners []*Runner) map[int][]string { return compile.Arrivals(compiledOf(runners)) }

// NewestRows is compile.NewestRows.
func NewestRows(table string) string { return compile.NewestRows(table) }

func compiledOf(runners []*Runner) []*compile.Compiled {
	all := make([]*compile.Compiled, len(runners))
	for i, r := range runners {
		all[i] = r.Compiled
	}
	return all
}
