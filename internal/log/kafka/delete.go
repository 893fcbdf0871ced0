package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// CreateTopic implements stream.Log.
func (l *Log) CreateTopic(ctx context.Context, t stream.Topic) error {
	if err := l.usable(); err != nil {
		return err
	}
	err := stream.CheckTopic(t)
	if err == nil && internal(t.Name) {
		err = fmt.Errorf("%w: names that begin with __, and those of changelogs, are the log's own", stream.ErrTopicInvalid)
	}
	if err == nil {
		err = (topicEditor{l}).restore(ctx, t)
	}
	if err != nil {
		return fmt.Errorf("create topic %q: %w", t.Name, err)
	}
	// The time of an output is the time of its event. The broker must not reject or replace it, and
	// must not compute the age of a record from it. Otherwise it would delete outputs of old events
	// before a client reads them.
	info, err := l.ensureTopic(ctx, t.Name, t.Partitions, "message.timestamp.type", "CreateTime", "message.timestamp.after.max.ms", "9223372036854775807", "retention.ms", "-1")
	if err != nil {
		return fmt.Errorf("create topic %q: %w", t.Name, err)
	}
	if n := len(info.leaders); n != int(t.Partitions) {
		return refuse("name its number of partitions, or another topic", "create topic %q: it has %d partitions, not %d", t.Name, n, t.Partitions)
	}
	if t.Key == "" {
		return nil
	}
	return l.keys.set(ctx, t.Name, t.Key)
}

// topicEditor restores deleted topics, adds partitions and deletes topics.
type topicEditor struct{ log *Log }

// restore makes a deleted topic visible again. It leaves other topics unchanged.
func (e topicEditor) restore(ctx context.Context, t stream.Topic) error {
	if err := e.log.keys.renew(ctx); err != nil || !e.log.keys.deleted(t.Name) {
		return err
	}
	e.log.keys.gone.Store(t.Name, false) // otherwise grow could not read the topic
	err := e.grow(ctx, t)
	if err == nil {
		err = e.log.keys.mark(ctx, t.Name, false)
	}
	if err != nil {
		e.log.keys.gone.Store(t.Name, true)
		e.log.topics.forget(t.Name)
	}
	return err
}

// grow adds partitions to a deleted topic until it has as many as t. It deletes no records. The old
// ones are gone, and other processes may have created the topic again at the same time and appended
// to it.
func (e topicEditor) grow(ctx context.Context, t stream.Topic) error {
	info, err := e.log.topics.refresh(ctx, t.Name)
	switch had := len(info.leaders); {
	case errors.Is(err, stream.ErrUnknownTopic):
		return nil // another tool deleted it
	case err != nil:
		return err
	case had > int(t.Partitions):
		return fmt.Errorf("it had %d partitions when it was deleted, and offsets continue in each: create it with %d or more", had, had)
	case had < int(t.Partitions):
		req := kmsg.NewPtrCreatePartitionsRequest()
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = t.Name, t.Partitions
		req.Topics = append(req.Topics, topic)
		resp, err := req.RequestWith(ctx, e.log.client)
		if err != nil {
			return e.log.failure(ctx, err)
		}
		// InvalidPartitions means that another process has already added them.
		if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil && !errors.Is(err, kerr.InvalidPartitions) {
			return advise(err)
		}
	}
	for tries := 1; ; tries++ { // the brokers learn of it one by one
		info, err := e.log.topics.refresh(ctx, t.Name)
		if err == nil && len(info.leaders) >= int(t.Partitions) && !slices.Contains(info.leaders, -1) {
			if err := e.relearn(ctx, e.log.client, info); err != nil {
				return err
			}
			return e.log.producers.relearn(ctx, info)
		}
		if err != nil && !errors.Is(err, stream.ErrUnknownTopic) {
			return err
		}
		if err := e.log.wait(ctx, backOff(tries)); err != nil {
			return err
		}
	}
}

// relearn waits until a client that wrote to a topic knows all of its partitions. Purging the topic
// from the client is not possible: the client would restart its sequence numbers, and the broker
// would treat the next records as duplicates.
func (e topicEditor) relearn(ctx context.Context, client *kgo.Client, info topicInfo) error {
	for tries := 1; ; tries++ {
		wrote, _, _ := client.PartitionLeader(info.name, 0)
		last, _, _ := client.PartitionLeader(info.name, int32(len(info.leaders)-1))
		if wrote < 0 || last >= 0 {
			return nil
		}
		client.ForceMetadataRefresh()
		if err := e.log.wait(ctx, backOff(tries)); err != nil {
			return err
		}
	}
}

// relearn is topicEditor.relearn for the clients of producers.
func (ps *producers) relearn(ctx context.Context, info topicInfo) error {
	ps.mu.Lock()
	all := slices.Collect(maps.Values(ps.byName))
	ps.mu.Unlock()
	for _, p := range all {
		p.mu.Lock()
		client := p.client
		p.mu.Unlock()
		if client == nil {
			continue
		}
		if err := (topicEditor{ps.log}).relearn(ctx, client, info); err != nil {
			return err
		}
	}
	return nil
}

