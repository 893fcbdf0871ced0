package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// The consumer of the client library returns only records. It does not report offsets that it
// skipped. A partition may end with markers or a compacted range. So the functions below read with
// their own requests, to know that a partition was read to an offset.

// reads sends the requests that read partitions.
type reads struct{ log *Log }

// fetchWait is how long a broker holds a fetch if no data is decided yet.
const fetchWait = 10 * time.Millisecond

// readTo visits the records of p from offset from to the end of p at the time of the call. It
// includes markers. It waits for open transactions, so it visits all records written before the
// call. It returns the next offset.
func (r *reads) readTo(ctx context.Context, p stream.Partition, from int64, visit func(*kgo.Record) error) (next int64, err error) {
	end, err := r.listOffset(ctx, p, latest)
	if err != nil {
		return from, err
	}
	var waiting stall
	for next = from; next < end; {
		records, after, err := waiting.fetch(ctx, r.log, p, next)
		if err != nil {
			return next, fmt.Errorf("read %v at %d: %w", p, next, err)
		}
		for _, r := range records {
			if err := visit(r); err != nil {
				return next, fmt.Errorf("offset %d of %v: %w", r.Offset, p, err)
			}
		}
		next = after
	}
	return next, nil
}

// newest visits the newest records of p in order, at most most. It starts with a few, and repeats
// with more of the earlier records until found returns true or all were visited.
func (r *reads) newest(ctx context.Context, p stream.Partition, most int64, visit func(*kgo.Record) error, found func() bool) error {
	first, end, err := r.extent(ctx, p)
	if err != nil {
		return err
	}
	first = max(first, end-most)
	for back := int64(8); ; back *= 8 {
		start := max(first, end-back)
		if _, err := r.readTo(ctx, p, start, visit); err != nil || found() || start == first {
			return err
		}
	}
}

// fetch returns committed records and markers from an offset on, and the offset after the last one.
// It returns none if no more data is decided.
func (r *reads) fetch(ctx context.Context, p stream.Partition, from int64) ([]*kgo.Record, int64, error) {
	for tries := 1; ; tries++ {
		part, err := r.fetchOnce(ctx, p, from, fetchWait)
		if err == nil {
			part.FetchPartition.Err = nil
			return part.Records, part.next, nil
		}
		if err = r.retry(ctx, p, tries, err); err != nil {
			return nil, from, err
		}
	}
}

// retry waits before the next try. It returns err if another try is useless.
func (r *reads) retry(ctx context.Context, p stream.Partition, tries int, err error) error {
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange):
		return fmt.Errorf("%w: %w", stream.ErrTrimmed, err)
	case ctx.Err() != nil || r.log.ctx.Err() != nil || !kerr.IsRetriable(err) && !isNetwork(err):
		return r.log.failure(ctx, err)
	}
	if err := r.log.wait(ctx, backOff(tries)); err != nil {
		return err
	}
	if _, err := r.log.topics.refresh(ctx, p.Topic); err != nil && errors.Is(err, stream.ErrUnknownTopic) {
		return err
	}
	return nil
}

// isNetwork reports whether err did not come from a broker.
func isNetwork(err error) bool {
	var answer *kerr.Error
	return !errors.As(err, &answer) && !errors.Is(err, stream.ErrUnknownTopic) && !errors.Is(err, stream.ErrClosed)
}

type fetched struct {
	kgo.FetchPartition
	next int64
}

func (r *reads) fetchOnce(ctx context.Context, p stream.Partition, from int64, wait time.Duration) (fetched, error) {
	t, err := r.log.topics.partition(ctx, p)
	if err != nil {
		return fetched{}, err
	}
	req := kmsg.NewPtrFetchRequest()
	// Limit the partition, not the whole request: kfake omits aborted transactions if the limit of
	// the whole request cuts an answer.
	req.MaxWaitMillis, req.MinBytes, req.IsolationLevel = int32(wait/time.Millisecond), 1, 1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = t.name, t.id
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = p.Index, from, int32(r.log.opts.BufferBytes)
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	answer, err := r.log.client.Broker(int(t.leaders[p.Index])).RetriableRequest(ctx, req)
	if err != nil {
		return fetched{}, err
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fetched{}, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return fetched{}, kerr.UnknownTopicOrPartition
	}
	got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: from, IsolationLevel: kgo.ReadCommitted(), Topic: p.Topic, Partition: p.Index, Pools: []kgo.Pool{r.log.records},
	}, &resp.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	return fetched{got, next}, got.Err
}

// Arguments of listOffset.
const (
	latest   int64 = -1 // the end, including uncommitted records
	earliest int64 = -2 // the first retained offset
)

// listOffset returns the requested offset of p.
func (r *reads) listOffset(ctx context.Context, p stream.Partition, which int64) (int64, error) {
	for tries := 1; ; tries++ {
		offset, err := r.listOffsetOnce(ctx, p, which)
		if err == nil {
			return offset, nil
		}
		if err = r.retry(ctx, p, tries, err); err != nil {
			return 0, fmt.Errorf("list offsets of %v: %w", p, err)
		}
	}
}

// extent returns the first retained offset of p and its end, including uncommitted records. It
// requests both at once.
func (r *reads) extent(ctx context.Context, p stream.Partition) (first, end int64, err error) {
	var firstErr, endErr error
	var asking sync.WaitGroup
	asking.Go(func() { first, firstErr = r.listOffset(ctx, p, earliest) })
	end, endErr = r.listOffset(ctx, p, latest)
	asking.Wait()
	return first, end, cmp.Or(firstErr, endErr)
}

func (r *reads) listOffsetOnce(ctx context.Context, p stream.Partition, which int64) (int64, error) {
	t, err := r.log.topics.partition(ctx, p)
	if err != nil {
		return 0, err
	}
	req := kmsg.NewPtrListOffsetsRequest()
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = p.Topic
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition, part.Timestamp = p.Index, which
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	answer, err := r.log.client.Broker(int(t.leaders[p.Index])).RetriableRequest(ctx, req)
	if err != nil {
		return 0, err
	}
	resp := answer.(*kmsg.ListOffsetsResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, kerr.UnknownTopicOrPartition
	}
	got := &resp.Topics[0].Partitions[0]
	return got.Offset, kerr.ErrorForCode(got.ErrorCode)
}

// bounds returns the topic of p's changelog, its first offset and its end. It requests all of them
// at once.
func (r *reads) bounds(ctx context.Context, p, changelog stream.Partition) (t topicInfo, first, end int64, err error) {
	var extentErr error
	var asking sync.WaitGroup
	asking.Go(func() { first, end, extentErr = r.extent(ctx, changelog) })
	t, err = r.log.topics.refresh(ctx, changelog.Topic)
	for tries := 1; passing(err) && ctx.Err() == nil; tries++ {
		if err = r.log.await(ctx, tries, "restore "+changelog.String(), err); err == nil {
			t, err = r.log.topics.refresh(ctx, changelog.Topic)
		}
	}
	asking.Wait()
	if n := int32(len(t.leaders)); err == nil && changelog.Index >= n {
		err = &stream.PartitionsError{Topic: p.Topic, Partitions: p.Index + 1, State: n}
	}
	return t, first, end, cmp.Or(err, extentErr)
}
