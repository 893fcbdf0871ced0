package join

import (
	"cmp"
	"encoding/binary"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// place orders the events of one side: by time, then by the position in the source topic.
// The time of copying does not matter.
type place struct {
	time   int64
	source deadletter.Position
}

func (p *place) compare(o *place) int {
	return cmp.Or(cmp.Compare(p.time, o.time), p.source.Compare(o.source))
}

// row is an event that waits for the other side of its pairs.
type row struct {
	place
	of      *bucket
	offset  int64 // in the partition
	right   bool
	stored  bool     // it is in its bucket
	matched bool     // it is in a pair
	best    *place   // of a left: the place of its best right
	data    *content // nil if it is in the state only
	size    int      // size of the stored form, in bytes
	written bool     // the state has it
	gone    bool     // it has ended
	dirty   bool     // the next transaction writes or deletes it
}

// content is the stored form of a row, without its place.
type content struct {
	operator.Identity
	row   []byte // its names and values
	count int64  // of a left: number of its rights
	best  event  // of a left with a best right
}

// event is the copy of a right that its left keeps.
type event struct {
	id, source string
	row        []byte
}

// event returns the copy of a right for its left.
func (r *row) event() event { return event{r.data.ID, r.data.Source, r.data.row} }

// size returns about how many bytes the state stores for it.
func (e event) size() int { return len(e.id) + len(e.source) + len(e.row) }

const version = 1

// Flags of a row.
const (
	isMatched = 1 << iota
	hasBest
	ofClient
)

// append appends the stored form of a row.
func (r *row) append(dst []byte) []byte {
	flags, c := byte(0), r.data
	if r.matched {
		flags |= isMatched
	}
	if r.best != nil {
		flags |= hasBest
	}
	if c.Client.Sent() {
		flags |= ofClient
	}
	dst = c.Append(binary.AppendVarint(append(dst, version, flags), r.time))
	dst = binary.AppendVarint(packed.AppendText(dst, c.row), c.count)
	if r.best != nil {
		dst = binary.AppendVarint(dst, r.best.time)
		dst = packed.AppendText(packed.AppendText(packed.AppendText(dst, c.best.id), c.best.source), c.best.row)
	}
	return dst
}

// parse parses the output of append.
func (r *row) parse(data []byte) error {
	p, c := packed.Reader{Rest: data}, &content{}
	v, flags := p.Byte(), p.Byte()
	r.size, r.matched, r.time = len(data), flags&isMatched != 0, p.Signed()
	c.Identity = operator.ReadIdentity(&p, flags&ofClient != 0)
	c.row, c.count = p.Text(), p.Signed()
	if r.source = positionOf(c.Source); flags&hasBest != 0 {
		r.best = &place{time: p.Signed()}
		c.best = event{string(p.Text()), string(p.Text()), p.Text()}
		r.best.source = positionOf(c.best.source)
	}
	if !p.Whole() || v != version {
		return packed.ErrDamaged
	}
	r.data = c
	return nil
}

// positionOf parses the source position of an event. It returns the zero value if the position is
// invalid.
func positionOf(source string) deadletter.Position {
	p, _ := deadletter.ParsePosition(source)
	return p
}

// key is the state key of the row.
func (r *row) key() []byte { return statekey.AppendJoinRow(nil, r.of.name, r.right, r.offset) }

// add sets the fields of a right in the row of its left.
func add(row *value.Row, fields []operator.JoinField, data []byte) error {
	ok := operator.EachNamed(data, func(name []byte, kind value.Kind, held []byte) {
		for i := range fields {
			if fields[i].Field.Name == string(name) {
				operator.SetHeld(row, fields[i].Slot, kind, held)
			}
		}
	})
	if !ok {
		return packed.ErrDamaged
	}
	return nil
}
