// Package memory is a stream.Log that loses its data when it is closed. It is the reference that
// other logs are compared with, and the log of tests and simulations.
package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/afterbay/afterbay/stream"
)

var (
	_ stream.Log       = (*Log)(nil)
	_ stream.Inspector = (*Log)(nil)
	_ stream.Member    = (*member)(nil)
	_ stream.View      = (*view)(nil)
)

// Options limits a Log. The zero value is a good default.
type Options struct {
	// RebalanceTimeout is how long a member may go without Poll, for example because it computes,
	// while others wait for its partitions; 0 is 5 min.
	RebalanceTimeout time.Duration
	// MaxRecordBytes limits the key, value and headers of one record together; 0 is 1 MiB + 64 KiB,
	// room for a value of 1 MiB and its headers.
	MaxRecordBytes int
	// MaxProducers is how many producers AppendOnce remembers; 0 is 10,000.
	MaxProducers int
	// MaxPartitions limits the partitions of all topics together, including those of deleted topics
	// that had records; 0 is 65,536.
	MaxPartitions int
}

// Validate returns all errors in the options.
func (o Options) Validate() error {
	var errs []error
	if o.RebalanceTimeout < 0 {
		errs = append(errs, fmt.Errorf("RebalanceTimeout is %v: a member cannot poll before it is asked to", o.RebalanceTimeout))
	}
	if o.MaxRecordBytes < 0 {
		errs = append(errs, fmt.Errorf("MaxRecordBytes is %d: no record would fit", o.MaxRecordBytes))
	}
	if o.MaxProducers < 0 {
		errs = append(errs, fmt.Errorf("MaxProducers is %d: AppendOnce has to remember at least one", o.MaxProducers))
	}
	if o.MaxPartitions < 0 {
		errs = append(errs, fmt.Errorf("MaxPartitions is %d: no topic would fit", o.MaxPartitions))
	}
	return errors.Join(errs...)
}

// Log is a stream.Log and stream.Inspector in memory. New returns one.
//
// One mutex guards the whole log, including its members, so every operation is atomic: Commit makes
// all of its changes before it unlocks. To wait, Poll and Tail take the channel of the next change
// under the mutex, and check again when it is closed.
type Log struct {
	options Options

	mu        sync.Mutex // guards the fields below and those of groups and members
	topics    map[string]*topic
	groups    map[string]*group
	producers map[string]producer
	calls     int64         // number of AppendOnce calls, to find the least recent producer
	changed   chan struct{} // closed by the next change; nil while no call waits
	closed    bool
}

type topic struct {
	stream.Topic
	partitions []partition
	deleted    bool // its offsets continue when it is created again
}

// partition holds the records of a partition by offset. Records before base were deleted or never
// existed.
type partition struct {
	base    stream.Offset
	records []stream.Record
}

func (p *partition) next() stream.Offset {
	if n := len(p.records); n > 0 {
		return p.records[n-1].Offset + 1
	}
	return p.base
}

// from returns the records from offset on. offset must be at least base.
func (p *partition) from(offset stream.Offset) []stream.Record {
	at := min(int(offset-p.base), len(p.records)) // correct if every earlier offset has a record
	if at > 0 && p.records[at-1].Offset >= offset {
		at, _ = slices.BinarySearchFunc(p.records, offset, func(r stream.Record, at stream.Offset) int { return cmp.Compare(r.Offset, at) })
	}
	return p.records[at:]
}

type producer struct {
	highest int64 // number of its newest record
	call    int64 // number of its latest call
}

// New returns an empty log. It panics if the options are invalid.
func New(o Options) *Log {
	if err := o.Validate(); err != nil {
		panic(fmt.Sprintf("memory.New: %v", err))
	}
	if o.RebalanceTimeout == 0 {
		o.RebalanceTimeout = 5 * time.Minute
	}
	if o.MaxRecordBytes == 0 {
		o.MaxRecordBytes = 1<<20 + 64<<10
	}
	if o.MaxProducers == 0 {
		o.MaxProducers = 10_000
	}
	if o.MaxPartitions == 0 {
		o.MaxPartitions = 1 << 16
	}
	return &Log{
		options:   o,
		topics:    map[string]*topic{},
		groups:    map[string]*group{},
		producers: map[string]producer{},
	}
}

