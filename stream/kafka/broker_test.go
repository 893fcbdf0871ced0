package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/internal/kafkatest"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// real is the broker of the tests that need a real one.
var real = kafkatest.Shared{Options: kafkatest.Options{Settings: []string{"add.partitions.to.txn.retry.backoff.ms=1", "group.min.session.timeout.ms=100", "log.cleaner.backoff.ms=50"}}}

func TestMain(m *testing.M) { os.Exit(real.Run(m)) }

// broker returns the address of a real broker that holds nothing.
func broker(t *testing.T) []string {
	t.Helper()
	o := conforming(real.Get(t).Addresses())
	l := openAt(t, o).(*Log)
	clean(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return o.Brokers
}

// clean removes every topic and group, and waits until they are gone: members
// of a test before may still be leaving.
func clean(t *testing.T, l *Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for tries := 1; ; tries++ {
		left := append(removeTopics(ctx, t, l), removeGroups(ctx, t, l)...)
		if len(left) == 0 {
			return
		}
		if err := l.wait(ctx, backOff(tries)); err != nil {
			t.Fatalf("%v: topics and groups that do not go: %v", err, left)
		}
	}
}

// removeTopics returns the names of the topics that there were.
func removeTopics(ctx context.Context, t *testing.T, l *Log) (names []string) {
	t.Helper()
	topics, err := l.topics.ask(ctx)
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	for _, info := range topics {
		if info.name == "__consumer_offsets" || info.name == "__transaction_state" {
			continue
		}
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = kmsg.StringPtr(info.name)
		req.Topics, req.TopicNames = append(req.Topics, topic), append(req.TopicNames, info.name)
	}
	if len(req.Topics) > 0 {
		if _, err := req.RequestWith(ctx, l.client); err != nil {
			t.Fatal(err)
		}
	}
	return req.TopicNames
}

// removeGroups returns what is in the way of those that are left.
func removeGroups(ctx context.Context, t *testing.T, l *Log) (left []string) {
	t.Helper()
	req := kmsg.NewPtrDeleteGroupsRequest()
	for _, shard := range l.client.RequestSharded(ctx, kmsg.NewPtrListGroupsRequest()) {
		if shard.Err != nil {
			t.Fatal(shard.Err)
		}
		for _, g := range shard.Resp.(*kmsg.ListGroupsResponse).Groups {
			req.Groups = append(req.Groups, g.Group)
		}
	}
	if len(req.Groups) == 0 {
		return nil
	}
	resp, err := req.RequestWith(ctx, l.client)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range resp.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			left = append(left, fmt.Sprintf("%s: %v", g.Group, err))
		}
	}
	return left
}

// onBroker are options for a real broker, whose groups and commits take longer.
func onBroker(t *testing.T) Options {
	t.Helper()
	o := conforming(broker(t))
	o.RebalanceTimeout, o.HeartbeatInterval = 400*time.Millisecond, 50*time.Millisecond
	return o
}

// eachBroker runs a test on a broker in this process and on a real one.
func eachBroker(t *testing.T, test func(t *testing.T, o Options)) {
	t.Run("fake", func(t *testing.T) { test(t, conforming(fake(t))) })
	t.Run("broker", func(t *testing.T) { test(t, onBroker(t)) })
}

func TestConformanceOnABroker(t *testing.T) {
	streamtest.Run(t, func(t *testing.T) stream.Log { return openAt(t, onBroker(t)) }, streamtest.Remote)
}

func TestConformanceDurableOnABroker(t *testing.T) {
	o := onBroker(t)
	o.Dir = t.TempDir()
	streamtest.RunDurable(t, func(t *testing.T) stream.Log { return openAt(t, o) }, streamtest.Remote)
}
