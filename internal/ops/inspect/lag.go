package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/stream"
)

// Lag implements Directory.
func (l *Local) Lag(ctx context.Context, pipeline string) ([]observe.Lag, error) {
	mine := func(group string) bool {
		return pipeline == "" || group == pipeline || strings.HasPrefix(group, pipeline+".") // of its inputs and sinks
	}
	var reads []observe.Read
	for _, r := range l.reads {
		if mine(r.Group) {
			reads = append(reads, r)
		}
	}
	groups, err := l.Groups(ctx)
	if err != nil {
		return nil, fmt.Errorf("list pipelines: %w", err)
	}
	for _, group := range groups {
		if !mine(group) || deadletter.IsGroup(group) || slices.ContainsFunc(l.reads, func(r observe.Read) bool { return r.Group == group }) {
			continue
		}
		found, err := l.readsOf(ctx, group)
		if err != nil {
			return nil, err
		}
		reads = append(reads, found...)
	}
	if pipeline != "" && len(reads) == 0 {
		return nil, unknownPipeline(pipeline, groups)
	}
	list, err := l.LagOf(ctx, reads...)
	return append([]observe.Lag{}, list...), err // in JSON an empty list
}

// readsOf finds the topics that a group has committed offsets of.
func (l *Local) readsOf(ctx context.Context, group string) ([]observe.Read, error) {
	topics, err := l.Topics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	var reads []observe.Read
	for _, t := range topics {
		for i := range t.Partitions {
			committed, err := l.Committed(ctx, group, stream.Partition{Topic: t.Name, Index: i})
			if err != nil {
				return nil, fmt.Errorf("topics of %q: %w", group, err)
			}
			if committed > 0 {
				reads = append(reads, observe.Read{Group: group, Topic: t.Name})
				break
			}
		}
	}
	return reads, nil
}

// LagOf measures how far readers are behind, the worst first. Of what a pipeline of this process
// reads in order, the records are events: marks and answers are none.
func (l *Local) LagOf(ctx context.Context, reads ...observe.Read) ([]observe.Lag, error) {
	list, err := l.lag.Measure(ctx, l, reads...)
	if err != nil {
		return nil, err
	}
	for _, r := range l.runners {
		o := r.Order(time.Now())
		if o == nil {
			continue
		}
		for i := range list {
			if lag := &list[i]; lag.Records > 0 && r.Keeper(lag.Group) != nil {
				if err := l.countEvents(ctx, lag, o); err != nil {
					return nil, err
				}
			}
		}
	}
	slices.SortFunc(list, observe.CompareLags)
	return list, nil
}

// countEvents counts the events that wait in a partition that is read in order, with the records that
// were not read yet.
func (l *Local) countEvents(ctx context.Context, lag *observe.Lag, o *pipeline.Order) error {
	at := stream.Partition{Topic: lag.Topic, Index: lag.Partition}
	if lag.Group != o.Pipeline { // a stage, which the process does not look at all the time
		first, found, err := l.Peek(ctx, at, lag.Committed)
		if err != nil {
			return fmt.Errorf("the first event of %v: %w", at, err)
		}
		if c, err := order.ParseCopy(header.Value(&first, header.Order)); found && err == nil && c.AppendTime() > 0 {
			lag.Seconds = min(lag.Seconds, time.Since(time.UnixMicro(c.AppendTime())).Seconds())
		}
	}
	i := slices.IndexFunc(o.Partitions, func(p pipeline.OrderPartition) bool { return p.Topic == lag.Topic && p.Partition == lag.Partition })
	if i < 0 || o.Partitions[i].Spilled {
		return nil // another process reads it, or the state has events
	}
	lag.Records = int64(o.Partitions[i].Open)
	if read := stream.Offset(o.Partitions[i].Read); read < lag.Next {
		r, found, err := l.Peek(ctx, at, read)
		if err != nil {
			return fmt.Errorf("records of %s that are not read: %w", lag.Name(), err)
		}
		if found {
			lag.Records += int64(max(0, lag.Next-r.Offset))
		}
	}
	if lag.Records == 0 {
		lag.Seconds = 0
	}
	return nil
}

// OwnLag is LagOf the pipelines and sinks of this process.
func (l *Local) OwnLag(ctx context.Context) ([]observe.Lag, error) { return l.LagOf(ctx, l.reads...) }
