package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// Brokers of Kafka 4.0 or later that restart may complete a transaction without its markers in a
// partition without a leader (KAFKA-20734). Its records there are then never decided. Readers of
// committed records stop there, and a later transaction of the same producer would expose the
// records as its own.
//
// The coordinator's log still holds the decision. The code below reads it and writes the markers.

const (
	// undecidedMost is how long a partition may be undecided before stall looks for the reason.
	undecidedMost = 3 * time.Second
	// decisionsMost is how many of the newest records of the coordinator's log are searched.
	decisionsMost = 200_000
)

// stall detects that nothing was decided for a long time.
type stall struct{ since time.Time }

// over is called when p has no newly decided records. Every undecidedMost it looks for the reason
// and repairs it.
func (s *stall) over(ctx context.Context, l *Log, p stream.Partition) error {
	now := time.Now()
	if s.since.IsZero() {
		s.since = now
	}
	if now.Sub(s.since) < undecidedMost {
		return nil
	}
	s.since = now
	err := (repairer{l}).repair(ctx, p)
	if lasting(err) {
		return err
	}
	if err != nil { // the transaction may be open, or the user lacks the rights; both wait
		l.opts.Logger.Debug("kafka: a read is stuck behind an open transaction, and the cause was not found", "partition", p, "reason", err)
	}
	return nil
}

// fetch is reads.fetch for use in a loop. It detects that no progress is made.
func (s *stall) fetch(ctx context.Context, l *Log, p stream.Partition, from int64) ([]*kgo.Record, int64, error) {
	records, after, err := l.reads.fetch(ctx, p, from)
	switch {
	case err != nil:
	case after > from:
		*s = stall{}
	default:
		err = s.over(ctx, l, p)
	}
	return records, after, err
}

// group calls over for the partition with the offsets of group, which are undecided.
func (s *stall) group(ctx context.Context, l *Log, group string) error {
	t, err := l.topics.get(ctx, offsetsTopic)
	if err != nil {
		return nil // the user may not see the topic, so wait
	}
	return s.over(ctx, l, stream.Partition{Topic: offsetsTopic, Index: partitionOfID(group, len(t.leaders))})
}

// proven lists the topics without undecided records of earlier transactions of a client's id.
type proven map[string]bool

// prove checks, before client first writes to a topic, that the topic has no undecided records of
// its id. The next commit would expose them.
func (r repairer) prove(ctx context.Context, client *kgo.Client, topics proven, records []kgo.Record) error {
	last := ""
	for i := range records {
		topic := records[i].Topic
		if topic == last {
			continue
		}
		if last = topic; topics[topic] {
			continue
		}
		if err := r.proveTopic(ctx, client, topic); err != nil {
			return err
		}
		topics[topic] = true
	}
	return nil
}

func (r repairer) proveTopic(ctx context.Context, client *kgo.Client, topic string) error {
	producer, epoch, err := client.ProducerID(ctx)
	if err != nil {
		return err
	}
	t, err := r.log.topics.get(ctx, topic)
	if err != nil {
		return err
	}
	var all []int32
	for index := range t.leaders {
		all = append(all, int32(index))
	}
	transactions, err := r.opens(ctx, topic, all...)
	if err != nil {
		return nil // without the rights, or with older brokers, continue as before
	}
	for _, o := range transactions {
		if o.producer == producer && o.epoch < epoch {
			if err := r.repair(ctx, o.partition); err != nil {
				return err
			}
		}
	}
	return nil
}

// repairer completes transactions that the brokers left undecided.
type repairer struct{ log *Log }

// undecided is an open transaction in a partition.
type undecided struct {
	partition   stream.Partition
	producer    int64
	epoch       int16
	first       int64 // its first offset
	coordinator int32 // epoch of the last coordinator that wrote a marker there
}

// repair writes the markers of transactions in p that were decided but are still open there.
func (r repairer) repair(ctx context.Context, p stream.Partition) error {
	transactions, err := r.opens(ctx, p.Topic, p.Index)
	for _, o := range transactions {
		id, err := r.decidedID(ctx, o)
		if err != nil {
			return err
		}
		if id == "" {
			continue
		}
		// A transaction that was open before may be decided now.
		again, err := r.opens(ctx, p.Topic, p.Index)
		if err != nil {
			return err
		}
		if slices.Contains(again, o) {
			if err := r.conclude(ctx, id, o); err != nil {
				return fmt.Errorf("%v is undecided from offset %d on: brokers lost the markers of transactional id %q (KAFKA-20734): %w", p, o.first, id, advise(err))
			}
		}
	}
	return err
}

// opens returns the open transactions in partitions of a topic.
func (r repairer) opens(ctx context.Context, topic string, partitions ...int32) ([]undecided, error) {
	req := kmsg.NewPtrDescribeProducersRequest()
	asked := kmsg.NewDescribeProducersRequestTopic()
	asked.Topic, asked.Partitions = topic, partitions
	req.Topics = append(req.Topics, asked)
	resp, err := req.RequestWith(ctx, r.log.client)
	if err != nil {
		return nil, fmt.Errorf("describe the producers of %q: %w", topic, err)
	}
	var transactions []undecided
	for _, t := range resp.Topics {
		for _, at := range t.Partitions {
			if err := kerr.ErrorForCode(at.ErrorCode); err != nil {
				return nil, fmt.Errorf("describe the producers of %q: %w", topic, err)
			}
			for _, a := range at.ActiveProducers {
				if a.CurrentTxnStartOffset >= 0 {
					p := stream.Partition{Topic: topic, Index: at.Partition}
					transactions = append(transactions, undecided{p, a.ProducerID, int16(a.ProducerEpoch), a.CurrentTxnStartOffset, max(a.CoordinatorEpoch, 0)})
				}
			}
		}
	}
	return transactions, nil
}

