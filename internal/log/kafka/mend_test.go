package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/afterbay/afterbay/stream"
)

// rawBatch is a batch of records as producers write it: of a transaction where
// there is a producer.
func rawBatch(producer int64, epoch int16, records ...[2][]byte) []byte {
	now := time.Now().UnixMilli()
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(len(records) - 1), FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: producer, ProducerEpoch: epoch, FirstSequence: -1, NumRecords: int32(len(records)),
	}
	if producer >= 0 {
		b.Attributes, b.FirstSequence = 0x10, 0
	}
	for i, kv := range records {
		r := kmsg.Record{OffsetDelta: int32(i), Key: kv[0], Value: kv[1]}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		b.Records = r.AppendTo(b.Records)
	}
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	b.CRC = int32(crc32.Checksum(b.AppendTo(nil)[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

// restarted plays what a broker leaves that restarts while it decides.
type restarted struct {
	*testing.T
	log    *Log
	client *kgo.Client
	id     string
	pid    int64
	epoch  int16
}

func newRestarted(t *testing.T, l *Log, id string) *restarted {
	t.Helper()
	verify(t.Context(), t, l, "false")
	t.Cleanup(func() { verify(context.Background(), t, l, "true") })
	client, err := kgo.NewClient(kgo.SeedBrokers(l.opts.Brokers...), kgo.MaxVersions(kversion.V3_6_0()), kgo.ClientID("__admin_client"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r := &restarted{T: t, log: l, client: client, id: id}
	r.pid, r.epoch = r.begin()
	return r
}

// verify says whether brokers ask the coordinator of a transaction they do not
// know.
func verify(ctx context.Context, t *testing.T, l *Log, value string) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType = kmsg.ConfigResourceTypeBroker
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "transaction.partition.verification.enable", &value
	resource.Configs = append(resource.Configs, config)
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(ctx, l.client)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Resources[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
}

// begin returns the producer of the id, with an epoch that fences those before.
func (r *restarted) begin() (int64, int16) {
	r.Helper()
	for tries := 1; ; tries++ {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &r.id, 2000
		resp, err := req.RequestWith(r.Context(), r.client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		switch {
		case err == nil:
			return resp.ProducerID, resp.ProducerEpoch
		case tries > 100 || !kerr.IsRetriable(err):
			r.Fatal(err)
		}
		if err := r.log.wait(r.Context(), backOff(tries)); err != nil {
			r.Fatal(err)
		}
	}
}

// produce writes a batch past the client library.
func (r *restarted) produce(p stream.Partition, transactional bool, batch []byte) {
	r.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	if transactional {
		req.TransactionID = &r.id
	}
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = p.Topic
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Partition, partition.Records = p.Index, batch
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	for tries := 1; ; tries++ {
		resp, err := req.RequestWith(r.Context(), r.client)
		if err == nil {
			err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, kerr.InvalidTxnState) || r.log.wait(r.Context(), backOff(tries)) != nil { // the broker verifies for a moment more
			r.Fatalf("write to %v: %v", p, err)
		}
	}
}

// step leaves a step of group g undecided: a change, its position and its offset.
func (r *restarted) step(next int64, key, value string) {
	r.Helper()
	position := binary.BigEndian.AppendUint64(nil, uint64(next))
	r.produce(changelogOf("g", in), true, rawBatch(r.pid, r.epoch,
		[2][]byte{append([]byte{kindValue}, key...), []byte(value)}, [2][]byte{{kindPosition}, position}))
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch, req.Generation = r.id, "g", r.pid, r.epoch, -1
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic = in.Topic
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Offset = next
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(r.Context(), r.client)
	if err != nil {
		r.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); err != nil {
		r.Fatal(err)
	}
}

// decide says that the coordinator decided the step.
func (r *restarted) decide(states ...kmsg.TransactionState) {
	r.Helper()
	groups, err := r.log.topics.get(r.Context(), offsetsTopic)
	if err != nil {
		r.Fatal(err)
	}
	r.decideOn([]kmsg.TxnMetadataValueTopic{
		{Topic: changelogOf("g", in).Topic, Partitions: []int32{in.Index}},
		{Topic: offsetsTopic, Partitions: []int32{partitionOfID("g", len(groups.leaders))}},
	}, states...)
}

// decideOn writes into the log of the coordinator what it does when it decides.
func (r *restarted) decideOn(topics []kmsg.TxnMetadataValueTopic, states ...kmsg.TransactionState) {
	r.Helper()
	ids, err := r.log.topics.get(r.Context(), transactionsTopic)
	if err != nil {
		r.Fatal(err)
	}
	key := kmsg.TxnMetadataKey{TransactionalID: r.id}
	for i, state := range states {
		value := kmsg.NewTxnMetadataValue()
		value.ProducerID, value.ProducerEpoch, value.State = r.pid, r.epoch+int16(min(i, 1)), state
		value.Topics = topics
		r.produce(stream.Partition{Topic: transactionsTopic, Index: partitionOfID(r.id, len(ids.leaders))}, false,
			rawBatch(-1, -1, [2][]byte{key.AppendTo(nil), value.AppendTo(nil)}))
	}
}

// A broker that restarts while a transaction is decided may lose its markers
// (KAFKA-20734). They are written as its coordinator decided.
func TestMarkersThatABrokerLostAreWritten(t *testing.T) {
	for _, test := range []struct {
		decision kmsg.TransactionState
		next     stream.Offset
		value    string
	}{
		{kmsg.TransactionStatePrepareCommit, 2, "two"},
		{kmsg.TransactionStatePrepareAbort, 1, "one"},
	} {
		t.Run(fmt.Sprint(test.decision), func(t *testing.T) {
			o := onBroker(t)
			l := open(t, o)
			if err := l.Append(t.Context(), stream.Record{Partition: in, Value: []byte("a")}, stream.Record{Partition: in, Value: []byte("b")}); err != nil {
				t.Fatal(err)
			}
			s, _ := mustOwn(t, l)
			commit(t, s, 1, "k", []byte("one"))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			r := newRestarted(t, l, fmt.Sprint("lost-", test.decision))
			r.step(2, "k", "two")
			r.decide(kmsg.TransactionStateOngoing, test.decision)
			r.begin()
			s, got := mustOwn(t, l)
			if got.Next != test.next {
				t.Errorf("the group goes on at %d, want %d", got.Next, test.next)
			}
			wantValue(t, got.State, "k", []byte(test.value))
			commit(t, s, got.Next, "k", []byte("three"))
		})
	}
}

// What no coordinator remembers is left to people.
func TestLostMarkersOfAnUnknownDecisionAreRefused(t *testing.T) {
	l := open(t, onBroker(t))
	s, _ := mustOwn(t, l)
	commit(t, s, 0, "k", []byte("one"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r := newRestarted(t, l, "unknown")
	r.produce(changelogOf("g", in), true, rawBatch(r.pid, r.epoch, [2][]byte{{kindValue, 'k'}, []byte("two")}))
	r.decide(kmsg.TransactionStateOngoing)
	r.begin()
	if _, _, err := own(t, l); err == nil || !strings.Contains(err.Error(), "kafka-transactions.sh abort") {
		t.Errorf("the restore ends with %v", err)
	}
}

func TestPartitionOfIDIsJavas(t *testing.T) {
	for id, want := range map[string]int32{ // the amount of "...".hashCode(), modulo 50
		"": 0, "a": 97 % 50, "ab": (97*31 + 98) % 50, "reference": 925155509 % 50, "afterbay-": 1019658031 % 50, "polygenelubricants": 0,
	} {
		if got := partitionOfID(id, 50); got != want {
			t.Errorf("%q has partition %d, want %d", id, got, want)
		}
	}
}

// What coordinators decide is found where they write it.
func TestDecisionsAreReadWhereCoordinatorsWriteThem(t *testing.T) {
	l := open(t, onBroker(t))
	for i := range 6 { // hashes of both signs
		id := strings.Repeat("reference", i+1)
		client, err := l.newClient(kgo.TransactionalID(id))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		r := &kgo.Record{Topic: in.Topic}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		pid, epoch, err := client.ProducerID(t.Context())
		if err == nil {
			err = l.end(t.Context(), client, r)
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := (repairer{l}).decision(t.Context(), id, undecided{partition: in, producer: pid, epoch: epoch})
		if err != nil || got == nil || got.State != kmsg.TransactionStatePrepareCommit {
			t.Errorf("%s was decided as %+v, %v", id, got, err)
		}
	}
}

// What a producer left undecided is decided before its successor writes there,
// whose commit would show it.
func TestWhatIsLeftOfAProducerIsDecidedBeforeItsNextWrite(t *testing.T) {
	l := open(t, onBroker(t))
	p := &producer{name: "p", id: producerPrefix + "p"}
	r := newRestarted(t, l, p.id)
	r.produce(in, true, rawBatch(r.pid, r.epoch, [2][]byte{nil, []byte("lost")}))
	r.decideOn([]kmsg.TxnMetadataValueTopic{{Topic: in.Topic, Partitions: []int32{in.Index}}}, kmsg.TransactionStateOngoing, kmsg.TransactionStatePrepareAbort)
	if _, err := l.AppendOnce(t.Context(), "p", 1, stream.Record{Partition: in, Value: []byte("kept")}); err != nil {
		t.Fatal(err)
	}
	for record, err := range l.Tail(t.Context(), in, 0) {
		if err != nil || string(record.Value) != "kept" {
			t.Errorf("the topic begins with %q, %v", record.Value, err)
		}
		break
	}
}
