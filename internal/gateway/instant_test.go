package gateway_test

import (
	"context"
	"iter"
	"strconv"
	"sync"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/stream"
)

// instant is a log that has the result of an event as soon as it is appended, and
// next to nothing else to do, so that what is measured is the gateway. It takes
// results too, and keeps the newest.
type instant struct {
	mu      sync.Mutex
	come    sync.Cond
	seqs    map[string]*uint64
	ends    [partitions]stream.Offset
	results [partitions][instantRecords]stream.Record // the newest, by offset
}

const instantRecords = 1 << 15

func newInstant() *instant {
	l := &instant{seqs: map[string]*uint64{}}
	l.come.L = &l.mu
	return l
}

func (l *instant) Topics(context.Context) ([]stream.Topic, error) {
	return []stream.Topic{{Name: "results", Partitions: partitions}}, nil
}

func (l *instant) Append(_ context.Context, events ...stream.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range events {
		if events[i].Partition.Topic == "results" {
			l.add(events[i])
		} else {
			l.add(l.answer(&events[i]))
		}
	}
	l.come.Broadcast()
	return nil
}

var statusOK = []byte(wire.StatusOK)

// answer returns the record that wire.ResultRecord makes of the result of an event,
// but for less. Its caller holds mu.
func (l *instant) answer(event *stream.Record) stream.Record {
	seq := l.seqs[string(event.Key)]
	if seq == nil {
		seq = new(uint64)
		l.seqs[string(event.Key)] = seq
	}
	*seq++
	id := append(append(make([]byte, 0, len(event.Key)+21), event.Key...), '/')
	id = strconv.AppendUint(id, *seq, 10)
	headers := append(make([]stream.Header, 0, 4),
		stream.Header{Key: header.ID, Value: id}, stream.Header{Key: header.Seq, Value: id[len(event.Key)+1:]}, stream.Header{Key: header.Status, Value: statusOK})
	for _, h := range event.Headers {
		if h.Key == header.ClientEvent {
			headers = append(headers, h)
		}
	}
	return stream.Record{Partition: stream.Partition{Topic: "results"}, Key: event.Key, Value: event.Value, Headers: headers}
}

// add appends a result. Its caller holds mu.
func (l *instant) add(r stream.Record) {
	p := stream.Place(r.Key, partitions)
	r.Partition.Index, r.Offset = p, l.ends[p]
	l.results[p][r.Offset%instantRecords] = r
	l.ends[p]++
}

// first is the offset of the oldest record. Its caller holds mu.
func (l *instant) first(p int32) stream.Offset { return max(0, l.ends[p]-instantRecords) }

func (l *instant) Tail(ctx context.Context, p stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		batch := make([]stream.Record, 0, 64)
		for next := from; ; {
			l.mu.Lock()
			for next >= l.ends[p.Index] && ctx.Err() == nil {
				l.come.Wait() // its process ends with what it is waited for
			}
			trimmed := next < l.first(p.Index)
			for batch = batch[:0]; !trimmed && next < l.ends[p.Index] && len(batch) < cap(batch); next++ {
				batch = append(batch, l.results[p.Index][next%instantRecords])
			}
			l.mu.Unlock()
			if trimmed {
				yield(stream.Record{}, stream.ErrTrimmed)
				return
			}
			if ctx.Err() != nil {
				return
			}
			for i := range batch {
				if !yield(batch[i], nil) {
					return
				}
			}
		}
	}
}

func (l *instant) Offsets(_ context.Context, p stream.Partition) (first, next stream.Offset, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first(p.Index), l.ends[p.Index], nil
}

func (l *instant) Peek(_ context.Context, p stream.Partition, from stream.Offset) (stream.Record, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from >= l.ends[p.Index] {
		return stream.Record{}, false, nil
	}
	if from < l.first(p.Index) {
		return stream.Record{}, false, stream.ErrTrimmed
	}
	return l.results[p.Index][from%instantRecords], true, nil
}
