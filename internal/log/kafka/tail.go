package kafka

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

// Tail implements stream.Log. Each Tail has its own connections: a broker answers the fetches of a
// connection one after the other, and a fetch of a tail waits for data.
func (l *Log) Tail(ctx context.Context, p stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			yield(stream.Record{}, stream.ErrClosed)
			return
		}
		l.tails.Add(1)
		ctx, end := context.WithCancelCause(ctx)
		this := &tailing{p.Topic, end}
		l.tailings[this] = true
		l.mu.Unlock()
		ctx, cancel := l.until(ctx)
		err := l.tail(ctx, p, int64(from), func(r *kgo.Record) bool { return yield(decode(r), nil) })
		failure := l.failure(ctx, err)
		if failure != nil && errors.Is(context.Cause(ctx), stream.ErrUnknownTopic) {
			failure = stream.ErrUnknownTopic
		}
		cancel()
		end(nil)
		l.mu.Lock()
		delete(l.tailings, this)
		l.mu.Unlock()
		l.tails.Done()
		if failure != nil {
			yield(stream.Record{}, fmt.Errorf("tail %v: %w", p, failure))
		}
	}
}

// tail returns nil when yield returns false.
func (l *Log) tail(ctx context.Context, p stream.Partition, from int64, yield func(*kgo.Record) bool) error {
	topic, err := l.topics.partition(ctx, p)
	if err != nil {
		return err
	}
	first, err := l.reads.listOffset(ctx, p, earliest)
	if err != nil {
		return err
	}
	if from < first {
		return fmt.Errorf("offset %d, the first is %d: %w", from, first, stream.ErrTrimmed)
	}
	if err := l.reached(ctx, p, from); err != nil {
		return err
	}
	client, err := l.newClient(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.Topic: {p.Index: kgo.NewOffset().At(from)}}))
	if err != nil {
		return err
	}
	defer client.Close()
	for tries := 1; ; tries++ {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, f := range fetches.Errors() {
			if err := l.reads.tailAgain(ctx, p, topic, tries, f.Err); err != nil {
				return err
			}
		}
		for it := fetches.RecordIter(); !it.Done(); tries = 0 {
			if r := it.Next(); r.Offset >= from && !yield(r) {
				return nil
			}
		}
	}
}

// tailAgain waits after a failed fetch. It returns an error if another try is useless. The client
// keeps the topic that it began with. If that topic is deleted, the client returns the same error
// for every fetch.
func (r *reads) tailAgain(ctx context.Context, p stream.Partition, began topicInfo, tries int, err error) error {
	if !kerr.IsRetriable(err) && !errors.Is(err, kerr.OffsetOutOfRange) {
		return err
	}
	if err := r.retry(ctx, p, tries, err); err != nil {
		return err
	}
	now, err := r.log.topics.get(ctx, p.Topic)
	if err == nil && now.id != began.id {
		err = fmt.Errorf("topic %q was deleted and created again: %w", p.Topic, stream.ErrUnknownTopic)
	}
	return err
}

// reached waits until p has grown to offset, since a broker rejects reads after the end.
func (l *Log) reached(ctx context.Context, p stream.Partition, offset int64) error {
	for tries := 1; ; tries++ {
		end, err := l.reads.listOffset(ctx, p, latest)
		if err != nil || end >= offset {
			return err
		}
		if err := l.wait(ctx, backOff(tries)); err != nil {
			return err
		}
	}
}
