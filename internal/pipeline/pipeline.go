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

// Options configures how a process runs a pipeline. Options do not change its results, except Rows
// and DryRun.
type Options struct {
	Members   int          // members of the pipeline's group in this process; 0 is 1
	Keys      int          // most decoded keys in memory per partition; 0 is 200,000
	KeyBytes  int64        // most bytes of keyed state in memory: a quarter for decoded keys, the rest for expiry times; 0 is 256 MiB; the pipeline and its stages get equal shares
	HeldBytes int64        // most bytes of events in memory that wait for their turn in the order of several partitions; 0 is a quarter of KeyBytes
	Logger    *slog.Logger // nil discards

	// Observe is called with every computed event, in the order of its partition, before its
	// transaction is committed. After a failed commit it is called again. A queued event is
	// observed when it is finished. Observe also sees events that a group or join made of others.
	// Observe must not keep its argument. Members call it concurrently. If inputs are copied,
	// Observe also sees the events of the inputs, with the fields of their topic in Row.
	Observe func(*Observed)

	// Traces takes the spans of some events when they are durable. It sees events with a sampled
	// W3C trace context, and a share of the others. Traces must not block. Members call it
	// concurrently. nil disables tracing.
	Traces     func([]observe.Span)
	TraceShare float64 // 0 to 1

	// Endpoints holds the services that the pipelines of a process call. Pipelines that call the
	// same model with the same options share its breaker and its slots. nil shares no endpoints,
	// but NewChain then makes one Endpoints for its pipelines.
	Endpoints *control.Endpoints

	// Rows ends the pipeline before the first score with a model that cannot be loaded, and
	// requires no emit. It serves to compute the rows that train a first model. Features then lack
	// the values that past scores would add.
	Rows bool

	// Reach makes New fail if the server or program of a model outside of the process cannot be
	// reached. Without Reach the pipeline starts, logs a warning, and queues the events that need
	// the model until it answers.
	Reach bool

	// NoPrograms makes New run no program that a manifest names. The manifest then describes the
	// model. The Runner is only for inspection, and cannot score.
	NoPrograms bool
	// Announce is called before each program that a manifest names is run. nil is not called.
	Announce func(text string)

	// Starting ends the start of models outside of the process. nil never does.
	Starting context.Context

	// ModelKinds are the kinds of models that manifests may name, in addition to the kinds in the
	// pipeline.
	ModelKinds []model.Kind

	// DryRun calls no model or lookup outside of the process. They return zeros, empty texts and no
	// rows. Snapshot.Asked counts the requests.
	DryRun bool

	// Offline does not ask a schema registry for the ids of output schemas: the ids are 0. It is
	// for runs that discard their outputs.
	Offline bool

	// Bounded makes copied topics silent when Finish is called, instead of by a clock.
	Bounded bool

	// Notes holds the notes of the run to replay. They say when tables are read and events are
	// forced. The caller may fill them until Run.
	Notes *Notes

	// Fault is called at the phases of a turn of the loop (read, model, write, sync, after) with a
	// transaction in flight. Crash tests end the process there. Phases of repartitioners begin with
	// "copy-", and those of stages of other fields with "by-".
	Fault func(stage string)
}

// Runner is a checked pipeline that is ready to run. Close releases its resources. Run and Deliver
// must have returned before.
type Runner struct {
	*compile.Compiled // the compiled pipeline; immutable

	tasks    []*task.Task       // tasks of the plan and of its copies
	metrics  []*observe.Metrics // metrics of each task
	aborts   []*control.Abort   // abort of each task; nil if the pipeline never stops
	sunk     []*sinks.Metrics   // metrics of the sinks
	hurry    atomic.Int64       // number of callers that wait for the sinks
	muted    []*muted           // models that are not called
	followed bool               // other pipelines copy its outputs, and read its watermarks
	ended    ended
	done     atomic.Bool  // the inputs get no more records for now
	offline  bool         // the ids of output schemas are 0
	replayed bool         // no schema is registered
	logger   *slog.Logger // never nil
	fault    func(stage string)
}

// New checks a pipeline and loads its models. It returns all problems at once, as Errors.
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
	options.KeyBytes = cmp.Or(options.KeyBytes, task.DefaultKeyBytes) / int64(1+len(made.Asked)) // repartitioners have no keyed state
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

