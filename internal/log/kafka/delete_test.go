package kafka

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// shared is the topic that these tests delete.
var shared = stream.Topic{Name: "shared", Partitions: 1, Key: "user"}

// deleting returns a log with the topic shared, which holds so many records.
func deleting(t *testing.T, cluster *kfake.Cluster, records int) *Log {
	t.Helper()
	l := open(t, conforming(cluster.ListenAddrs()))
	must(t, l.CreateTopic(t.Context(), shared))
	for range records {
		must(t, l.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: shared.Name}, Value: []byte("v")}))
	}
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantShared checks that the topic is listed with all it was made with, and how many
// records it holds.
func wantShared(t *testing.T, l *Log, want stream.Topic, records stream.Offset) {
	t.Helper()
	topics, err := l.Topics(t.Context())
	if err != nil || !slices.Contains(topics, want) {
		t.Fatalf("topics are %v, %v; want %v among them", topics, err, want)
	}
	first, next, err := l.Offsets(t.Context(), stream.Partition{Topic: want.Name})
	if err != nil || next-first != records {
		t.Fatalf("it holds offsets %d to %d, %v; want %d records", first, next, err, records)
	}
}

// TestTopicThatAnotherProcessDeletedJustNowIsCreatedAgain has a process create a topic that
// it has just listed.
func TestTopicThatAnotherProcessDeletedJustNowIsCreatedAgain(t *testing.T) {
	cluster := fakeWith(t)
	first, second := deleting(t, cluster, 3), open(t, conforming(cluster.ListenAddrs()))
	wantShared(t, second, shared, 3)
	must(t, first.DeleteTopic(t.Context(), shared.Name))
	must(t, second.CreateTopic(t.Context(), shared))
	wantShared(t, second, shared, 0)
	wantShared(t, first, shared, 0)
}

// TestTopicThatTwoProcessesCreateAgainKeepsItsRecords has the second process create
// the topic from a read before the first created it.
func TestTopicThatTwoProcessesCreateAgainKeepsItsRecords(t *testing.T) {
	cluster := fakeWith(t)
	first, second := deleting(t, cluster, 3), open(t, conforming(cluster.ListenAddrs()))
	must(t, first.DeleteTopic(t.Context(), shared.Name))
	_, err := second.Topics(t.Context()) // it hears of the deletion
	must(t, err)
	must(t, first.CreateTopic(t.Context(), shared))
	must(t, first.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: shared.Name}, Value: []byte("acknowledged")}))
	end, err := second.reads.listOffset(t.Context(), stream.Partition{Topic: keysTopic}, latest)
	must(t, err)
	second.keys.next.Store(end) // it does not read what the first did
	must(t, second.CreateTopic(t.Context(), shared))
	wantShared(t, first, shared, 1)
	wantShared(t, second, shared, 1)
}

// TestRecordOfAProcessThatDidNotHearOfTheDeletionStays: its Append was acknowledged.
func TestRecordOfAProcessThatDidNotHearOfTheDeletionStays(t *testing.T) {
	cluster := fakeWith(t)
	l, other := deleting(t, cluster, 3), open(t, conforming(cluster.ListenAddrs()))
	must(t, l.DeleteTopic(t.Context(), shared.Name))
	other.keys.gone.Delete(shared.Name)
	must(t, other.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: shared.Name}, Value: []byte("acknowledged")}))
	must(t, l.CreateTopic(t.Context(), shared))
	wantShared(t, l, shared, 1)
}

