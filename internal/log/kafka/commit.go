package kafka

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

var errOutstanding = errors.New("a commit is outstanding: wait for it before the next")

// stepRecords holds the Kafka records of a stream.Transaction. Its memory is reused by each
// transaction.
type stepRecords struct {
	records []kgo.Record
	headers []kgo.RecordHeader
	bytes   []byte
	touched []touched
	written
}

// touched is a partition in a transaction.
type touched struct {
	share *share
	next  stream.Offset
	last  int // index of its last changelog record, the position
	parts map[string]int
}

// committer commits the transactions of a member, one at a time.
//
// It has no mutex, because shares admits a commit only if none is outstanding. The goroutine of the
// running commit owns step, proven and inFlight. The polling goroutine owns next, which turns
// coming into inFlight, and deliver. lease and every are atomic.
type committer struct {
	log      *Log
	life     *lifetime // of the member; after its end nothing is committed
	group    string
	id       string // transactional id
	instance string // the member's static name; "" if it has none
	delivery Delivery
	client   *kgo.Client // the member's client, since the transactions commit offsets of its group

	beside *kgo.Client // writes outputs outside transactions, at once or after the commit; nil under ExactlyOnce
	lease  lease       // limits beside under AtMostOnce

	begun time.Time    // start of the newest commit
	every atomic.Int64 // time between commits, at most commitInterval; 0 if outputs do not wait for them

	step             stepRecords // of the running commit
	proven           proven
	inFlight, coming *delivered // outputs written outside the running transaction and outside the next one
}

// newCommitter returns a committer without the client of the member.
func newCommitter(l *Log, life *lifetime, group, id, instance string) (c *committer, err error) {
	c = &committer{
		log: l, life: life, group: group, id: id, instance: instance, delivery: l.opts.delivery(group),
		proven: proven{}, inFlight: &delivered{}, coming: &delivered{},
	}
	switch c.delivery {
	case AtLeastOnce:
		c.beside, err = l.newClient(kgo.ProducerLinger(gather))
	case AtMostOnce:
		// Records that a member has not written when it ends must be discarded. Later they would
		// follow the records of the partition's next owner.
		c.beside, err = l.newClient(kgo.ProducerLinger(gather), kgo.AllowIdempotentProduceCancellation(), kgo.Dialer(c.lease.guard(l.opts.dialer())))
	}
	return c, err
}

func (c *committer) close() {
	if c.beside != nil {
		c.beside.Close()
	}
}

// next makes the admitted transaction the running one.
func (c *committer) next(touched []touched) {
	c.step.touched = touched
	c.coming, c.inFlight = c.inFlight, c.coming
	if now := time.Now(); c.delivery != AtLeastOnce {
		c.every.Store(int64(min(now.Sub(c.begun), commitInterval)))
		c.begun = now
	}
}

// apart returns the time between commits that outputs wait for, or 0 if they wait for none.
func (c *committer) apart() time.Duration { return time.Duration(c.every.Load()) }

// transact commits step as one Kafka transaction. An error of any record aborts it. A failed commit
// is not retried: the member ends, and the next member reads the committed offsets.
func (c *committer) transact(ctx context.Context, step *stream.Transaction) error {
	e := c.inFlight
	apart, within := step.Outputs[:e.taken], step.Outputs[e.taken:]
	places, err := c.log.place(ctx, within)
	if err = cmp.Or(e.err, err); err == nil {
		err = c.build(step, within, places)
	}
	late := c.delivery == AtMostOnce && len(apart) > 0
	if late && err == nil {
		places, err = c.log.place(ctx, apart)
	}
	if err != nil {
		return fmt.Errorf("commit: %w", cmp.Or(c.life.dead(), err))
	}
	err = e.sent.wait(ctx)
	begun := time.Now()
	if err == nil && len(c.step.records) > 0 {
		err = c.transaction(ctx)
	}
	if err == nil && late {
		err = c.writeAfter(ctx, copyRecords(apart, places), begun)
	}
	if err != nil {
		if dead := c.life.dead(); dead != nil {
			return fmt.Errorf("commit: %w", dead)
		}
		return c.failed(ctx, err)
	}
	c.apply(step)
	e.reset()
	return nil
}

// writeAfter writes the outputs of a committed transaction that began at begun. It stops when the
// member may have lost its partitions.
func (c *committer) writeAfter(ctx context.Context, outputs []kgo.Record, begun time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, c.lease.begin(begun, c.log.opts.Timeouts.Session-c.log.opts.Timeouts.Heartbeat))
	defer cancel()
	var sent written
	sent.begin(ctx, c.beside, outputs)
	send(c.beside)
	err := sent.wait(ctx)
	if err == nil {
		c.lease.end()
	}
	return err
}