// compiling returns the options for the compiler.
func (o *Options) compiling() compile.Options {
	return compile.Options{
		Endpoints: o.Endpoints, Rows: o.Rows, Reach: o.Reach, NoPrograms: o.NoPrograms, Announce: o.Announce, Starting: o.Starting, ModelKinds: o.ModelKinds,
	}
}

// addTask adds the task of a plan, with its metrics. If the caller observes the events, findings
// about their times go to Snapshot.OddTimes and not to the log.
func (r *Runner) addTask(plan *task.Plan, o *Options) {
	p, metrics := &r.Pipeline, observe.NewMetrics(max(o.Members, 1))
	how := task.Options{
		Members: o.Members, CommitInterval: p.Commit.Interval, StepEvents: p.Commit.Size,
		Keys: o.Keys, KeyBytes: o.KeyBytes, HeldBytes: o.HeldBytes, Logger: o.Logger, Fault: o.Fault, Observe: o.Observe, Notes: o.Notes,
	}
	if plan.Answers != nil {
		how.Observe = nil // an ask is not an event of the pipeline
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

// Observed is an event as Options.Observe sees it.
type Observed = task.Observed

// Notes holds the notes of a pipeline about the order of its events.
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

// Resume restarts a stopped pipeline within a second, and resets its count of dead letters. It
// reports whether the pipeline was stopped. A new Runner is not stopped.
func (r *Runner) Resume() bool {
	stood := false
	for _, abort := range r.aborts {
		stood = abort.Resume() || stood
	}
	return stood
}

// ErrStopped says that a pipeline stopped because too many of its events become dead letters.
var ErrStopped = errors.New("stopped by dlq.stop_above")

// Command runs a command on the events that Run has queued, and returns the number of events that
// it applies to. It waits until the members have started it.
func (r *Runner) Command(ctx context.Context, command async.Command) (events int, err error) {
	if !r.Plan.Queues() {
		return 0, fmt.Errorf("pipeline %q queues nothing: only steps with `call` or `async` queue events", r.Plan.Name)
	}
	return r.tasks[0].Command(ctx, command)
}

// Counts returns the counters of the pipeline, which Snapshot has too. They include dead letters
// and dropped events of the copying of its inputs. They also include events that stages forced, and
// keys that stages loaded and evicted.
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

// Run processes the input of log until ctx is done. Then it commits the computed work and returns
// nil. Run does not serve the sinks: see Deliver.
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

// WaitIdle blocks until the pipeline has committed everything that its input held at the call, and
// no event is queued. It returns an error if ctx ends, ErrStopped if the pipeline is stopped, and
// the error of Ended if the pipeline ended.
func (r *Runner) WaitIdle(ctx context.Context, log stream.Log) error {
	return r.waitReads(ctx, log, r.Reads())
}

// waitReads blocks until groups have committed everything that their topics held at the call.
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

// WaitRead is WaitIdle, except for pipelines with events that wait for Finish. For these it waits
// only until the events are copied.
func (r *Runner) WaitRead(ctx context.Context, log stream.Log) error {
	reads := r.Reads()
	if r.Plan.Sources != nil {
		reads = slices.DeleteFunc(reads, func(read Read) bool { return read.Group == r.Plan.Name })
	}
	return r.waitReads(ctx, log, reads)
}

// Finish makes a pipeline with Options.Bounded compute the events that wait for other records. Then
// it does the same as WaitIdle. Older events that come later are released at once.
func (r *Runner) Finish(ctx context.Context, log stream.Log) error {
	if err := r.WaitRead(ctx, log); err != nil {
		return err
	}
	r.done.Store(true)
	defer r.done.Store(false)
	return r.WaitIdle(ctx, log)
}

// WaitQueueEmpty blocks until no event of the pipeline is queued. It returns an error if ctx ends.
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

// waitIdle blocks until a group has committed everything that its topic held at the call.
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
		done := committed >= end || start == end // or all of its records were deleted
		if err == nil && done && group == r.Plan.Name && r.Plan.Queues() {
			if done, err = async.None(ctx, log, group, p); !done {
				pause = min(2*pause, 100*time.Millisecond) // this reads the state, which costs more for a larger state
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

// NewChain is New for pipelines that run together. It also checks how they fit together, and
// returns their runners upstream first.
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
			errs = append(errs, fmt.Errorf("two pipelines are named %q: the name identifies state and group", p.Name))
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
