package afterbay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/observe"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/task"
	"github.com/afterbay/afterbay/value"
)

// Options say how a process runs a pipeline. They do not change its results.
type Options struct {
	Sessions int          // members of the pipeline's group in this process; 0 is 1
	Keys     int          // most decoded keys in memory by partition; 0 is 200,000
	KeyBytes int64        // of decoded keys, a quarter, and of when keys fall silent, at most; 0 is 256 MiB
	Logger   *slog.Logger // nil discards

	// Observe is called with every event when it was computed, in the order of
	// its partition, before its step is committed; after a failed commit again.
	// It must not keep what it gets. Sessions call it at the same time. Where
	// inputs are copied it is called for their events too, whose Row has the
	// fields of their topic.
	Observe func(*task.Observed)

	// Rows ends the pipeline before the first score whose model cannot be
	// loaded, and needs no emit: to compute the rows that a first model is
	// trained with. What past scores would add to features is then left out.
	Rows bool

	// Fault is called at the stages of a turn of the loop (read, model, write,
	// sync, after) with a step in flight: crash tests end the process there.
	Fault func(stage string)
}

// Runner is a pipeline that was checked and is ready to run.
type Runner struct {
	pipeline Pipeline
	compiled
	metrics []*observe.Metrics // of the plan and of its copies
	task    task.Options
}

// New checks a pipeline and loads its models. What is wrong with it is returned
// as Errors, all at once.
func New(p Pipeline, options Options) (*Runner, error) {
	made, err := compile(p, options.Rows)
	if err != nil {
		return nil, err
	}
	r := &Runner{pipeline: p, compiled: made, task: task.Options{
		Sessions: options.Sessions, CommitInterval: p.Commit.Interval, StepEvents: p.Commit.Size,
		Keys: options.Keys, KeyBytes: options.KeyBytes, Logger: options.Logger, Fault: options.Fault, Observe: options.Observe,
	}}
	for range 1 + len(made.copies) {
		r.metrics = append(r.metrics, observe.NewMetrics(max(options.Sessions, 1)))
	}
	return r, nil
}

// Name returns the pipeline's name, which is also its consumer group.
func (r *Runner) Name() string { return r.plan.Name }

// Schema returns the names of an event's values, in the order of their
// introduction. Those that start with a zero byte are internal.
func (r *Runner) Schema() *value.Schema { return r.plan.Schema }

// Input returns the topic that the pipeline reads: the first of several.
func (r *Runner) Input() string { return r.Inputs()[0] }

// Inputs returns the topics that the pipeline reads.
func (r *Runner) Inputs() []string {
	if len(r.copies) == 0 {
		return []string{r.plan.Topic}
	}
	var topics []string
	for _, from := range r.copies {
		topics = append(topics, from.Topic)
	}
	return topics
}

// Outputs returns the topics that the pipeline writes, dead letters last.
func (r *Runner) Outputs() []string { return r.plan.Topics() }

// Read is a consumer group of a pipeline and the topic it reads.
type Read = observe.Read

// Reads returns what the pipeline reads, its own group last; the others copy its
// inputs to the topic it reads.
func (r *Runner) Reads() []Read {
	var reads []Read
	for _, from := range r.copies {
		reads = append(reads, Read{Group: from.Name, Topic: from.Topic})
	}
	return append(reads, Read{Group: r.plan.Name, Topic: r.plan.Topic})
}

// Lag returns how far the pipeline may fall behind.
func (r *Runner) Lag() Lag { return r.pipeline.Lag }

// Passage returns the times of an event that a group of the pipeline computed,
// where it is among the newest.
func (r *Runner) Passage(topic string, partition int32, offset int64) (observe.Passage, bool) {
	for _, m := range r.metrics {
		if p, ok := m.Find(topic, partition, offset); ok {
			return p, true
		}
	}
	return observe.Passage{}, false
}

// Passages returns the times of the newest events of all groups of the pipeline.
func (r *Runner) Passages() []observe.Passage {
	var list []observe.Passage
	for _, m := range r.metrics {
		list = append(list, m.Passages()...)
	}
	return list
}

// Models returns name@version and digest of each model.
func (r *Runner) Models() []string { return r.plan.Models }

// Describe returns the features of a key as of its newest event, from the
// entries stored for it, which get returns by stored key; nil where it has none.
func (r *Runner) Describe(key string, get func(stored []byte) ([]byte, error)) ([]task.Column, time.Time, error) {
	return r.plan.Describe(key, get)
}

// Metrics counts what Run does. It may be read at any time.
func (r *Runner) Metrics() *observe.Metrics { return r.metrics[0] }

// Counts is what the pipeline has done, with what the copying of its inputs
// made dead letters or left out.
func (r *Runner) Counts() observe.Counts {
	all := r.metrics[0].Counts()
	for _, m := range r.metrics[1:] {
		c := m.Counts()
		all.Assigned += c.Assigned
		all.DeadLetters += c.DeadLetters
		all.Duplicates += c.Duplicates
		all.Rejoined += c.Rejoined
	}
	return all
}