// build makes the records of the Kafka transaction, with these outputs.
func (c *committer) build(step *stream.Transaction, outputs []stream.Record, places []int32) error {
	b := &c.step
	b.records, b.headers, b.bytes = b.records[:0], b.headers[:0], b.bytes[:0]
	for i := range outputs {
		r := b.add()
		b.headers = encode(r, &outputs[i], b.headers)
		r.Partition = places[i]
	}
	now := time.Now()
	for i := range b.touched {
		t := &b.touched[i]
		for j := range step.Changes {
			if change := &step.Changes[j]; change.Partition.Index == t.share.partition.Index && change.Partition.Topic == t.share.partition.Topic {
				if err := b.change(t, change, c.log.opts.MaxRecordBytes); err != nil {
					return err
				}
			}
		}
		t.last = len(b.records)
		position := binary.BigEndian.AppendUint64(nil, uint64(t.next))
		b.changelog(t, b.own(kindPosition, nil), position)
	}
	for i := range b.records {
		if r := &b.records[i]; r.Timestamp.IsZero() {
			r.Timestamp = now
		}
	}
	return nil
}

// add returns a new record to fill.
func (b *stepRecords) add() *kgo.Record {
	b.records = append(b.records, kgo.Record{})
	return &b.records[len(b.records)-1]
}

func (b *stepRecords) changelog(t *touched, key, value []byte) *kgo.Record {
	r := b.add()
	r.Topic, r.Partition, r.Key, r.Value = t.share.changelog.Topic, t.share.changelog.Index, key, value
	return r
}

// own returns a kind byte and a key, in reused memory.
func (b *stepRecords) own(kind byte, key []byte) []byte {
	first := len(b.bytes)
	b.bytes = append(append(b.bytes, kind), key...)
	return b.bytes[first:len(b.bytes):len(b.bytes)]
}

// change adds a state change. It splits a value that is too large for a record into parts. It
// deletes parts that the previous value had and the new one lacks.
func (b *stepRecords) change(t *touched, c *stream.Change, most int) error {
	const overhead = 32
	if len(c.Key) > most/2 {
		return fmt.Errorf("a key of %d bytes in the state beside %v: %w", len(c.Key), t.share.partition, stream.ErrTooLarge)
	}
	n := 0
	if whole := most - len(c.Key) - overhead; len(c.Value) > whole {
		for rest := c.Value; len(rest) > 0; n++ {
			cut := min(whole, len(rest))
			b.changelog(t, partKey(nil, c.Key, n), rest[:cut])
			rest = rest[cut:]
		}
	}
	before := t.share.local.partsOf(c.Key)
	if count, ok := t.parts[string(c.Key)]; ok {
		before = max(before, count)
	}
	for gone := n; gone < before; gone++ {
		b.changelog(t, partKey(nil, c.Key, gone), nil)
	}
	if n > 0 || before > 0 {
		if t.parts == nil {
			t.parts = map[string]int{}
		}
		t.parts[string(c.Key)] = n
	}
	r := b.changelog(t, b.own(kindValue, c.Key), c.Value)
	if n > 0 {
		r.Value = []byte{}
		r.Headers = []kgo.RecordHeader{{Key: partsHeader, Value: binary.AppendUvarint(nil, uint64(n))}}
	}
	return nil
}

