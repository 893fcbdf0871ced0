package bench

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/stream"
)

// consumer receives the records of a partition, in order.
type consumer interface{ consume(*stream.Record) error }

// tails reads topics as their records become durable. A nil one reads nothing.
type tails struct {
	log   inspect.Log
	new   func(stream.Partition) consumer
	stop  context.CancelFunc
	group errgroup.Group
	tails []*partitionTail
}

// partitionTail reads one partition.
type partitionTail struct {
	partition stream.Partition
	consumer  consumer
	next      atomic.Int64 // next offset to read
}

func newTails(log inspect.Log, consumer func(stream.Partition) consumer) *tails {
	return &tails{log: log, new: consumer}
}

// start starts reading all partitions of topics, from their beginning or only the newest records.
func (d *tails) start(ctx context.Context, topics []string, newest bool) error {
	all, err := d.log.Topics(ctx)
	if err != nil {
		return err
	}
	ctx, d.stop = context.WithCancel(ctx)
	for _, topic := range topics {
		i := slices.IndexFunc(all, func(t stream.Topic) bool { return t.Name == topic })
		if i < 0 {
			return fmt.Errorf("topic %q: %w", topic, stream.ErrUnknownTopic)
		}
		for index := range all[i].Partitions {
			t := &partitionTail{partition: stream.Partition{Topic: topic, Index: index}}
			t.consumer = d.new(t.partition)
			first, next, err := d.log.Offsets(ctx, t.partition)
			if err != nil {
				return err
			}
			if newest {
				first = max(first, next-newestRecords)
			}
			t.next.Store(int64(first))
			d.tails = append(d.tails, t)
			d.group.Go(func() error { return t.run(ctx, d.log) })
		}
	}
	return nil
}

// newestRecords is a number of records per partition that are still in memory. Reading them again
// therefore costs as much as the first time.
const newestRecords = 5000

func (t *partitionTail) run(ctx context.Context, log stream.Log) error {
	for r, err := range log.Tail(ctx, t.partition, stream.Offset(t.next.Load())) {
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = t.consumer.consume(&r)
		}
		if err != nil {
			return err
		}
		t.next.Store(int64(r.Offset) + 1)
	}
	return nil
}

// end waits until all records of the topics are read.
func (d *tails) end(ctx context.Context) error {
	if d == nil {
		return nil
	}
	defer d.stop()
	for _, t := range d.tails {
		_, next, err := d.log.Offsets(ctx, t.partition)
		if err != nil {
			return err
		}
		for t.next.Load() < int64(next) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	d.stop()
	if err := d.group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// digest is a digest of the records of a partition without their offsets.
type digest struct {
	hash  hash.Hash
	count int64
	bytes []byte
}

func newDigest() *digest { return &digest{hash: sha256.New()} }

func (d *digest) consume(r *stream.Record) error {
	d.add(r.Key, r.Value)
	d.bytes = binary.BigEndian.AppendUint64(d.bytes, uint64(r.Time.UnixMicro()))
	for _, h := range r.Headers {
		d.add([]byte(h.Key), h.Value)
	}
	_, err := d.hash.Write(d.bytes)
	d.bytes = d.bytes[:0]
	d.count++
	return err
}

func (d *digest) add(parts ...[]byte) {
	for _, part := range parts {
		d.bytes = binary.BigEndian.AppendUint32(d.bytes, uint32(len(part)))
		d.bytes = append(d.bytes, part...)
	}
}

// digests prints the digests of the outputs and of the state.
func (m *measurement) digests(read *tails) error {
	outputs, records := sha256.New(), int64(0)
	for _, t := range read.tails {
		d := t.consumer.(*digest)
		records += d.count
		fmt.Fprintf(outputs, "%v %d %x\n", t.partition, d.count, d.hash.Sum(nil))
	}
	fmt.Fprintf(m.Out, "outputs %d records\noutputs_digest %x\n", records, outputs.Sum(nil))
	topics, err := m.records.Topics(m.ctx)
	if err != nil {
		return err
	}
	partitions := map[string]int32{}
	for _, t := range topics {
		partitions[t.Name] = t.Partitions
	}
	state, entries := newDigest(), 0
	for _, reads := range m.runner.Reads() {
		for index := range partitions[reads.Topic] {
			view, err := m.records.State(m.ctx, reads.Group, stream.Partition{Topic: reads.Topic, Index: index})
			if err != nil {
				return err
			}
			for entry, err := range view.Scan(nil) {
				if err == nil {
					err = state.consume(&stream.Record{Key: entry.Key, Value: entry.Value})
				}
				if err != nil {
					return fmt.Errorf("read the state: %w", err)
				}
				if entries++; entries%1000 == 0 {
					m.meter.Show("%d entries of the state read", entries)
				}
			}
		}
	}
	fmt.Fprintf(m.Out, "state %d entries\nstate_digest %x\n", entries, state.hash.Sum(nil))
	return nil
}

// times counts durations in buckets with a relative width of 1/128.
type times struct {
	counts [(64 - timesBits) << timesBits]uint32
	count  int64
	most   time.Duration
}

const timesBits = 7

func (t *times) add(d time.Duration) {
	v := uint64(max(d, 0))
	shift := max(0, bits.Len64(v)-timesBits-1)
	t.counts[shift<<timesBits+int(v>>shift)]++
	t.count++
	t.most = max(t.most, d)
}

func (t *times) merge(other *times) {
	for i, n := range other.counts {
		t.counts[i] += n
	}
	t.count += other.count
	t.most = max(t.most, other.most)
}

// quantile returns the duration that a share of the events did not exceed, at most 1/128 too high.
func (t *times) quantile(share float64) time.Duration {
	rest := int64(share * float64(t.count))
	for i, n := range t.counts {
		if rest -= int64(n); rest < 0 {
			shift := max(0, i>>timesBits-1)
			return min(t.most, time.Duration((uint64(i-shift<<timesBits)+1)<<shift-1))
		}
	}
	return t.most
}

// latencies are the latencies of the events of a partition, by part of the run.
type latencies struct {
	work  *work
	due   func(event int64) time.Time
	start time.Time // events due earlier are not measured
	part  time.Duration
	parts []*times
}

func (l *latencies) consume(r *stream.Record) error {
	now := time.Now()
	event, ok := l.work.eventNumber(r.Value)
	if !ok {
		return fmt.Errorf("output %q of %v has no event's number", strings.ToValidUTF8(string(r.Value), "?"), r.Partition)
	}
	due := l.due(event)
	if due.Before(l.start) {
		return nil
	}
	for part := int(due.Sub(l.start) / l.part); part >= len(l.parts); {
		l.parts = append(l.parts, &times{})
	}
	l.parts[due.Sub(l.start)/l.part].add(now.Sub(due))
	return nil
}
