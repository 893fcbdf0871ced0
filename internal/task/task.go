// Package task is the loop that moves partitions forward:
//
//	Poll -> decode -> features -> model -> decide -> emit -> Commit
//
// One goroutine owns a member and runs the loop over its partitions. All work before Commit happens
// in memory, ahead of the committed state. If a commit fails, this work is discarded, and the next
// member starts from the committed state. While transaction N commits, the loop computes
// transaction N+1 on top of it.
package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/internal/task/clock"
	"github.com/afterbay/afterbay/internal/task/group"
	"github.com/afterbay/afterbay/internal/task/join"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/table"
	"github.com/afterbay/afterbay/stream"
)

// DefaultKeyBytes is the value of Options.KeyBytes if that is 0.
const DefaultKeyBytes = 256 << 20

// Options bounds the loop. The zero value is good for an embedded log.
type Options struct {
	Members        int                  // members of the group in this process; 0 is 1
	CommitInterval time.Duration        // shortest time between two commits; 0 is 2 ms, or the log's own value
	StepEvents     int                  // most events of a transaction; 0 is 8,192, or the log's own value
	ChunkEvents    int                  // most events computed at once; 0 is 1,024, because rows and cells of that many fit in a core's cache
	KeyWaves       int                  // most events of a key computed at once if features read predictions; 0 is 256
	Keys           int                  // most decoded keys in memory per partition; 0 is 200,000
	KeyBytes       int64                // most bytes of keyed state in memory: a quarter for decoded keys, the rest for expiry times; 0 is 256 MiB
	HeldBytes      int64                // most bytes of events in memory that wait for their turn in the order of several partitions; more events are spilled to state; 0 is a quarter of KeyBytes, which is then taken from the keys
	Copies         int                  // most waiting records of a repartition topic, except records that others wait for; 0 is 32,768, four full transactions
	OutputMaxBytes int                  // a larger output becomes a dead letter; 0 is 1 MiB, or the limit of the log
	Logger         *slog.Logger         // nil discards
	Clock          clock.Clock          // source of all time that the task reads; nil is the clock of the machine
	Observe        func(*Observed)      // called with each computed event; nil is no call
	OddTimes       func(finding string) // called if the first event times look wrong; nil is no call
	Abort          *control.Abort       // decides when the task stops; nil never stops it
	Ended          func() bool          // reports whether copied topics get no more records now; nil uses the clock to detect silent topics
	Notes          *order.Notes         // notes of the run to replay, which say when to read tables and force events; nil is no replay
	Fault          func(Stage string)   // called by crash tests at each phase of a turn; nil is no call

	storm *storm // storm of the previous member; nil if there was none
}

func (o Options) withDefaults() Options {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Members, 1)
	def(&o.ChunkEvents, 1024)
	def(&o.KeyWaves, 256)
	def(&o.Keys, 200_000)
	def(&o.Copies, 1<<15)
	def(&o.OutputMaxBytes, 1<<20)
	if o.KeyBytes == 0 {
		o.KeyBytes = DefaultKeyBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	return o
}

// Task is one pipeline running over the partitions of its input. It holds everything that changes
// while the pipeline runs. The plan does not change.
type Task struct {
	plan    *Plan
	options Options
	metrics *observe.Metrics
	shared  shared
}

// shared is the data that the members of a task share.
type shared struct {
	groups    []group.Counts // by operator.Group.Index
	joins     join.Counts
	commands  async.Commands // commands for queued events
	tenants   async.Tenants
	times     *operator.TimeSample // nil if the event time is not from a field
	sources   []int32              // number of partitions of each of Plan.Sources
	tells     bool                 // watermarks are broadcast
	upstreams []Upstream           // pipelines that write the copied topic
	begun     time.Time            // when Run was called
	reading   order.Readers        // readers of Plan.Sources
}

// New returns a task that is ready to Run. metrics must have been made for the same number of
// members.
func New(plan *Plan, options Options, metrics *observe.Metrics) *Task {
	t := &Task{plan: plan, options: options.withDefaults(), metrics: metrics}
	if o := &t.options; plan.Sources != nil && o.HeldBytes == 0 {
		o.HeldBytes = o.KeyBytes / 4
		o.KeyBytes -= o.HeldBytes
	}
	t.shared.groups = make([]group.Counts, len(plan.Groups.Groups))
	t.shared.reading.Now = t.options.Clock.Now
	if plan.Time.FromField {
		t.shared.times = operator.NewTimeSample(options.OddTimes)
	}
	return t
}

