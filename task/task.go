// Package task is the loop that moves partitions forward:
//
//	Poll -> decode -> features -> model -> decide -> emit -> Commit
//
// One goroutine owns a session and runs the loop over its partitions.
// Everything before Commit happens in memory, ahead of the committed state, and
// is thrown away when a commit fails: the next session starts from what was
// really committed. While step N commits, step N+1 is computed on top of it.
package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/observe"
	"github.com/afterbay/afterbay/stream"
)

// Options bound the loop. The zero value is good for an embedded log.
type Options struct {
	Sessions       int                // members of the group in this process; 0 is 1
	CommitInterval time.Duration      // shortest time between two commits; 0 is 2 ms, or the log's own
	StepEvents     int                // most events of a step; 0 is 8,192, or the log's own
	ChunkEvents    int                // most events computed at once; 0 is 1,024, whose rows and cells fit in a core's cache
	KeyWaves       int                // most events of a key computed at once where features read predictions; 0 is 256
	Keys           int                // most decoded keys kept in memory by partition; 0 is 200,000
	KeyBytes       int64              // most bytes of decoded keys, a quarter, and of when keys fall silent; 0 is 256 MiB
	OutputMaxBytes int                // a larger output is a dead letter; 0 is 1 MiB, or what the log takes
	Logger         *slog.Logger       // nil discards
	Observe        func(*Observed)    // called with each event when it was computed; nil is none
	Fault          func(Stage string) // called at each stage of a turn by crash tests; nil is none
}

func (o Options) withDefaults() Options {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Sessions, 1)
	def(&o.ChunkEvents, 1024)
	def(&o.KeyWaves, 256)
	def(&o.Keys, 200_000)
	def(&o.OutputMaxBytes, 1<<20)
	if o.KeyBytes == 0 {
		o.KeyBytes = 256 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Task is one pipeline running over the partitions of its input.
type Task struct {
	log     stream.Log
	plan    *Plan
	options Options
	metrics *observe.Metrics
}

// New returns a task that is ready to Run and counts in metrics, which were
// made for as many sessions.
func New(log stream.Log, plan *Plan, options Options, metrics *observe.Metrics) *Task {
	return &Task{log: log, plan: plan, options: options.withDefaults(), metrics: metrics}
}

// Run processes the input until ctx is done; then it commits what was computed
// and returns nil. A session that lost its partitions, or whose commit failed,
// is followed by a new one; any other error ends all sessions and is returned.
func (t *Task) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range t.options.Sessions {
		group.Go(func() error { return t.sessions(ctx, t.metrics.Session(i)) })
	}
	return group.Wait()
}

func (t *Task) sessions(ctx context.Context, metrics *observe.Session) error {
	options := t.options
	for {
		err := t.session(ctx, options, metrics)
		switch {
		case ctx.Err() != nil && (err == nil || errors.Is(err, stream.ErrFenced)):
			return nil
		case errors.Is(err, stream.ErrFenced):
			metrics.Rejoined.Add(1)
			t.options.Logger.Info("session fenced, joining again", "pipeline", t.plan.Name, "reason", err)
		case errors.Is(err, stream.ErrTooLarge) && options.ChunkEvents > 1:
			options.ChunkEvents /= 2
			options.StepEvents = options.ChunkEvents
			t.options.Logger.Warn("step too large for the log, taking fewer events at once", "pipeline", t.plan.Name, "events", options.ChunkEvents)
		default:
			return err
		}
	}
}

// session runs one session until it dies or ctx is done.
func (t *Task) session(ctx context.Context, options Options, metrics *observe.Session) (err error) {
	s, err := t.log.Join(ctx, t.plan.Name, t.plan.Topic)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("join group %q: %w", t.plan.Name, err)
	}
	w := newWorker(t.plan, options, s, metrics)
	defer func() {
		w.timer.Stop()
		err = errors.Join(err, s.Close())
	}()
	for ctx.Err() == nil {
		if err := w.turn(ctx); err != nil {
			return err
		}
	}
	return w.finish()
}