// transaction commits the records and offsets. It waits for all records before it sends an offset
// or the end of the transaction. Offsets sent beside records stall, and a transaction without a
// record would end without a request to the broker.
func (c *committer) transaction(ctx context.Context) error {
	if err := c.client.BeginTransaction(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := (repairer{c.log}).prove(ctx, c.client, c.proven, c.step.records); err != nil {
		return err
	}
	b := &c.step
	b.err = nil
	b.begin(ctx, c.client, b.records)
	send(c.client)
	if err := b.wait(ctx); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := c.commitOffsets(ctx); err != nil {
		return err
	}
	if err := c.log.end(ctx, c.client, &b.records[len(b.records)-1]); err != nil {
		return fmt.Errorf("end: %w", err)
	}
	return nil
}

// end commits the transaction of client; written is one of its records. The client library sends
// the first records of a topic before it records that it knows the topic. If a transaction ends in
// between, the library finds none of its partitions, considers it empty, aborts it and returns no
// error.
func (l *Log) end(ctx context.Context, client *kgo.Client, written *kgo.Record) error {
	for tries := 1; ; tries++ {
		if leader, _, err := client.PartitionLeader(written.Topic, written.Partition); leader >= 0 || err != nil {
			return client.EndTransaction(ctx, kgo.TryCommit)
		}
		if err := l.wait(ctx, backOff(tries)/10); err != nil {
			return err
		}
	}
}

// commitOffsets adds the offsets of step to the Kafka transaction, with the identity of the member.
// After a rebalance on the broker and before the client learns of it, the broker rejects the
// generation. The member still owns its partitions until it gives one up. A member that lost its
// membership ends before the client joins again (see joins).
func (c *committer) commitOffsets(ctx context.Context) error {
	topics, err := c.offsets(ctx)
	if err != nil || len(topics) == 0 {
		return err
	}
	patience := time.Now().Add(c.log.opts.Timeouts.Rebalance)
	for tries := 1; ; tries++ {
		m := c.identity()
		if err := c.life.dead(); err != nil {
			return err
		}
		err := commitOffsets(ctx, c.client, c.id, c.group, m, topics...)
		switch {
		case err == nil:
			return nil
		case time.Now().After(patience):
			return err
		case !errors.Is(err, kerr.IllegalGeneration) && !errors.Is(err, kerr.RebalanceInProgress) && !errors.Is(err, kerr.StaleMemberEpoch):
			return err
		}
		if err := c.log.wait(ctx, backOff(tries)/5); err != nil {
			return err
		}
	}
}

// identity returns the member's identity in its group, as the client knows it.
func (c *committer) identity() (m identity) {
	if c.instance != "" {
		m.instance = &c.instance
	}
	m.id, m.generation = c.client.GroupMetadata()
	return m
}

// offsets returns the offsets of step, by topic.
func (c *committer) offsets(ctx context.Context) ([]kmsg.TxnOffsetCommitRequestTopic, error) {
	var topics []kmsg.TxnOffsetCommitRequestTopic
	for i := range c.step.touched {
		t := &c.step.touched[i]
		at := -1
		for j := range topics {
			if topics[j].Topic == t.share.partition.Topic {
				at = j
			}
		}
		if at < 0 {
			info, err := c.log.topics.get(ctx, t.share.partition.Topic)
			if err != nil {
				return nil, err
			}
			topic := kmsg.NewTxnOffsetCommitRequestTopic()
			topic.Topic, topic.TopicID = info.name, info.id
			topics, at = append(topics, topic), len(topics)
		}
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = t.share.partition.Index, int64(t.next)
		topics[at].Partitions = append(topics[at].Partitions, p)
	}
	return topics, nil
}

// apply applies the committed changes to the local copies.
func (c *committer) apply(step *stream.Transaction) {
	for i := range c.step.touched {
		t := &c.step.touched[i]
		next := c.step.records[t.last].Offset + 1
		t.share.local.apply(t.share, edits{next: next, position: int64(t.next), parts: t.parts, changes: func(yield func(key, value []byte) bool) {
			for j := range step.Changes {
				change := &step.Changes[j]
				if change.Partition.Index == t.share.partition.Index && change.Partition.Topic == t.share.partition.Topic && !yield(change.Key, change.Value) {
					return
				}
			}
		}})
	}
}

// edits are committed changes for a local copy.
type edits struct {
	next     int64 // offset in the changelog
	position int64
	changes  iter.Seq2[[]byte, []byte]
	parts    map[string]int // of values that have or had parts
}

// written is an append in progress.
type written struct {
	left sync.WaitGroup
	mu   sync.Mutex // guards err
	err  error      // the first error
}

// begin passes records to client.
func (w *written) begin(ctx context.Context, client *kgo.Client, records []kgo.Record) {
	w.left.Add(len(records))
	promise := w.promise // one function value for all records
	for i := range records {
		client.Produce(ctx, &records[i], promise)
	}
}

func (w *written) promise(r *kgo.Record, err error) {
	if err != nil {
		w.mu.Lock()
		if w.err == nil {
			w.err = fmt.Errorf("topic %q: %w", r.Topic, err)
		}
		w.mu.Unlock()
	}
	w.left.Done()
}

// wait blocks until all records are decided and returns the first error.
func (w *written) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { w.left.Wait(); close(done) }()
	select {
	case <-done:
		return tooLarge(w.err)
	case <-ctx.Done():
		return ctx.Err()
	}
}