// Groups returns the counts of the plan's groups, in their order. The counts change while the task
// runs.
func (t *Task) Groups() []group.Counts { return t.shared.groups }

// Joins returns the counts of the plan's join. They change while the task runs.
func (t *Task) Joins() *join.Counts { return &t.shared.joins }

// Ordered reports whether the task reads events of several source partitions in one order.
func (t *Task) Ordered() bool { return t.plan.Sources != nil }

// Holder returns the name of what events of the task wait for. See Plan.Holder.
func (t *Task) Holder(of order.Holder) string { return t.plan.Holder(of) }

// Readers returns the members that read Plan.Sources in order. It is safe to call while the task
// runs.
func (t *Task) Readers() *order.Readers { return &t.shared.reading }

// OddTimes returns a finding if most of the first event times look wrong, else "".
func (t *Task) OddTimes() string { return t.shared.times.Finding() }

// Command runs a command on the events that Run has queued. It returns the number of events that
// the command applies to.
func (t *Task) Command(ctx context.Context, command async.Command) (events int, err error) {
	return t.shared.commands.Give(ctx, command)
}

// Run processes the input until ctx is done. Then it commits the computed work and returns nil. If
// a member loses its partitions or a commit fails, Run replaces the member. Any other error ends
// all members, and Run returns it. sources has the number of partitions of each of Plan.Sources.
func (t *Task) Run(ctx context.Context, log stream.Log, sources ...int32) error {
	t.shared.sources, t.shared.begun = sources, t.options.Clock.Now()
	defer t.shared.times.Close()
	group, ctx := errgroup.WithContext(ctx)
	for i := range t.options.Members {
		group.Go(func() error { return t.members(ctx, log, t.metrics.Member(i)) })
	}
	return group.Wait()
}

func (t *Task) members(ctx context.Context, log stream.Log, metrics *observe.Member) error {
	options := t.options
	for {
		err := t.member(ctx, log, options, metrics)
		switch {
		case errors.As(err, &options.storm):
			metrics.Rejoined.Add(1)
			t.options.Logger.Info("transactions are split, and the member joins its group again", "pipeline", t.plan.Name, "reason", err)
		case ctx.Err() != nil && (err == nil || errors.Is(err, stream.ErrFenced)):
			return nil
		case errors.Is(err, stream.ErrFenced):
			metrics.Rejoined.Add(1)
			t.options.Logger.Info("member was fenced and joins its group again", "pipeline", t.plan.Name, "reason", err)
		case errors.Is(err, stream.ErrTooLarge) && options.ChunkEvents > 1:
			options.ChunkEvents /= 2
			options.StepEvents = options.ChunkEvents
			t.options.Logger.Warn("transaction is too large for the log: it is split into smaller ones", "pipeline", t.plan.Name, "events", options.ChunkEvents)
		default:
			return err
		}
	}
}

// read returns the log that a member reads the events from.
func (t *Task) read(log stream.Log, metrics *observe.Member, reader *order.Reader) stream.Log {
	if t.plan.Sources == nil {
		return log
	}
	numbers := t.plan.Numbers(t.shared.sources)
	var forced map[int32][]order.ForcedTurn
	if t.options.Notes != nil {
		forced = t.options.Notes.Forced[t.plan.Name]
	}
	return generation.Below(log, t.plan.Name, func(log stream.Log) stream.Log {
		return order.NewLog(log, t.plan.Topic, order.Options{
			Arrival: t.plan.Arrival, Stages: t.plan.WaitsFor(), Bytes: max(1, t.options.HeldBytes/int64(t.options.Members)),
			Forced: forced, Reader: reader,
			Tell: func(h order.Held) {
				metrics.HeldBytes.Store(h.Memory)
				metrics.SpilledBytes.Store(h.State)
				metrics.Spilled.Add(uint64(h.Spilled))
			},
		}, numbers...)
	})
}

