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

// Log is a log with one topic, a repartition topic, that members read in order.
//
//  1. The offset of an event is its release number: 0, 1, 2, ... in each
//     partition. The header afterbay-order holds its place.
//  2. If time advances without an event, members get a record with the header
//     afterbay-frontier. It has the offset of the next event and uses no number.
//  3. The committed offset is that of the oldest record that is still needed. So
//     held events are not state; a restart reads them again. For more than
//     Options.Bytes of them, see spill.go.
//  4. The state of a partition also holds the progress of the release, and the
//     frontiers at the committed offset. The released events depend only on these
//     and on the records from that offset on.
type Log struct {
	stream.Log
	topic   string
	options Options
	sources []int32 // numbers of the source partitions, sorted
}

// Options says how a topic is read. The zero value reads in time order and never moves held events
// to state.
type Options struct {
	Arrival bool  // keep events in log order, at the time that all sources have reached
	Stages        // what events wait for
	Bytes   int64 // limit of a member's held bytes in memory; the rest becomes state; 0 is unlimited

	Forced map[int32][]ForcedTurn // forced turns of a replayed run, by partition; the replay uses them too

	Reader *Reader // observes the member that joins; may be nil

	Tell func(Held) // called after each transaction and at the end; may be nil
}

// Held is the amount of data that a member holds.
type Held struct {
	Memory, State int64 // bytes
	Spilled       int   // events that became state in the transaction
}

// NewLog returns a log that reads topic in the order of the source partitions with these numbers.
// If log is a stream.Inspector, the result is one too, with the offsets of log.
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

// inspected is a Log that implements stream.Inspector.
type inspected struct {
	*Log
	stream.Inspector
}

// Number returns the number of a source partition. topic is the index of its topic in name order.
func Number(topic int, partition int32) int32 { return int32(topic)<<topicShift | partition }

const topicShift = 20

// Topic returns the topic index of a numbered partition, in name order.
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

// Committed returns the number of the next event that a group reads, from committed state; 0 before
// the first.
func Committed(state stream.View) (stream.Offset, error) {
	c, err := loadCursor(state)
	return c.next, err
}

// Released returns the place of the newest event that a group has read, from committed state; a
// place at First before the first.
func Released(state stream.View) (Place, error) {
	c, err := loadCursor(state)
	return c.last, err
}

// Forced returns how many events of a partition were forced. released is the value of the key
// statekey.Released; nil before the first event.
func Forced(released []byte) (int64, error) {
	var c cursor
	if released == nil {
		return 0, nil
	}
	err := c.parse(released)
	return c.forced, err
}

// cursor is the progress of the release of a partition.
type cursor struct {
	next stream.Offset // number of the next event
	last Place         // of the last released event
	most Key           // greatest key that the frontiers at from know of
	from stream.Offset // first record to read after a restart, if pages have earlier ones; otherwise 0

	forced int64 // forced events so far
}

// Place is the position of an event's turn. Several events can have the same key. An event at its
// own place comes first. Events that were moved there follow in log order.
type Place struct {
	key   Key
	moved stream.Offset // log offset of the record that moved the event; -1 if it is at its own place
}

// PlaceAt returns the place of an event that was not moved.
func PlaceAt(k Key) Place { return Place{k, -1} }

// Time returns the order time.
func (p Place) Time() int64 { return p.key.Time }

// Before reports whether p is before other.
func (p Place) Before(other Place) bool { return p.compare(other) < 0 }

// compare returns -1, 0 or 1 if p is before, equal to or after other.
func (p Place) compare(other Place) int {
	return cmp.Or(p.key.Compare(other.key), cmp.Compare(p.moved, other.moved))
}

// until reports whether p is before or equal to other.
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

// KeyOf returns the key in the header of a copy. ok is false for other records.
func KeyOf(r *stream.Record) (k Key, ok bool) {
	c, err := ParseCopy(header.Value(r, header.Order))
	return c.Key, err == nil
}
