package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// oversee ends the member if a topic has got more partitions, and sees that no
// partition stays without an owner. A member that gives partitions up joins again
// after it, so that the group shares them out. If it is replaced under its static
// name in between, the brokers move nothing, and no member would join again.
func (s *member) oversee() {
	for s.log.wait(s.ctx, s.log.opts.SessionTimeout) == nil {
		if err := s.grown(); err != nil {
			s.end(err)
			return
		}
		if !s.log.opts.ServerGroups && s.orphans() {
			s.log.opts.Logger.Info("kafka: partitions have no owner: the group shares them out anew", "group", s.group)
			s.client.ForceRebalance()
		}
	}
}

// grown returns a stream.PartitionsError if a topic has more partitions than the state
// beside it. The client reads metadata every five minutes, and of a group only the
// leader's client acts on it.
func (s *member) grown() error {
	topics, err := s.log.topics.ask(s.ctx, s.topics...)
	if err != nil {
		return nil // the next turn asks again
	}
	for _, t := range topics {
		if n := int32(len(t.leaders)); n > s.counts[t.name] {
			return &stream.PartitionsError{Topic: t.name, Partitions: n, State: s.counts[t.name]}
		}
	}
	return nil
}

// orphans reports whether the group is at rest and leaves a partition to nobody.
func (s *member) orphans() bool {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{s.group}
	resp, err := req.RequestWith(s.ctx, s.log.client)
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
	for _, topic := range s.topics {
		t, err := s.log.topics.get(s.ctx, topic)
		if err != nil {
			return false
		}
		if owned[topic] < len(t.leaders) {
			return true
		}
	}
	return false
}
