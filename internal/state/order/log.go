package order

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// Log is a log on which the records of one topic, a repartition topic, are read in order.
//
//  1. The offset of an event is the number of its release: 0, 1, 2, ... in each partition.
//     The header afterbay-order says its place.
//  2. Time that moves on without an event is a record with the header afterbay-frontier. It
//     has the offset of the next event, and takes no number.
//  3. The committed offset is that of the oldest record that is still needed. So what is
//     held is no state: it is read again.
//  4. The state beside a partition also has how far was released, and the frontiers at the
//     offset that is committed. What is released is a function of both and of the records
//     from there on.
type Log struct {
	stream.Log
	topic   string
	sources []int32 // numbers of the source partitions, in order
}

// NewLog returns a log on which a topic is read in the order of source partitions of these numbers.
func NewLog(log stream.Log, topic string, sources ...int32) *Log {
	return &Log{Log: log, topic: topic, sources: slices.Sorted(slices.Values(sources))}
}

// Number returns the number of a source partition, of the n-th topic in the order of names.
func Number(topic int, partition int32) int32 { return int32(topic)<<20 | partition }

// Join implements stream.Log.
func (l *Log) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	inner, err := l.Log.Join(ctx, group, topics...)
	if err != nil || !slices.Contains(topics, l.topic) {
		return inner, err
	}
	m := &member{Member: inner, sources: l.sources, parts: map[stream.Partition]*part{}}
	if d, ok := inner.(stream.Deliverer); ok {
		return &deliverer{m, d}, nil
	}
	return m, nil
}

// Committed returns the number of the next event that a group reads, of what the log has
// committed; 0 before the first.
func Committed(state stream.View) (stream.Offset, error) {
	c, err := loadCursor(state)
	return c.next, err
}

// cursor is how far a partition was released.
type cursor struct {
	next stream.Offset // number of the next event
	last Key           // of the event before it; First where there is none
}

func loadCursor(state stream.View) (c cursor, err error) {
	c.last = First
	data, err := state.Get([]byte{statekey.Released})
	if err != nil || data == nil {
		return c, err
	}
	r := reader{data}
	c.next, c.last = stream.Offset(r.uvarint()), r.key()
	return c, r.end(true)
}

func (c *cursor) append(to []byte) []byte {
	return c.last.append(binary.AppendUvarint(to, uint64(c.next)))
}
