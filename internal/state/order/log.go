package order

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
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
//     held is no state: it is read again. If it has more than Options.Bytes, see spill.go.
//  4. The state beside a partition also has how far was released, and the frontiers at the
//     offset that is committed. What is released is a function of both and of the records
//     from there on.
type Log struct {
	stream.Log
	topic   string
	options Options
	sources []int32 // numbers of the source partitions, in order
}

// Options say how a topic is read. The zero value is in order of time, with nothing in state.
type Options struct {
	Arrival bool  // an event has its turn where it stands, at the time that all sources have reached
	Stages        // what events wait for
	Bytes   int64 // most bytes of what a member holds in memory: what is beyond becomes state; 0 is no bound

	Forced map[int32][]ForcedTurn // of a run that is replayed, by partition: its forced events have their turns as there

	Reader *Reader // is that of the member that joins; nil is not looked at

	Tell func(Held) // is told with each step, and at the end; nil is not
}

// Held is what a member holds.
type Held struct {
	Memory, State int64 // bytes
	Spilled       int   // events that became state with the step
}

// NewLog returns a log on which a topic is read in the order of source partitions with these
// numbers. The result is a stream.Inspector if log is one, with the offsets of log.
func NewLog(log stream.Log, topic string, o Options, sources ...int32) stream.Log {
	if o.Reader == nil {
		o.Reader = (&Readers{Now: func() time.Time { return time.Time{} }}).Reader()
	}
	l := &Log{Log: log, topic: topic, options: o, sources: slices.Sorted(slices.Values(sources))}
	if inspector, ok := log.(stream.Inspector); ok {
		return &inspected{l, inspector}
	}
	return l
}

// inspected is a Log that can be inspected.
type inspected struct {
	*Log
	stream.Inspector
}

// Number returns the number of a source partition, of the n-th topic in the order of names.
func Number(topic int, partition int32) int32 { return int32(topic)<<topicShift | partition }

const topicShift = 20

// Topic returns the place of the topic of a numbered partition in the order of names.
func Topic(number int32) int { return int(number >> topicShift) }

// Partition returns the index of a numbered partition in its topic.
func Partition(number int32) int32 { return number & (1<<topicShift - 1) }

// Join implements stream.Log.
func (l *Log) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	inner, err := l.Log.Join(ctx, group, topics...)
	if err != nil || !slices.Contains(topics, l.topic) {
		return inner, err
	}
	m := &member{Member: inner, sources: l.sources, options: l.options, reader: l.options.Reader, parts: map[stream.Partition]*part{}}
	l.options.Reader.join(m)
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

// Released returns where the newest event had its turn that a group has read, of what the log has
// committed; at First before the first.
func Released(state stream.View) (Place, error) {
	c, err := loadCursor(state)
	return c.last, err
}

// Forced returns how many events of a partition have had another turn than their own, by the
// value of its key statekey.Released; nil is before the first event.
func Forced(released []byte) (int64, error) {
	var c cursor
	if released == nil {
		return 0, nil
	}
	err := c.parse(released)
	return c.forced, err
}

// cursor is how far a partition was released.
type cursor struct {
	next stream.Offset // number of the next event
	last Place         // of the event before it
	most Key           // of the frontiers at from
	from stream.Offset // of the first record that is read after a restart, if pages have some before it; else 0

	forced int64 // events so far
}

// Place is where the turn of a held event is. Of events at one key the one with a place of
// its own is first; the others are moved back to there, in the order of the log.
type Place struct {
	key   Key
	moved stream.Offset // in the log; -1 has a place of its own
}

// PlaceAt returns the place of an event that has its own.
func PlaceAt(k Key) Place { return Place{k, -1} }

// Time returns that of the order.
func (p Place) Time() int64 { return p.key.Time }

// Before reports whether p is before other.
func (p Place) Before(other Place) bool { return p.compare(other) < 0 }

// compare returns -1, 0 or 1 if p is before other, the same, or behind it.
func (p Place) compare(other Place) int {
	return cmp.Or(p.key.Compare(other.key), cmp.Compare(p.moved, other.moved))
}

// until reports whether p is other or before it.
func (p Place) until(other Place) bool { return p.compare(other) <= 0 }

func loadCursor(state stream.View) (cursor, error) {
	c := cursor{last: Place{First, -1}, most: First}
	data, err := state.Get([]byte{statekey.Released})
	if err != nil || data == nil {
		return c, err
	}
	err = c.parse(data)
	return c, err
}

func (c *cursor) parse(data []byte) error {
	r := read(data)
	c.next, c.last, c.most = stream.Offset(r.Number()), r.place(), r.key()
	if len(r.Rest) > 0 {
		c.from = stream.Offset(r.Number())
	}
	if len(r.Rest) > 0 {
		c.forced = int64(r.Number())
	}
	return r.end(true)
}

func (c *cursor) append(to []byte) []byte {
	to = c.most.append(c.last.append(binary.AppendUvarint(to, uint64(c.next))))
	if c.from > 0 || c.forced > 0 {
		to = binary.AppendUvarint(to, uint64(c.from))
	}
	if c.forced > 0 {
		to = binary.AppendUvarint(to, uint64(c.forced))
	}
	return to
}

// KeyOf returns the place that a copy says; ok is false of other records.
func KeyOf(r *stream.Record) (k Key, ok bool) {
	c, err := ParseCopy(header.Value(r, header.Order))
	return c.Key, err == nil
}
