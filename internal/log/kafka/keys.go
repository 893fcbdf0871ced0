package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

// keysTopic holds the Key of each topic that has one, by topic name, since Kafka's topics cannot
// store it. For topics that DeleteTopic deleted, it also holds under deletedPrefix and the name
// whether the topic is still deleted.
const keysTopic = "__afterbay-topics"

// deletedPrefix cannot be the beginning of a topic name.
const (
	deletedPrefix = "deleted/"
	deletedStill  = "deleted"
	deletedOnce   = "created again"
)

// keyStore reads and writes keysTopic. The topic is small, so reads always cover all of it.
type keyStore struct {
	log   *Log
	mu    sync.Mutex   // held by set, so that the first key of a topic in this process stays
	known sync.Map     // topics that have a key; the first key stays
	gone  sync.Map     // topics that were deleted; the value says whether they still are
	next  atomic.Int64 // offset after the last record read from keysTopic
}

// deleted reports whether a topic is deleted, as far as this process has read.
func (k *keyStore) deleted(topic string) bool {
	still, _ := k.gone.Load(topic)
	return still == true
}

// deletedOnce reports whether a topic was ever deleted.
func (k *keyStore) deletedOnce(topic string) bool {
	_, once := k.gone.Load(topic)
	return once
}

// renew reads the deleted topics if keysTopic has new records.
func (k *keyStore) renew(ctx context.Context) error {
	end, err := k.log.reads.listOffset(ctx, stream.Partition{Topic: keysTopic}, latest)
	switch {
	case errors.Is(err, stream.ErrUnknownTopic): // no topic was deleted yet
		return nil
	case err == nil && end != k.next.Load():
		_, err = k.read(ctx)
	}
	return err
}

// mark records whether a topic is deleted.
func (k *keyStore) mark(ctx context.Context, topic string, deleted bool) error {
	_, err := k.log.ensureTopic(ctx, keysTopic, 1, "cleanup.policy", "compact")
	state := deletedOnce
	if deleted {
		state = deletedStill
	}
	if err == nil {
		err = k.log.client.ProduceSync(ctx, &kgo.Record{Topic: keysTopic, Key: []byte(deletedPrefix + topic), Value: []byte(state)}).FirstErr()
	}
	if err != nil {
		return k.log.failure(ctx, err)
	}
	k.gone.Store(topic, deleted)
	k.log.topics.forget(topic)
	return nil
}

func (k *keyStore) read(ctx context.Context) (map[string]string, error) {
	keys, gone, next := map[string]string{}, map[string]bool{}, int64(0)
	p := stream.Partition{Topic: keysTopic}
	_, err := k.log.topics.get(ctx, keysTopic)
	if err == nil {
		next, err = k.log.reads.readTo(ctx, p, 0, func(r *kgo.Record) error {
			if topic, ok := strings.CutPrefix(string(r.Key), deletedPrefix); ok {
				gone[topic] = string(r.Value) == deletedStill
			} else if !r.Attrs.IsControl() {
				keys[string(r.Key)] = string(r.Value)
				if k.known.Store(string(r.Key), true); len(r.Value) == 0 {
					k.known.Delete(string(r.Key))
				}
			}
			return nil
		})
	}
	if err != nil && !errors.Is(err, stream.ErrUnknownTopic) {
		return nil, fmt.Errorf("read the keys of topics: %w", err)
	}
	for topic, deleted := range gone {
		if before, known := k.gone.Swap(topic, deleted); !known || before != deleted {
			k.log.topics.forget(topic)
		}
	}
	k.next.Store(next)
	return keys, nil
}

func (k *keyStore) set(ctx context.Context, topic, key string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.known.Load(topic); ok {
		return nil
	}
	keys, err := k.read(ctx)
	if err != nil || keys[topic] != "" {
		return err
	}
	_, err = k.log.ensureTopic(ctx, keysTopic, 1, "cleanup.policy", "compact")
	if err == nil {
		err = k.log.client.ProduceSync(ctx, &kgo.Record{Topic: keysTopic, Key: []byte(topic), Value: []byte(key)}).FirstErr()
	}
	if err != nil {
		return fmt.Errorf("write the key of topic %q: %w", topic, k.log.failure(ctx, err))
	}
	return nil
}
