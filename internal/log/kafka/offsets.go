package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// groupOffsets reads and writes the committed offsets of groups.
type groupOffsets struct{ log *Log }

// committed returns the committed offset of group for p, or -1 without one. It waits until no open
// transaction may change it.
func (o *groupOffsets) committed(ctx context.Context, group string, p stream.Partition) (int64, error) {
	req, err := o.stable(ctx, group, map[string][]int32{p.Topic: {p.Index}})
	if err != nil {
		return 0, err
	}
	var waiting stall
	for tries := 1; ; tries++ {
		offset, err := o.fetch(ctx, req)
		if err == nil {
			return offset, nil
		}
		if errors.Is(err, kerr.UnstableOffsetCommit) {
			if err := waiting.group(ctx, o.log, group); err != nil {
				return 0, err
			}
		}
		if !errors.Is(err, kerr.UnstableOffsetCommit) && !passing(err) {
			return 0, o.log.failure(ctx, fmt.Errorf("read what group %q committed of %v: %w", group, p, err))
		}
		if err := o.log.wait(ctx, min(backOff(tries), 5*fetchWait)); err != nil {
			return 0, err
		}
	}
}

// stable returns a request for the committed offsets of group. Brokers reject it while an open
// transaction may change one of them.
func (o *groupOffsets) stable(ctx context.Context, group string, partitions map[string][]int32) (*kmsg.OffsetFetchRequest, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	for name, indexes := range partitions {
		t, err := o.log.topics.get(ctx, name)
		if err != nil {
			return nil, err
		}
		topic := kmsg.NewOffsetFetchRequestGroupTopic()
		topic.Topic, topic.TopicID, topic.Partitions = t.name, t.id, indexes
		g.Topics = append(g.Topics, topic)
	}
	req.Groups = append(req.Groups, g)
	return req, nil
}

// fetch returns the single offset that req asks for.
func (o *groupOffsets) fetch(ctx context.Context, req *kmsg.OffsetFetchRequest) (int64, error) {
	resp, err := req.RequestWith(ctx, o.log.client)
	if err != nil {
		return 0, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return 0, err
	}
	for _, g := range resp.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); errors.Is(err, kerr.GroupIDNotFound) {
			return -1, nil
		} else if err != nil {
			return 0, err
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				return p.Offset, kerr.ErrorForCode(p.ErrorCode)
			}
		}
	}
	return -1, nil
}

// logged returns the committed offset of group for p from the log of the group's coordinator. It
// returns -1 if the newest records of the log have no offset, or a deleted one.
func (o *groupOffsets) logged(ctx context.Context, group string, p stream.Partition) (offset int64, err error) {
	t, err := o.log.topics.get(ctx, offsetsTopic)
	if err != nil {
		return -1, err
	}
	key := (&kmsg.OffsetCommitKey{Version: 1, Group: group, Topic: p.Topic, Partition: p.Index}).AppendTo(nil)
	found := false
	offset = -1
	visit := func(r *kgo.Record) error {
		if r.Attrs.IsControl() || !bytes.Equal(r.Key, key) {
			return nil
		}
		value := kmsg.NewOffsetCommitValue()
		if found, offset = true, -1; r.Value == nil {
			return nil
		}
		err := value.ReadFrom(r.Value)
		if err == nil {
			offset = value.Offset
		}
		return err
	}
	log := stream.Partition{Topic: offsetsTopic, Index: partitionOfID(group, len(t.leaders))}
	err = o.log.reads.newest(ctx, log, decisionsMost, visit, func() bool { return found })
	return offset, err
}

// commit commits an offset of p as member m, outside transactions. Brokers reject it if m belongs
// to an older generation of the group.
func (o *groupOffsets) commit(ctx context.Context, group string, p stream.Partition, offset int64, m identity) error {
	t, err := o.log.topics.get(ctx, p.Topic)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = group, m.id, m.instance, m.generation
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = t.name, t.id
	at := kmsg.NewOffsetCommitRequestTopicPartition()
	at.Partition, at.Offset = p.Index, offset
	topic.Partitions = append(topic.Partitions, at)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, o.log.client)
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return kerr.UnknownTopicOrPartition
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

func (o *groupOffsets) ever(ctx context.Context, group string) (bool, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, o.log.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return false, o.log.failure(ctx, fmt.Errorf("read what group %q committed: %w", group, err))
	}
	for _, g := range resp.Groups {
		if len(g.Topics) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// stableMost is how long a new assignment waits for transactions that are about to end. After that
// the client library waits in steps of a second.
const stableMost = 500 * time.Millisecond

// await waits until no open transaction holds the committed offsets of group for partitions. The
// markers of a commit arrive some milliseconds after its answer. Without await, a member that takes
// over a partition would miss them and sleep. If they take longer than stableMost, await returns
// the request, for watch.
func (o *groupOffsets) await(ctx context.Context, group string, partitions map[string][]int32) (undecided *kmsg.OffsetFetchRequest) {
	ctx, cancel := context.WithTimeout(ctx, stableMost)
	defer cancel()
	req, err := o.stable(ctx, group, partitions)
	if err != nil {
		return nil
	}
	for tries := 1; ; tries++ {
		unstable, err := o.unstable(ctx, req)
		if err == nil && !unstable || lasting(err) { // the client library will report the error
			return nil
		}
		if err != nil || o.log.wait(ctx, min(backOff(tries)/2, 50*time.Millisecond)) != nil {
			return req
		}
	}
}

// watch waits until the offsets of req are decided, and repairs undecided ones. Meanwhile the
// client library waits for the same offsets. An error says why they will not be decided.
func (o *groupOffsets) watch(ctx context.Context, group string, req *kmsg.OffsetFetchRequest) error {
	var waiting stall
	for {
		unstable, err := o.unstable(ctx, req)
		if err == nil && !unstable || lasting(err) {
			return nil
		}
		if unstable {
			if err := waiting.group(ctx, o.log, group); err != nil {
				return fmt.Errorf("read what group %q committed: %w", group, err)
			}
		}
		if o.log.wait(ctx, time.Second) != nil {
			return nil
		}
	}
}

// unstable reports whether an offset of req may still change. An error means that there was no
// answer, for example because ctx ended.
func (o *groupOffsets) unstable(ctx context.Context, req *kmsg.OffsetFetchRequest) (bool, error) {
	resp, err := req.RequestWith(ctx, o.log.client)
	if err != nil {
		return false, err
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if errors.Is(kerr.ErrorForCode(p.ErrorCode), kerr.UnstableOffsetCommit) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}
