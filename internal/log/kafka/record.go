package kafka

import (
	"context"
	"encoding/binary"
	"log/slog"
	"math/bits"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

// Kafka stores times in milliseconds and from 1970 on. The rest of a time is in a header that
// readers do not see: 2 bytes with the microseconds to add, or 8 bytes with all microseconds since
// 1970.
const timeHeader = "afterbay-us"

// encode sets out to the Kafka record for r. It aliases the bytes of r. It appends headers to
// headers and returns that slice.
func encode(out *kgo.Record, r *stream.Record, headers []kgo.RecordHeader) []kgo.RecordHeader {
	out.Topic, out.Partition = r.Partition.Topic, r.Partition.Index
	out.Key, out.Value = r.Key, r.Value
	first := len(headers)
	for _, h := range r.Headers {
		headers = append(headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	us := r.Time.UnixMicro()
	switch rest := us % 1000; {
	case us < 0:
		headers = append(headers, kgo.RecordHeader{Key: timeHeader, Value: binary.BigEndian.AppendUint64(nil, uint64(us))})
		us = 0
	case rest != 0:
		headers = append(headers, kgo.RecordHeader{Key: timeHeader, Value: binary.BigEndian.AppendUint16(nil, uint16(rest))})
	}
	out.Timestamp = time.UnixMilli(us / 1000)
	if len(headers) > first {
		out.Headers = headers[first:len(headers):len(headers)]
	}
	return headers
}

// decode reverses encode. The result aliases the bytes of r.
func decode(r *kgo.Record) stream.Record {
	out := stream.Record{
		Partition: stream.Partition{Topic: r.Topic, Index: r.Partition},
		Offset:    stream.Offset(r.Offset),
		Time:      r.Timestamp,
		Key:       r.Key,
		Value:     r.Value,
	}
	n := len(r.Headers)
	if n == 0 {
		return out
	}
	if last := &r.Headers[n-1]; last.Key == timeHeader {
		switch len(last.Value) {
		case 2:
			out.Time = out.Time.Add(time.Duration(binary.BigEndian.Uint16(last.Value)) * time.Microsecond)
			n--
		case 8:
			if us := int64(binary.BigEndian.Uint64(last.Value)); us < 0 && r.Timestamp.UnixMilli() == 0 { // otherwise another program wrote the header, or the broker sets the time
				out.Time = time.UnixMicro(us)
			}
			n--
		}
	}
	if n > 0 {
		out.Headers = make([]stream.Header, n)
		for i, h := range r.Headers[:n] {
			out.Headers[i] = stream.Header{Key: h.Key, Value: h.Value}
		}
	}
	return out
}

// size returns the size of a record that counts against Options.MaxRecordBytes.
func size(r *stream.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// recordPool lends slices of records to the client, one per producer batch. A slice is returned
// when all of its records were decoded. Each list holds slices with capacities from one power of
// two up to the next.
type recordPool struct {
	mu   sync.Mutex // guards the fields below
	free [32][][]kgo.Record
	left int // number of records that free may still take
}

var _ kgo.PoolRecords = (*recordPool)(nil)

func newRecordPool(most int) *recordPool { return &recordPool{left: most} }

// GetRecords implements kgo.PoolRecords.
func (p *recordPool) GetRecords(n int) []kgo.Record {
	class := bits.Len(uint(max(n, 1) - 1)) // class of slices with a capacity of at least n
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.free[class]
	last := len(free) - 1
	if last < 0 {
		return make([]kgo.Record, 0, 1<<class)
	}
	records := free[last]
	free[last], p.free[class] = nil, free[:last]
	p.left += cap(records)
	return records[:0]
}

// PutRecords implements kgo.PoolRecords.
func (p *recordPool) PutRecords(records []kgo.Record) {
	class := bits.Len(uint(cap(records))) - 1
	p.mu.Lock()
	defer p.mu.Unlock()
	if class >= 0 && cap(records) <= p.left {
		p.free[class] = append(p.free[class], records)
		p.left -= cap(records)
	}
}

// logger passes on warnings of the log's clients, each at most every half minute. In that time the
// client tries a broker that is down a hundred times. It logs repeats at debug level.
type logger struct {
	to   *slog.Logger
	mu   sync.Mutex // guards said
	said map[string]time.Time
}

func newLogger(to *slog.Logger) *logger { return &logger{to: to, said: map[string]time.Time{}} }

const sayEvery = 30 * time.Second

// Level implements kgo.Logger.
func (*logger) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log implements kgo.Logger.
func (l *logger) Log(level kgo.LogLevel, message string, pairs ...any) {
	to := slog.LevelWarn
	if level == kgo.LogLevelError {
		to = slog.LevelError
	}
	l.mu.Lock()
	if last, ok := l.said[message]; ok && time.Since(last) < sayEvery {
		to = slog.LevelDebug
	} else {
		l.said[message] = time.Now()
	}
	l.mu.Unlock()
	l.to.Log(context.Background(), to, "kafka: "+strings.TrimSpace(message), pairs...)
}
