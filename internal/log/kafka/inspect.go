package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// Offsets implements stream.Inspector. It waits for open transactions. The next offset is the one
// after the last record, without the markers at the end of p. So a reader of all records is at the
// end.
func (l *Log) Offsets(ctx context.Context, p stream.Partition) (first, next stream.Offset, err error) {
	if err := l.usable(); err != nil {
		return 0, 0, err
	}
	from, end, err := l.reads.extent(ctx, p)
	if err != nil {
		return 0, 0, err
	}
	for back := int64(2); ; back *= 4 {
		start := max(from, end-back)
		last := int64(-1)
		if _, err := l.reads.readTo(ctx, p, start, func(r *kgo.Record) error {
			if !r.Attrs.IsControl() {
				last = r.Offset
			}
			return nil
		}); err != nil {
			return 0, 0, err
		}
		if last >= 0 {
			return stream.Offset(from), stream.Offset(last + 1), nil
		}
		if start == from {
			return stream.Offset(from), stream.Offset(from), nil
		}
	}
}

// Peek implements stream.Inspector. It waits for open transactions, as Offsets does. The markers of
// a commit arrive some milliseconds after its answer, but its records must be visible when Commit
// has returned success.
func (l *Log) Peek(ctx context.Context, p stream.Partition, from stream.Offset) (stream.Record, bool, error) {
	if err := l.usable(); err != nil {
		return stream.Record{}, false, err
	}
	end := int64(-1)
	for next := int64(max(from, 0)); ; {
		records, after, err := l.reads.fetch(ctx, p, next)
		if errors.Is(err, stream.ErrTrimmed) { // or after the end
			first, listErr := l.reads.listOffset(ctx, p, earliest)
			if listErr == nil && next < first {
				next = first
				continue
			}
			return stream.Record{}, false, listErr
		}
		if err != nil {
			return stream.Record{}, false, fmt.Errorf("peek into %v: %w", p, err)
		}
		for _, r := range records {
			if !r.Attrs.IsControl() {
				out := decode(r)
				out.Partition = p
				return out, true, nil
			}
		}
		if after <= next && end < 0 { // end at the time of the call: later writes may never stop
			if end, err = l.reads.listOffset(ctx, p, latest); err != nil {
				return stream.Record{}, false, err
			}
		}
		if next = max(next, after); end >= 0 && next >= end {
			return stream.Record{}, false, nil
		}
	}
}

// Committed implements stream.Inspector. It waits for open transactions.
func (l *Log) Committed(ctx context.Context, group string, p stream.Partition) (stream.Offset, error) {
	if err := l.usable(); err != nil {
		return 0, err
	}
	if _, err := l.topics.partition(ctx, p); err != nil {
		return 0, err
	}
	offset, err := l.offsets.committed(ctx, group, p)
	return stream.Offset(max(offset, 0)), err
}

// Groups implements stream.Inspector.
func (l *Log) Groups(ctx context.Context) ([]string, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	var groups []string
	shards := l.client.RequestSharded(ctx, kmsg.NewPtrListGroupsRequest())
	for _, shard := range shards {
		if shard.Err != nil {
			return nil, l.failure(ctx, fmt.Errorf("list groups: %w", shard.Err))
		}
		for _, g := range shard.Resp.(*kmsg.ListGroupsResponse).Groups {
			if strings.HasPrefix(g.Group, producerPrefix) {
				continue
			}
			committed, err := l.offsets.ever(ctx, g.Group)
			if err != nil {
				return nil, err
			}
			if committed {
				groups = append(groups, g.Group)
			}
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}

// StatePartitions implements stream.Sizer. It returns the number of partitions of the changelog.
// State of an older version is an error.
func (l *Log) StatePartitions(ctx context.Context, group, topic string) (int32, error) {
	if err := l.usable(); err != nil {
		return 0, err
	}
	topics, err := l.topics.ask(ctx, changelogOf(group, stream.Partition{Topic: topic}).Topic)
	switch {
	case err != nil:
		return 0, err
	case len(topics) == 0:
		return 0, l.refuseOlder(ctx, group, topic)
	}
	return int32(len(topics[0].leaders)), nil
}

// State implements stream.Inspector. It reads the whole changelog into memory.
func (l *Log) State(ctx context.Context, group string, p stream.Partition) (stream.View, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	if _, err := l.topics.partition(ctx, p); err != nil {
		return nil, err
	}
	entries := tableView{}
	changelog := changelogOf(group, p)
	if _, err := l.topics.refresh(ctx, changelog.Topic); errors.Is(err, stream.ErrUnknownTopic) {
		return entries, nil
	}
	from, err := l.reads.listOffset(ctx, changelog, earliest)
	if err != nil {
		return nil, err
	}
	r := newReplay(func(key, value []byte) {
		if value == nil {
			delete(entries, string(key))
		} else {
			entries[string(key)] = value
		}
	})
	_, err = l.reads.readTo(ctx, changelog, from, r.record)
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return nil, fmt.Errorf("state of group %q beside %v: %w", group, p, err)
	}
	return entries, nil
}

// tableView is a complete state in memory.
type tableView map[string][]byte

// Get implements stream.View.
func (v tableView) Get(key []byte) ([]byte, error) { return bytes.Clone(v[string(key)]), nil }

// Scan implements stream.View.
func (v tableView) Scan(prefix []byte) iter.Seq2[stream.Entry, error] {
	return func(yield func(stream.Entry, error) bool) {
		var keys []string
		for key := range v {
			if strings.HasPrefix(key, string(prefix)) {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			if !yield(stream.Entry{Key: []byte(key), Value: append([]byte{}, v[key]...)}, nil) {
				return
			}
		}
	}
}
