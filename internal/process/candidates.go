package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/optional"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/stream"
)

// candidate runs a candidate of a pipeline as a generation that follows the live one. Its errors do
// not end the pipeline: it starts again, from its last transaction.
type candidate struct {
	lang.Alternative
	of     Pipeline
	loader *Loader
	log    *generation.Names
	logger *slog.Logger

	mu sync.Mutex // guards is
	is pipeline.Candidate
}

const (
	candidateBackoffMin = 500 * time.Millisecond // wait before the first new start
	candidateBackoffMax = 30 * time.Second       // longest wait before a new start
	candidateEnd        = 5 * time.Second        // most that the process waits at its end for a transaction of a candidate
	candidateStall      = 10 * time.Second       // a candidate without progress for so long is not waited for
	candidateLookEvery  = 50 * time.Millisecond
)

// CheckCandidates returns the problems of the pipeline's candidates.
func (p *Pipeline) CheckCandidates(l *Loader, o pipeline.Options) error {
	var all spec.Errors
	for _, a := range p.Source.Pipelines[p.Index].Alternatives() {
		a.Pipeline.Code = l.Code
		_, err := l.New(a.Pipeline, o)
		if err == nil {
			continue
		}
		var found spec.Errors
		if err = p.Source.Explain(p.Index, a.Explain(err)); !errors.As(err, &found) {
			return err
		}
		all = append(all, found...)
	}
	return all.Sorted()
}

// candidatesOf returns the candidates of pipelines.
func (p *Process) candidatesOf(pipelines []Pipeline) (list []*candidate) {
	for _, one := range pipelines {
		for _, a := range one.Source.Pipelines[one.Index].Alternatives() {
			list = append(list, &candidate{
				Alternative: a, of: one, loader: p.Loader, log: p.names,
				logger: p.Logger.With("pipeline", one.Runner.Name(), "candidate", a.Model),
				is:     pipeline.Candidate{Candidate: a.Model, Mode: a.Mode},
			})
		}
	}
	return list
}

// shownCandidates returns the state of the candidates of a pipeline.
func shownCandidates(all []*candidate) func(name string) []pipeline.Candidate {
	return func(name string) (list []pipeline.Candidate) {
		for _, c := range all {
			if c.of.Runner.Name() == name {
				list = append(list, c.snapshot())
			}
		}
		return list
	}
}

func (c *candidate) snapshot() pipeline.Candidate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.is
}

func (c *candidate) note(change func(is *pipeline.Candidate)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.is)
}

// runCandidates runs candidates in a group until ctx is done.
func runCandidates(ctx context.Context, group *errgroup.Group, all []*candidate) {
	for _, c := range all {
		group.Go(func() error {
			c.run(ctx)
			return nil
		})
	}
}

// waitCandidates calls waitIdle of each candidate.
func waitCandidates(ctx context.Context, all []*candidate) {
	for _, c := range all {
		c.waitIdle(ctx)
	}
}

// run runs the candidate until ctx is done. After an error it starts the candidate again.
func (c *candidate) run(ctx context.Context) {
	backoff := candidateBackoffMin
	for ctx.Err() == nil {
		if _, begun, _ := c.live(ctx); !begun { // without events there is nothing to follow
			select {
			case <-time.After(candidateLookEvery):
			case <-ctx.Done():
			}
			continue
		}
		began := time.Now()
		err := c.bounded(ctx)
		c.note(func(is *pipeline.Candidate) { is.Running = false })
		if ctx.Err() != nil {
			return
		}
		switch {
		case errors.Is(err, reprocess.ErrUnchanged):
			c.failed("the candidate is the same as the live pipeline: remove it from the file", err)
			backoff = candidateBackoffMax
		default:
			if time.Since(began) > candidateBackoffMax {
				backoff = candidateBackoffMin
			}
			c.failed("the candidate ended, and starts again; the pipeline continues", err)
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
		}
		backoff = min(2*backoff, candidateBackoffMax)
	}
}

func (c *candidate) failed(what string, err error) {
	c.note(func(is *pipeline.Candidate) {
		is.Failures++
		is.Error = err.Error()
	})
	c.logger.Error(what, "reason", err)
}

// bounded is follow, but ends soon after ctx is done: a candidate that hangs in a call must not delay
// the end or a switch of the pipeline. Such a call ends by its own timeout. Its transaction is
// refused, so the next start repeats it.
func (c *candidate) bounded(ctx context.Context) error {
	log, ended := &revocable{Log: c.log.Log}, make(chan error, 1)
	go func() { ended <- c.follow(ctx, log) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(candidateEnd):
		log.revoked.Store(true)
		c.logger.Warn("the candidate hangs in a call: its transaction is refused, and the next start repeats it")
		return ctx.Err()
	}
}

