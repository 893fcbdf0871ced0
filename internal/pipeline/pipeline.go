package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// Options say how a process runs a pipeline. They do not change its results.
type Options struct {
	Members   int          // members of the pipeline's group in this process; 0 is 1
	Keys      int          // most decoded keys in memory by partition; 0 is 200,000
	KeyBytes  int64        // of decoded keys, a quarter, and of when keys fall silent, at most; 0 is 256 MiB. The pipeline and its stages have even shares
	HeldBytes int64        // of events in memory that wait for their turn in the order of several partitions; 0 is a quarter of KeyBytes
	Logger    *slog.Logger // nil discards

	// Observe is called with every event when it was computed, in the order of
	// its partition, before its step is committed; after a failed commit again. One
	// that is queued comes when it is through. One that a group or join made of others
	// comes too.
	// It must not keep what it gets. Members call it at the same time. Where
	// inputs are copied it is called for their events too, whose Row has the
	// fields of their topic.
	Observe func(*Observed)

	// Traces takes the spans of some events, when they are durable: of those that
	// come with a W3C trace context that says so, and of a share of the others. It
	// must not block; members call it at the same time. nil is none.
	Traces     func([]observe.Span)
	TraceShare float64 // 0 to 1

	// Endpoints are the services that the pipelines of a process call: those that
	// call the same model of one, with the same options, share its breaker and
	// its places. nil shares nothing; NewChain then makes one for its pipelines.
	Endpoints *control.Endpoints

	// Rows ends the pipeline before the first score whose model cannot be
	// loaded, and needs no emit: to compute the rows that a first model is
	// trained with. What past scores would add to features is then left out.
	Rows bool

	// Reach makes New fail if the server or program of a model outside of the
	// process cannot be reached. Without it the pipeline starts, warns, and queues
	// the events that need the model until it answers.
	Reach bool

	// NoPrograms makes New run no program that a manifest names: the manifest describes
	// the model. The runner is for looking at, and cannot score.
	NoPrograms bool
	// Announce is told of each program that a manifest names, before it is run; nil is not.
	Announce func(text string)

	// ModelKinds are the kinds of models that manifests may name, beside those that the
	// pipeline brings.
	ModelKinds []model.Kind

	// DryRun asks nothing outside of the process: models and lookups there answer
	// with zeros, empty texts and no rows, and Asked counts what they were asked.
	DryRun bool

	// Offline asks no schema registry for the ids of the schemas of outputs: they are 0. It is for runs
	// that throw their outputs away.
	Offline bool

	// Bounded has topics that are copied be silent when Finish says so, and not by a clock.
	Bounded bool

	// Notes of a run have tables be read, and events be forced, as they say: of a replay. They may
	// be filled until Run.
	Notes *Notes

	// Fault is called at the stages of a turn of the loop (read, model, write,
	// sync, after) with a step in flight: crash tests end the process there. Those of
	// repartitioners begin with "copy-", and those of stages of other fields with "by-".
	Fault func(stage string)
}

// Runner is a pipeline that was checked and is ready to run. Close closes what was opened for
// it; Run and Deliver must have returned.
type Runner struct {
	*compile.Compiled // what it runs; it does not change

	tasks    []*task.Task       // of the plan and of its copies
	metrics  []*observe.Metrics // likewise
	aborts   []*control.Abort   // likewise; nil where the pipeline never stops
	sunk     []*sinks.Metrics   // of the sinks
	hurry    atomic.Int64       // who waits for the sinks
	muted    []*muted           // models that are not asked
	followed bool               // others copy its outputs, and read its watermarks
	ended    ended
	done     atomic.Bool  // the inputs get no more records now
	offline  bool         // the ids of the schemas of outputs are 0
	replayed bool         // no schema is registered
	logger   *slog.Logger // never nil
	fault    func(stage string)
}

