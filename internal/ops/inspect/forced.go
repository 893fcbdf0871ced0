package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/stream"
)

// Forced describes the forced events of a live pipeline. docs/adr/0037-order.md explains them.
type Forced struct {
	Events   int64  `json:"events"`           // events that the pipeline and its stages computed out of their turn
	Followed bool   `json:"followed"`         // a replay computes them at the same place as the pipeline
	Reason   string `json:"reason,omitempty"` // why it does not
}

// FollowForced makes a replay of the sources compute forced events at the same place as the live
// pipeline. The repartition topics hold these places. If the places are not complete for the
// pipeline and all of its stages, FollowForced uses none of them: events wait for each other, so
// the order of one stage alone would block the replay. next is the end of the replay in each source
// partition.
func FollowForced(ctx context.Context, d Directory, r *pipeline.Runner, next map[stream.Partition]stream.Offset, notes *pipeline.Notes) (f Forced, err error) {
	all := map[string]map[int32][]order.ForcedTurn{}
	for _, plan := range r.Keepers() {
		if !plan.InTurns() {
			continue
		}
		n, err := ForcedEvents(ctx, d, plan.Name)
		if err != nil {
			return f, fmt.Errorf("count the forced events: %w", err)
		}
		if f.Events += n; n == 0 || f.Reason != "" {
			continue
		}
		if all[plan.Name], f.Reason, err = forcedTurns(ctx, d, plan, n, r.Copies[0].Copy.Partitions, next); err != nil {
			return f, fmt.Errorf("list the forced events: %w", err)
		}
	}
	if f.Followed = f.Reason == ""; f.Followed {
		notes.Forced = all
	}
	return f, nil
}

// ForcedEvents returns how many events a pipeline or stage computed out of their turn.
func ForcedEvents(ctx context.Context, d Directory, pipeline string) (n int64, err error) {
	for e, err := range d.EntriesOf(ctx, pipeline, statekey.Released) {
		if errors.Is(err, ErrUnknownPipeline) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		forced, err := order.Forced(e.Value)
		if err != nil {
			return 0, err
		}
		n += forced
	}
	return n, nil
}

// forcedTurns returns the turns of forced events by partition, or the reason why they are unknown.
// The repartition topic must mark at least counted events as forced, which is the plan's own count.
func forcedTurns(ctx context.Context, d Directory, plan *task.Plan, counted int64, partitions int32, next map[stream.Partition]stream.Offset) (turns map[int32][]order.ForcedTurn, reason string, err error) {
	about, err := Find(ctx, d, plan.Topic)
	if errors.Is(err, stream.ErrUnknownTopic) {
		return nil, fmt.Sprintf("repartition topic %s was deleted", plan.Topic), nil
	}
	if err != nil {
		return nil, "", err
	}
	if int(partitions) != len(about.Partitions) {
		return nil, fmt.Sprintf("repartition topic %s has %d partitions, but the file has %d", plan.Topic, len(about.Partitions), partitions), nil
	}
	counts, topics := make([]int32, len(plan.Sources)), map[int]string{}
	for i, source := range plan.Sources {
		topics[source.Rank] = source.Topic
		for p := range next {
			if p.Topic == source.Topic {
				counts[i]++
			}
		}
	}
	sources := plan.Numbers(counts)
	turns = map[int32][]order.ForcedTurn{}
	for i, extent := range about.Partitions {
		if extent.First > 0 {
			return nil, fmt.Sprintf("%s/%d of the repartition topic begins at offset %d", plan.Topic, i, extent.First), nil
		}
		found, err := order.FindForced(d.Records(ctx, Query{Topic: plan.Topic, Partition: int32(i)}), plan.WaitsFor(), sources)
		if err != nil {
			return nil, "", err
		}
		counted -= int64(len(found))
		turns[int32(i)] = slices.DeleteFunc(found, func(t order.ForcedTurn) bool { // copied after the replay determined the ends of the sources
			number, offset := t.Event()
			return offset >= int64(next[stream.Partition{Topic: topics[order.Topic(number)], Index: order.Partition(number)}])
		})
	}
	if counted > 0 {
		return nil, fmt.Sprintf("repartition topic %s has %d fewer forced events: a source got more partitions since", plan.Topic, counted), nil
	}
	return turns, "", nil
}