// Warnings say what about the pipeline is allowed but will surprise.
func (r *Runner) Warnings() []string {
	if !r.plan.Feedback {
		return r.warnings
	}
	return append(slices.Clone(r.warnings), "features read past predictions, so the events of one key are scored one after the other: throughput is at most 1 / (share of the hottest key x time of a model call)")
}

// CreateTopics makes the topics that the pipeline reads and writes, where they
// are not there. Those that it writes have as many partitions as the one that
// it reads or its inputs are copied to.
func (r *Runner) CreateTopics(ctx context.Context, log stream.Log) error {
	topics, err := log.Topics(ctx)
	if err != nil {
		return err
	}
	inputs := r.pipeline.Inputs
	if len(inputs) == 0 {
		inputs = []Input{r.pipeline.Input}
	}
	var partitions int32
	for i, in := range inputs {
		topic := stream.Topic{Name: in.Topic, Key: in.Key, Partitions: cmp.Or(in.Partitions, DefaultPartitions)}
		for _, t := range topics {
			if t.Name == in.Topic && (in.Partitions == 0 || in.Repartition != 0 || len(inputs) > 1) {
				topic.Partitions = t.Partitions
			}
		}
		if err := log.CreateTopic(ctx, topic); err != nil {
			return fmt.Errorf("input of pipeline %q: %w", r.plan.Name, err)
		}
		if partitions = topic.Partitions; len(r.copies) > 0 {
			r.plan.Sources[i].Partitions = topic.Partitions
		}
	}
	outputs := r.plan.Topics()
	if len(r.copies) > 0 {
		partitions = r.copies[0].Copy.Partitions
		outputs = append([]string{r.plan.Topic}, outputs...)
	}
	for _, name := range outputs {
		if err := log.CreateTopic(ctx, stream.Topic{Name: name, Partitions: partitions}); err != nil {
			return fmt.Errorf("an output goes to its input's partition, so it needs a topic of %d partitions: %w", partitions, err)
		}
	}
	return nil
}

// Run processes the input of log until ctx is done; then it commits what was
// computed and returns nil.
func (r *Runner) Run(ctx context.Context, log stream.Log) error {
	if err := r.CreateTopics(ctx, log); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, plan := range append([]*task.Plan{r.plan}, r.copies...) {
		group.Go(func() error { return task.New(log, plan, r.task, r.metrics[i]).Run(ctx) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("pipeline %q: %w", r.plan.Name, err)
	}
	return nil
}

// WaitIdle returns when the pipeline has committed everything that its input
// held at the call, or with ctx's error.
func (r *Runner) WaitIdle(ctx context.Context, log stream.Log) error {
	inspector, ok := log.(stream.Inspector)
	if !ok {
		return fmt.Errorf("wait for pipeline %q: a log of type %T cannot be inspected", r.plan.Name, log)
	}
	for _, plan := range append(slices.Clone(r.copies), r.plan) {
		if err := waitIdle(ctx, log, inspector, plan); err != nil {
			return fmt.Errorf("wait for pipeline %q: %w", r.plan.Name, err)
		}
	}
	return nil
}

// waitIdle returns when a task has committed everything that its topic held at
// the call.
func waitIdle(ctx context.Context, log stream.Log, inspector stream.Inspector, plan *task.Plan) error {
	topics, err := log.Topics(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(topics, func(t stream.Topic) bool { return t.Name == plan.Topic })
	if i < 0 {
		return fmt.Errorf("%w %q", stream.ErrUnknownTopic, plan.Topic)
	}
	for index := range topics[i].Partitions {
		p := stream.Partition{Topic: plan.Topic, Index: index}
		_, end, err := inspector.Offsets(ctx, p)
		if err != nil {
			return err
		}
		if err := waitCommitted(ctx, inspector, plan.Name, p, end); err != nil {
			return err
		}
	}
	return nil
}

func waitCommitted(ctx context.Context, log stream.Inspector, group string, p stream.Partition, end stream.Offset) error {
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for {
		committed, err := log.Committed(ctx, group, p)
		if err != nil || committed >= end {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// NewChain is New for pipelines that run together: it also checks what is
// between them, and returns their runners upstream first.
func NewChain(pipelines []Pipeline, options Options) ([]*Runner, error) {
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

// Run checks the pipelines and runs them on log until ctx is done.
func Run(ctx context.Context, log stream.Log, pipelines ...Pipeline) error {
	runners, err := NewChain(pipelines, Options{})
	if err != nil {
		return err
	}
	for _, r := range runners {
		if err := r.CreateTopics(ctx, log); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range runners {
		group.Go(func() error { return r.Run(ctx, log) })
	}
	return group.Wait()
}