// member runs one member until it fails or ctx is done.
func (t *Task) member(ctx context.Context, log stream.Log, options Options, metrics *observe.Member) (err error) {
	reader := t.shared.reading.Reader()
	defer reader.Close()
	s, err := t.read(log, metrics, reader).Join(ctx, t.plan.Name, t.plan.Topic)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("join group %q: %w", t.plan.Name, err)
	}
	decoders, err := t.plan.decoders()
	if err != nil {
		return errors.Join(err, s.Close())
	}
	waits := newPreparing(t.plan, decoders, &options, s.Wake)
	s = table.Hold(s, table.Wait(t.plan.Tables), waits.gate(), options.Clock)
	held := s
	var followed *table.Follower
	if t.plan.notes != "" && options.Notes != nil && options.Notes.Reads != nil {
		followed = table.Follow(s, options.Notes.Reads, t.plan.Sources != nil)
		s = followed
		waits.keep()
	}
	w := newWorker(t.plan, &t.shared, options, s, metrics)
	w.reader, w.decoders, w.preparing = reader, decoders, waits
	w.waits = func(p stream.Partition) bool { return table.Holds(held, p) }
	if t.plan.Copy != nil {
		if w.readers, err = newReaders(ctx, log, t.plan, options.Copies, t.shared.upstreams); err != nil {
			return errors.Join(err, s.Close())
		}
		defer w.readers.close()
	}
	defer func() {
		w.dispatcher.Close()
		w.timer.Stop()
		for _, p := range w.partitions {
			p.collected.close()
		}
		metrics.Generations.Clear()
		err = errors.Join(err, s.Close())
	}()
	if w.tables, err = table.NewReader(log, t.plan.Topic, t.plan.Name, t.plan.Tables, options.Logger, options.Clock, metrics); err != nil {
		return err
	}
	w.tables.Follow(followed)
	for ctx.Err() == nil {
		if err := w.turn(ctx); err != nil {
			return err
		}
	}
	w.dispatcher.Drain(5 * time.Second)
	if err := w.tend(context.WithoutCancel(ctx), true); err != nil {
		return err
	}
	return w.finish()
}

// turn runs the loop once.
func (w *worker) turn(ctx context.Context) error {
	room, begun := w.room(), context.WithoutCancel(ctx) // work that has begun is finished and committed
	batch, err := w.poll(ctx, room)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		if settled := w.settle(); settled != nil { // the error of the commit is the cause
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
	w.dispatcher.Leave(batch.Revoked)
	if len(batch.Records)+len(batch.Assigned) > 0 || w.tables.Unread() {
		if err := w.tables.Bring(ctx, w.took); err != nil && ctx.Err() != nil {
			return nil // the rows that were read are committed, and the rest is read later
		} else if err != nil {
			return err
		}
		w.noteTables()
	}
	if err := w.tend(begun, false); err != nil {
		return err
	}
	for rest := batch.Records; len(rest) > 0; {
		events, dead := w.building.events, w.building.Dead
		n, err := w.compute(begun, rest)
		if err != nil {
			return err
		}
		w.watchDead(w.building.events-events, w.building.Dead-dead)
		if d, ok := w.member.(stream.Deliverer); ok && w.plan.repeatable() {
			d.Deliver(w.building.Outputs)
		}
		if rest = rest[n:]; w.full() {
			if err := w.commit(); err != nil {
				return err
			}
		}
	}
	if w.plan.Copy != nil && !w.standing {
		if err := w.align(ctx); err != nil && ctx.Err() == nil {
			w.options.Logger.Warn("the position in the repartition topic could not be read: the engine tries again", "pipeline", w.plan.Name, "reason", err)
		}
	}
	if w.plan.Time.Idle > 0 {
		if err := w.advance(begun, len(batch.Records) < room && !w.held && !w.standing); err != nil {
			return err
		}
	}
	if err := w.expireRest(); err != nil {
		return err
	}
	if len(batch.Revoked) > 0 {
		return w.revoke(ctx, batch.Revoked)
	}
	w.delay = 0
	if len(batch.Records) == room {
		w.delay = min(behindInterval, w.options.Clock.Now().Sub(batch.Records[0].Time)/2)
	}
	return w.commitDue()
}

// standCheck is how often a stopped pipeline checks for a resume command.
const standCheck = time.Second

// poll waits for records. It uses a deadline in three cases: a repartitioner must notice silent
// partitions, an idle partition must advance its watermark, and a stopped pipeline must notice a
// resume command.
func (w *worker) poll(ctx context.Context, room int) (stream.Batch, error) {
	w.holdBack()
	w.preparing.next()
	stood := w.standing
	w.standing = w.options.Abort.Stopped() != nil
	check := standCheck
	if idle := w.plan.Time.Idle; idle > 0 {
		check = min(check, idle/2)
	} else if w.plan.Copy != nil && !w.standing {
		check = max(w.readers.next.Sub(w.options.Clock.Now()), time.Millisecond)
	} else if !w.standing && !stood {
		return w.member.Poll(ctx, room)
	}
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	defer w.options.Clock.AfterFunc(check, cancel).Stop()
	batch, err := w.member.Poll(short, room)
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		err = nil
	}
	return batch, err
}

