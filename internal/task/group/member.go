package group

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// member is an event of a group.
type member struct {
	of         int64 // anchor of its series
	offset     int64
	order      int64
	time       int64
	id         string
	source     *deadletter.Position // position that it was copied from; nil if it is not a copy
	value      []byte               // stored form; nil if the state has it
	aggregates []aggregate
	size       int32 // size of value
	end        bool
	written    bool
	gone       bool
}

// compare compares members by (time, source, offset). It uses the source offset of a copied event,
// because the offset of the copy depends on the time of copying.
func (m *member) compare(o *member) int {
	if c := cmp.Compare(m.time, o.time); c != 0 {
		return c
	}
	switch {
	case m.source == nil && o.source == nil:
		return cmp.Compare(m.offset, o.offset)
	case m.source == nil:
		return -1
	case o.source == nil:
		return 1
	}
	return cmp.Or(m.source.Compare(*o.source), cmp.Compare(m.offset, o.offset))
}

// byOrder compares members by (order, time, source, offset).
func (m *member) byOrder(o *member) int {
	if c := cmp.Compare(m.order, o.order); c != 0 {
		return c
	}
	return m.compare(o)
}

// comesFrom sets the source position of a copy. source is "" if the event is not a copy.
func (m *member) comesFrom(source string) {
	if source == "" {
		return
	}
	if from, err := deadletter.ParsePosition(source); err == nil {
		m.source = &from
	}
}

const version = 1 // version of a stored member

// Flags of a member.
const (
	isLast   = 1 << iota
	ofClient // a client sent it, and its headers are stored
	isAggregated
)

// append appends the stored form of a member: its place in the group, and the names of its row with
// their values. So a pipeline with other names can read it later.
func (m *member) append(dst []byte, e *Event, schema *value.Schema) []byte {
	flags, identity := byte(0), e.Identity
	if !e.Group.Stores() {
		identity.Client = operator.Client{} // its client is notified at once
	}
	if m.end {
		flags |= isLast
	}
	if identity.Client.Sent() {
		flags |= ofClient
	}
	stored := e.Group.Stores() && len(m.aggregates) > 0
	if stored {
		flags |= isAggregated
	}
	dst = append(dst, version, flags)
	dst = binary.AppendVarint(binary.AppendVarint(dst, m.order), m.time)
	dst = identity.Append(packed.AppendText(dst, m.id))
	if stored {
		dst = appendAggregates(dst, m.aggregates)
	}
	return operator.AppendNamed(dst, e.Row, schema.Slots)
}

// stored is the parsed output of append for a member.
type stored struct {
	operator.Identity
	row []byte
}

// parse parses the output of append.
func (m *member) parse(data []byte) (stored, error) {
	r := packed.Reader{Rest: data}
	v := r.Byte()
	flags := r.Byte()
	m.end = flags&isLast != 0
	m.order, m.time = r.Signed(), r.Signed()
	m.id = string(r.Text())
	s := stored{Identity: operator.ReadIdentity(&r, flags&ofClient != 0)}
	if flags&isAggregated != 0 {
		m.aggregates = aggregatesFrom(&r)
	}
	m.size = int32(len(data))
	m.comesFrom(s.Source)
	if s.row = r.Rest; r.Bad || v != version {
		return s, packed.ErrDamaged
	}
	return s, nil
}

// each calls take with the names of a row and their values: 8 bytes, or a text.
func (s *stored) each(take func(name []byte, kind value.Kind, held []byte)) error {
	if !operator.EachNamed(s.row, take) {
		return packed.ErrDamaged
	}
	return nil
}

// restore sets the values of a row for each name that still has the same type. The texts share
// memory with the member.
func (s *stored) restore(row *value.Row, schema *value.Schema) error {
	if !operator.SetNamed(row, schema, s.row) {
		return packed.ErrDamaged
	}
	return nil
}

// load reads the members of a series from the state.
func (s *Set) load(q *series) error {
	if q.loaded {
		return nil
	}
	var members []*member
	err := scan(s.view, s.id, q.anchor, func(m *member, data []byte) error {
		if q.spec.Folded {
			m.value = data
		}
		_, err := m.parse(data)
		members = append(members, m)
		return err
	})
	if err != nil {
		return err
	}
	q.loaded = true
	if q.spec.Folded {
		for _, m := range members {
			s.leave(m)
		}
		q.cutAll(members)
		return nil
	}
	if bytes := q.bytes; q.cutAll(members) != bytes {
		return fmt.Errorf("group in %v: %w", s.id, packed.ErrDamaged)
	}
	return nil
}

