package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// Remove deletes topics, the group's changelogs for them, and the group with its committed offsets.
// The group must have no members. Missing topics and groups are not an error. It is meant for test
// data, since nothing can be restored.
func (l *Log) Remove(ctx context.Context, group string, topics ...string) error {
	if err := l.usable(); err != nil {
		return err
	}
	var names []string
	for _, name := range topics {
		names = append(names, name, changelogOf(group, stream.Partition{Topic: name}).Topic)
	}
	removed := (topicEditor{l}).removeTopics(ctx, names...)
	if removed == nil {
		removed = l.keys.forget(ctx, topics)
	}
	groups := kmsg.NewPtrDeleteGroupsRequest()
	groups.Groups = []string{group}
	gone, err := groups.RequestWith(ctx, l.client)
	if err == nil {
		err = kerr.ErrorForCode(gone.Groups[0].ErrorCode)
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return errors.Join(removed, fmt.Errorf("delete group %q: %w", group, l.failure(ctx, err)))
	}
	return removed
}

// removeTopics deletes topics from the brokers. A missing topic is not an error.
func (e topicEditor) removeTopics(ctx context.Context, names ...string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	for _, name := range names {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = &name
		req.Topics, req.TopicNames = append(req.Topics, topic), append(req.TopicNames, name)
	}
	resp, err := req.RequestWith(ctx, e.log.client)
	if err != nil {
		return fmt.Errorf("delete topics: %w", e.log.failure(ctx, err))
	}
	var errs []error
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			errs = append(errs, fmt.Errorf("delete topic %q: %w", *t.Topic, advise(err)))
		}
	}
	return errors.Join(errs...)
}

// forget removes the keys of topics.
func (k *keyStore) forget(ctx context.Context, topics []string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	keys, err := k.read(ctx)
	for _, topic := range topics {
		if err == nil && keys[topic] != "" {
			err = k.log.client.ProduceSync(ctx, &kgo.Record{Topic: keysTopic, Key: []byte(topic)}).FirstErr()
		}
		k.known.Delete(topic)
	}
	if err != nil {
		return fmt.Errorf("forget the keys of topics: %w", k.log.failure(ctx, err))
	}
	return nil
}
