package kafka

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// openStale returns a log whose group g committed offset 2 of in, with state. The coordinator
// says 1, and its own log has these offsets. A negative one is a record that deletes.
func openStale(t *testing.T, logged ...int64) (*Log, *kfake.Cluster) {
	t.Helper()
	cluster := fakeWith(t, kfake.SeedTopics(4, offsetsTopic))
	l := open(t, conforming(cluster.ListenAddrs()))
	if err := l.Append(t.Context(), stream.Record{Partition: in}, stream.Record{Partition: in}); err != nil {
		t.Fatal(err)
	}
	s, _ := mustOwn(t, l)
	commit(t, s, 1, "a", []byte("1"))
	commit(t, s, 2, "a", []byte("2"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	move(t, l, 1)
	client, err := l.newClient()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, offset := range logged {
		for _, group := range []string{"g", "other"} { // what another group committed is beside it
			kv := loggedOffset(group, offset+int64(len(group))-1)
			r := &kgo.Record{Topic: offsetsTopic, Partition: partitionOfID("g", 4), Key: kv[0], Value: kv[1]}
			if offset < 0 {
				r.Value = nil
			}
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return l, cluster
}

// loggedOffset is the record of a coordinator that a group committed an offset of in.
func loggedOffset(group string, offset int64) [2][]byte {
	key := kmsg.OffsetCommitKey{Version: 1, Group: group, Topic: in.Topic, Partition: in.Index}
	value := kmsg.OffsetCommitValue{Version: 3, Offset: offset, LeaderEpoch: -1}
	return [2][]byte{key.AppendTo(nil), value.AppendTo(nil)}
}

// refuseCommits has brokers answer the first n commits of offsets outside transactions with an
// error. It returns how many came.
func refuseCommits(cluster *kfake.Cluster, n int32, answer *kerr.Error) *atomic.Int32 {
	commits := new(atomic.Int32)
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if commits.Add(1) > n {
			return nil, nil, false
		}
		asked := req.(*kmsg.OffsetCommitRequest)
		resp := asked.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, t := range asked.Topics {
			topic := kmsg.NewOffsetCommitResponseTopic()
			topic.Topic, topic.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				at := kmsg.NewOffsetCommitResponseTopicPartition()
				at.Partition, at.ErrorCode = p.Partition, answer.Code
				topic.Partitions = append(topic.Partitions, at)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	return commits
}

// A coordinator of Kafka 4.3 that read a part of its log after a crash says an older offset until
// one is committed. The member commits the one that the log has, and joins again.
func TestCoordinatorThatDidNotReadItsLogIsCorrected(t *testing.T) {
	for name, answer := range map[string]*kerr.Error{"at once": nil, "after it loads again": kerr.NotCoordinator, "after a rebalance": kerr.IllegalGeneration} {
		t.Run(name, func(t *testing.T) {
			l, cluster := openStale(t, 1, 2)
			n := int32(0)
			if answer != nil {
				n = 1
			}
			commits := refuseCommits(cluster, n, answer)
			if _, _, err := own(t, l); !errors.Is(err, stream.ErrFenced) {
				t.Fatalf("the member ended with %v", err)
			}
			_, a := mustOwn(t, l)
			wantValue(t, a.State, "a", []byte("2"))
			if a.Next != 2 || commits.Load() != n+1 {
				t.Errorf("the next offset is %d after %d commits", a.Next, commits.Load())
			}
		})
	}
}

// A coordinator of a broker does not know a record that came to its log past it. A marker makes it
// believe that it knows the log, so later writes reload nothing.
func TestCoordinatorOfABrokerThatDidNotReadItsLogIsCorrected(t *testing.T) {
	for _, server := range []bool{false, true} {
		t.Run(fmt.Sprintf("server groups=%v", server), func(t *testing.T) {
			o := onBroker(t)
			o.ServerGroups = server
			correctOnBroker(t, open(t, o))
		})
	}
}

func correctOnBroker(t *testing.T, l *Log) {
	if err := l.Append(t.Context(), stream.Record{Partition: in}, stream.Record{Partition: in}); err != nil {
		t.Fatal(err)
	}
	s, _ := mustOwn(t, l)
	commit(t, s, 2, "a", []byte("2"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	move(t, l, 1)
	groups, err := l.topics.get(t.Context(), offsetsTopic)
	if err != nil {
		t.Fatal(err)
	}
	log := stream.Partition{Topic: offsetsTopic, Index: partitionOfID("g", len(groups.leaders))}
	past := newRestarted(t, l, "past")
	past.produce(log, false, rawBatch(-1, -1, loggedOffset("g", 2)))
	if err := (repairer{l}).mark(t.Context(), undecided{partition: log, producer: past.pid, epoch: past.epoch}, &kmsg.TxnMetadataValue{State: kmsg.TransactionStatePrepareAbort, ProducerEpoch: past.epoch}); err != nil {
		t.Fatal(err)
	}
	if err := l.offsets.commit(t.Context(), "g", changelogOf("g", in), 7, identity{generation: -1}); err != nil {
		t.Fatal(err)
	}
	committed, err := l.offsets.committed(t.Context(), "g", in)
	logged, logErr := l.offsets.logged(t.Context(), "g", in)
	if committed != 1 || logged != 2 || err != nil || logErr != nil {
		t.Fatalf("the coordinator says %d (%v), and its log %d (%v)", committed, err, logged, logErr)
	}
	if _, _, err := own(t, l); !errors.Is(err, stream.ErrFenced) {
		t.Fatalf("the member ended with %v", err)
	}
	s, a := mustOwn(t, l)
	wantValue(t, a.State, "a", []byte("2"))
	if a.Next != 2 {
		t.Errorf("the next offset is %d", a.Next)
	}
	commit(t, s, 3, "a", []byte("3"))
	if logged, err := l.offsets.logged(t.Context(), "g", in); logged != 3 || err != nil {
		t.Errorf("the log says %d (%v) of a transaction", logged, err)
	}
}

// What the log of the coordinator does not say is not committed.
func TestOffsetThatTheLogDoesNotSayIsNotCommitted(t *testing.T) {
	for name, c := range map[string]struct {
		logged []int64
		words  string
	}{
		"somebody set it":      {[]int64{2, 1}, "one of them was changed from outside"},
		"it was deleted":       {[]int64{2, -1}, "one of them was changed from outside"},
		"the log has no trace": {nil, "one of them was changed from outside"},
	} {
		t.Run(name, func(t *testing.T) {
			l, cluster := openStale(t, c.logged...)
			commits := refuseCommits(cluster, 0, nil)
			if _, _, err := own(t, l); !lasting(err) || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "not known") {
				t.Errorf("the member ended with %v", err)
			}
			if commits.Load() != 0 {
				t.Errorf("%d offsets were committed", commits.Load())
			}
		})
	}
}

// A process that may not read the coordinator's log says so when it gives up.
func TestLogOfACoordinatorThatCannotBeReadIsNamed(t *testing.T) {
	l, cluster := openStale(t, 1, 2)
	cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asked := req.(*kmsg.ListOffsetsRequest)
		if asked.Topics[0].Topic != offsetsTopic {
			return nil, nil, false
		}
		resp := asked.ResponseKind().(*kmsg.ListOffsetsResponse)
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = offsetsTopic
		at := kmsg.NewListOffsetsResponseTopicPartition()
		at.Partition, at.ErrorCode = asked.Topics[0].Partitions[0].Partition, kerr.TopicAuthorizationFailed.Code
		topic.Partitions = append(topic.Partitions, at)
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	_, _, err := own(t, l)
	if !lasting(err) || !strings.Contains(err.Error(), "the answer of the group coordinator could not be verified: read its log: ") || !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("the member ended with %v", err)
	}
}

// A process that is no member corrects nothing, also while the group is empty: brokers do not
// check a commit without a generation. A commit of an older generation is refused.
func TestOnlyAMemberCorrectsACoordinator(t *testing.T) {
	l, _ := openStale(t, 1, 2)
	wantCommitted := func(want int64) {
		t.Helper()
		if got, err := l.offsets.committed(t.Context(), "g", in); err != nil || got != want {
			t.Errorf("committed %d: %v", got, err)
		}
	}
	nobody, err := newCommitter(l, newLifetime(), "g", "nobody", "")
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.close()
	nobody.client = l.client
	if err := l.restores.correct(t.Context(), nobody, in, 2); err != nil {
		t.Error(err)
	}
	wantCommitted(1)
	if _, _, err := own(t, l); !errors.Is(err, stream.ErrFenced) {
		t.Fatal(err)
	}
	wantCommitted(2)
	now, _ := mustOwn(t, l)
	m := now.(*member).commits.identity()
	if err := now.Close(); err != nil {
		t.Fatal(err)
	}
	mustOwn(t, l)
	if err := l.offsets.commit(t.Context(), "g", in, 1, m); err == nil {
		t.Error("a member of an older generation committed an offset")
	}
	wantCommitted(2)
}
