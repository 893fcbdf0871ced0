package join

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// Joined is a left event that continues, with or without a right event.
type Joined struct {
	Join *operator.Join
	Time int64         // event time: of the later event of a pair, or of the end of the wait
	Due  int64         // time of its entry in the queue; math.MaxInt64 if an event released it
	At   stream.Offset // offset of the event that released it; the caller sets it

	of     string // name of its bucket
	offset int64  // offset of the left event
	left   *content
	right  *event
}

// ByTime reports whether the watermark released it, rather than an event.
func (e *Joined) ByTime() bool { return e.Due != never }

// Matched reports whether it has a right event.
func (e *Joined) Matched() bool { return e.right != nil }

// Compose makes the event. Its row is the row of the left with the fields of the right; its
// value has the fields of both. An error means that the state is damaged or unreadable.
func (s *Set) Compose(e *Joined, row *value.Row) (*stream.Record, error) {
	j := e.Join
	_, key, _, _ := statekey.GroupOf([]byte(e.of))
	r := &stream.Record{Partition: s.id, Offset: stream.Offset(e.offset), Time: time.UnixMicro(e.Time).UTC(), Key: key}
	if !operator.SetNamed(row, s.plan.Schema, e.left.row) {
		return nil, fmt.Errorf("join %q of %v: %w", j.Name, s.id, packed.ErrDamaged)
	}
	right := ""
	if row.SetBool(j.Matched, e.right != nil); e.right != nil {
		if err := add(row, j.Fields, e.right.row); err != nil {
			return nil, fmt.Errorf("join %q of %v: %w", j.Name, s.id, err)
		}
		if j.Match == operator.MatchEach {
			right = e.right.id
		}
	}
	if j.Count != nil {
		row.SetInt(*j.Count, e.left.count)
	}
	identity := e.left.Identity
	identity.ID = header.OfJoin(identity.ID, j.Name, right)
	r.Headers, r.Value = identity.Headers(), s.value(j, row)
	return r, nil
}

// value returns the JSON of the event.
func (s *Set) value(j *operator.Join, row *value.Row) []byte {
	dst := []byte{'{'}
	dst = operator.AppendFields(dst, row, s.plan.Fields)
	dst = append(strconv.AppendQuote(dst, j.Name), `:{"matched":`...)
	dst = expression.AppendValue(dst, row, &j.Matched)
	for i := range j.Fields {
		if f := &j.Fields[i]; row.Has(f.Slot) {
			dst = append(strconv.AppendQuote(append(dst, ','), f.Field.Name), ':')
			dst = expression.AppendValue(dst, row, &f.Slot)
		}
	}
	return append(dst, "}}"...)
}

// Ref returns the reference that Attached uses to restore a queued event. It returns nil if e is
// nil.
func (e *Joined) Ref() []byte {
	if e == nil {
		return nil
	}
	return binary.AppendVarint(nil, int64(e.At))
}

// Attached returns the Joined that a queued event refers to, or nil if the event is not of a join.
func (p *Plan) Attached(ref []byte) *Joined {
	if p.Join == nil || len(ref) == 0 {
		return nil
	}
	at, _ := binary.Varint(ref)
	return &Joined{Join: p.Join, At: stream.Offset(at)}
}
