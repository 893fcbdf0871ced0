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

// stepRecords are the records of a step in the transaction. Its memory is used
// for one step after the other.
type stepRecords struct {
	records []kgo.Record
	headers []kgo.RecordHeader
	bytes   []byte
	touched []touched
	written
}

// touched is a partition of a step.
type touched struct {
	share *share
	next  stream.Offset
	last  int // the index of its last record in the changelog: the position
	parts map[string]int
}

// committer commits the transactions of a member, one at a time.
//
// It has no mutex: shares admits a commit when none is outstanding. step, proven and
// inFlight are of the goroutine of the commit under way; next, which hands it what was
// coming, and deliver are of the goroutine that polls. The lease and every are atomic.
type committer struct {
	log      *Log
	life     *lifetime // of the member: what ended commits nothing
	group    string
	id       string // of the transactions
	instance string // the member's static name; "" is none
	delivery Delivery
	client   *kgo.Client // the member's: its transactions are those of the group

	beside *kgo.Client // writes outputs outside transactions: as they are made, or after; nil under ExactlyOnce
	lease  lease       // of beside under AtMostOnce

	begun time.Time    // when the newest commit began
	every atomic.Int64 // how far apart commits are, at most their usual interval; 0 where outputs do not wait for them

	step             stepRecords // of the commit under way
	proven           proven
	inFlight, coming *delivered // outputs written beside that, and beside the next
}

// newCommitter returns one without the client of the member.
func newCommitter(l *Log, life *lifetime, group, id, instance string) (c *committer, err error) {
	c = &committer{
		log: l, life: life, group: group, id: id, instance: instance, delivery: l.opts.delivery(group),
		proven: proven{}, inFlight: &delivered{}, coming: &delivered{},
	}
	switch c.delivery {
	case AtLeastOnce:
		c.beside, err = l.newClient(kgo.ProducerLinger(gather))
	case AtMostOnce:
		// What a member has not written when it ends is given up: later it would
		// come behind what the next owner of the partition wrote.
		c.beside, err = l.newClient(kgo.ProducerLinger(gather), kgo.AllowIdempotentProduceCancellation(), kgo.Dialer(c.lease.guard(l.opts.dialer())))
	}
	return c, err
}

func (c *committer) close() {
	if c.beside != nil {
		c.beside.Close()
	}
}

// next makes the step that was admitted the one under way.
func (c *committer) next(touched []touched) {
	c.step.touched = touched
	c.coming, c.inFlight = c.inFlight, c.coming
	if now := time.Now(); c.delivery != AtLeastOnce {
		c.every.Store(int64(min(now.Sub(c.begun), commitInterval)))
		c.begun = now
	}
}

// apart is how far apart commits are that outputs wait for, 0 if they wait for none.
func (c *committer) apart() time.Duration { return time.Duration(c.every.Load()) }

// transact commits a step: one transaction that begins here, in sequence. An
// error of any record aborts it. What fails is not tried again: the member
// ends, and whoever joins next finds out what was committed.
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

// writeAfter writes outputs of a step whose transaction began at a time, as long as
// the member surely has its partitions.
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

// build makes the records of the transaction, with these outputs.
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

// add returns a record to fill.
func (b *stepRecords) add() *kgo.Record {
	b.records = append(b.records, kgo.Record{})
	return &b.records[len(b.records)-1]
}

func (b *stepRecords) changelog(t *touched, key, value []byte) *kgo.Record {
	r := b.add()
	r.Topic, r.Partition, r.Key, r.Value = t.share.changelog.Topic, t.share.changelog.Index, key, value
	return r
}

// own returns a byte and a key, in memory of the step.
func (b *stepRecords) own(kind byte, key []byte) []byte {
	first := len(b.bytes)
	b.bytes = append(append(b.bytes, kind), key...)
	return b.bytes[first:len(b.bytes):len(b.bytes)]
}

// change adds a change: a value too large for a record in parts, and for parts
// that the value before had and this one lacks that they are gone.
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

// transaction commits the records and offsets. Nothing is in flight where an
// offset or the end is sent: offsets beside records stall, and a transaction
// without a record would end without a word to the broker.
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

// end commits the transaction of client, in which written was. The client library
// sends the first records of a topic before it notes that it knows the topic; a
// transaction that ends between finds none of its partitions, takes itself for
// empty, aborts and returns no error.
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

// commitOffsets adds the step's offsets to the transaction, as the member that
// the member is. Between a rebalance at the broker and the client's hearing of
// it the generation is refused; the member is the owner all the same, until it
// gave a partition up. One that lost its membership is dead before the client
// joins again (joins).
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

// identity returns that of the member in its group, as the client knows it.
func (c *committer) identity() (m identity) {
	if c.instance != "" {
		m.instance = &c.instance
	}
	m.id, m.generation = c.client.GroupMetadata()
	return m
}

// offsets are those of the step, by topic.
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

// apply makes the local copies follow what was committed.
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

// edits are what a local copy follows with.
type edits struct {
	next     int64 // of the changelog
	position int64
	changes  iter.Seq2[[]byte, []byte]
	parts    map[string]int // of values that have or had any
}

// written is an append under way.
type written struct {
	left sync.WaitGroup
	mu   sync.Mutex // guards err
	err  error      // the first
}

// begin hands records to client.
func (w *written) begin(ctx context.Context, client *kgo.Client, records []kgo.Record) {
	w.left.Add(len(records))
	promise := w.promise // a value for all
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

// wait returns the first error of a record, once all are decided.
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
