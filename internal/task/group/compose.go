package group

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// Ended is a group that ended, and the event that continues in its place.
type Ended struct {
	Group    *operator.Group
	Reason   Reason
	Time     int64         // event time: of its newest member, or the end of the group without one
	Start    int64         // start of a window
	Count    int64         // number of its events
	Offset   int64         // offset of its newest member, which becomes the offset of its record
	At       stream.Offset // offset of the event that ended it; the caller sets it
	Complete bool
	Missing  int64 // number of missing orders
	Bytes    int

	aggregates []aggregate

	name    string
	first   *member   // first member by time
	of      int64     // anchor of its members
	members []*member // by order
	repeats []*member // members that repeat an id and are ignored
	holes   []int64   // first orders of Missing
	shared  bool      // members of other groups have the same anchor
	ref     bool      // its members are only in the state
}

// ByTime reports whether time ended the group, rather than an event. The group then ended at Time.
func (e *Ended) ByTime() bool { return e.Reason == Idle || e.Reason == Timeout || e.Reason == Window }

// gather takes the members and aggregates of a fold.
func (e *Ended) gather(f *fold) {
	e.Count, e.Offset, e.first, e.members, e.aggregates = f.count, f.newest, f.first, []*member{f.first}, f.aggregates
	e.of = ^f.newest // for groups that store no events
}

// Compose makes the event of a group. Its row is the row of the first member in order, with the
// names that the group introduces. Its value has the fields of the input and the offsets of the
// members. It has the client headers of the newest member. An error means that the state is damaged
// or unreadable.
func (s *Set) Compose(e *Ended, row *value.Row) (*stream.Record, error) {
	key, by := e.key()
	r := &stream.Record{Partition: s.id, Offset: stream.Offset(e.Offset), Time: time.UnixMicro(e.Time).UTC(), Key: key}
	list, err := s.read(e.members)
	if err != nil {
		return nil, err
	}
	identity := operator.Identity{Source: list[0].Source}
	for i, m := range e.members {
		if m == e.first {
			identity.ID = header.OfGroup(list[i].ID, e.label())
		}
		if m.offset == e.Offset {
			identity.Client = list[i].Client
		}
	}
	if err := list[0].restore(row, s.plan.Schema); err != nil {
		return nil, fmt.Errorf("group in %v: %w", s.id, err)
	}
	if err := gather(e.Group, row, list); err != nil {
		return nil, fmt.Errorf("group in %v: %w", s.id, err)
	}
	g := e.Group
	row.SetText(g.Columns.Key, by)
	row.SetInt(g.Columns.Count, e.Count)
	row.SetBool(g.Columns.Complete, e.Complete)
	row.SetInt(g.Columns.Missing, e.Missing)
	row.SetText(g.Columns.Ended, e.Reason.String())
	if g.Windows() {
		row.SetInt(g.Columns.Start, e.Start)
		row.SetInt(g.Columns.End, e.Time)
	}
	for i := range g.Values {
		e.aggregates[i].set(&g.Values[i], row)
	}
	r.Headers, r.Value = identity.Headers(), s.value(e, row)
	return r, nil
}

// label returns the suffix of the event's id: the group's name and, for a window, its start. Two
// windows may have the same first event.
func (e *Ended) label() string {
	if !e.Group.Windows() {
		return e.Group.Name
	}
	return e.Group.Name + "@" + time.UnixMicro(e.Start).UTC().Format(time.RFC3339Nano)
}

// value returns the JSON of the event: the fields of the input, and the group's.
func (s *Set) value(e *Ended, row *value.Row) []byte {
	dst := []byte{'{'}
	dst = operator.AppendFields(dst, row, s.plan.Fields)
	dst = append(strconv.AppendQuote(dst, e.Group.Name), `:{"key":`...)
	dst = expression.AppendValue(dst, row, &e.Group.Columns.Key)
	if !e.Group.Stores() {
		return fmt.Appendf(dst, `,"ended":%q,"count":%d}}`, e.Reason, e.Count)
	}
	dst = fmt.Appendf(dst, `,"ended":%q,"missing":%d,"members":[`, e.Reason, e.Missing)
	for i, m := range e.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, m.offset, 10)
	}
	return append(dst, "]}}"...)
}

// read returns the stored form of members.
func (s *Set) read(members []*member) ([]stored, error) {
	list := make([]stored, len(members))
	for i, m := range members {
		data, err := s.data(m)
		if err != nil {
			return nil, err
		}
		if list[i], err = (&member{}).parse(data); err != nil {
			return nil, fmt.Errorf("group in %v: %w", s.id, err)
		}
	}
	return list, nil
}

