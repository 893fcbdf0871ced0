package group

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/afterbay/afterbay/header"
	"github.com/afterbay/afterbay/internal/packed"
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
		dst = packed.AppendText(dst, text)
	}
	for _, slot := range schema.Slots {
		if !e.Row.Has(slot) || slot.Name[0] == 0 || strings.HasPrefix(slot.Name, "meta.") {
			continue
		}
		dst = append(packed.AppendText(dst, slot.Name), byte(slot.Type.Kind))
		if slot.Type.Kind.Text() {
			dst = packed.AppendText(dst, e.Row.Text(slot))
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
	r := packed.Reader{Rest: data}
	v := r.Byte()
	flags := r.Byte()
	m.end = flags&isLast != 0
	m.order, m.time = r.Signed(), r.Signed()
	m.id = string(r.Text())
	s := stored{id: string(r.Text()), source: string(r.Text())}
	for i := 0; flags&ofClient != 0 && i < len(contextKeys); i++ {
		if text := r.Text(); len(text) > 0 {
			s.context = append(s.context, stream.Header{Key: contextKeys[i], Value: bytes.Clone(text)})
		}
	}
	if s.row = r.Rest; r.Bad || v != version {
		return s, errDamaged
	}
	return s, nil
}

// each calls take with the names of a row and what holds them: 8 bytes, or a text.
func (s *stored) each(take func(name []byte, kind value.Kind, held []byte)) error {
	r := packed.Reader{Rest: s.row}
	for len(r.Rest) > 0 {
		name, kind := r.Text(), value.Kind(r.Byte())
		var held []byte
		if kind.Text() {
			held = r.Text()
		} else {
			held = r.Bytes(8)
		}
		if !r.Bad {
			take(name, kind, held)
		}
	}
	if r.Bad {
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
	r := packed.Reader{Rest: data}
	if r.Byte() != version {
		return false
	}
	if g.over = r.Byte() == 1; !g.over {
		g.first, g.since, g.last, g.bytes = r.Signed(), r.Signed(), r.Signed(), int(r.Signed())
		return r.Whole()
	}
	g.reason, g.at = Reason(r.Byte()), r.Signed()
	for len(r.Rest) > 0 {
		g.hashes = append(g.hashes, r.Word())
	}
	return !r.Bad && g.reason <= Full
}