func scan(view stream.View, id stream.Partition, anchor int64, take func(*member, []byte) error) error {
	prefix := statekey.AppendMembers(nil, anchor)
	for entry, err := range view.Scan(prefix) {
		if err != nil {
			return err
		}
		if len(entry.Key) != len(prefix)+8 {
			return fmt.Errorf("group in %v: %w", id, packed.ErrDamaged)
		}
		m := &member{of: anchor, offset: int64(binary.BigEndian.Uint64(entry.Key[len(prefix):])), written: true}
		if err := take(m, entry.Value); err != nil {
			return fmt.Errorf("group in %v: %w", id, err)
		}
	}
	return nil
}

// restore restores an entry of the state: a series, a group that ended, or windows.
func (s *Set) restore(entry stream.Entry) error {
	if entry.Key[0] == statekey.Pane {
		return s.restorePane(entry.Key, entry.Value)
	}
	name, ended := string(entry.Key), false
	ok := true
	if entry.Key[0] == statekey.Ended {
		name, ok = statekey.EndedOf(entry.Key)
		ended = true
	}
	var group string
	if ok {
		group, _, _, ok = statekey.GroupOf([]byte(name))
	}
	spec := s.plan.find(group)
	if windows := spec != nil && spec.Windows() || len(entry.Value) > 0 && entry.Value[0] == windowsVersion; ok && !ended && windows {
		return s.restoreWindows(spec, group, name, entry.Value)
	}
	if !ended && len(entry.Value) > 0 && entry.Value[0] == foldsVersion && (spec == nil || !spec.Folded) {
		return s.foreign(group)
	}
	q, p := &series{name: name, at: never, spec: spec}, &past{key: string(entry.Key)}
	if ok && ended {
		ok = p.parse(entry.Value)
	} else if ok {
		ended, ok = q.parse(entry.Value, p)
	}
	switch {
	case !ok:
		return fmt.Errorf("a group of %v: %w", s.id, packed.ErrDamaged)
	case q.spec == nil && ended:
		s.gone = append(s.gone, entry.Key)
		return nil
	case q.spec == nil:
		return s.foreign(group)
	case !ended:
		s.series[name] = q
		return nil
	}
	p.of = s.of(q.spec, name)
	if entry.Key[0] == statekey.Ended {
		s.know(p)
		return nil
	}
	s.gone = append(s.gone, entry.Key)
	p.key = string(statekey.AppendEnded(nil, name, -1))
	s.learn(p)
	return nil
}

const seriesVersion = 2

// append appends the stored form of a series. It holds the anchor of the members, and the number of
// groups and bytes. It also holds the time when the first group ends, and the limits that delimited
// the groups.
func (s *series) append(dst []byte) []byte {
	if s.spec.Folded {
		return s.appendFolds(dst)
	}
	dst = append(dst, seriesVersion)
	for _, n := range []int64{s.anchor, int64(s.open), int64(s.bytes), s.groups[0].over(), int64(s.spec.Idle), int64(s.spec.Within)} {
		dst = binary.AppendVarint(dst, n)
	}
	return dst
}

// parse parses the output of append. Version 1 had a flag. For an open group it had the offset and
// time of its first event, its newest time and its bytes. An ended group is parsed into p.
func (s *series) parse(data []byte, p *past) (ended, ok bool) {
	r := packed.Reader{Rest: data}
	switch v, spec := r.Byte(), s.spec; {
	case v == 1 && r.Byte() == 1:
		return true, p.parseFirst(&r)
	case v == 1:
		s.anchor, s.stale, s.open = r.Signed(), true, 1
		r.Signed()
		r.Signed()
		s.bytes = int(r.Signed())
	case v == seriesVersion:
		s.anchor, s.open, s.bytes, s.ends = r.Signed(), int(r.Signed()), int(r.Signed()), r.Signed()
		idle, within := r.Signed(), r.Signed()
		s.stale = spec != nil && (spec.Folded || idle != int64(spec.Idle) || within != int64(spec.Within))
	case v == foldsVersion && spec != nil && spec.Folded:
		return false, s.parseFolds(&r)
	default:
		return false, false
	}
	return false, r.Whole() && s.open > 0
}