// decidedID returns the transactional id of a transaction if its coordinator has decided it, and ""
// if it is still open.
func (r repairer) decidedID(ctx context.Context, o undecided) (string, error) {
	req := kmsg.NewPtrListTransactionsRequest()
	req.ProducerIDFilters = []int64{o.producer}
	listed, err := req.RequestWith(ctx, r.log.client)
	if err != nil {
		return "", fmt.Errorf("list transactions: %w", err)
	}
	for _, state := range listed.TransactionStates {
		d, err := transactionOf(ctx, r.log.client, state.TransactionalID)
		if err != nil {
			return "", err
		}
		done := d.State == "Empty" || d.State == "CompleteCommit" || d.State == "CompleteAbort"
		// The decision may raise the epoch by one.
		later := d.State == "Ongoing" && (d.ProducerID != o.producer || d.ProducerEpoch > o.epoch+1)
		if done || later {
			return state.TransactionalID, nil
		}
	}
	return "", nil
}

// conclude writes the coordinator's decision about a transaction of id to every partition where it
// is still open.
func (r repairer) conclude(ctx context.Context, id string, o undecided) error {
	decision, err := r.decision(ctx, id, o)
	if err != nil {
		return err
	}
	if decision == nil {
		return refuse("find the producer of these records, and end the transaction with Kafka's kafka-transactions.sh abort", "its coordinator does not know whether it was committed")
	}
	for _, topic := range decision.Topics {
		left, err := r.opens(ctx, topic.Topic, topic.Partitions...)
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			continue // the topic was deleted
		}
		if err != nil {
			return err
		}
		for _, other := range left {
			if other.producer == o.producer && other.epoch == o.epoch {
				if err := r.mark(ctx, other, decision); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// decision reads the decision about a transaction from the coordinator's log. It returns nil if the
// log no longer has it.
func (r repairer) decision(ctx context.Context, id string, o undecided) (*kmsg.TxnMetadataValue, error) {
	t, err := r.log.topics.get(ctx, transactionsTopic)
	if err != nil {
		return nil, err
	}
	log := stream.Partition{Topic: transactionsTopic, Index: partitionOfID(id, len(t.leaders))}
	first, end, err := r.log.reads.extent(ctx, log)
	if err != nil {
		return nil, err
	}
	var decided *kmsg.TxnMetadataValue
	under := false
	_, err = r.log.reads.readTo(ctx, log, max(first, end-decisionsMost), func(r *kgo.Record) error {
		var key kmsg.TxnMetadataKey
		value := new(kmsg.TxnMetadataValue)
		if r.Attrs.IsControl() || key.ReadFrom(r.Key) != nil || key.TransactionalID != id || len(r.Value) == 0 || value.ReadFrom(r.Value) != nil {
			return nil
		}
		switch value.State {
		case kmsg.TransactionStateOngoing:
			under = value.ProducerID == o.producer && value.ProducerEpoch == o.epoch && touches(value, o.partition)
		case kmsg.TransactionStatePrepareCommit, kmsg.TransactionStatePrepareAbort:
			if under {
				decided, under = value, false
			}
		}
		return nil
	})
	return decided, err
}

func touches(v *kmsg.TxnMetadataValue, p stream.Partition) bool {
	for _, t := range v.Topics {
		if t.Topic == p.Topic && slices.Contains(t.Partitions, p.Index) {
			return true
		}
	}
	return false
}

// mark writes the marker of a transaction to its partition.
func (r repairer) mark(ctx context.Context, o undecided, decision *kmsg.TxnMetadataValue) error {
	commit := decision.State == kmsg.TransactionStatePrepareCommit
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	marker := kmsg.NewWriteTxnMarkersRequestMarker()
	marker.ProducerID, marker.ProducerEpoch, marker.Committed, marker.CoordinatorEpoch = o.producer, decision.ProducerEpoch, commit, o.coordinator
	topic := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	topic.Topic, topic.Partitions = o.partition.Topic, []int32{o.partition.Index}
	marker.Topics = append(marker.Topics, topic)
	req.Markers = append(req.Markers, marker)
	resp, err := req.RequestWith(ctx, r.log.client)
	if err != nil {
		return fmt.Errorf("write a marker: %w", err)
	}
	for _, m := range resp.Markers {
		for _, t := range m.Topics {
			for _, at := range t.Partitions {
				err := kerr.ErrorForCode(at.ErrorCode)
				if errors.Is(err, kerr.ClusterAuthorizationFailed) {
					return refuse("allow the principal to Alter the cluster until the partition continues: the engine writes the markers as the coordinator decided", "write a marker: %w", err)
				}
				if err != nil {
					return fmt.Errorf("write a marker: %w", err)
				}
			}
		}
	}
	r.log.opts.Logger.Warn("kafka: brokers lost the marker of a transaction (KAFKA-20734): the engine wrote it", "partition", o.partition, "offset", o.first, "committed", commit)
	return nil
}

// partitionOfID returns the partition of an internal topic for a transactional id or a group. It
// uses the absolute value of Java's hash of the string. For the one hash without an absolute value
// it uses 0 (org.apache.kafka.common.utils.Utils.abs).
func partitionOfID(id string, partitions int) int32 {
	var hash int32
	for _, unit := range utf16.Encode([]rune(id)) {
		hash = 31*hash + int32(unit)
	}
	if hash == math.MinInt32 {
		return 0
	}
	return max(hash, -hash) % int32(max(partitions, 1))
}
