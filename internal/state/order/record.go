package order

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/stream"
)

// Copy is the place of a copied event, as its header holds it.
type Copy struct {
	Placed
	Appended int64 // append time of the source record
	Forced   bool  // it arrived after its turn and is moved back in the order
	Written  bool  // a pipeline wrote the source record: Appended is the time of its event
	Moved    Place // place that it moved to; zero if its turn is at Key. Not in the log: readers set it
}

// Turn returns the place of the event's turn.
func (c *Copy) Turn() Place {
	if c.Moved != (Place{}) {
		return c.Moved
	}
	return PlaceAt(c.Key)
}

// AppendTime returns when the source record was appended, or 0 if unknown.
func (c *Copy) AppendTime() int64 {
	if c.Written {
		return 0
	}
	return c.Appended
}

// Marks holds the marks of sources that moved. A repartitioner writes them to all partitions after
// the copies of a transaction.
type Marks []Mark

var errDamaged = errors.New("the place in the order cannot be read: only the pipeline writes this topic")

const (
	flagLate = 1 << iota
	flagForced
	flagMoved
	flagWritten
	flagUnawaited
)

// Append appends the value of a copy's header. It holds varints of the order time, of the order
// time minus the append time, and of source, offset and flags. It takes about 20 bytes.
func (c *Copy) Append(to []byte) []byte {
	to = c.Key.append(to)
	to = binary.AppendVarint(to, c.Key.Time-c.Appended)
	flags := uint64(0)
	if c.Late {
		flags |= flagLate
	}
	if c.Forced {
		flags |= flagForced
	}
	if c.Written {
		flags |= flagWritten
	}
	if c.Unawaited {
		flags |= flagUnawaited
	}
	if c.Moved != (Place{}) {
		return c.Moved.append(binary.AppendUvarint(to, flags|flagMoved))
	}
	return binary.AppendUvarint(to, flags)
}

// headers returns headers with the place of c instead of the one in of.
func (c *Copy) headers(of []stream.Header) []stream.Header {
	headers := append(make([]stream.Header, 0, len(of)+1), of...)
	at := slices.IndexFunc(headers, func(h stream.Header) bool { return h.Key == header.Order })
	if at < 0 {
		at, headers = len(headers), append(headers, stream.Header{Key: header.Order})
	}
	headers[at].Value = c.Append(make([]byte, 0, copyBytes))
	return headers
}

// copyBytes is more than the size of most headers of copies.
const copyBytes = 32

// ParseCopy decodes the result of Append.
func ParseCopy(data []byte) (c Copy, err error) {
	r := read(data)
	c.Key = r.key()
	c.Appended = c.Key.Time - r.Signed()
	flags := r.Number()
	c.Late, c.Forced, c.Written, c.Unawaited = flags&flagLate != 0, flags&flagForced != 0, flags&flagWritten != 0, flags&flagUnawaited != 0
	if flags&flagMoved != 0 {
		c.Moved = r.place()
	}
	return c, r.end(flags <= flagLate|flagForced|flagMoved|flagWritten|flagUnawaited)
}

// Append appends the value of the marks' header.
func (m Marks) Append(to []byte) []byte {
	for _, m := range m {
		to = m.append(to)
	}
	return to
}

// Record returns a record of p with the marks, at time at.
func (m Marks) Record(p stream.Partition, at time.Time) stream.Record {
	return stream.Record{Partition: p, Time: at, Headers: []stream.Header{{Key: header.Frontier, Value: m.Append(nil)}}}
}

// Records returns a record with the marks for each partition of topics, at time at.
func (m Marks) Records(topics []string, partitions int32, at time.Time) (list []stream.Record) {
	for _, topic := range topics {
		for i := range partitions {
			list = append(list, m.Record(stream.Partition{Topic: topic, Index: i}, at))
		}
	}
	return list
}

// append appends the key, and the silent time plus one microsecond; 0 means never. A clock before
// 1970 counts as never.
func (m *Mark) append(to []byte) []byte {
	return binary.AppendUvarint(m.Key.append(to), uint64(max(m.Silent, -1)+1))
}

// ParseMarks decodes the result of Append and appends it to a list. If a part is damaged it appends
// nothing.
func ParseMarks(to Marks, data []byte) (Marks, error) {
	n := len(to)
	for r := read(data); ; {
		to = append(to, r.mark())
		if len(r.Rest) > 0 {
			continue
		}
		err := r.end(true)
		if err != nil {
			to = to[:n]
		}
		return to, err
	}
}

func (k Key) append(to []byte) []byte {
	to = binary.AppendVarint(to, k.Time)
	to = binary.AppendVarint(to, int64(k.Writer)<<32+int64(k.Source))
	return binary.AppendVarint(to, k.Offset)
}

// reader decodes consecutive values of a header or of the state.
type reader struct{ packed.Reader }

func read(data []byte) reader { return reader{packed.Reader{Rest: data}} }

func (r *reader) key() Key {
	k := Key{Time: r.Signed()}
	source := r.Signed()
	k.Source = int32(source)
	k.Writer = int32((source - int64(k.Source)) >> 32)
	k.Offset = r.Signed()
	return k
}

func (r *reader) mark() Mark {
	m := Mark{r.key(), never}
	if silent := r.Number(); silent > 0 {
		m.Silent = int64(silent - 1)
	}
	return m
}

// end returns errDamaged unless all was read.
func (r *reader) end(ok bool) error {
	if !ok || !r.Whole() {
		return errDamaged
	}
	return nil
}
