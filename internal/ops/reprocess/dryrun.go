package reprocess

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// dryRunBytesMax limits the state that a dry run holds in memory, in bytes.
const dryRunBytesMax = 1 << 30

// errLarge means that a dry run needs more memory than its limit.
var errLarge = errors.New("the state takes more than 1 GiB, which a dry run keeps in memory: use --to, or reprocess without --dry-run")

// DryRun yields what a job would do, and writes nothing. The runner must have
// pipeline.Options.DryRun, which prevents calls to services. DryRun reads the journal of the live
// generation: Models counts the calls that the job would make, and their cost. It uses zeros for
// answers that the journal does not have.
func DryRun(ctx context.Context, log generation.Log, runner *pipeline.Runner, job Job) iter.Seq2[Progress, error] {
	return func(yield func(Progress, error) bool) {
		r := &run{log: log, runner: runner, job: job, yield: yield}
		if n, ok := log.(*generation.Names); ok {
			r.log = n.Log
		}
		err := r.dryRun(ctx)
		if err != nil && !errors.Is(err, errLeft) {
			yield(r.progress, fmt.Errorf("dry run of pipeline %q: %w", runner.Name(), err))
		}
	}
}

func (r *run) dryRun(ctx context.Context) error {
	if err := r.job.Validate(); err != nil {
		return err
	}
	if err := r.plan(ctx); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	stage := &dryRun{Log: r.log, run: r, finish: stop}
	for i := range r.parts {
		p := &r.parts[i]
		until, err := r.log.Committed(ctx, r.begun.Group, p.Partition)
		if err != nil {
			return err
		}
		if p.until = until; r.begun.To != nil {
			p.until = min(until, r.begun.To[i])
		}
		r.progress.Of += int64(max(0, p.until-p.first))
	}
	ended := make(chan error, 1)
	go func() { ended <- r.runner.Run(running, stage) }()
	ticker := time.NewTicker(showEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			if err = errors.Join(err, stage.failed(), ctx.Err()); err != nil {
				return err
			}
			r.progress = stage.sum(r.progress)
			r.progress.CaughtUp, r.progress.Done = true, true
			if !r.yield(r.progress, nil) {
				return errLeft
			}
			return nil
		case <-ticker.C:
			if r.progress = stage.sum(r.progress); !r.yield(r.progress, nil) {
				stop()
				<-ended
				return errLeft
			}
		}
	}
}

// dryRun is a log for a pipeline that reads the events that the live group has committed. It keeps
// the transactions of the pipeline in memory.
type dryRun struct {
	generation.Log
	run    *run
	finish func() // ends the run

	mu     sync.Mutex // guards the fields below
	member *dryMember
	err    error
}

func (l *dryRun) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// CreateTopic implements stream.Log.
func (l *dryRun) CreateTopic(context.Context, stream.Topic) error { return nil }

// DeleteTopic implements stream.Log. A dry run changes nothing.
func (l *dryRun) DeleteTopic(context.Context, string) error { return nil }

// Join implements stream.Log. The first member of the pipeline gets all partitions.
func (l *dryRun) Join(ctx context.Context, group string, _ ...string) (stream.Member, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if group != l.run.runner.Name() || l.member != nil {
		return generation.NewIdle(), nil
	}
	s := &dryMember{Idle: generation.NewIdle(), of: l, paused: map[stream.Partition]bool{}, states: map[stream.Partition]*held{}}
	for i := range l.run.parts {
		if err := s.add(ctx, &l.run.parts[i]); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	l.member = s
	return s, nil
}

// sum returns the progress so far.
func (l *dryRun) sum(p Progress) Progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.member == nil {
		return p
	}
	p.Events, p.Outputs, p.Dead = l.member.events, l.member.outputs, l.member.dead
	var all journal.Stats
	for _, h := range l.member.states {
		if stats, err := journal.ReadStats(h.state[string(rune(statekey.JournalHead))]); err == nil {
			all.Add(stats)
		}
	}
	p.Models = nil
	for _, a := range l.run.runner.Snapshot().Asked {
		c := journal.Count{Model: a.Name, Calls: uint64(a.Rows), Paid: uint64(a.Rows), Price: a.Price}
		for _, count := range all.Models {
			if count.Model == a.Name {
				c.Hits, c.Saved = count.Hits, count.Saved
			}
		}
		p.Models = append(p.Models, c)
	}
	return p
}

