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

// place is where an event stands among those of its side: by time, then by where it was
// read first. That does not depend on when it was copied.
type place struct {
	time   int64
	source deadletter.Position
}

func (p *place) compare(o *place) int {
	return cmp.Or(cmp.Compare(p.time, o.time), p.source.Compare(o.source))
}

// row is an event that waits for others of its pairs.
type row struct {
	place
	of      *bucket
	offset  int64 // in the partition
	right   bool
	stored  bool     // it waits
	matched bool     // a pair of it went on, or is its best
	best    *place   // of a left: that of the right which it goes on with
	data    *content // nil if only the state has it
	size    int      // as it is stored
	written bool     // the state has it
	gone    bool     // it waits no more
	dirty   bool     // it is to be written or deleted
}

// content is what is stored of a row.
type content struct {
	operator.Identity
	row   []byte // its names and values
	count int64  // of a left: how many rights it met
	best  event  // of a left, if its row has a best
}

// event is a right as its left has it.
type event struct {
	id, source string
	row        []byte
}

const version = 1

// Flags of a row.
const (
	isMatched = 1 << iota
	hasBest
	ofClient
)

// append appends a row as it is stored.
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

// parse reads what append wrote.
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

// positionOf returns where an event was read first; the zero value if nothing says so.
func positionOf(source string) deadletter.Position {
	p, _ := deadletter.ParsePosition(source)
	return p
}

// key is the state key of the row.
func (r *row) key() []byte { return statekey.AppendJoinRow(nil, r.of.name, r.right, r.offset) }

// add sets the names that a left gets of a right.
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
