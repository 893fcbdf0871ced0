package process

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/generation"
)

// switching is a request to the loop of Run to hand a pipeline over to a new generation.
type switching struct {
	old, new  *pipeline.Runner
	begun     generation.Begun
	given     func(generation.Live)
	pipelines []Pipeline // pipelines that run afterwards; if the switch fails, the previous ones
	result    chan error // result of the switch; capacity 1
	told      chan struct{}
}

// queueWait is how long a switch waits for the queued events of the old generation. New events wait
// meanwhile.
const queueWait = 30 * time.Second

// tellWait is how long the server waits for the client of a switch to receive the result, before
// the server restarts.
const tellWait = 5 * time.Second

// Reprocess reprocesses the history of a pipeline of the process, and may switch to the result.
// Call it while Run runs.
func (p *Process) Reprocess(ctx context.Context, request reprocess.Request) iter.Seq2[reprocess.Progress, error] {
	return func(yield func(reprocess.Progress, error) bool) {
		if !p.deriving.TryLock() {
			yield(reprocess.Progress{}, admin.ErrDeriving)
			return
		}
		defer p.deriving.Unlock()
		changed, err := p.Loader.Changed(request)
		if err != nil {
			yield(reprocess.Progress{}, err)
			return
		}
		defer changed.Runner.Close()
		if request.DryRun {
			reprocess.DryRun(ctx, p.names, changed.Runner, request.Job())(yield)
			return
		}
		s := &switching{result: make(chan error, 1), told: make(chan struct{})}
		defer close(s.told)
		s.pipelines = slices.Clone(p.pipelines)
		i := slices.IndexFunc(s.pipelines, func(o Pipeline) bool { return o.Runner.Name() == changed.Runner.Name() })
		if i < 0 {
			yield(reprocess.Progress{}, fmt.Errorf("%w %q: it does not run in this process", inspect.ErrUnknownPipeline, changed.Runner.Name()))
			return
		}
		s.old, s.pipelines[i] = s.pipelines[i].Runner, changed
		if _, err = UpstreamFirst(s.pipelines); err != nil {
			yield(reprocess.Progress{}, err)
			return
		}
		job := request.Job()
		job.HandOver = func(ctx context.Context, begun generation.Begun, given func(generation.Live)) (err error) {
			s.begun, s.given = begun, given
			if s.pipelines[i], err = p.Loader.Changed(request); err != nil { // a new runner, with counters at zero
				return err
			}
			s.new = s.pipelines[i].Runner
			select {
			case p.switches <- s:
				err = <-s.result
			case <-ctx.Done():
				err = ctx.Err()
			}
			if err != nil {
				s.new.Close()
			}
			return err
		}
		for progress, err := range reprocess.Run(ctx, p.names, changed.Runner, job) {
			if !yield(progress, err) {
				return
			}
		}
	}
}

// handOver switches a pipeline while it does not run. failed is the error that ended the pipelines,
// or nil.
func (p *Process) handOver(ctx context.Context, s *switching, failed error) {
	err := failed
	if err == nil {
		err = p.drain(ctx, s.old)
	}
	if err == nil {
		reads := s.old.Reads()
		err = generation.HandOver(ctx, p.names, s.old.Name(), reads[len(reads)-1].Topic, s.begun, s.given)
	}
	if renewed := p.names.Renew(ctx, s.old.Name()); err == nil {
		err = renewed
	}
	if err == nil {
		s.pipelines, err = UpstreamFirst(s.pipelines)
	}
	if err != nil {
		s.pipelines = p.pipelines
	} else {
		p.Loader.Own(s.new)
	}
	s.result <- err
	select {
	case <-s.told:
	case <-time.After(tellWait):
	case <-ctx.Done():
	}
}

// drain finishes the queued events of a pipeline.
func (p *Process) drain(outer context.Context, old *pipeline.Runner) error {
	if !old.Plan.Queues() {
		return nil
	}
	ctx, cancel := context.WithTimeout(outer, queueWait)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- old.Run(ctx, generation.Drain(p.names)) }()
	err := old.WaitQueueEmpty(ctx, p.names)
	if err != nil && outer.Err() == nil && ctx.Err() != nil {
		err = fmt.Errorf("after %v: %w", queueWait, generation.ErrQueued)
	}
	cancel()
	if stopped := <-ended; err == nil {
		err = stopped
	}
	return err
}