// DeleteTopic implements stream.Log. A topic that had records stays on the brokers, empty, so that
// its offsets continue. keysTopic marks it as deleted, and other processes learn of it when they
// list topics. If one of them appends a record before that, the topic is not listed but keeps the
// record. The record is visible if the topic is created again.
//
// A topic that never had a record is removed. This also removes a record that another process
// appends at that moment, because brokers cannot remove a topic only if it is empty.
func (l *Log) DeleteTopic(ctx context.Context, name string) error {
	if err := l.usable(); err != nil {
		return err
	}
	if err := (topicEditor{l}).remove(ctx, name); err != nil {
		return fmt.Errorf("delete topic %q: %w", name, err)
	}
	return nil
}

func (e topicEditor) remove(ctx context.Context, name string) error {
	if internal(name) {
		return stream.ErrUnknownTopic
	}
	if _, err := e.log.keys.read(ctx); err != nil {
		return err
	}
	info, err := e.log.topics.refresh(ctx, name)
	if errors.Is(err, stream.ErrUnknownTopic) { // an earlier deletion may have ended before it removed the key
		if err := e.log.keys.forget(ctx, []string{name}); err != nil {
			return err
		}
	}
	if err == nil {
		err = e.unread(ctx, name)
	}
	if err == nil {
		err = e.hide(ctx, info)
	}
	if err != nil {
		return err
	}
	e.endTails(name)
	return e.log.keys.forget(ctx, []string{name})
}

// hide deletes the records of a topic, then marks it as deleted. It removes a topic that never had
// records. If hide fails, the topic is still listed.
func (e topicEditor) hide(ctx context.Context, info topicInfo) error {
	empty := true
	for i := range info.leaders {
		end, err := e.log.reads.listOffset(ctx, stream.Partition{Topic: info.name, Index: int32(i)}, latest)
		if err != nil {
			return err
		}
		empty = empty && end == 0
	}
	if empty {
		defer e.log.topics.forget(info.name)
		if err := e.removeTopics(ctx, info.name); err != nil {
			return err
		}
		return e.awaitRemoved(ctx, info.name)
	}
	if err := e.deleteRecords(ctx, info); err != nil {
		return err
	}
	return e.log.keys.mark(ctx, info.name, true)
}

// awaitRemoved waits until a removed topic is no longer listed. The brokers learn of the removal
// one by one.
func (e topicEditor) awaitRemoved(ctx context.Context, name string) error {
	for tries := 1; ; tries++ {
		topics, err := e.log.topics.ask(ctx)
		if err != nil || !slices.ContainsFunc(topics, func(t topicInfo) bool { return t.name == name }) {
			return err
		}
		if err := e.log.wait(ctx, backOff(tries)); err != nil {
			return err
		}
	}
}

// unread returns ErrTopicInUse if a group with members reads the topic. Each group that reads it
// has a changelog.
func (e topicEditor) unread(ctx context.Context, name string) error {
	infos, err := e.log.topics.ask(ctx)
	if err != nil {
		return err
	}
	for _, shard := range e.log.client.RequestSharded(ctx, kmsg.NewPtrListGroupsRequest()) {
		if shard.Err != nil {
			return e.log.failure(ctx, fmt.Errorf("list groups: %w", shard.Err))
		}
		for _, g := range shard.Resp.(*kmsg.ListGroupsResponse).Groups {
			changelog := changelogOf(g.Group, stream.Partition{Topic: name}).Topic
			if g.GroupState == "Empty" || g.GroupState == "Dead" || strings.HasPrefix(g.Group, producerPrefix) {
				continue
			}
			if slices.ContainsFunc(infos, func(t topicInfo) bool { return t.name == changelog }) {
				return fmt.Errorf("%w: group %q reads it", stream.ErrTopicInUse, g.Group)
			}
		}
	}
	return nil
}

// deleteRecords deletes all records of a topic.
func (e topicEditor) deleteRecords(ctx context.Context, info topicInfo) error {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 30_000
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = info.name
	for i := range info.leaders {
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = int32(i), -1 // the end of the partition
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	for _, shard := range e.log.client.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return e.log.failure(ctx, fmt.Errorf("delete records: %w", shard.Err))
		}
		for _, t := range shard.Resp.(*kmsg.DeleteRecordsResponse).Topics {
			for _, p := range t.Partitions {
				err := kerr.ErrorForCode(p.ErrorCode)
				if errors.Is(err, kerr.PolicyViolation) {
					return refuse("brokers delete records only if cleanup.policy of the topic has delete: set it to delete, or to compact,delete", "delete records of partition %d: %w", p.Partition, err)
				}
				if err != nil {
					return fmt.Errorf("delete records of partition %d: %w", p.Partition, advise(err))
				}
			}
		}
	}
	return nil
}

// tailing is a running Tail.
type tailing struct {
	topic string
	end   context.CancelCauseFunc
}

// endTails ends the tails of a deleted topic.
func (e topicEditor) endTails(topic string) {
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	for t := range e.log.tailings {
		if t.topic == topic {
			t.end(stream.ErrUnknownTopic)
		}
	}
}
