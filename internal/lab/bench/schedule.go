package bench

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/stream"
)

const (
	senders  = 16               // appends under way at once; when all are, the schedule goes on and the wait counts
	tick     = time.Millisecond // what is due within it is appended together
	batchMax = 4096             // events of an append
)

// batch is events of one append. Its memory is used again.
type batch struct {
	records []stream.Record
	bytes   []byte
	input   stream.Partition
}

func newBatch(topic string, events int) *batch {
	return &batch{records: make([]stream.Record, 0, events), input: stream.Partition{Topic: topic, Index: stream.ByKey}}
}

// fill replaces the batch by the next events of a source.
func (b *batch) fill(s *source, events int) {
	b.records, b.bytes = b.records[:0], b.bytes[:0]
	for range events {
		from := len(b.bytes)
		line, key := s.next(b.bytes)
		b.bytes = line
		b.records = append(b.records, stream.Record{Partition: b.input, Key: key, Value: line[from:len(line):len(line)]})
	}
}

// schedule is when each event is due, whatever became of those before.
type schedule struct {
	rate   int
	events int64
	topic  string
	source *source
	start  time.Time
}

func (s *schedule) due(event int64) time.Time {
	return s.start.Add(time.Duration(float64(event) / float64(s.rate) * float64(time.Second)))
}

// run hands the events to send, when they are due, from several goroutines.
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
			until := min(s.events, int64(time.Since(s.start).Seconds()*float64(s.rate))+1)
			if until <= next {
				time.Sleep(max(tick, time.Until(s.due(next))))
				continue
			}
			var b *batch
			select {
			case b = <-free:
			case <-ctx.Done():
				return ctx.Err()
			}
			b.fill(s.source, int(min(until-next, batchMax)))
			next += int64(len(b.records))
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
