package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/log/optional"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/stream"
)

// DefaultPartitions is the number of partitions of a topic if no file says it.
const DefaultPartitions = compile.DefaultPartitions

// CreateTopics makes the missing topics that the pipeline reads and writes. The topics that it
// writes have as many partitions as the topic that it reads or that its inputs are copied to. If
// the input got more partitions since the pipeline began, CreateTopics makes the topics and returns
// a stream.PartitionsError.
func (r *Runner) CreateTopics(ctx context.Context, log stream.Log) error {
	_, err := r.createTopics(ctx, log)
	return err
}

// createTopics is CreateTopics. It returns the numbers of partitions of the inputs.
func (r *Runner) createTopics(ctx context.Context, log stream.Log) (inputs []int32, err error) {
	topics, err := log.Topics(ctx)
	if err != nil {
		return nil, err
	}
	existing := map[string]int32{}
	for _, t := range topics {
		existing[t.Name] = t.Partitions
	}
	began, err := optional.StatePartitions(ctx, log, r.Plan.Name, r.Plan.Topic, existing[r.Plan.DeadTopic])
	if err != nil {
		return nil, fmt.Errorf("partitions of the state of pipeline %q: %w", r.Plan.Name, err)
	}
	inputs, partitions, grown, err := r.createInputs(ctx, log, existing, began)
	if err == nil {
		err = r.createOutputs(ctx, log, existing, partitions, partitions == began)
	}
	return inputs, cmp.Or(err, grown)
}

// createInputs makes the topics that the pipeline reads. It returns the number of partitions of
// each input, and of the pipeline's state and outputs. If the pipeline began with fewer partitions
// than the input has now, grown is an error.
func (r *Runner) createInputs(ctx context.Context, log stream.Log, existing map[string]int32, began int32) (inputs []int32, partitions int32, grown, err error) {
	for _, in := range r.Pipeline.EachInput() {
		topic := stream.Topic{Name: in.Topic, Key: in.KeyPath(), Partitions: cmp.Or(in.Partitions, compile.DefaultPartitions)}
		if n := existing[in.Topic]; began > 0 && n > began && len(r.Copies) == 0 {
			grown = fmt.Errorf("input of pipeline %q: %w", r.Plan.Name, &stream.PartitionsError{Topic: in.Topic, Partitions: n, State: began})
			topic.Partitions = n
		} else if n > 0 && (in.Partitions == 0 || in.Repartition != 0 || len(r.Pipeline.Inputs) > 1) {
			topic.Partitions = n
		}
		if err := log.CreateTopic(ctx, topic); err != nil {
			return nil, 0, nil, fmt.Errorf("input of pipeline %q: %w", r.Plan.Name, err)
		}
		partitions = topic.Partitions
		inputs = append(inputs, partitions)
	}
	switch {
	case len(r.Copies) > 0:
		partitions = r.Copies[0].Copy.Partitions
		if n := existing[r.Plan.Topic]; n > 0 && n != partitions {
			return nil, 0, nil, fmt.Errorf("input of pipeline %q: repartition is %d, and topic %q has %d partitions: set repartition: %d, or give the pipeline another name", r.Plan.Name, partitions, r.Plan.Topic, n, n)
		}
		err = r.createOutput(ctx, log, r.Plan.Topic, partitions)
		for _, stage := range r.Asked {
			err = cmp.Or(err, r.createOutput(ctx, log, stage.Topic, partitions))
		}
	case grown != nil:
		partitions = began
	}
	return inputs, partitions, grown, err
}

// createOutputs makes the other topics. If the pipeline began with the given number of partitions,
// its outputs may have more: only their readers depend on the number.
func (r *Runner) createOutputs(ctx context.Context, log stream.Log, existing map[string]int32, partitions int32, began bool) error {
	names := r.Plan.Topics()
	if r.followed {
		names = append(names, compile.Marks(r.Name()))
	}
	for _, name := range names {
		if began && existing[name] > partitions {
			continue
		}
		if err := r.createOutput(ctx, log, name, partitions); err != nil {
			return err
		}
	}
	if notes := r.Plan.Notes(); notes != "" {
		if err := log.CreateTopic(ctx, stream.Topic{Name: notes, Partitions: 1}); err != nil {
			return fmt.Errorf("notes about the order of pipeline %q: %w", r.Plan.Name, err)
		}
	}
	for i := range r.Sinks {
		for _, name := range sinks.Topics(compile.GroupOf(&r.Sinks[i].Sink, r.Name())) {
			if existing[name] > 0 {
				continue // the sink compares the number
			}
			if err := log.CreateTopic(ctx, stream.Topic{Name: name, Partitions: cmp.Or(existing[r.Sinks[i].From], partitions)}); err != nil {
				return fmt.Errorf("sink %q of pipeline %q: %w", r.Sinks[i].Name, r.Plan.Name, err)
			}
		}
	}
	for _, name := range r.Tables() {
		if slices.Contains(r.Plan.Topics(), name) || name == r.Plan.Topic || existing[name] > 0 {
			continue
		}
		if err := log.CreateTopic(ctx, stream.Topic{Name: name, Partitions: compile.DefaultPartitions}); err != nil {
			return fmt.Errorf("table of pipeline %q: %w", r.Plan.Name, err)
		}
	}
	return nil
}

func (r *Runner) createOutput(ctx context.Context, log stream.Log, name string, partitions int32) error {
	if err := log.CreateTopic(ctx, stream.Topic{Name: name, Partitions: partitions}); err != nil {
		return fmt.Errorf("an output is written to the partition of its input, so its topic needs %d partitions: %w", partitions, err)
	}
	return nil
}
