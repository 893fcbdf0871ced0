package kafka

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync"
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
	share     *share
	next      stream.Offset
	changelog stream.Partition
	last      int // the index of its last record in the changelog: the position
	parts     map[string]int
}

// Commit implements stream.Member.
func (s *member) Commit(step stream.Transaction) *stream.Pending {
	pending := stream.NewPending()
	err := s.admit(&step)
	if err != nil || len(step.Outputs)+len(step.Offsets) == 0 {
		pending.Decide(err)
		s.Wake()
		return pending
	}
	s.coming, s.inFlight = s.inFlight, s.coming
	go func() {
		defer s.work.Done()
		err := s.transact(s.ctx, &step)
		s.decided(err)
		pending.Decide(err)
		s.Wake()
	}()
	return pending
}

// admit begins the commit of a step in which there is anything, which ends with
// work.Done; or it ends the member.
func (s *member) admit(step *stream.Transaction) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(step); err != nil {
		s.endLocked(stream.ErrFenced)
		return fmt.Errorf("commit: %w", err)
	}
	if len(step.Outputs)+len(step.Offsets) > 0 {
		s.pending = true
		s.work.Add(1)
		if now := time.Now(); s.log.opts.delivery(s.group) != AtLeastOnce {
			s.every, s.begun = min(now.Sub(s.begun), commitInterval), now
		}
	}
	return nil
}

// check checks that the member owns what a step touches, and notes it. Its
// caller holds mu.
func (s *member) check(step *stream.Transaction) error {
	switch {
	case s.err != nil:
		return s.err
	case s.pending:
		return errOutstanding
	}
	s.step.touched = s.step.touched[:0]
	for p, next := range step.Offsets {
		sh := s.find(p)
		if sh == nil || !sh.given {
			return fmt.Errorf("%v: %w", p, stream.ErrFenced)
		}
		s.step.touched = append(s.step.touched, touched{share: sh, next: next, changelog: changelogOf(s.group, p)})
	}
	for i := range step.Changes {
		if _, ok := step.Offsets[step.Changes[i].Partition]; !ok {
			panic(fmt.Sprintf("kafka: a step changes state beside %v without its offset", step.Changes[i].Partition))
		}
	}
	return nil
}

// decided ends a commit.
func (s *member) decided(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = false
	if err != nil {
		s.endLocked(stream.ErrFenced)
	}
	for i := len(s.shares) - 1; i >= 0; i-- {
		if s.shares[i].leaving {
			s.release(s.shares[i])
		}
	}
}

// transact commits a step: one transaction that begins here, in sequence. An
// error of any record aborts it. What fails is not tried again: the member
// ends, and whoever joins next finds out what was committed.
func (s *member) transact(ctx context.Context, step *stream.Transaction) error {
	e := s.inFlight
	apart, within := step.Outputs[:e.taken], step.Outputs[e.taken:]
	places, err := s.log.place(ctx, within)
	if err = cmp.Or(e.err, err); err == nil {
		err = s.build(step, within, places)
	}
	late := s.log.opts.delivery(s.group) == AtMostOnce && len(apart) > 0
	if late && err == nil {
		places, err = s.log.place(ctx, apart)
	}
	if err != nil {
		return fmt.Errorf("commit: %w", cmp.Or(s.dead(), err))
	}
	err = e.sent.wait(ctx)
	begun := time.Now()
	if err == nil && len(s.step.records) > 0 {
		err = s.transaction(ctx)
	}
	if err == nil && late {
		err = s.writeAfter(ctx, copyRecords(apart, places), begun)
	}
	if err != nil {
		if dead := s.dead(); dead != nil {
			return fmt.Errorf("commit: %w", dead)
		}
		return s.afterCommit(ctx, err)
	}
	s.apply(step)
	e.reset()
	return nil
}

// writeAfter writes outputs of a step whose transaction began at a time, as long as
// the member surely has its partitions.
func (s *member) writeAfter(ctx context.Context, outputs []kgo.Record, begun time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, s.lease.begin(begun, s.log.opts.SessionTimeout-s.log.opts.HeartbeatInterval))
	defer cancel()
	var sent written
	sent.begin(ctx, s.beside, outputs)
	send(s.beside)
	err := sent.wait(ctx)
	if err == nil {
		s.lease.end()
	}
	return err
}

// dead returns why the member ended, or nil.
func (s *member) dead() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// build makes the records of the transaction, with these outputs.
func (s *member) build(step *stream.Transaction, outputs []stream.Record, places []int32) error {
	b := &s.step
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
			if c := &step.Changes[j]; c.Partition.Index == t.share.partition.Index && c.Partition.Topic == t.share.partition.Topic {
				if err := b.change(t, c, s.log.opts.MaxRecordBytes); err != nil {
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
	r.Topic, r.Partition, r.Key, r.Value = t.changelog.Topic, t.changelog.Index, key, value
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
func (s *member) transaction(ctx context.Context) error {
	if err := s.client.BeginTransaction(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := s.log.prove(ctx, s.client, s.proven, s.step.records); err != nil {
		return err
	}
	b := &s.step
	b.err = nil
	b.begin(ctx, s.client, b.records)
	send(s.client)
	if err := b.wait(ctx); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := s.commitOffsets(ctx); err != nil {
		return err
	}
	if err := s.log.end(ctx, s.client, &b.records[len(b.records)-1]); err != nil {
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
func (s *member) commitOffsets(ctx context.Context) error {
	topics, err := s.offsets(ctx)
	if err != nil || len(topics) == 0 {
		return err
	}
	m := identity{}
	if s.member != "" {
		m.instance = &s.member
	}
	patience := time.Now().Add(s.log.opts.RebalanceTimeout)
	for tries := 1; ; tries++ {
		m.id, m.generation = s.client.GroupMetadata()
		if err := s.dead(); err != nil {
			return err
		}
		err := commitOffsets(ctx, s.client, s.id, s.group, m, topics...)
		switch {
		case err == nil:
			return nil
		case time.Now().After(patience):
			return err
		case !errors.Is(err, kerr.IllegalGeneration) && !errors.Is(err, kerr.RebalanceInProgress) && !errors.Is(err, kerr.StaleMemberEpoch):
			return err
		}
		if err := s.log.wait(ctx, backOff(tries)/5); err != nil {
			return err
		}
	}
}

// offsets are those of the step, by topic.
func (s *member) offsets(ctx context.Context) ([]kmsg.TxnOffsetCommitRequestTopic, error) {
	var topics []kmsg.TxnOffsetCommitRequestTopic
	for i := range s.step.touched {
		t := &s.step.touched[i]
		at := -1
		for j := range topics {
			if topics[j].Topic == t.share.partition.Topic {
				at = j
			}
		}
		if at < 0 {
			info, err := s.log.topics.get(ctx, t.share.partition.Topic)
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
func (s *member) apply(step *stream.Transaction) {
	for i := range s.step.touched {
		t := &s.step.touched[i]
		next := s.step.records[t.last].Offset + 1
		t.share.local.apply(t.share, edits{next: next, position: int64(t.next), parts: t.parts, changes: func(yield func(key, value []byte) bool) {
			for j := range step.Changes {
				c := &step.Changes[j]
				if c.Partition.Index == t.share.partition.Index && c.Partition.Topic == t.share.partition.Topic && !yield(c.Key, c.Value) {
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
