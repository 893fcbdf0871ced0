package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// A producer of AppendOnce is a transactional id and a consumer group without members. The group's
// committed offset is the producer's highest number. The transaction that writes the records also
// moves the offset. Two processes that append for one producer fence each other, and each new one
// reads the number again. Brokers forget a producer when they forget the offsets of a group
// (offsets.retention.minutes, a week by default).
const (
	producerPrefix = "afterbay-producer-"
	producersTopic = "__afterbay-producers" // the offsets are for its partition 0, which is empty
)

// producers holds the transactional clients of the most recent producers.
type producers struct {
	log    *Log
	mu     sync.Mutex // guards the fields below
	byName map[string]*producer
	calls  int64
}

type producer struct {
	name string
	id   string
	call int64 // number of its latest call, under producers.mu
	uses int   // under producers.mu

	mu      sync.Mutex // held by an append
	client  *kgo.Client
	highest int64 // -1 if unknown
	proven  proven
}

// take returns a producer for a call. If there are too many producers, it drops an unused one.
func (ps *producers) take(name string) *producer {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.byName == nil {
		ps.byName = map[string]*producer{}
	}
	p := ps.byName[name]
	if p == nil {
		p = &producer{name: name, id: producerPrefix + safeName(name), highest: -1}
		ps.byName[name] = p
	}
	ps.calls++
	p.call, p.uses = ps.calls, p.uses+1
	if len(ps.byName) > ps.log.opts.MaxProducers {
		var oldest *producer
		for _, other := range ps.byName {
			if other.uses == 0 && (oldest == nil || other.call < oldest.call) {
				oldest = other
			}
		}
		if oldest != nil {
			delete(ps.byName, oldest.name)
			oldest.drop()
		}
	}
	return p
}

func (ps *producers) give(p *producer) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p.uses--
}

func (ps *producers) close() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.byName {
		p.mu.Lock()
		p.drop()
		p.mu.Unlock()
	}
}

// drop closes the client. The next append opens a new one, which fences this one and reads the
// number again.
func (p *producer) drop() {
	if p.client != nil {
		p.client.Close()
		p.client = nil
	}
}

// open opens the client and then reads the highest number. Opening ends the transactions of earlier
// clients.
func (p *producer) open(ctx context.Context, l *Log) error {
	if p.client != nil {
		return nil
	}
	if _, err := l.ensureTopic(ctx, producersTopic, 1); err != nil {
		return err
	}
	client, err := l.newClient(kgo.TransactionalID(p.id), kgo.TransactionTimeout(l.opts.Timeouts.Transaction))
	if err != nil {
		return err
	}
	_, epoch, err := client.ProducerID(ctx)
	if err == nil {
		p.highest, err = p.committed(ctx, l, epoch)
	}
	if err != nil {
		client.Close()
		return err
	}
	p.client, p.proven = client, proven{}
	return nil
}

// committed returns the highest committed number, or 0 without one. After a crash, a broker may
// answer for a moment that nothing was committed (see restorer.differ), and records would be
// appended twice.
//
// So committed asks repeatedly in two cases: the answer lacks numbers that this process committed,
// or the answer is empty although the epoch shows that the transactional id had an earlier owner.
// That owner may have committed nothing.
func (p *producer) committed(ctx context.Context, l *Log, epoch int16) (int64, error) {
	patience, cancel := context.WithTimeout(ctx, l.opts.Timeouts.Rebalance)
	defer cancel()
	had := p.highest > 0 || p.highest < 0 && epoch > 0
	for tries := 1; ; tries++ {
		offset, err := l.offsets.committed(ctx, p.id, stream.Partition{Topic: producersTopic})
		if err != nil {
			return p.highest, err
		}
		highest := max(p.highest, offset, 0)
		if highest == offset || !had {
			return highest, nil
		}
		if l.wait(patience, backOff(tries)) != nil {
			return highest, ctx.Err()
		}
	}
}

// AppendOnce implements stream.Log. Each call is one Kafka transaction.
func (l *Log) AppendOnce(ctx context.Context, name string, first int64, records ...stream.Record) (repeated int, err error) {
	if err := l.usable(); err != nil {
		return 0, fmt.Errorf("append once: %w", err)
	}
	if first < 1 {
		return 0, fmt.Errorf("append once: number %d of producer %q, the first is 1", first, name)
	}
	numbers := make([]int64, len(records))
	for i := range numbers {
		numbers[i] = first + int64(i)
	}
	return l.AppendNumbered(ctx, name, numbers, records...)
}