// follow runs the candidate until ctx is done or it fails.
func (c *candidate) follow(ctx context.Context, log generation.Log) error {
	runner, err := c.load(ctx)
	if err != nil {
		return err
	}
	defer runner.Close()
	for progress, err := range reprocess.Run(ctx, log, runner, reprocess.Job{Follow: true}) {
		if err != nil {
			return err
		}
		dead := runner.Counts().DeadLetters
		c.note(func(is *pipeline.Candidate) {
			is.Running, is.Error = true, ""
			is.Generation, is.Lag, is.DeadLetters = progress.Generation, progress.Of-progress.Events, dead
		})
	}
	return errors.New("it ended unexpectedly")
}

// load checks the pipeline with the candidate and loads its models. The candidate uses at most half
// of the cores, so that the pipeline has the others.
func (c *candidate) load(ctx context.Context) (*pipeline.Runner, error) {
	p := c.Pipeline
	p.Code = c.loader.Code
	o := pipeline.Options{
		Members: max(1, Members(0)/2), KeyBytes: c.loader.keyBytes, Logger: c.logger, ModelKinds: c.loader.Kinds.Models,
		Announce: func(text string) { c.logger.Info(text) }, Starting: ctx,
	}
	if fault := c.loader.Fault; fault != nil {
		o.Fault = func(stage string) { fault("candidate-" + stage) }
	}
	runner, err := pipeline.New(p, o)
	if err != nil {
		return nil, c.of.Source.Explain(c.of.Index, c.Explain(err))
	}
	return runner, nil
}

// waitIdle waits until the candidate has done everything that the live pipeline has committed. It
// does not wait for a candidate that failed or makes no progress.
func (c *candidate) waitIdle(ctx context.Context) {
	newest, since := int64(-1), time.Now()
	ticker := time.NewTicker(candidateLookEvery)
	defer ticker.Stop()
	for {
		done, idle, err := c.progress(ctx)
		is := c.snapshot()
		switch {
		case err == nil && idle, is.Failures > 0 && !is.Running:
			return
		case err == nil && done != newest:
			newest, since = done, time.Now()
		case time.Since(since) > candidateStall:
			c.logger.Warn("the candidate has not caught up with the pipeline: the next run continues it", "lag", is.Lag, "reason", err)
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// live returns the partitions of the input with the offsets that the live pipeline has committed, and
// whether it has committed any.
func (c *candidate) live(ctx context.Context) (offsets map[stream.Partition]stream.Offset, begun bool, err error) {
	reads := c.of.Runner.Reads()
	topic := reads[len(reads)-1].Topic
	topics, err := c.log.Topics(ctx)
	if err != nil {
		return nil, false, err
	}
	i := slices.IndexFunc(topics, func(t stream.Topic) bool { return t.Name == topic })
	if i < 0 {
		return nil, false, fmt.Errorf("%w %q", stream.ErrUnknownTopic, topic)
	}
	offsets = map[stream.Partition]stream.Offset{}
	for index := range topics[i].Partitions {
		p := stream.Partition{Topic: topic, Index: index}
		if offsets[p], err = generation.Committed(ctx, c.log.Log, c.log.Group(c.of.Runner.Name()), p); err != nil {
			return nil, false, err
		}
		begun = begun || offsets[p] > 0
	}
	return offsets, begun, nil
}

// progress returns how many events the candidate has committed, and whether these are all that the
// live pipeline has committed.
func (c *candidate) progress(ctx context.Context) (done int64, idle bool, err error) {
	offsets, begun, err := c.live(ctx)
	is := c.snapshot()
	if err != nil || is.Generation == 0 {
		return 0, !begun, err
	}
	group := generation.Group(c.of.Runner.Name(), is.Generation)
	idle = true
	for p, live := range offsets {
		at, err := generation.Committed(ctx, c.log.Log, group, p)
		if err != nil {
			return 0, false, err
		}
		done += int64(at)
		if idle = idle && at >= live; idle && c.of.Runner.Plan.Queues() {
			if idle, err = async.None(ctx, c.log.Log, group, p); err != nil {
				return 0, false, err
			}
		}
	}
	return done, idle, nil
}

// revocable is a log that can refuse the transactions of its members.
type revocable struct {
	generation.Log
	revoked atomic.Bool
}

var errRevoked = errors.New("the process has ended the candidate")

// Join implements stream.Log.
func (l *revocable) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	if l.revoked.Load() {
		return nil, errRevoked
	}
	m, err := l.Log.Join(ctx, group, topics...)
	if err != nil {
		return nil, err
	}
	return &revocableMember{m, l}, nil
}

// StatePartitions implements stream.Sizer, if the log does.
func (l *revocable) StatePartitions(ctx context.Context, group, topic string) (int32, error) {
	if s, ok := l.Log.(stream.Sizer); ok {
		return s.StatePartitions(ctx, group, topic)
	}
	return 0, errors.ErrUnsupported
}

type revocableMember struct {
	stream.Member
	of *revocable
}

// Pace implements stream.Pacer.
func (m *revocableMember) Pace() stream.Pace { return optional.Pace(m.Member) }

// Commit implements stream.Member.
func (m *revocableMember) Commit(step stream.Transaction) *stream.Pending {
	if m.of.revoked.Load() {
		p := stream.NewPending()
		p.Decide(errRevoked)
		return p
	}
	return m.Member.Commit(step)
}
