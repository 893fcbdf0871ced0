// Package async implements the async queue. It stores events that cannot be finished now, decides
// which of them is next, and makes the calls that they wait for outside the loop.
package async

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// Head is the part of a queued event that stays in memory.
type Head struct {
	Stage     int   // operator to resume at; stored as Entry.Step
	Behind    bool  // it waits for an earlier event of its key; otherwise for the call of its operator
	Answered  bool  // a reply to its client was written before
	Attempts  int   // failed attempts that count against the event
	Late      bool  // it came late
	Over      bool  // it ended, and waits only so that its key records it in order; it has no row
	Shown     int   // attempts with partial answers that were written
	Time      int64 // event time, microseconds
	Watermark int64 // at its position
	Since     int64 // when it was first queued, microseconds since 1970 UTC
	Due       int64 // earliest time of its call
	Class     control.Class
	Tenant    string // tenant of the event
	Client    string // header.ClientEvent of its record; not stored twice
}

// Entry is a queued event with everything that is needed to resume it.
type Entry struct {
	Head
	Step        string        // label of the operator
	Record      stream.Record // its Partition is not stored
	Ended       uint8         // state that expired during the key's silence before the event
	Approximate []string      // features read from windows beyond their max
	Fallback    []string      // scores that got their fallback
	Error       string        // newest stored error of an attempt; "" before the first
	Members     []byte        // reference to the rest of the row in the state; nil for most events
	Row         []byte        // output of AppendRow
}

// ErrDamaged says that a stored entry cannot be read.
var ErrDamaged = errors.New("a queued event is damaged")

// ErrOlder says that an older version of Afterbay stored the entry. Such an entry refers to its
// step by a number, and plans of that version have other steps.
var ErrOlder = errors.New("an older version of afterbay queued this event, and this version cannot resume it. Run the older version until `afterbay queue ls` is empty, or drop the events with it")

// entryVersion is the first byte of a stored entry.
const entryVersion = 3

// Append appends the stored form of the entry. Numbers are varints, and texts are preceded by their
// length.
func (e *Entry) Append(dst []byte) []byte {
	flags := byte(0)
	if e.Behind {
		flags |= 1
	}
	if e.Record.Key != nil {
		flags |= 2
	}
	if e.Members != nil {
		flags |= 4
	}
	if e.Answered {
		flags |= 8
	}
	if e.Shown > 0 {
		flags |= 16
	}
	if e.Late {
		flags |= 32
	}
	if e.Over {
		flags |= 64
	}
	dst = append(dst, entryVersion, flags, e.Ended, byte(e.Class-control.HighClass))
	dst = appendText(dst, []byte(e.Tenant))
	if e.Members != nil {
		dst = appendText(dst, e.Members)
	}
	if e.Shown > 0 {
		dst = binary.AppendUvarint(dst, uint64(e.Shown))
	}
	dst = appendText(dst, []byte(e.Step))
	dst = binary.AppendUvarint(dst, uint64(e.Attempts))
	for _, n := range []int64{e.Since, e.Due, e.Time, e.Watermark, e.Record.Time.UnixMicro()} {
		dst = binary.AppendVarint(dst, n)
	}
	dst = appendText(dst, e.Record.Key)
	dst = appendText(dst, []byte(e.Error))
	dst = appendText(dst, e.Record.Value)
	dst = binary.AppendUvarint(dst, uint64(len(e.Record.Headers)))
	for _, h := range e.Record.Headers {
		dst = appendText(appendText(dst, []byte(h.Key)), h.Value)
	}
	for _, names := range [][]string{e.Approximate, e.Fallback} {
		dst = binary.AppendUvarint(dst, uint64(len(names)))
		for _, name := range names {
			dst = appendText(dst, []byte(name))
		}
	}
	return append(dst, e.Row...)
}

