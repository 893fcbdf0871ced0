package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// resuming is a balancer with its own protocol name. The brokers tell a leader that returns under
// its static name to leave all partitions where they are. If the client library knows the balancer
// by name, it makes a new plan anyway, without knowing the owners. The whole group then joins
// again, which waits for a heartbeat of each member. The library does this for members that read
// other topics than before: see rejoin.
type resuming struct{ kgo.GroupBalancer }

// ProtocolName implements kgo.GroupBalancer.
func (b resuming) ProtocolName() string { return "afterbay-" + b.GroupBalancer.ProtocolName() }

// rejoin requests a new assignment if a returning member got its old assignment with topics that it
// no longer reads.
func (s *member) rejoin(client *kgo.Client, added map[string][]int32) {
	for topic := range added {
		if !slices.Contains(s.topics, topic) {
			client.ForceRebalance()
		}
	}
}
