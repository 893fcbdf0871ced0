package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

// place returns the partition of each record. It returns an error if a record is invalid.
func (l *Log) place(ctx context.Context, records []stream.Record) ([]int32, error) {
	places := make([]int32, len(records))
	var t topicInfo
	for i := range records {
		r := &records[i]
		if i == 0 || r.Partition.Topic != t.name {
			var err error
			if t, err = l.topics.get(ctx, r.Partition.Topic); err != nil {
				return nil, err
			}
		}
		switch n, index := int32(len(t.leaders)), r.Partition.Index; {
		case index == stream.ByKey:
			places[i] = stream.PlaceRecord(r, n)
		case index < 0 || index >= n:
			return nil, fmt.Errorf("%v: %w", r.Partition, stream.ErrUnknownTopic)
		default:
			places[i] = index
		}
		if n := size(r); n > l.opts.MaxRecordBytes {
			return nil, fmt.Errorf("a record of %d bytes for %v, the limit is %d (MaxRecordBytes, and max.message.bytes of the topic): %w", n, r.Partition, l.opts.MaxRecordBytes, stream.ErrTooLarge)
		}
	}
	return places, nil
}

// setTimes sets the time of records that have none.
func setTimes(records []stream.Record) {
	now := time.UnixMilli(time.Now().UnixMilli())
	for i := range records {
		r := &records[i]
		if r.Time.IsZero() {
			r.Time = now
		}
		r.Time = r.Time.Truncate(time.Microsecond)
	}
}

// copyRecords returns client records with copied bytes. A caller that gives up may then reuse its
// bytes while the client still sends.
func copyRecords(records []stream.Record, places []int32) []kgo.Record {
	total, headers := 0, 0
	for i := range records {
		r := &records[i]
		total += len(r.Key) + len(r.Value)
		for _, h := range r.Headers {
			total += len(h.Value)
		}
		headers += len(r.Headers) + 1
	}
	bytes := make([]byte, 0, total)
	own := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		first := len(bytes)
		bytes = append(bytes, b...)
		return bytes[first:len(bytes):len(bytes)]
	}
	out := make([]kgo.Record, len(records))
	slab := make([]kgo.RecordHeader, 0, headers)
	for i := range records {
		o := &out[i]
		slab = encode(o, &records[i], slab)
		o.Partition, o.Key, o.Value = places[i], own(o.Key), own(o.Value)
		for j := range o.Headers {
			o.Headers[j].Value = own(o.Headers[j].Value)
		}
	}
	return out
}

// produce sends records with client and waits. It keeps the records of one call together.
func (l *Log) produce(ctx context.Context, client *kgo.Client, together *sync.Mutex, records []kgo.Record) error {
	w := &written{}
	together.Lock()
	w.begin(ctx, client, records)
	together.Unlock()
	return w.wait(ctx)
}

// tooLarge turns the brokers' size errors into stream.ErrTooLarge.
func tooLarge(err error) error {
	if errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) {
		return fmt.Errorf("%w: raise max.message.bytes of the topic (see afterbay doctor), or set MaxRecordBytes below it: %w", stream.ErrTooLarge, err)
	}
	return err
}

// Append implements stream.Log. A failed Append may have written some records; AppendOnce is
// atomic.
func (l *Log) Append(ctx context.Context, records ...stream.Record) error {
	if err := l.usable(); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	if len(records) == 0 {
		return nil
	}
	places, err := l.place(ctx, records)
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	ctx, cancel := l.until(ctx)
	defer cancel()
	setTimes(records)
	out := copyRecords(records, places)
	if err := l.produce(ctx, l.client, &l.appending, out); err != nil {
		return fmt.Errorf("append: %w", l.failure(ctx, err))
	}
	for i := range records {
		records[i].Partition.Index, records[i].Offset = places[i], stream.Offset(out[i].Offset)
	}
	return nil
}