// turn is one turn of the loop.
func (w *worker) turn(ctx context.Context) error {
	room := w.room()
	batch, err := w.poll(ctx, room)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		if settled := w.settle(); settled != nil { // why the session is dead
			return settled
		}
		return fmt.Errorf("poll: %w", err)
	}
	w.fault("read")
	for _, a := range batch.Assigned {
		if err := w.assign(a); err != nil {
			return err
		}
	}
	for rest := batch.Records; len(rest) > 0; {
		n, err := w.compute(context.WithoutCancel(ctx), rest) // what was begun is finished and committed
		if err != nil {
			return err
		}
		if d, ok := w.session.(stream.Deliverer); ok && w.plan.Copy == nil { // a copy counts as an event
			d.Deliver(w.step.Outputs)
		}
		if rest = rest[n:]; w.full() {
			if err := w.commit(); err != nil {
				return err
			}
		}
	}
	if err := w.expireRest(); err != nil {
		return err
	}
	if len(batch.Revoked) > 0 {
		return w.revoke(batch.Revoked)
	}
	w.delay = 0
	if len(batch.Records) == room {
		w.delay = min(behindInterval, time.Since(batch.Records[0].Time)/2)
	}
	return w.commitDue()
}

// poll waits for records. A copier does not wait for ever: its partitions may
// become idle.
func (w *worker) poll(ctx context.Context, room int) (stream.Batch, error) {
	if w.plan.Copy == nil {
		return w.session.Poll(ctx, room)
	}
	short, cancel := context.WithTimeout(ctx, idleCheck)
	defer cancel()
	batch, err := w.session.Poll(short, room)
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		err = nil
	}
	if err == nil && len(batch.Records) == 0 {
		w.idle(time.Now())
	}
	return batch, err
}

// room is how many events the step being made still takes.
func (w *worker) room() int {
	return min(w.options.ChunkEvents, max(1, w.options.StepEvents-w.step.events))
}

func (w *worker) full() bool {
	return w.step.events >= w.options.StepEvents || w.step.size() >= w.bytes || w.step.ended >= expiriesMax
}

func (w *worker) assign(a stream.Assigned) error {
	p, err := newPartition(w.plan, a, w.options.KeyBytes/4*3/int64(w.options.Sessions))
	if err != nil {
		return fmt.Errorf("restore %v: %w", a.Partition, err)
	}
	w.partitions[a.Partition] = p
	p.overdue = !w.plan.featureless() && p.due.Until(p.watermark(w.plan.Time.Lateness))
	w.metrics.Assigned.Add(1)
	return nil
}

// revoke commits what touches partitions that go to another member, and then
// forgets them.
func (w *worker) revoke(partitions []stream.Partition) error {
	if err := w.finish(); err != nil {
		return err
	}
	for _, p := range partitions {
		delete(w.partitions, p)
	}
	return nil
}

// behindInterval is CommitInterval, while there is more to be read than one chunk
// and the events are twice as late: a step writes each key once. Of those that
// are less late, a step makes half as much later again.
const behindInterval = 20 * time.Millisecond

// commitDue settles the outstanding commit if it is decided, and commits the
// step being made when its time has come; else it makes sure that Poll
// returns in time.
func (w *worker) commitDue() error {
	if w.pending != nil {
		select {
		case <-w.pending.Done():
			if err := w.settle(); err != nil {
				return err
			}
		default:
		}
	}
	if w.step.empty() {
		return nil
	}
	now, due := time.Now(), w.committed.Add(max(w.options.CommitInterval, w.delay))
	switch {
	case !now.Before(due) && w.pending == nil || w.full():
		return w.commit()
	case now.Before(due) && !due.Equal(w.waiting): // or it was for a time that has passed
		w.waiting = due
		w.timer.Reset(due.Sub(now))
	}
	return nil
}

// commit hands the step over, after the one before it was decided.
func (w *worker) commit() error {
	if err := w.settle(); err != nil {
		return err
	}
	w.seal()
	w.fault("write")
	w.pending, w.committed, w.waiting = w.session.Commit(w.step.Step), time.Now(), time.Time{}
	w.fault("sync")
	w.step, w.flying = w.flying, w.step
	w.step.reset()
	return nil
}

// settle waits for the outstanding commit, if there is one.
func (w *worker) settle() error {
	if w.pending == nil {
		return nil
	}
	if err := w.pending.Wait(context.Background()); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	w.fault("after")
	w.measureCommit(w.pending.At())
	w.pending = nil
	w.bound()
	return nil
}

// finish commits all that is computed and the ends of silent keys, and waits.
func (w *worker) finish() error {
	for {
		if err := w.expireRest(); err != nil {
			return err
		}
		if w.step.empty() {
			return w.settle()
		}
		if err := w.commit(); err != nil {
			return err
		}
	}
}