// room returns how many more events the current transaction takes.
func (w *worker) room() int {
	room := min(w.options.ChunkEvents, max(1, w.options.StepEvents-w.building.events))
	if w.plan.queues {
		room = min(room, max(1, w.gate.Marks().High-w.dispatcher.Len())) // so that the queue does not overshoot its limit by chance
	}
	return room
}

func (w *worker) assign(a stream.Assigned) error {
	p, err := newPartition(w.chunk, a, w.options.KeyBytes/int64(w.options.Members))
	if err != nil {
		return fmt.Errorf("restore %v: %w", a.Partition, err)
	}
	if p.tables, err = w.tables.Assign(a); err != nil {
		return fmt.Errorf("restore %v: %w", a.Partition, err)
	}
	w.partitions[a.Partition] = p
	p.overdue = !w.plan.keys.Featureless() && p.keys.Overdue(p.watermark(w.plan.Time.Lateness))
	w.metrics.Assigned.Add(1)
	w.metrics.Generations.Store(a.Partition.Index, p.generation)
	if w.held {
		w.member.Pause(a.Partition)
	}
	return nil
}

// leaveMax is how long a member waits for the calls of revoked partitions. It is shorter than the
// time that the group waits for this member.
const (
	leaveMax   = 5 * time.Second
	leaveCheck = 2 * time.Millisecond
)

// revoke commits the changes of revoked partitions, and then removes the partitions.
func (w *worker) revoke(ctx context.Context, partitions []stream.Partition) error {
	for begun := w.options.Clock.Now(); w.dispatcher.Leaving() && w.options.Clock.Now().Sub(begun) < leaveMax && ctx.Err() == nil; {
		select {
		case <-clock.After(w.options.Clock, leaveCheck):
		case <-ctx.Done():
		}
		if err := w.tend(context.WithoutCancel(ctx), false); err != nil {
			return err
		}
		if err := w.commitDue(); err != nil {
			return err
		}
	}
	if err := w.finish(); err != nil {
		return err
	}
	for _, p := range partitions {
		w.partitions[p].collected.close()
		delete(w.partitions, p)
		w.metrics.Generations.Delete(p.Index)
		w.dispatcher.Forget(p)
		w.tables.Revoke(p)
	}
	return nil
}

// took records that a partition received a row of a table.
func (w *worker) took(id stream.Partition, bytes int) error {
	w.building.touch(w.partitions[id])
	if w.building.Carry(bytes); w.full() {
		return w.commit()
	}
	return nil
}

// noteTables writes a note for each partition if more of its tables was read.
func (w *worker) noteTables() {
	if w.plan.notes == "" {
		return
	}
	for _, p := range w.partitions {
		note := order.TableRead{Home: p.id.Index, Behind: p.behind(), Time: p.newest}
		if p.newest != never {
			note.Time += w.plan.Slack.Microseconds()
		}
		if p.tables.Note(&note) {
			w.building.Note(w.plan.notes, w.options.Clock.Now(), &note)
		}
	}
}

// finish commits all computed work and the ends of silent keys, and waits for the commits.
func (w *worker) finish() error {
	for {
		if err := w.expireRest(); err != nil {
			return err
		}
		if w.building.empty() {
			return w.settle()
		}
		if err := w.commit(); err != nil {
			return err
		}
	}
}