// held is the data that a dry run holds for a partition.
type held struct {
	extent
	state  memory.State // changed only by the member's goroutine
	next   func() (stream.Record, error, bool)
	stop   func()
	read   bool          // read to its end
	done   stream.Offset // committed offset
	queued int
	end    stream.Offset // end of reading; beyond until in a repartition topic, because events before until may wait for later records
}

// dryMember is the member of a dry run.
type dryMember struct {
	*generation.Idle
	of       *dryRun
	assigned bool
	order    []*held
	paused   map[stream.Partition]bool

	// guarded by of.mu
	states                map[stream.Partition]*held
	bytes                 int
	events, outputs, dead int64
}

func (s *dryMember) add(ctx context.Context, e *extent) error {
	h := &held{extent: *e, state: memory.State{}, read: e.until <= e.first, done: e.first, end: e.until}
	if generation.Numbered(e.Topic) {
		_, end, err := s.of.Log.Offsets(ctx, e.Partition)
		if err != nil {
			return err
		}
		h.end = end
	}
	h.next, h.stop = iter.Pull2(s.of.Log.Tail(ctx, e.Partition, e.first))
	s.states[e.Partition] = h
	s.order = append(s.order, h)
	if s.of.run.begun.State == "" {
		return nil
	}
	view, err := s.of.Log.State(ctx, s.of.run.begun.State, e.Partition)
	if err != nil {
		return err
	}
	for entry, err := range s.of.run.begun.Seed(view) {
		if err == nil && s.bytes > dryRunBytesMax {
			err = errLarge
		}
		if err != nil {
			return fmt.Errorf("copy the state of group %q beside %v: %w", s.of.run.begun.State, e.Partition, err)
		}
		s.change(stream.Change{Partition: e.Partition, Key: entry.Key, Value: entry.Value})
	}
	return nil
}

// Poll implements stream.Member.
func (s *dryMember) Poll(ctx context.Context, limit int) (batch stream.Batch, err error) {
	if !s.assigned {
		s.assigned = true
		for _, h := range s.order {
			batch.Assigned = append(batch.Assigned, stream.Assigned{Partition: h.Partition, Next: h.first, State: s.of.run.begun.View(ctx, s.of.Log, h.Partition, h.state)})
		}
		if len(batch.Assigned) > 0 {
			s.ended()
			return batch, nil
		}
	}
	for _, h := range s.order {
		for !h.read && !s.paused[h.Partition] && len(batch.Records) < limit {
			r, err, ok := h.next()
			if err != nil || !ok {
				return batch, errors.Join(err, ctx.Err())
			}
			h.read = r.Offset+1 >= h.end
			batch.Records = append(batch.Records, r)
		}
	}
	if len(batch.Records) > 0 {
		return batch, nil
	}
	return s.Idle.Poll(ctx, limit)
}

// Commit implements stream.Member.
func (s *dryMember) Commit(step stream.Transaction) *stream.Pending {
	s.of.mu.Lock()
	for _, c := range step.Changes {
		s.change(c)
	}
	for _, o := range step.Outputs {
		if deadletter.IsTopic(o.Partition.Topic) {
			s.dead++
		} else {
			s.outputs++
		}
	}
	for p, next := range step.Offsets {
		h := s.states[p]
		s.events += int64(next - h.done)
		h.done = next
	}
	if s.bytes > dryRunBytesMax {
		s.of.err = errLarge
		s.of.finish()
	}
	s.of.mu.Unlock()
	s.ended()
	pending := stream.NewPending()
	pending.Decide(nil)
	s.Wake()
	return pending
}

func (s *dryMember) change(c stream.Change) {
	h := s.states[c.Partition]
	entries := len(h.state)
	s.bytes += len(c.Value) - len(h.state[string(c.Key)])
	h.state.Apply(c)
	added := len(h.state) - entries
	s.bytes += added * len(c.Key)
	if len(c.Key) > 0 && c.Key[0] == statekey.Queued {
		h.queued += added
	}
}

// ended stops the run when all partitions are done.
func (s *dryMember) ended() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	for _, h := range s.order {
		if h.done < h.until || h.queued > 0 {
			return
		}
	}
	s.of.finish()
}

// Pause implements stream.Member.
func (s *dryMember) Pause(list ...stream.Partition) { s.setPaused(list, true) }

// Resume implements stream.Member.
func (s *dryMember) Resume(list ...stream.Partition) { s.setPaused(list, false) }

func (s *dryMember) setPaused(list []stream.Partition, paused bool) {
	for _, p := range list {
		s.paused[p] = paused
	}
}

// Close implements stream.Member.
func (s *dryMember) Close() error {
	for _, h := range s.order {
		h.stop()
	}
	return nil
}
