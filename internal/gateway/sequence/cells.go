package sequence

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/stream"
)

// Kinds of state of an inbox partition, by the first byte of the key. An event is named by its
// three ids, as in header.ClientEvent.
const (
	kindMeta   = 'm' // -> meta
	kindClient = 'c' // tenant/client -> client
	kindEvent  = 'i' // event -> entry
	kindID     = 'n' // number -> time and event, in order of arrival
	kindWait   = 'w' // number -> time and event that is or was held, in order of arrival
	kindHeld   = 'h' // tenant/client/sequence number -> held event
)

// cells is the committed state plus the uncommitted writes.
type cells struct {
	partition stream.Partition
	view      stream.View
	written   map[string][]byte // a nil value deletes
	bytes     int               // total size of the writes so far
}

func (c *cells) get(key []byte) ([]byte, error) {
	if value, ok := c.written[string(key)]; ok {
		return value, nil
	}
	return c.view.Get(key)
}

func (c *cells) put(key, value []byte) {
	c.written[string(key)] = value
	c.bytes += len(key) + len(value)
}

func (c *cells) delete(key []byte) { c.put(key, nil) }

// changes appends the uncommitted writes to dst, each key once.
func (c *cells) changes(dst []stream.Change) []stream.Change {
	for _, key := range slices.Sorted(maps.Keys(c.written)) {
		dst = append(dst, stream.Change{Partition: c.partition, Key: []byte(key), Value: c.written[key]})
	}
	return dst
}

func key(kind byte, text string) []byte { return append([]byte{kind}, text...) }

func numbered(kind byte, n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{kind}, n) }

func heldKey(clientKey string, sequence int64) []byte {
	return binary.BigEndian.AppendUint64(key(kindHeld, clientKey+"/"), uint64(sequence))
}

// place is an entry in a list of events in order of arrival.
type place struct {
	at   int64 // the partition's time at arrival, microseconds
	name string
}

func (p place) append(b []byte) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(p.at)), p.name...)
}

func parsePlace(data []byte) (place, error) {
	if len(data) < 8 {
		return place{}, packed.ErrDamaged
	}
	return place{at: int64(binary.BigEndian.Uint64(data)), name: string(data[8:])}, nil
}

// meta is the state of a partition. Its clock is the latest append time so far. The numbers are the
// first and the next of kindID and of kindWait.
type meta struct {
	clock               int64 // microseconds
	firstID, nextID     uint64
	firstWait, nextWait uint64
}

func (m *meta) append(b []byte) []byte {
	b = binary.AppendVarint(b, m.clock)
	for _, n := range [...]uint64{m.firstID, m.nextID, m.firstWait, m.nextWait} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func parseMeta(data []byte) (meta, error) {
	r := packed.Reader{Rest: data}
	m := meta{clock: r.Signed(), firstID: r.Number(), nextID: r.Number(), firstWait: r.Number(), nextWait: r.Number()}
	return m, whole(&r)
}

// client is the permanent state of a client, and counts its held events.
type client struct {
	seq       uint64 // of the client's newest result
	sequence  int64  // of the client's newest event with a sequence number
	held      int
	heldBytes int
}

func (c *client) append(b []byte) []byte {
	b = binary.AppendUvarint(b, c.seq)
	b = binary.AppendVarint(b, c.sequence)
	b = binary.AppendUvarint(b, uint64(c.held))
	return binary.AppendUvarint(b, uint64(c.heldBytes))
}

func parseClient(data []byte) (client, error) {
	r := packed.Reader{Rest: data}
	c := client{seq: r.Number(), sequence: r.Signed(), held: int(r.Number()), heldBytes: int(r.Number())}
	return c, whole(&r)
}

// The states of an event.
const (
	forwarded = iota // sent to the pipeline
	held             // waits for an earlier event; entry.record is the event's record
	ended            // has a result; entry.record is its outcome
	redriven         // ended as a dead letter, which was redriven and then had a result
)

const hashBytes = 16

// entry is the state of an event.
type entry struct {
	state    byte
	at       int64 // the partition's time at arrival, microseconds
	sequence int64
	hash     [hashBytes]byte // hash of the payload
	causal   string
	record   *stream.Record // key, value, headers, time; nil if forwarded

	correlation string // if forwarded; otherwise the id is in record
	key         []byte // if forwarded: the event's key in the pipeline's input; nil means the client's key
}

func (e *entry) append(b []byte) []byte {
	b = binary.AppendVarint(append(b, e.state), e.at)
	b = binary.AppendVarint(b, e.sequence)
	b = packed.AppendText(append(b, e.hash[:]...), e.causal)
	if e.record == nil {
		if b = append(b, e.correlation...); e.key != nil {
			b = append(append(b, 0), e.key...) // a correlation id has no zero byte
		}
		return b
	}
	b = binary.AppendVarint(b, e.record.Time.UnixMicro())
	b = packed.AppendText(packed.AppendText(b, e.record.Key), e.record.Value)
	for _, h := range e.record.Headers {
		b = packed.AppendText(packed.AppendText(b, h.Key), h.Value)
	}
	return b
}

func parseEntry(data []byte) (entry, error) {
	r := packed.Reader{Rest: data}
	e := entry{state: r.Byte(), at: r.Signed(), sequence: r.Signed()}
	copy(e.hash[:], r.Bytes(hashBytes))
	e.causal = string(r.Text())
	if e.state == forwarded {
		correlation, key, keyed := bytes.Cut(r.Rest, []byte{0})
		if e.correlation, r.Rest = string(correlation), nil; keyed {
			e.key = bytes.Clone(key)
		}
	} else if len(r.Rest) > 0 {
		e.record = &stream.Record{Time: time.UnixMicro(r.Signed()).UTC(), Key: r.Text(), Value: r.Text()}
		for len(r.Rest) > 0 {
			e.record.Headers = append(e.record.Headers, stream.Header{Key: string(r.Text()), Value: r.Text()})
		}
	}
	if e.record == nil && e.state != forwarded {
		r.Bad = true
	}
	return e, whole(&r)
}

// correlationID returns the correlation id of the event.
func (e *entry) correlationID() string {
	if e.record != nil {
		return wire.Correlation(e.record)
	}
	return e.correlation
}

// whole returns an error if data was missing or left over.
func whole(r *packed.Reader) error {
	if !r.Whole() {
		return packed.ErrDamaged
	}
	return nil
}