// New checks a pipeline and loads its models. What is wrong with it is returned
// as Errors, all at once.
func New(p lang.Pipeline, options Options) (*Runner, error) {
	var quiet dryRun
	compiling := options.compiling()
	if options.DryRun {
		compiling.Instead = quiet.mute
	}
	made, err := compile.Compile(p, compiling)
	if err != nil {
		return nil, err
	}
	r := &Runner{Compiled: made, logger: options.Logger, fault: options.Fault, offline: options.Offline, replayed: options.DryRun || options.Notes != nil}
	if r.logger == nil {
		r.logger = slog.New(slog.DiscardHandler)
	}
	options.KeyBytes = cmp.Or(options.KeyBytes, task.DefaultKeyBytes) / int64(1+len(made.Asked)) // repartitioners keep no keys
	for _, plan := range slices.Concat([]*task.Plan{made.Plan}, made.Copies, made.Asked) {
		r.addTask(plan, &options)
	}
	r.metrics[0].SetBudget(made.Budget)
	if made.Plan.InTurns() {
		r.metrics[0].SetOrdered()
	}
	if route := made.Plan.Cases; route != nil {
		r.metrics[0].SetCases(route.Names, route.Limit)
	}
	if options.Traces != nil {
		r.metrics[0].SetTracer(&observe.Tracer{Pipeline: p.Name, Share: options.TraceShare, Add: options.Traces})
	}
	r.muted = quiet
	for range made.Sinks {
		r.sunk = append(r.sunk, &sinks.Metrics{})
	}
	return r, nil
}

// compiling returns the options that a pipeline is compiled with.
func (o *Options) compiling() compile.Options {
	return compile.Options{
		Endpoints: o.Endpoints, Rows: o.Rows, Reach: o.Reach, NoPrograms: o.NoPrograms, Announce: o.Announce, ModelKinds: o.ModelKinds,
	}
}

// addTask adds the task of a plan, with what it counts. If the caller observes the events, it
// gets findings about their times from Snapshot.OddTimes, not from the log.
func (r *Runner) addTask(plan *task.Plan, o *Options) {
	p, metrics := &r.Pipeline, observe.NewMetrics(max(o.Members, 1))
	how := task.Options{
		Members: o.Members, CommitInterval: p.Commit.Interval, StepEvents: p.Commit.Size,
		Keys: o.Keys, KeyBytes: o.KeyBytes, HeldBytes: o.HeldBytes, Logger: o.Logger, Fault: o.Fault, Observe: o.Observe, Notes: o.Notes,
	}
	if plan.Answers != nil {
		how.Observe = nil // an ask is no event of the pipeline
	}
	if o.Bounded {
		how.Ended = r.done.Load
	}
	switch {
	case o.Fault == nil:
	case plan.Copy != nil:
		how.Fault = func(stage string) { o.Fault("copy-" + stage) }
	case plan.Answers != nil:
		how.Fault = func(stage string) { o.Fault("by-" + stage) }
	}
	if above := p.DeadLetters.StopAbove; above.Per > 0 {
		how.Abort = control.NewAbort(above.Of, above.Per)
	}
	if o.Observe == nil && plan.Answers == nil {
		how.OddTimes = func(finding string) {
			r.logger.Warn("event times look wrong", "pipeline", p.Name, "topic", plan.Topic, "finding", finding)
		}
	}
	r.tasks, r.metrics, r.aborts = append(r.tasks, task.New(plan, how, metrics)), append(r.metrics, metrics), append(r.aborts, how.Abort)
}

// Observed is what Options.Observe sees of an event.
type Observed = task.Observed

// Notes is what a pipeline noted of the order of its events.
type Notes = order.Notes

// Read is a consumer group of a pipeline and the topic it reads.
type Read = observe.Read

// Phases lists the phases that events of the pipeline have, in order.
func (r *Runner) Phases() []observe.Phase { return r.metrics[0].Phases() }

// Timings returns the times of the newest events of all groups of the pipeline.
func (r *Runner) Timings() []observe.Timing {
	var list []observe.Timing
	for _, m := range r.metrics {
		list = append(list, m.Timings()...)
	}
	return list
}