// AppendNumbered is AppendOnce with gaps in the numbers: records[i] has numbers[i]. Numbers start
// at 1 and must increase.
func (l *Log) AppendNumbered(ctx context.Context, name string, numbers []int64, records ...stream.Record) (repeated int, err error) {
	if err := l.usable(); err != nil {
		return 0, fmt.Errorf("append once: %w", err)
	}
	for i, n := range numbers {
		if n < 1 || i > 0 && n <= numbers[i-1] || len(numbers) != len(records) {
			return 0, fmt.Errorf("append once: numbers %v of %d records of producer %q: they rise from 1", numbers, len(records), name)
		}
	}
	places, err := l.place(ctx, records)
	if err != nil {
		return 0, fmt.Errorf("append once: %w", err)
	}
	ctx, cancel := l.until(ctx)
	defer cancel()
	p := l.producers.take(name)
	defer l.producers.give(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	for tries := 1; ; tries++ {
		repeated, err = p.append(ctx, l, numbers, records, places)
		if err == nil {
			return repeated, nil
		}
		p.drop()
		if !fenced(err) || tries == 10 {
			return 0, fmt.Errorf("append once: %w", l.failure(ctx, err))
		}
		if err := l.wait(ctx, backOff(tries)); err != nil {
			return 0, fmt.Errorf("append once: %w", err)
		}
	}
}

// fenced reports whether err means that the transactional id has a newer owner. Then nothing was
// committed.
func fenced(err error) bool {
	return errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerIDMapping)
}

func (p *producer) append(ctx context.Context, l *Log, numbers []int64, records []stream.Record, places []int32) (repeated int, err error) {
	if err := p.open(ctx, l); err != nil {
		return 0, err
	}
	setTimes(records)
	for repeated < len(numbers) && numbers[repeated] <= p.highest {
		repeated++
	}
	if fresh := records[repeated:]; len(fresh) > 0 {
		out := copyRecords(fresh, places[repeated:])
		highest := numbers[len(numbers)-1]
		if err := p.commit(ctx, l, out, highest); err != nil {
			return 0, err
		}
		p.highest = highest
		for i := range fresh {
			fresh[i].Partition.Index, fresh[i].Offset = places[repeated+i], stream.Offset(out[i].Offset)
		}
	}
	for i := range records[:repeated] {
		records[i].Partition.Index, records[i].Offset = places[i], -1
	}
	return repeated, nil
}

func (p *producer) commit(ctx context.Context, l *Log, out []kgo.Record, highest int64) error {
	if err := (repairer{l}).prove(ctx, p.client, p.proven, out); err != nil {
		return err
	}
	if err := p.client.BeginTransaction(); err != nil {
		return err
	}
	var alone sync.Mutex
	if err := l.produce(ctx, p.client, &alone, out); err != nil {
		return errors.Join(err, p.client.EndTransaction(ctx, kgo.TryAbort))
	}
	t, err := l.topics.get(ctx, producersTopic)
	if err != nil {
		return err
	}
	offset := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	offset.Offset = highest
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID, topic.Partitions = t.name, t.id, append(topic.Partitions, offset)
	if err := commitOffsets(ctx, p.client, p.id, p.id, identity{generation: -1}, topic); err != nil {
		return errors.Join(err, p.client.EndTransaction(ctx, kgo.TryAbort))
	}
	return l.end(ctx, p.client, &out[0])
}

// identity is the identity of a member that commits offsets. Without a member, the generation is
// -1.
type identity struct {
	id         string
	instance   *string
	generation int32
}

// commitOffsets adds offsets of a group to the open transaction.
func commitOffsets(ctx context.Context, client *kgo.Client, transaction, group string, m identity, topics ...kmsg.TxnOffsetCommitRequestTopic) error {
	id, epoch, err := client.ProducerID(ctx)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group = transaction, group
	req.ProducerID, req.ProducerEpoch = id, epoch
	req.Generation, req.MemberID, req.InstanceID = m.generation, m.id, m.instance
	req.Topics = topics
	for tries := 1; ; tries++ {
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return fmt.Errorf("commit offsets: %w", err)
		}
		var bad error
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					bad = err
				}
			}
		}
		if bad == nil {
			return nil
		}
		if !errors.Is(bad, kerr.ConcurrentTransactions) && !kerr.IsRetriable(bad) {
			return fmt.Errorf("commit offsets: %w", bad)
		}
		timer := time.NewTimer(backOff(tries) / 5)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}
