package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/stream"
)

// Lag implements Directory.
func (l *Local) Lag(ctx context.Context, pipeline string) ([]observe.Lag, error) {
	mine := func(group string) bool {
		return pipeline == "" || group == pipeline || strings.HasPrefix(group, pipeline+".") // groups of its inputs and sinks
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
	list, left, err := l.lagOf(ctx, reads...)
	for _, lag := range left {
		if err == nil {
			err = l.countCopies(ctx, lag)
		}
	}
	slices.SortFunc(list, observe.CompareLags)
	return append([]observe.Lag{}, list...), err // not nil, so that JSON has an empty list
}

// readsOf returns the topics that a group has committed offsets in.
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

// LagOf measures the lag of readers, the largest first. In topics that this process reads in time
// order, only events count, not watermark broadcasts and answers. In partitions that another
// process reads, all records count until they are committed; Lag examines those further.
func (l *Local) LagOf(ctx context.Context, reads ...observe.Read) ([]observe.Lag, error) {
	list, _, err := l.lagOf(ctx, reads...)
	slices.SortFunc(list, observe.CompareLags)
	return list, err
}

// lagOf is LagOf without sorting. It also returns the lags of topics read in time order that may
// count records other than events.
func (l *Local) lagOf(ctx context.Context, reads ...observe.Read) (list []observe.Lag, left []*observe.Lag, err error) {
	if list, err = l.lag.Measure(ctx, l, reads...); err != nil {
		return nil, nil, err
	}
	orders := map[*pipeline.Runner]*pipeline.Order{}
	for _, r := range l.runners {
		orders[r] = r.Order(time.Now())
	}
	for i := range list {
		lag, counted := &list[i], false
		if lag.Records == 0 || !inOrder(lag) {
			continue
		}
		for r, o := range orders {
			if o != nil && r.Keeper(lag.Group) != nil {
				if counted, err = l.countEvents(ctx, lag, o); err != nil {
					return nil, nil, err
				}
			}
		}
		if !counted {
			left = append(left, lag)
		}
	}
	return list, left, nil
}

// inOrder reports whether the topic is read in time order, and so has watermark broadcasts between
// its events.
func inOrder(lag *observe.Lag) bool {
	_, copies := naming.Owner(lag.Topic, naming.Repartition)
	return copies || naming.IsBy(lag.Topic)
}

// lookedAt is the most records of a partition that countCopies reads.
const lookedAt = 1 << 16

// countCopies corrects the lag of a partition that another process, or no process, reads in time
// order. It counts the events from the first uncommitted one onwards. It also counts later events
// that already had their turn: only the state shows them, and reading it from Kafka takes long. It
// counts all records beyond lookedAt.
func (l *Local) countCopies(ctx context.Context, lag *observe.Lag) error {
	at := stream.Partition{Topic: lag.Topic, Index: lag.Partition}
	first, _, err := l.Offsets(ctx, at)
	if err != nil {
		return fmt.Errorf("events of %s: %w", lag.Name(), err)
	}
	events, looked := int64(0), 0
	for r, err := range l.Tail(ctx, at, max(first, lag.Committed)) {
		if err != nil {
			return fmt.Errorf("events of %s: %w", lag.Name(), err)
		}
		if c, err := order.ParseCopy(header.Value(&r, header.Order)); err == nil {
			if events++; events == 1 && c.AppendTime() > 0 {
				lag.Seconds = max(0, time.Since(time.UnixMicro(c.AppendTime())).Seconds())
			}
		}
		if looked++; looked == lookedAt {
			events += int64(max(0, lag.Next-r.Offset-1))
		}
		if looked == lookedAt || r.Offset+1 >= lag.Next {
			break
		}
	}
	if lag.Records = events; events == 0 {
		lag.Seconds = 0
	}
	return nil
}

// countEvents counts the waiting events of a partition that this process reads in time order, and
// the records not yet read. counted is false if the process does not read the partition, or does
// not hold all its events in memory.
func (l *Local) countEvents(ctx context.Context, lag *observe.Lag, o *pipeline.Order) (counted bool, err error) {
	at := stream.Partition{Topic: lag.Topic, Index: lag.Partition}
	if lag.Group != o.Pipeline { // a stage; the process does not always know its events
		first, found, err := l.Peek(ctx, at, lag.Committed)
		if err != nil {
			return false, fmt.Errorf("the first event of %v: %w", at, err)
		}
		if c, err := order.ParseCopy(header.Value(&first, header.Order)); found && err == nil && c.AppendTime() > 0 {
			lag.Seconds = min(lag.Seconds, time.Since(time.UnixMicro(c.AppendTime())).Seconds())
		}
	}
	i := slices.IndexFunc(o.Partitions, func(p pipeline.OrderPartition) bool { return p.Topic == lag.Topic && p.Partition == lag.Partition })
	if i < 0 || o.Partitions[i].Spilled {
		return false, nil
	}
	lag.Records = int64(o.Partitions[i].Open)
	if read := stream.Offset(o.Partitions[i].Read); read < lag.Next {
		r, found, err := l.Peek(ctx, at, read)
		if err != nil {
			return false, fmt.Errorf("records of %s that are not read: %w", lag.Name(), err)
		}
		if found {
			lag.Records += int64(max(0, lag.Next-r.Offset))
		}
	}
	if lag.Records == 0 {
		lag.Seconds = 0
	}
	return true, nil
}

// OwnLag returns LagOf for the pipelines and sinks of this process.
func (l *Local) OwnLag(ctx context.Context) ([]observe.Lag, error) { return l.LagOf(ctx, l.reads...) }
