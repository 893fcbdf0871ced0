package bench

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/stream"
)

const (
	senders  = 16               // most concurrent appends; if all are busy, later events wait, and the wait is measured
	tick     = time.Millisecond // events due within one tick are appended together
	batchMax = 4096             // most events per append
)

// batch is the events of one append. Its memory is reused.
type batch struct {
	records []stream.Record
	bytes   []byte
	input   stream.Partition
}

func newBatch(topic string, events int) *batch {
	return &batch{records: make([]stream.Record, 0, events), input: stream.Partition{Topic: topic, Index: stream.ByKey}}
}

// fill replaces the contents of the batch with the next events of a source.
func (b *batch) fill(s *source, events int) {
	b.records, b.bytes = b.records[:0], b.bytes[:0]
	for range events {
		from := len(b.bytes)
		line, key := s.next(b.bytes)
		b.bytes = line
		b.records = append(b.records, stream.Record{Partition: b.input, Key: key, Value: line[from:len(line):len(line)]})
	}
}

// schedule determines when each event is due, independent of the progress of earlier events.
type schedule struct {
	rate     int
	events   int64
	topic    string
	source   *source
	start    time.Time
	arrivals []arrival // by number of the event; nil uses equal intervals, and partitions by key
}

func (s *schedule) due(event int64) time.Time {
	if s.arrivals != nil {
		return s.start.Add(s.arrivals[event].after)
	}
	return s.start.Add(time.Duration(float64(event) / float64(s.rate) * float64(time.Second)))
}

// arrival is the time and the partition of an event that is merged with events of other partitions.
// The events of each partition are at random times, independent of the other partitions.
type arrival struct {
	after     time.Duration // since the start of the schedule
	partition int32
}

// newArrivals returns events of a number of partitions, with a total rate in events per second.
func newArrivals(seed uint64, rate int, events int64, partitions int32) []arrival {
	random := rand.New(rand.NewPCG(seed, 0x6f72646572))
	list, after := make([]arrival, events), 0.0
	for i := range list {
		after += random.ExpFloat64() / float64(rate)
		list[i] = arrival{time.Duration(after * float64(time.Second)), random.Int32N(partitions)}
	}
	return list
}

// stamp sets the partitions and the due times of the records of events, starting with the event
// number from.
func (s *schedule) stamp(records []stream.Record, from int64) {
	for i := range records {
		r, event := &records[i], from+int64(i)
		r.Partition.Index = s.arrivals[event].partition
		_, at, _ := bytes.Cut(r.Value, baselineTime)
		strconv.AppendInt(at[:0], s.due(event).UnixMilli(), 10) // the number of digits stays the same
	}
}

// run calls send with the events when they are due, from several goroutines.
func (s *schedule) run(ctx context.Context, send func(context.Context, ...stream.Record) error) error {
	group, ctx := errgroup.WithContext(ctx)
	free, full := make(chan *batch, senders), make(chan *batch)
	for range senders {
		free <- newBatch(s.topic, batchMax)
		group.Go(func() error {
			for b := range full {
				if err := send(ctx, b.records...); err != nil {
					return err
				}
				free <- b
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(full)
		for next := int64(0); next < s.events; {
			until, now := next, time.Now()
			for until < min(s.events, next+batchMax) && !s.due(until).After(now) {
				until++
			}
			if until == next {
				time.Sleep(max(tick, time.Until(s.due(next))))
				continue
			}
			var b *batch
			select {
			case b = <-free:
			case <-ctx.Done():
				return ctx.Err()
			}
			b.fill(s.source, int(until-next))
			if s.arrivals != nil {
				s.stamp(b.records, next)
			}
			next = until
			select {
			case full <- b:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return group.Wait()
}