// Resume lets the pipeline go on within a second where it stands still, and
// counts its dead letters from none. It reports whether it stood still. A Runner
// that is made anew does not stand still.
func (r *Runner) Resume() bool {
	stood := false
	for _, abort := range r.aborts {
		stood = abort.Resume() || stood
	}
	return stood
}

// ErrStopped says that a pipeline stands still because too much of what it takes
// became dead letters.
var ErrStopped = errors.New("stopped by dlq.stop_above")

// Command has something done with the events that Run has queued, and returns how
// many it is about. It waits until the members have begun to.
func (r *Runner) Command(ctx context.Context, command async.Command) (events int, err error) {
	if !r.Plan.Queues() {
		return 0, fmt.Errorf("pipeline %q queues nothing: only steps with `call` or `async` queue events", r.Plan.Name)
	}
	return r.tasks[0].Command(ctx, command)
}

// Counts is what the pipeline has done: Snapshot has it too. It has what the copying of its inputs
// made dead letters or left out, and what stages forced, loaded and evicted.
func (r *Runner) Counts() observe.Counts {
	all := r.metrics[0].Counts()
	for _, m := range r.metrics[1:] {
		c := m.Counts()
		all.Assigned += c.Assigned
		all.DeadLetters += c.DeadLetters
		all.Duplicates += c.Duplicates
		all.Rejoined += c.Rejoined
		all.Forced += c.Forced
		all.Spilled += c.Spilled
		all.KeyLoads += c.KeyLoads
		all.KeyEvictions += c.KeyEvictions
	}
	for _, m := range r.Plan.Shared {
		all.ModelFull += m.Flushed(batch.Full)
		all.ModelIdle += m.Flushed(batch.Idle)
		all.ModelWaited += m.Flushed(batch.Waited)
		all.ModelDue += m.Flushed(batch.Due)
	}
	return all
}

