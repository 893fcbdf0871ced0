package kafka

import (
	"context"
	"errors"
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
var real = kafkatest.Shared{Options: kafkatest.Options{Settings: []string{"add.partitions.to.txn.retry.backoff.ms=1", "group.min.session.timeout.ms=100"}}}

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

// clean removes every topic and group, and waits until they are gone.
func clean(t *testing.T, l *Log) {
	t.Helper()
	ctx := t.Context()
	topics, err := l.topics.ask(ctx)
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	for _, info := range topics {
		if kafkasOwn(info.name) {
			continue
		}
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = kmsg.StringPtr(info.name)
		req.Topics = append(req.Topics, topic)
		req.TopicNames = append(req.TopicNames, info.name)
	}
	if len(req.Topics) > 0 {
		if _, err := req.RequestWith(ctx, l.client); err != nil {
			t.Fatal(err)
		}
	}
	for tries := 1; ; tries++ {
		if !leftOver(ctx, t, l) {
			return
		}
		if err := l.wait(ctx, backOff(tries)); err != nil {
			t.Fatal(err)
		}
	}
}

// leftOver deletes groups, and reports whether any or a topic is left.
func leftOver(ctx context.Context, t *testing.T, l *Log) bool {
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
	left := len(req.Groups) > 0
	if left {
		resp, err := req.RequestWith(ctx, l.client)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range resp.Groups {
			if err := kerr.ErrorForCode(g.ErrorCode); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
				t.Log(g.Group, err)
			}
		}
	}
	topics, err := l.topics.ask(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range topics {
		left = left || !kafkasOwn(info.name)
	}
	return left
}

// onBroker are options for a real broker, whose groups take longer.
func onBroker(t *testing.T) Options {
	t.Helper()
	o := conforming(broker(t))
	o.RebalanceTimeout, o.HeartbeatInterval = 200*time.Millisecond, 50*time.Millisecond
	return o
}

func TestConformanceOnABroker(t *testing.T) {
	if os.Getenv("AFTERBAY_PROVE") == "" {
		t.Skip("NOT RUN: it takes a minute; set AFTERBAY_PROVE=1")
	}
	streamtest.Run(t, func(t *testing.T) stream.Log { return openAt(t, onBroker(t)) }, streamtest.Remote)
}

func kafkasOwn(topic string) bool {
	return topic == "__consumer_offsets" || topic == "__transaction_state"
}
