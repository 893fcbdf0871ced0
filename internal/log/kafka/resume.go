package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// resuming is a balancer under a name of our own. A leader that comes back under
// its static name is told to leave all partitions where they are. The client
// library plans anew all the same where it knows the balancer by its name, not
// knowing what members own, and has the whole group join again, which waits for a
// heartbeat of each. It does so for members that read other topics than before:
// see rejoin.
type resuming struct{ kgo.GroupBalancer }

// ProtocolName implements kgo.GroupBalancer.
func (b resuming) ProtocolName() string { return "afterbay-" + b.GroupBalancer.ProtocolName() }

// rejoin asks for another assignment where a member that came back was given the
// one that it had, of topics that it does not read any more.
func (s *member) rejoin(client *kgo.Client, added map[string][]int32) {
	for topic := range added {
		if !slices.Contains(s.topics, topic) {
			client.ForceRebalance()
		}
	}
}
