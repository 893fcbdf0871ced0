package gateway_test

import (
	"context"
	"iter"
	"strconv"
	"sync"

	"github.com/afterbay/afterbay/gateway/wire"
	"github.com/afterbay/afterbay/header"
	"github.com/afterbay/afterbay/stream"
)

// instant is a log that has the result of an event as soon as it is appended, and
// next to nothing else to do, so that what is measured is the gateway. It takes
// results too, and keeps the newest.
type instant struct {
	mu      sync.Mutex
	come    sync.Cond
	seqs    map[string]uint64
	first   [partitions]stream.Offset // that is kept
	results [partitions][]stream.Record
}

const instantRecords = 1 << 15 // that a partition keeps at least

func newInstant() *instant {
	l := &instant{seqs: map[string]uint64{}}
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
	l.seqs[string(event.Key)]++
	id := append(append(make([]byte, 0, len(event.Key)+21), event.Key...), '/')
	id = strconv.AppendUint(id, l.seqs[string(event.Key)], 10)
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
	if len(l.results[p]) == 2*instantRecords {
		l.results[p] = append(make([]stream.Record, 0, 2*instantRecords), l.results[p][instantRecords:]...)
		l.first[p] += instantRecords
	}
	r.Partition.Index, r.Offset = p, l.end(p)
	l.results[p] = append(l.results[p], r)
}

// end returns where a partition ends. Its caller holds mu.
func (l *instant) end(p int32) stream.Offset {
	return l.first[p] + stream.Offset(len(l.results[p]))
}

// from returns the records of a partition from one on, or stream.ErrTrimmed. Its
// caller holds mu.
func (l *instant) from(p int32, next stream.Offset) ([]stream.Record, error) {
	if next < l.first[p] {
		return nil, stream.ErrTrimmed
	}
	return l.results[p][next-l.first[p]:], nil
}

func (l *instant) Tail(ctx context.Context, p stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		for next := from; ; {
			l.mu.Lock()
			for next >= l.end(p.Index) && ctx.Err() == nil {
				l.come.Wait() // its process ends with what it is waited for
			}
			records, err := l.from(p.Index, next)
			l.mu.Unlock()
			if err != nil {
				yield(stream.Record{}, err)
				return
			}
			if ctx.Err() != nil {
				return
			}
			for i := range records {
				if !yield(records[i], nil) {
					return
				}
			}
			next += stream.Offset(len(records))
		}
	}
}

func (l *instant) Offsets(_ context.Context, p stream.Partition) (first, next stream.Offset, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first[p.Index], l.end(p.Index), nil
}

func (l *instant) Peek(_ context.Context, p stream.Partition, from stream.Offset) (stream.Record, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from >= l.end(p.Index) {
		return stream.Record{}, false, nil
	}
	records, err := l.from(p.Index, from)
	if err != nil {
		return stream.Record{}, false, err
	}
	return records[0], true, nil
}