func appendText(dst, text []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// Parse parses an entry from the state of a partition. The entry keeps references to key and data.
func Parse(p stream.Partition, key, data []byte) (*Entry, error) {
	offset, ok := statekey.QueuedOffset(key)
	if ok && len(data) > 0 && data[0] > 0 && data[0] < entryVersion {
		return nil, fmt.Errorf("%v@%d: %w", p, offset, ErrOlder)
	}
	if !ok || len(data) < 4 || data[0] != entryVersion {
		return nil, fmt.Errorf("%v: %w", p, ErrDamaged)
	}
	e := &Entry{Ended: data[2], Head: Head{Behind: data[1]&1 != 0, Answered: data[1]&8 != 0, Late: data[1]&32 != 0, Over: data[1]&64 != 0, Class: control.Class(data[3]) + control.HighClass}}
	r := reader{data: data[4:]}
	e.Tenant = string(r.text())
	if data[1]&4 != 0 {
		e.Members = r.text()
	}
	if data[1]&16 != 0 {
		e.Shown = int(r.number())
	}
	e.Step, e.Attempts = string(r.text()), int(r.number())
	e.Since, e.Due, e.Time, e.Watermark = r.signed(), r.signed(), r.signed(), r.signed()
	e.Record = stream.Record{Partition: p, Offset: stream.Offset(offset), Time: time.UnixMicro(r.signed()).UTC()}
	if key := r.text(); data[1]&2 != 0 {
		e.Record.Key = key
	}
	e.Error = string(r.text())
	e.Record.Value = r.text()
	for range r.count() {
		e.Record.Headers = append(e.Record.Headers, stream.Header{Key: string(r.text()), Value: r.text()})
	}
	e.Client = header.Get(&e.Record, header.ClientEvent)
	for _, names := range []*[]string{&e.Approximate, &e.Fallback} {
		for range r.count() {
			*names = append(*names, string(r.text()))
		}
	}
	if e.Row = r.data; r.bad {
		return nil, fmt.Errorf("%v@%d: %w", p, offset, ErrDamaged)
	}
	return e, nil
}

// None reports whether a group has no queued events in a partition.
func None(ctx context.Context, log stream.Inspector, group string, p stream.Partition) (bool, error) {
	view, err := log.State(ctx, group, p)
	if err != nil {
		return false, err
	}
	for _, err := range view.Scan([]byte{statekey.Queued}) {
		return false, err
	}
	return true, nil
}

// AppendRow appends the values of a row: a bit for each slot, then the present values, in order.
func AppendRow(dst []byte, row *value.Row, schema *value.Schema) []byte {
	for _, word := range row.Present {
		dst = binary.LittleEndian.AppendUint64(dst, word)
	}
	for _, slot := range schema.Slots {
		switch {
		case !row.Has(slot):
		case slot.Type.Kind.Text():
			dst = appendText(dst, []byte(row.Text(slot)))
		default:
			dst = binary.LittleEndian.AppendUint64(dst, row.Num[slot.Index])
		}
	}
	return dst
}

// ReadRow sets row from the output of AppendRow for the same schema. The texts of the row share
// memory with data.
func ReadRow(data []byte, row *value.Row, schema *value.Schema) error {
	r := reader{data: data}
	for i := range row.Present {
		row.Present[i] = r.word()
	}
	for _, slot := range schema.Slots {
		switch {
		case !row.Has(slot):
		case slot.Type.Kind.Text():
			row.Str[slot.Index] = value.Text(r.text())
		default:
			row.Num[slot.Index] = r.word()
		}
	}
	if r.bad || len(r.data) > 0 {
		return ErrDamaged
	}
	return nil
}

type reader struct {
	data []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if r.bad = r.bad || n < 0 || n > len(r.data); r.bad {
		return nil
	}
	taken := r.data[:n:n]
	r.data = r.data[n:]
	return taken
}

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.data)
	if r.bad = r.bad || n <= 0; r.bad {
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *reader) signed() int64 {
	v, n := binary.Varint(r.data)
	if r.bad = r.bad || n <= 0; r.bad {
		return 0
	}
	r.data = r.data[n:]
	return v
}

// count reads the number of texts that follow. Each text takes at least one byte.
func (r *reader) count() int {
	n := r.number()
	if r.bad = r.bad || n > uint64(len(r.data)); r.bad {
		return 0
	}
	return int(n)
}

func (r *reader) text() []byte { return r.take(r.count()) }

func (r *reader) word() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}
