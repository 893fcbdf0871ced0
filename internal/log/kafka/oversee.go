package kafka

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// overseer watches the group of a member. It detects changes that the client is not told about or
// handles too late. It does not decide which partitions the member owns.
type overseer struct {
	log     *Log
	group   string
	topics  []string
	counts  map[string]int32 // number of partitions with state, by topic
	looking atomic.Bool      // a lookup of a missing topic is running
}

// run watches the group until ctx ends. If a topic has gained partitions, it returns the error that
// ends the member.
//
// It also makes sure that every partition has an owner. A member that gives up partitions normally
// joins again, so that the group distributes them. If another process replaces that member under
// its static name in between, the brokers move nothing and no member joins again. Then run calls
// rejoin.
func (o *overseer) run(ctx context.Context, rejoin func()) error {
	for o.log.wait(ctx, o.log.opts.Timeouts.Session) == nil {
		if err := o.grown(ctx); err != nil {
			return err
		}
		if !o.log.opts.ServerGroups && o.orphans(ctx) {
			o.log.opts.Logger.Info("kafka: partitions have no owner: the group assigns them again", "group", o.group)
			rejoin()
		}
	}
	return nil
}

// grown returns a stream.PartitionsError if a topic has more partitions than the state of the
// group. The client reads metadata only every five minutes, and only the leader's client acts on
// it.
func (o *overseer) grown(ctx context.Context) error {
	topics, err := o.log.topics.ask(ctx, o.topics...)
	if err != nil {
		return nil // the next round asks again
	}
	for _, t := range topics {
		if n := int32(len(t.leaders)); n > o.counts[t.name] {
			return &stream.PartitionsError{Topic: t.name, Partitions: n, State: o.counts[t.name]}
		}
	}
	return nil
}

// orphans reports whether the group is stable and a partition has no owner.
func (o *overseer) orphans(ctx context.Context) bool {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{o.group}
	resp, err := req.RequestWith(ctx, o.log.client)
	if err != nil || len(resp.Groups) != 1 || resp.Groups[0].ErrorCode != 0 || resp.Groups[0].State != "Stable" {
		return false // not stable, or unknown
	}
	owned := map[string]int{}
	for i := range resp.Groups[0].Members {
		var given kmsg.ConsumerMemberAssignment
		if given.ReadFrom(resp.Groups[0].Members[i].MemberAssignment) != nil {
			return false
		}
		for _, t := range given.Topics {
			owned[t.Topic] += len(t.Partitions)
		}
	}
	for _, topic := range o.topics {
		t, err := o.log.topics.get(ctx, topic)
		if err != nil {
			return false
		}
		if owned[topic] < len(t.leaders) {
			return true
		}
	}
	return false
}

// lookFor returns the error that ends the member if a topic that it reads is gone. A later topic of
// the same name is a different topic. A broker that has not learned of a topic yet gives the same
// answer for a moment. Only one lookup runs at a time.
func (o *overseer) lookFor(ctx context.Context, topic string) error {
	if !o.looking.CompareAndSwap(false, true) {
		return nil
	}
	defer o.looking.Store(false)
	_, err := o.log.topics.refresh(ctx, topic)
	for tries := 1; errors.Is(err, stream.ErrUnknownTopic) && tries < 8; tries++ {
		if o.log.wait(ctx, backOff(tries)) != nil {
			return nil
		}
		_, err = o.log.topics.refresh(ctx, topic)
	}
	if errors.Is(err, stream.ErrUnknownTopic) {
		return refuse("restore it; or start again with another pipeline name, because the state comes from its records", "topic %q was deleted", topic)
	}
	return nil
}