// Append implements stream.Log.
func (l *Log) Append(_ context.Context, records ...stream.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.append(records)
}

// AppendOnce implements stream.Log.
func (l *Log) AppendOnce(_ context.Context, name string, first int64, records ...stream.Record) (int, error) {
	if first < 1 {
		return 0, fmt.Errorf("append for producer %q: number %d, want at least 1", name, first)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	highest := l.producers[name].highest
	repeated := int(min(max(highest-first+1, 0), int64(len(records))))
	if err := l.append(records[repeated:]); err != nil {
		return 0, err
	}
	for i := range records[:repeated] {
		records[i].Offset = -1
	}
	l.calls++
	l.producers[name] = producer{max(highest, first+int64(len(records))-1), l.calls}
	if len(l.producers) > l.options.MaxProducers {
		l.forgetProducer()
	}
	return repeated, nil
}

func (l *Log) forgetProducer() {
	oldest := ""
	for name, p := range l.producers {
		if oldest == "" || p.call < l.producers[oldest].call {
			oldest = name
		}
	}
	delete(l.producers, oldest)
}

// Mirror appends records of another log at their offsets in that log. The offsets must grow in each
// partition.
func (l *Log) Mirror(_ context.Context, records ...stream.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	ends := map[stream.Partition]stream.Offset{}
	for i := range records {
		r := &records[i]
		p, err := l.partition(r.Partition)
		if err != nil {
			return fmt.Errorf("mirror %v: %w", r.Partition, err)
		}
		if end := max(ends[r.Partition], p.next()); r.Offset < end {
			return fmt.Errorf("mirror %v@%d: the next offset is %d", r.Partition, r.Offset, end)
		}
		ends[r.Partition] = r.Offset + 1
	}
	if err := l.check(records); err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	l.write(records, func(p *partition, r *stream.Record) {
		if len(p.records) == 0 {
			p.base = r.Offset
		}
	})
	return nil
}

func (l *Log) append(records []stream.Record) error {
	if l.closed {
		return stream.ErrClosed
	}
	if err := l.check(records); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	l.write(records, atEnd)
	return nil
}

// atEnd sets the offset of a record to the next one.
func atEnd(p *partition, r *stream.Record) { r.Offset = p.next() }

// check returns an error if the records cannot be written.
func (l *Log) check(records []stream.Record) error {
	for i := range records {
		r := &records[i]
		t := l.topic(r.Partition.Topic)
		if t == nil || r.Partition.Index < stream.ByKey || r.Partition.Index >= t.Partitions {
			return fmt.Errorf("%v: %w", r.Partition, stream.ErrUnknownTopic)
		}
		if n := size(r); n > l.options.MaxRecordBytes {
			return fmt.Errorf("a record of %d bytes to %v, the limit is %d: %w", n, r.Partition, l.options.MaxRecordBytes, stream.ErrTooLarge)
		}
	}
	return nil
}

// write appends copies of records that passed check. It sets Partition and Time in the slice; place
// sets Offset.
func (l *Log) write(records []stream.Record, place func(*partition, *stream.Record)) {
	total := 0
	for i := range records {
		total += size(&records[i])
	}
	arena := make([]byte, 0, total)
	now := time.Now()
	for i := range records {
		r := &records[i]
		t := l.topics[r.Partition.Topic]
		if r.Partition.Index == stream.ByKey {
			r.Partition.Index = stream.PlaceRecord(r, t.Partitions)
		}
		if r.Time.IsZero() {
			r.Time = now
		}
		r.Time = time.UnixMicro(r.Time.UnixMicro()).UTC()
		p := &t.partitions[r.Partition.Index]
		place(p, r)
		p.records = append(p.records, stored(*r, &arena))
	}
	l.notify()
}

// stored returns r with its bytes copied into arena. arena must have room for them.
func stored(r stream.Record, arena *[]byte) stream.Record {
	keep := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		from := len(*arena)
		*arena = append(*arena, b...)
		return slices.Clip((*arena)[from:])
	}
	r.Key, r.Value, r.Headers = keep(r.Key), keep(r.Value), slices.Clone(r.Headers)
	for i := range r.Headers {
		r.Headers[i].Value = keep(r.Headers[i].Value)
	}
	return r
}

