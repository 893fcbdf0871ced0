package e2e_test

import (
	"flag"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/internal/test/kafkatest"
)

var crashReplicas = flag.Bool("crash.replicas", false, "kill one of three brokers")

// roles are what a broker does for the cluster and the pipelines.
func (c *crashRun) roles(broker int32) map[string]int {
	c.Helper()
	roles := map[string]int{}
	add := func(role string, count int) {
		if count > 0 {
			roles[role] = count
		}
	}
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic, topic.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{kmsg.NewDescribeQuorumRequestTopicPartition()}
	quorum.Topics = append(quorum.Topics, topic)
	answer, err := quorum.RequestWith(c.Context(), c.client)
	c.must(err)
	if answer.Topics[0].Partitions[0].LeaderID == broker {
		add("controller", 1)
	}
	var groups []string
	for _, runner := range c.runners {
		groups = append(groups, runner.Name())
	}
	listed, err := c.admin.ListTransactions(c.Context(), nil, nil)
	c.must(err)
	count := func(found kadm.FindCoordinatorResponses) (n int) {
		for _, f := range found {
			c.must(f.Err)
			if f.NodeID == broker {
				n++
			}
		}
		return n
	}
	add("coordinator of groups", count(c.admin.FindGroupCoordinators(c.Context(), groups...)))
	add("coordinator of transactions", count(c.admin.FindTxnCoordinators(c.Context(), listed.TransactionalIDs()...)))
	return roles
}

// TestKilledReplicaLosesNothing kills each of three brokers, so that all roles die
// once: the controller, and the coordinators of every group and transaction.
func TestKilledReplicaLosesNothing(t *testing.T) {
	if !*crashReplicas {
		t.Skip("NOT RUN: three brokers need minutes (scripts/prove.sh kafka-replicas)")
	}
	events := crashEvents()
	c := newCrashRun(t, kafkatest.Options{Brokers: 3})
	go c.feed(events)
	for _, name := range []string{"one", "two"} {
		c.start(name, true)
	}
	for _, name := range []string{"one", "two"} {
		c.workers[name].atWork(t)
	}
	c.recovered()
	died := map[string]int{}
	for i := range c.cluster.Brokers {
		roles := c.roles(int32(i + 1))
		for role, n := range roles {
			died[role] += n
		}
		t.Logf("killing broker %d: %v", i+1, roles)
		c.killBroker(i)
		c.kill(i, false)
	}
	for _, role := range []string{"controller", "coordinator of groups", "coordinator of transactions"} {
		if died[role] == 0 {
			t.Errorf("no broker was killed that was the %s", role)
		}
	}
	c.finish(events)
}