func (s *Set) data(m *member) ([]byte, error) {
	if m.value != nil {
		return m.value, nil
	}
	return s.view.Get(statekey.AppendMember(nil, m.of, m.offset))
}

// gather sets the lists of a row to the fields of members, in their order. A missing string becomes
// an empty one.
func gather(g *operator.Group, row *value.Row, list []stored) error {
	texts, has := make([][]byte, len(g.Lists)), make([]bool, len(g.Lists))
	for i := range list {
		clear(has)
		err := list[i].each(func(name []byte, kind value.Kind, held []byte) {
			for k := range g.Lists {
				if l := &g.Lists[k]; l.Field.Name != string(name) || l.Field.Type.Kind != kind {
					continue
				}
				if has[k] = true; kind == value.Bytes {
					texts[k] = append(texts[k], held...)
				} else {
					texts[k] = value.AppendString(texts[k], value.Text(held))
				}
			}
		})
		if err != nil {
			return err
		}
		for k := range g.Lists {
			if !has[k] && g.Lists[k].Slot.Type.Kind == value.List|value.String {
				texts[k] = value.AppendString(texts[k], "")
			}
		}
	}
	for k := range g.Lists {
		row.SetText(g.Lists[k].Slot, value.Text(texts[k]))
	}
	return nil
}

// Detach removes the lists from the row of an event that is queued. It returns a reference that
// Attach uses to restore them. The members stay in the state until Release, under an anchor of
// their own. Detach returns nil if e is nil.
func (s *Set) Detach(e *Ended, row *value.Row) ([]byte, error) {
	if e == nil {
		return nil, nil
	}
	for _, l := range e.Group.Lists {
		row.Clear(l.Slot)
	}
	if e.Group.Stores() && e.shared && !e.ref {
		e.of = ^e.Offset // no series begins at this anchor
		for _, m := range slices.Concat(e.members, e.repeats) {
			data, err := s.data(m)
			if err != nil {
				return nil, err
			}
			s.leave(m)
			s.fresh = append(s.fresh, &member{of: e.of, offset: m.offset, value: data})
		}
	}
	return binary.AppendVarint(binary.AppendVarint(binary.AppendUvarint(nil, uint64(e.Group.Index)), e.of), int64(e.At)), nil
}

// leave deletes a member from the state.
func (s *Set) leave(m *member) {
	if m.gone = true; m.written {
		s.gone = append(s.gone, statekey.AppendMember(nil, m.of, m.offset))
	}
}

// Attached returns the group that a queued event refers to, or nil if the event is not of a group.
func (p *Plan) Attached(ref []byte) *Ended {
	index, n := binary.Uvarint(ref)
	if n <= 0 || index >= uint64(len(p.Groups)) {
		return nil
	}
	anchor, m := binary.Varint(ref[n:])
	at, _ := binary.Varint(ref[n+max(m, 0):])
	return &Ended{Group: p.Groups[index], At: stream.Offset(at), of: anchor, ref: true}
}

// Attach restores the lists of a group in the row of an event that was queued.
func (p *Plan) Attach(view stream.View, id stream.Partition, ref []byte, row *value.Row) error {
	e := p.Attached(ref)
	if e == nil {
		return nil
	}
	g, kept := newGroup(e.Group), map[*member]stored{}
	err := scan(view, id, e.of, func(m *member, data []byte) (err error) {
		kept[m], err = m.parse(data)
		g.insert(m)
		return err
	})
	if err != nil {
		return err
	}
	var list []stored
	members, _ := g.split()
	for _, m := range members {
		list = append(list, kept[m])
	}
	return gather(e.Group, row, list)
}

// Release deletes the members of a group after its event was processed. If end is not nil, Release
// calls it for each member that a client sent. It skips the member at offset, because the event has
// the headers of that client.
func (s *Set) Release(e *Ended, offset stream.Offset, end func(*operator.Identity)) error {
	members := slices.Concat(e.members, e.repeats)
	if e.ref {
		err := scan(s.view, s.id, e.of, func(m *member, data []byte) error {
			m.value, members = data, append(members, m)
			return nil
		})
		if err != nil {
			return err
		}
	}
	var list []stored
	if end != nil {
		var err error
		if list, err = s.read(members); err != nil {
			return err
		}
	}
	for i, m := range members {
		if s.leave(m); end != nil && list[i].Client.Sent() && m.offset != int64(offset) {
			end(&list[i].Identity)
		}
	}
	return nil
}