func size(r *stream.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// changes returns the channel that the next change closes.
func (l *Log) changes() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

func (l *Log) notify() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Tail implements stream.Log. The log has no retention. Tail returns stream.ErrTrimmed only for
// offsets before the partition's base: negative ones, those of deleted records, and those before
// the first mirrored record.
func (l *Log) Tail(ctx context.Context, p stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		for next := from; ctx.Err() == nil; {
			records, changed, err := l.read(p, next)
			if err != nil {
				yield(stream.Record{}, fmt.Errorf("tail %v: %w", p, err))
				return
			}
			for i := 0; i < len(records) && ctx.Err() == nil; i++ {
				if !yield(records[i], nil) {
					return
				}
				next = records[i].Offset + 1
			}
			if len(records) == 0 {
				select {
				case <-changed:
				case <-ctx.Done():
				}
			}
		}
		yield(stream.Record{}, ctx.Err())
	}
}

// read returns the records of p from offset on. If p has no such record, it returns the channel that the
// next change closes.
func (l *Log) read(p stream.Partition, from stream.Offset) ([]stream.Record, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, err := l.partition(p)
	switch {
	case err != nil:
		return nil, nil, err
	case from < all.base:
		return nil, nil, stream.ErrTrimmed
	case from >= all.next():
		return nil, l.changes(), nil
	}
	return all.from(from), nil, nil
}

// partition returns the records of p.
func (l *Log) partition(p stream.Partition) (*partition, error) {
	if l.closed {
		return nil, stream.ErrClosed
	}
	t := l.topic(p.Topic)
	if t == nil || p.Index < 0 || p.Index >= t.Partitions {
		return nil, stream.ErrUnknownTopic
	}
	return &t.partitions[p.Index], nil
}

// Close implements stream.Log. It discards all data.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.groups {
		for len(g.members) > 0 {
			g.remove(g.members[0], stream.ErrClosed)
		}
	}
	l.closed = true
	l.topics, l.groups, l.producers = nil, nil, nil
	l.notify()
	return nil
}

// Offsets implements stream.Inspector.
func (l *Log) Offsets(_ context.Context, p stream.Partition) (first, next stream.Offset, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	records, err := l.partition(p)
	if err != nil {
		return 0, 0, fmt.Errorf("offsets of %v: %w", p, err)
	}
	return records.base, records.next(), nil
}

// Peek implements stream.Inspector.
func (l *Log) Peek(_ context.Context, p stream.Partition, from stream.Offset) (stream.Record, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	records, err := l.partition(p)
	if err != nil {
		return stream.Record{}, false, fmt.Errorf("peek into %v: %w", p, err)
	}
	if from = max(from, records.base); from >= records.next() {
		return stream.Record{}, false, nil
	}
	return records.from(from)[0], true, nil
}

// Committed implements stream.Inspector.
func (l *Log) Committed(_ context.Context, group string, p stream.Partition) (stream.Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.partition(p); err != nil {
		return 0, fmt.Errorf("committed offset of %q in %v: %w", group, p, err)
	}
	return l.group(group).share(p).committed, nil
}

// State implements stream.Inspector.
func (l *Log) State(_ context.Context, group string, p stream.Partition) (stream.View, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.partition(p); err != nil {
		return nil, fmt.Errorf("state of %q beside %v: %w", group, p, err)
	}
	return &view{log: l, share: l.group(group).share(p)}, nil
}

// Groups implements stream.Inspector.
func (l *Log) Groups(context.Context) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, stream.ErrClosed
	}
	names := slices.Sorted(maps.Keys(l.groups))
	return slices.DeleteFunc(names, func(name string) bool { return !l.groups[name].everCommitted }), nil
}
