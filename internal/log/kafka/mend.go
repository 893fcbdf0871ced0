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

// Brokers of Kafka 4.0 and later that restart may complete a transaction without
// its markers, where a partition has no leader at that moment (KAFKA-20734).
// What it wrote there is then never decided: readers of what is committed stand
// still, and a later transaction of the same producer would show it as its own.
// The coordinator's log still says how it was decided, so the markers are
// written after all.

const (
	// undecidedMost is how long something may be undecided before the reason is
	// looked for.
	undecidedMost = 3 * time.Second
	// decisionsMost is how many of the newest records of the coordinator's log
	// are looked at.
	decisionsMost = 200_000
)

// stall notices that nothing was decided for long.
type stall struct{ since time.Time }

// over is called where nothing is decided in p. Now and then it looks for the
// reason, and mends it.
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
	if err != nil { // it may be under way, and who may not ask waits
		l.opts.Logger.Debug("kafka: why nothing is decided could not be found out", "partition", p, "reason", err)
	}
	return nil
}

// fetch is reads.fetch in a loop, which notices where that brings nothing more.
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

// group is over if what a group committed is undecided.
func (s *stall) group(ctx context.Context, l *Log, group string) error {
	t, err := l.topics.get(ctx, offsetsTopic)
	if err != nil {
		return nil // who may not see it waits
	}
	return s.over(ctx, l, stream.Partition{Topic: offsetsTopic, Index: partitionOfID(group, len(t.leaders))})
}

// proven are topics in which nothing is left of transactions before, of a
// client's id.
type proven map[string]bool

// prove sees, before client first writes to a topic, that nothing of its id is
// undecided there: the next commit would show it.
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
		return nil // who may not ask, or whose brokers do not answer that, is no worse off
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

// repairer decides transactions that the brokers left undecided.
type repairer struct{ log *Log }

// undecided is a transaction that is open in a partition.
type undecided struct {
	partition   stream.Partition
	producer    int64
	epoch       int16
	first       int64 // its first offset
	coordinator int32 // the epoch of the last coordinator that wrote a marker there
}

// repair writes the markers of transactions that were decided and are undecided in
// p.
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
		// What was under way before may be decided by now.
		again, err := r.opens(ctx, p.Topic, p.Index)
		if err != nil {
			return err
		}
		if slices.Contains(again, o) {
			if err := r.conclude(ctx, id, o); err != nil {
				return fmt.Errorf("%v is undecided from offset %d on, by transactional id %q, whose markers brokers lost (KAFKA-20734): %w", p, o.first, id, advise(err))
			}
		}
	}
	return err
}

// opens returns the transactions that are undecided in partitions of a topic.
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

// decidedID returns the transactional id of a transaction that its coordinator
// decided, and "" for one that is under way.
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
		// The decision of one may raise the epoch by one.
		later := d.State == "Ongoing" && (d.ProducerID != o.producer || d.ProducerEpoch > o.epoch+1)
		if done || later {
			return state.TransactionalID, nil
		}
	}
	return "", nil
}

// conclude writes what the coordinator of id decided of a transaction wherever
// it is still undecided.
func (r repairer) conclude(ctx context.Context, id string, o undecided) error {
	decision, err := r.decision(ctx, id, o)
	if err != nil {
		return err
	}
	if decision == nil {
		return refuse("see what wrote there, and end it by kafka-transactions.sh abort, of Kafka's own tools", "its coordinator does not remember how it was decided")
	}
	for _, topic := range decision.Topics {
		left, err := r.opens(ctx, topic.Topic, topic.Partitions...)
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			continue // it was deleted
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

// decision reads from the coordinator's log how a transaction was decided; nil
// where it is not known.
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

// mark writes the marker of a transaction into its partition.
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
					return refuse("allow the principal to Alter the cluster until it went on: it writes them as the coordinator decided", "write a marker: %w", err)
				}
				if err != nil {
					return fmt.Errorf("write a marker: %w", err)
				}
			}
		}
	}
	r.log.opts.Logger.Warn("kafka: brokers lost the marker of a transaction (KAFKA-20734): it is written", "partition", o.partition, "offset", o.first, "committed", commit)
	return nil
}

// partitionOfID returns the partition of an internal topic that has a
// transactional id or a group: the amount of Java's hash of the string, which is 0
// for the one hash that has none (org.apache.kafka.common.utils.Utils.abs).
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
