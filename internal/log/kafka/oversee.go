package kafka

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// overseer watches a group from beside a member of it: what the member's client is not
// told, or acts on too late. It has no say in what the member owns.
type overseer struct {
	log     *Log
	group   string
	topics  []string
	counts  map[string]int32 // partitions of each of topics that have state
	looking atomic.Bool      // for a topic that may be gone
}

// run returns why the member ends, if a topic has got more partitions, and sees that no
// partition stays without an owner. A member that gives partitions up joins again
// after it, so that the group shares them out. If it is replaced under its static
// name in between, the brokers move nothing, and no member would join again: run calls
// rejoin then.
func (o *overseer) run(ctx context.Context, rejoin func()) error {
	for o.log.wait(ctx, o.log.opts.Timeouts.Session) == nil {
		if err := o.grown(ctx); err != nil {
			return err
		}
		if !o.log.opts.ServerGroups && o.orphans(ctx) {
			o.log.opts.Logger.Info("kafka: partitions have no owner: the group shares them out anew", "group", o.group)
			rejoin()
		}
	}
	return nil
}

// grown returns a stream.PartitionsError if a topic has more partitions than the state
// beside it. The client reads metadata every five minutes, and of a group only the
// leader's client acts on it.
func (o *overseer) grown(ctx context.Context) error {
	topics, err := o.log.topics.ask(ctx, o.topics...)
	if err != nil {
		return nil // the next turn asks again
	}
	for _, t := range topics {
		if n := int32(len(t.leaders)); n > o.counts[t.name] {
			return &stream.PartitionsError{Topic: t.name, Partitions: n, State: o.counts[t.name]}
		}
	}
	return nil
}

// orphans reports whether the group is at rest and leaves a partition to nobody.
func (o *overseer) orphans(ctx context.Context) bool {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{o.group}
	resp, err := req.RequestWith(ctx, o.log.client)
	if err != nil || len(resp.Groups) != 1 || resp.Groups[0].ErrorCode != 0 || resp.Groups[0].State != "Stable" {
		return false // it is not at rest, or nobody knows
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

// lookFor returns why the member ends where a topic that it reads is gone: one of the
// same name that comes later is another. A broker that did not hear of a topic yet
// says the same for a moment. One topic is looked for at a time.
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
		return refuse("restore it; or, since the state is of its records, begin anew under another pipeline name", "topic %q is gone: somebody deleted it", topic)
	}
	return nil
}