// TestTopicThatAnotherProcessGrowsMeanwhileIsCreatedAgain answers like brokers after
// another process asked for the same partitions.
func TestTopicThatAnotherProcessGrowsMeanwhileIsCreatedAgain(t *testing.T) {
	cluster := fakeWith(t)
	l, other := deleting(t, cluster, 1), open(t, conforming(cluster.ListenAddrs()))
	must(t, l.DeleteTopic(t.Context(), shared.Name))
	_, err := other.Topics(t.Context()) // it hears of the deletion
	must(t, err)
	more := stream.Topic{Name: shared.Name, Partitions: 3, Key: shared.Key}
	asked := false // the broker's goroutine has it
	cluster.ControlKey(int16(kmsg.CreatePartitions), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if asked {
			return nil, nil, false
		}
		asked = true
		cluster.SleepControl(func() {
			if err := other.CreateTopic(t.Context(), more); err != nil {
				t.Error(err)
			}
		})
		resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
		topic := kmsg.NewCreatePartitionsResponseTopic()
		topic.Topic, topic.ErrorCode = shared.Name, kerr.InvalidPartitions.Code
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	must(t, l.CreateTopic(t.Context(), more))
	wantShared(t, l, more, 0)
	wantShared(t, other, more, 0)
}

func TestDeletionThatBrokersRefuseChangesNothing(t *testing.T) {
	remove := func(ctx context.Context, l *Log) error { return l.Remove(ctx, "g", shared.Name) }
	deletion := func(ctx context.Context, l *Log) error { return l.DeleteTopic(ctx, shared.Name) }
	for _, test := range []struct {
		name    string
		delete  func(context.Context, *Log) error
		records int
		key     kmsg.Key
		refuse  *kerr.Error
	}{
		{"records", deletion, 3, kmsg.DeleteRecords, kerr.PolicyViolation},
		{"topic", deletion, 0, kmsg.DeleteTopics, kerr.TopicDeletionDisabled},
		{"remove", remove, 3, kmsg.DeleteTopics, kerr.TopicDeletionDisabled},
	} {
		t.Run(test.name, func(t *testing.T) {
			cluster := fakeWith(t)
			l := deleting(t, cluster, test.records)
			cluster.ControlKey(int16(test.key), func(req kmsg.Request) (kmsg.Response, error, bool) {
				resp := req.ResponseKind()
				switch r := resp.(type) {
				case *kmsg.DeleteRecordsResponse:
					r.Topics = []kmsg.DeleteRecordsResponseTopic{{Topic: shared.Name, Partitions: []kmsg.DeleteRecordsResponseTopicPartition{{ErrorCode: test.refuse.Code}}}}
				case *kmsg.DeleteTopicsResponse:
					r.Topics = []kmsg.DeleteTopicsResponseTopic{{Topic: new(shared.Name), ErrorCode: test.refuse.Code}}
				}
				return resp, nil, true
			})
			if err := test.delete(t.Context(), l); !errors.Is(err, test.refuse) || !lasting(err) {
				t.Fatalf("deleted with %v; want %v and what to do", err, test.refuse)
			}
			wantShared(t, l, shared, stream.Offset(test.records))
			must(t, test.delete(t.Context(), l))
			if topics, err := l.Topics(t.Context()); err != nil || slices.ContainsFunc(topics, func(topic stream.Topic) bool { return topic.Name == shared.Name }) {
				t.Errorf("topics are %v, %v", topics, err)
			}
		})
	}
}

// TestDeletionThatFailedToForgetTheKeyIsRepeated cuts the deletion off before its last
// step.
func TestDeletionThatFailedToForgetTheKeyIsRepeated(t *testing.T) {
	cluster := fakeWith(t)
	l := deleting(t, cluster, 1)
	marked := false // the broker's goroutine has it
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if !marked {
			marked = true
			return nil, nil, false
		}
		r := req.(*kmsg.ProduceRequest)
		resp := r.ResponseKind().(*kmsg.ProduceResponse)
		for _, asked := range r.Topics {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
			partition := kmsg.NewProduceResponseTopicPartition()
			partition.ErrorCode = kerr.TopicAuthorizationFailed.Code
			topic.Partitions = append(topic.Partitions, partition)
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	if err := l.DeleteTopic(t.Context(), shared.Name); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Fatalf("deleted with %v; want %v", err, kerr.TopicAuthorizationFailed)
	}
	if err := l.DeleteTopic(t.Context(), shared.Name); !errors.Is(err, stream.ErrUnknownTopic) {
		t.Fatalf("deleted again with %v; want %v", err, stream.ErrUnknownTopic)
	}
	other := stream.Topic{Name: shared.Name, Partitions: 1, Key: "account"}
	must(t, l.CreateTopic(t.Context(), other))
	wantShared(t, l, other, 0)
}