// Run processes the input of log until ctx is done; then it commits what was
// computed and returns nil. The sinks are Deliver's.
func (r *Runner) Run(ctx context.Context, log stream.Log) (err error) {
	var reading []string
	for _, read := range r.Reads() {
		reading = append(reading, read.Group)
	}
	defer r.ended.note(&err, reading...)()
	if err := r.findSchemas(ctx); err != nil {
		return err
	}
	sources, err := r.createTopics(ctx, log)
	if ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, t := range r.tasks {
		group.Go(func() error { return t.Run(ctx, log, sources...) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("pipeline %q: %w", r.Plan.Name, err)
	}
	return nil
}

// WaitIdle returns when the pipeline has committed everything that its input
// held at the call, and nothing is queued, or with ctx's error, or with
// ErrStopped where the pipeline stands still, or with the error of Ended.
func (r *Runner) WaitIdle(ctx context.Context, log stream.Log) error {
	return r.waitReads(ctx, log, r.Reads())
}

// waitReads returns when groups have committed everything that their topics held at the call.
func (r *Runner) waitReads(ctx context.Context, log stream.Log, reads []Read) error {
	inspector, ok := log.(stream.Inspector)
	if !ok {
		return fmt.Errorf("wait for pipeline %q: a log of type %T cannot be inspected", r.Plan.Name, log)
	}
	for _, read := range reads {
		if err := r.waitIdle(ctx, log, inspector, read); err != nil {
			return fmt.Errorf("wait for pipeline %q: %w", r.Plan.Name, err)
		}
	}
	return nil
}

// WaitRead is WaitIdle, but of a pipeline whose events wait for Finish it waits only until they
// are copied.
func (r *Runner) WaitRead(ctx context.Context, log stream.Log) error {
	reads := r.Reads()
	if r.Plan.Sources != nil {
		reads = slices.DeleteFunc(reads, func(read Read) bool { return read.Group == r.Plan.Name })
	}
	return r.waitReads(ctx, log, reads)
}

// Finish has a pipeline that was made with Options.Bounded compute what waits for other
// records, and is WaitIdle. Events that come later, and are older, have their turn then.
func (r *Runner) Finish(ctx context.Context, log stream.Log) error {
	if err := r.WaitRead(ctx, log); err != nil {
		return err
	}
	r.done.Store(true)
	defer r.done.Store(false)
	return r.WaitIdle(ctx, log)
}

// WaitQueueEmpty returns when nothing of the pipeline is queued, or with ctx's error.
func (r *Runner) WaitQueueEmpty(ctx context.Context, log stream.Log) error {
	inspector, ok := log.(stream.Inspector)
	if !ok {
		return fmt.Errorf("wait for pipeline %q: a log of type %T cannot be inspected", r.Plan.Name, log)
	}
	topics, err := log.Topics(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(topics, func(t stream.Topic) bool { return t.Name == r.Plan.Topic })
	for index := int32(0); i >= 0 && index < topics[i].Partitions; index++ {
		if err := r.waitCommitted(ctx, inspector, r.Plan.Name, stream.Partition{Topic: r.Plan.Topic, Index: index}, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// waitIdle returns when a group has committed everything that its topic held at
// the call.
func (r *Runner) waitIdle(ctx context.Context, log stream.Log, inspector stream.Inspector, read Read) error {
	topics, err := log.Topics(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(topics, func(t stream.Topic) bool { return t.Name == read.Topic })
	if i < 0 {
		return fmt.Errorf("%w %q", stream.ErrUnknownTopic, read.Topic)
	}
	for index := range topics[i].Partitions {
		p := stream.Partition{Topic: read.Topic, Index: index}
		start, end, err := inspector.Offsets(ctx, p)
		if err == nil {
			err = r.waitCommitted(ctx, inspector, read.Group, p, start, end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) waitCommitted(ctx context.Context, log stream.Inspector, group string, p stream.Partition, start, end stream.Offset) error {
	for pause := 2 * time.Millisecond; ; {
		committed, err := log.Committed(ctx, group, p)
		done := committed >= end || start == end // or all of its records are gone
		if err == nil && done && group == r.Plan.Name && r.Plan.Queues() {
			if done, err = async.None(ctx, log, group, p); !done {
				pause = min(2*pause, 100*time.Millisecond) // it reads the state, which costs more the more there is
			}
		}
		if err != nil || done {
			return err
		}
		if err := r.ended.of(group); err != nil {
			return err
		}
		for _, abort := range r.aborts {
			if stop := abort.Stopped(); stop != nil {
				return fmt.Errorf("%w: %d of %d events within %v", ErrStopped, stop.Dead, stop.Events, stop.Per)
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("group %q has committed %d of %s, of %d: %w", group, committed, p, end, ctx.Err())
		}
	}
}

// NewChain is New for pipelines that run together: it also checks what is
// between them, and returns their runners upstream first.
func NewChain(pipelines []lang.Pipeline, options Options) ([]*Runner, error) {
	options.Endpoints = cmp.Or(options.Endpoints, &control.Endpoints{})
	var runners []*Runner
	var errs []error
	for _, p := range pipelines {
		r, err := New(p, options)
		if err != nil {
			errs = append(errs, fmt.Errorf("pipeline %q: %w", p.Name, err))
			continue
		}
		if slices.ContainsFunc(runners, func(o *Runner) bool { return o.Name() == r.Name() }) {
			errs = append(errs, fmt.Errorf("two pipelines are named %q: state and group have that name", p.Name))
		}
		runners = append(runners, r)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	order, found := Chain(runners)
	var ordered []*Runner
	for _, i := range order {
		if err, ok := found[i]; ok {
			errs = append(errs, fmt.Errorf("pipeline %q: %w", runners[i].Name(), err))
		}
		ordered = append(ordered, runners[i])
	}
	return ordered, errors.Join(errs...)
}

// Run checks the pipelines and runs them and their sinks on log until ctx is done.
func Run(ctx context.Context, log stream.Log, o Options, pipelines ...lang.Pipeline) error {
	runners, err := NewChain(pipelines, o)
	if err != nil {
		return err
	}
	if err := CreateTopics(ctx, log, runners); err != nil {
		return err
	}
	return RunChain(ctx, log, runners)
}
