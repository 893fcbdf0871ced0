package group

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/afterbay/afterbay/header"
	"github.com/afterbay/afterbay/statekey"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/value"
)

var errDamaged = errors.New("stored state is damaged")

// member is an event of a group.
type member struct {
	of      int64 // offset of the group's first event
	offset  int64
	order   int64
	time    int64
	id      string
	end     bool
	value   []byte // as it is stored; nil where the state has it
	written bool
	gone    bool
}

func (m *member) compare(o *member) int {
	switch {
	case m.order < o.order || m.order == o.order && m.offset < o.offset:
		return -1
	case m.order == o.order && m.offset == o.offset:
		return 0
	}
	return 1
}

const version = 1

// Flags of a member.
const (
	isLast   = 1 << iota
	ofClient // its context is kept
)

// contextKeys are the headers that are kept of an event that a client sent.
var contextKeys = [...]string{header.ClientEvent, header.Correlation}

// contextOf returns their values; nil where no client sent the event.
func contextOf(headers []stream.Header) *[len(contextKeys)]string {
	r := stream.Record{Headers: headers}
	var context [len(contextKeys)]string
	for i, key := range contextKeys {
		context[i] = header.Get(&r, key)
	}
	if context[0] == "" {
		return nil
	}
	return &context
}

// append appends a member as it is stored: its place in the group, and the names of
// its row with their values, so that a pipeline which has others by then reads it.
func (m *member) append(dst []byte, e *Event, schema *value.Schema) []byte {
	flags, context := byte(0), contextOf(e.Headers)
	if m.end {
		flags |= isLast
	}
	texts := []string{m.id, e.ID, e.Source}
	if context != nil {
		flags |= ofClient
		texts = append(texts, context[:]...)
	}
	dst = append(dst, version, flags)
	dst = binary.AppendVarint(binary.AppendVarint(dst, m.order), m.time)
	for _, text := range texts {
		dst = value.AppendString(dst, text)
	}
	for _, slot := range schema.Slots {
		if !e.Row.Has(slot) || slot.Name[0] == 0 || strings.HasPrefix(slot.Name, "meta.") {
			continue
		}
		dst = append(value.AppendString(dst, slot.Name), byte(slot.Type.Kind))
		if slot.Type.Kind.Text() {
			dst = value.AppendString(dst, e.Row.Text(slot))
		} else {
			dst = binary.LittleEndian.AppendUint64(dst, e.Row.Num[slot.Index])
		}
	}
	return dst
}

// stored is what append wrote of a member.
type stored struct {
	id, source string // of the event
	context    []stream.Header
	row        []byte
}

// parse reads what append wrote.
func (m *member) parse(data []byte) (stored, error) {
	r := reader{data: data}
	v := r.byte()
	flags := r.byte()
	m.end = flags&isLast != 0
	m.order, m.time = r.signed(), r.signed()
	m.id = string(r.text())
	s := stored{id: string(r.text()), source: string(r.text())}
	for i := 0; flags&ofClient != 0 && i < len(contextKeys); i++ {
		if text := r.text(); len(text) > 0 {
			s.context = append(s.context, stream.Header{Key: contextKeys[i], Value: bytes.Clone(text)})
		}
	}
	if s.row = r.data; r.bad || v != version {
		return s, errDamaged
	}
	return s, nil
}

// each calls take with the names of a row and what holds them: 8 bytes, or a text.
func (s *stored) each(take func(name []byte, kind value.Kind, held []byte)) error {
	r := reader{data: s.row}
	for len(r.data) > 0 && !r.bad {
		name, kind := r.text(), value.Kind(r.byte())
		var held []byte
		if kind.Text() {
			held = r.text()
		} else {
			held = r.take(8)
		}
		if !r.bad {
			take(name, kind, held)
		}
	}
	if r.bad {
		return errDamaged
	}
	return nil
}

// restore sets the names of a row that are of the type they had. Its texts are those
// of the member.
func (s *stored) restore(row *value.Row, schema *value.Schema) error {
	return s.each(func(name []byte, kind value.Kind, held []byte) {
		slot, ok := schema.Lookup(value.Text(name))
		switch {
		case !ok || slot.Type.Kind != kind || kind == value.Vector && len(held) != 4*slot.Type.Size:
		case kind.Text():
			row.SetText(slot, value.Text(held))
		case kind == value.Number:
			row.SetNumber(slot, math.Float64frombits(binary.LittleEndian.Uint64(held)))
		default:
			row.SetInt(slot, int64(binary.LittleEndian.Uint64(held)))
		}
	})
}

// load finds the members of a group in the state.
func (s *Set) load(g *group) error {
	if g.loaded {
		return nil
	}
	g.loaded, g.ids, g.end = true, map[string]bool{}, never
	return s.scan(g.first, func(m *member, data []byte) error {
		_, err := m.parse(data)
		g.insert(m)
		return err
	})
}

// scan calls take with the stored members of a group.
func (s *Set) scan(first int64, take func(*member, []byte) error) error {
	return scan(s.view, s.id, first, take)
}

func scan(view stream.View, id stream.Partition, first int64, take func(*member, []byte) error) error {
	prefix := statekey.AppendMembers(nil, first)
	for entry, err := range view.Scan(prefix) {
		if err != nil {
			return err
		}
		if len(entry.Key) != len(prefix)+8 {
			return fmt.Errorf("group in %v: %w", id, errDamaged)
		}
		m := &member{of: first, offset: int64(binary.BigEndian.Uint64(entry.Key[len(prefix):])), written: true}
		if err := take(m, entry.Value); err != nil {
			return fmt.Errorf("group in %v: %w", id, err)
		}
	}
	return nil
}

// append appends a group as it is stored: one that is open, its first event, times
// and bytes; one that ended, why, until when it is known and the ids it had.
func (g *group) append(dst []byte) []byte {
	if !g.over {
		dst = append(dst, version, 0)
		for _, n := range []int64{g.first, g.since, g.last, int64(g.bytes)} {
			dst = binary.AppendVarint(dst, n)
		}
		return dst
	}
	dst = append(dst, version, 1, byte(g.reason))
	dst = binary.AppendVarint(dst, g.at)
	for _, h := range g.hashes {
		dst = binary.LittleEndian.AppendUint64(dst, h)
	}
	return dst
}

// parse reads what append wrote.
func (g *group) parse(data []byte) bool {
	r := reader{data: data}
	if r.byte() != version {
		return false
	}
	if g.over = r.byte() == 1; !g.over {
		g.first, g.since, g.last, g.bytes = r.signed(), r.signed(), r.signed(), int(r.signed())
		return !r.bad && len(r.data) == 0
	}
	g.reason, g.at = Reason(r.byte()), r.signed()
	for len(r.data) > 0 && !r.bad {
		if held := r.take(8); !r.bad {
			g.hashes = append(g.hashes, binary.LittleEndian.Uint64(held))
		}
	}
	return !r.bad && g.reason <= Full
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

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) signed() int64 {
	v, n := binary.Varint(r.data)
	if r.bad = r.bad || n <= 0; r.bad {
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *reader) text() []byte {
	v, n := binary.Uvarint(r.data)
	if r.bad = r.bad || n <= 0 || v > uint64(len(r.data)-n); r.bad {
		return nil
	}
	r.data = r.data[n:]
	return r.take(int(v))
}
