package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/stream"
)

// topicInfo is the metadata of a topic.
type topicInfo struct {
	name    string
	id      [16]byte
	leaders []int32 // by partition
	asked   time.Time
}

// topicCache caches the metadata of topics. The number of partitions seldom changes, and a request
// to a leader that has moved refreshes the metadata.
type topicCache struct {
	log   *Log
	mu    sync.Mutex // guards topics
	known map[string]topicInfo
}

// get returns a topic, from the cache if possible.
func (c *topicCache) get(ctx context.Context, name string) (topicInfo, error) {
	c.mu.Lock()
	t, ok := c.known[name]
	c.mu.Unlock()
	if ok {
		return t, nil
	}
	return c.refresh(ctx, name)
}

// forget removes a topic from the cache.
func (c *topicCache) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, name)
}

// recently is how long an answer of the brokers about a topic counts as current. A process needs it
// several times at its start.
const recently = time.Second

// recent returns a topic, from the cache if the brokers were asked for it recently.
func (c *topicCache) recent(ctx context.Context, name string) (topicInfo, error) {
	c.mu.Lock()
	t, ok := c.known[name]
	c.mu.Unlock()
	if ok && time.Since(t.asked) < recently {
		return t, nil
	}
	return c.refresh(ctx, name)
}

// refresh asks the brokers for a topic.
func (c *topicCache) refresh(ctx context.Context, name string) (topicInfo, error) {
	topics, err := c.ask(ctx, name)
	if err != nil {
		return topicInfo{}, err
	}
	if len(topics) == 0 {
		return topicInfo{}, fmt.Errorf("topic %q: %w", name, stream.ErrUnknownTopic)
	}
	return topics[0], nil
}

// ask returns the topics of these names that exist, or all topics if there are no names. It waits
// for a topic that is being created, since its metadata is incomplete.
func (c *topicCache) ask(ctx context.Context, names ...string) ([]topicInfo, error) {
	for tries := 1; ; tries++ {
		topics, err := c.askOnce(ctx, names)
		if !errors.Is(err, kerr.LeaderNotAvailable) {
			return topics, err
		}
		if err := c.log.wait(ctx, backOff(tries)); err != nil {
			return nil, err
		}
	}
}

func (c *topicCache) askOnce(ctx context.Context, names []string) ([]topicInfo, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	asked := time.Now()
	resp, err := req.RequestWith(ctx, c.log.client)
	if err != nil {
		return nil, c.log.failure(ctx, fmt.Errorf("read metadata: %w", err))
	}
	var topics []topicInfo
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]topicInfo{}
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		name := *cmp.Or(t.Topic, new(string))
		err := kerr.ErrorForCode(t.ErrorCode)
		switch {
		case c.log.keys.deleted(name), errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.InvalidTopicException):
			delete(c.known, name)
			continue
		case errors.Is(err, kerr.LeaderNotAvailable) && len(t.Partitions) > 0:
		case err != nil:
			return nil, fmt.Errorf("read metadata of topic %q: %w", name, advise(err))
		}
		info := topicInfo{name: name, id: t.TopicID, leaders: make([]int32, len(t.Partitions)), asked: asked}
		for _, p := range t.Partitions {
			if int(p.Partition) < len(info.leaders) {
				info.leaders[p.Partition] = p.Leader
			}
		}
		c.known[name] = info
		topics = append(topics, info)
	}
	return topics, nil
}

// partition returns the topic of p, or an error if the topic lacks p.
func (c *topicCache) partition(ctx context.Context, p stream.Partition) (topicInfo, error) {
	t, err := c.get(ctx, p.Topic)
	if err == nil && (p.Index < 0 || int(p.Index) >= len(t.leaders)) {
		return t, fmt.Errorf("%v: %w", p, stream.ErrUnknownTopic)
	}
	return t, err
}

// internal reports whether a topic is an internal one of Afterbay or Kafka.
func internal(name string) bool {
	_, _, isChangelog := naming.SplitChangelog(name)
	return strings.HasPrefix(name, "__") || isChangelog
}

// Topics implements stream.Log. It omits changelogs.
func (l *Log) Topics(ctx context.Context) ([]stream.Topic, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	keys, err := l.keys.read(ctx) // first, since it also reads the deleted topics
	if err != nil {
		return nil, err
	}
	infos, err := l.topics.ask(ctx)
	if err != nil {
		return nil, err
	}
	var topics []stream.Topic
	for _, t := range infos {
		if !internal(t.name) {
			topics = append(topics, stream.Topic{Name: t.name, Partitions: int32(len(t.leaders)), Key: keys[t.name]})
		}
	}
	slices.SortFunc(topics, func(a, b stream.Topic) int { return strings.Compare(a.Name, b.Name) })
	return topics, nil
}

// ensureTopic creates a topic if it does not exist. It returns the topic when the brokers know it.
func (l *Log) ensureTopic(ctx context.Context, name string, partitions int32, configs ...string) (topicInfo, error) {
	info, err := l.topics.recent(ctx, name)
	if err == nil || !errors.Is(err, stream.ErrUnknownTopic) {
		return info, err
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, -1
	if l.opts.Replication > 0 {
		t.ReplicationFactor = int16(l.opts.Replication)
	}
	for pair := range slices.Chunk(configs, 2) {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = pair[0], &pair[1]
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, l.client)
	if err != nil {
		return info, l.failure(ctx, err)
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			if t.ErrorMessage != nil {
				err = fmt.Errorf("%w: %s", err, *t.ErrorMessage)
			}
			return info, advise(err)
		}
	}
	for tries := 1; ; tries++ { // the brokers learn of it one by one
		info, err = l.topics.refresh(ctx, name)
		if err == nil && len(info.leaders) > 0 && !slices.Contains(info.leaders, -1) {
			return info, nil
		}
		if err != nil && !errors.Is(err, stream.ErrUnknownTopic) {
			return info, err
		}
		if err := l.wait(ctx, backOff(tries)); err != nil {
			return info, err
		}
	}
}

// wait waits for d. It returns an error if ctx or the log ends first.
func (l *Log) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ctx.Done():
		return stream.ErrClosed
	}
}
