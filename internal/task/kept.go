package task

import (
	"github.com/afterbay/afterbay/internal/task/group"
	"github.com/afterbay/afterbay/internal/task/join"
	"github.com/afterbay/afterbay/internal/task/operator"
)

var _ operator.Kept = (*partition)(nil)

// item returns the item of an event of the chunk.
func (p *partition) item(e *operator.Event) *item { return &p.chunk.items[e.Index] }

// TableRow implements operator.Kept.
func (p *partition) TableRow(e *operator.Event, table int, key []byte) ([]byte, error) {
	row, failure, fatal := p.tables.Row(table, key, e.Time, e.Watermark)
	if fatal != nil {
		return nil, operator.AsFatal(fatal)
	}
	return row, failure
}

// PutRow implements operator.Kept.
func (p *partition) PutRow(e *operator.Event, m *operator.Emit) {
	if row, ok := p.chunk.building.Row(m, &p.item(e).Event); ok {
		p.tables.Put(m.Table-1, e.Record.Key, row)
	}
}

// Count implements operator.Kept.
func (p *partition) Count(e *operator.Event, f *operator.Features) error {
	return p.keys.Features(p.item(e).key, f, e)
}

// Collect implements operator.Kept.
func (p *partition) Collect(e *operator.Event, g *operator.Group) error {
	bytes, failure, fatal := p.groups.Add(group.Event{
		Group: g, Key: e.Record.Key, Offset: int64(e.Record.Offset), Time: e.Time, Watermark: e.Watermark, Row: e.Row,
		Identity: operator.IdentityOf(e.Row.Text(p.chunk.plan.Meta.ID), e.Record),
	})
	p.chunk.building.Carry(bytes)
	switch {
	case fatal != nil:
		return operator.AsFatal(fatal)
	case failure != nil:
		return failure
	case bytes > 0 && g.Stores():
		e.Become(operator.Collected)
	default:
		e.Become(operator.Known)
	}
	return nil
}

// Join implements operator.Kept.
func (p *partition) Join(e *operator.Event, j *operator.Join) error {
	right := p.item(e).source != j.Left
	bytes, failure, fatal := p.joins.Add(join.Event{
		Record: e.Record, Right: right, Time: e.Time, Watermark: e.Watermark, Row: e.Row,
		Identity: operator.IdentityOf(e.Row.Text(p.chunk.plan.Meta.ID), e.Record), Tied: p.tied(1 - j.Left),
	})
	p.chunk.building.Carry(bytes)
	switch {
	case fatal != nil:
		return operator.AsFatal(fatal)
	case failure != nil:
		return failure
	case right:
		e.Become(operator.Joined)
	default:
		e.Become(operator.Collected)
	}
	return nil
}

// State implements operator.Kept.
func (p *partition) State(e *operator.Event, c *operator.Call) (string, *operator.State, error) {
	k := p.item(e).key
	state, err := p.chunk.fire(p, k, c, e.Index, e.Watermark)
	if err != nil {
		return "", nil, operator.AsFatal(err)
	}
	return k.Name, state.Keyed, nil
}

// Until implements operator.Kept.
func (p *partition) Until(e *operator.Event) int64 {
	return e.Time + p.chunk.plan.Keep.Microseconds()
}

// Keep implements operator.Kept.
func (p *partition) Keep(e *operator.Event, c *operator.Call, next *operator.State) error {
	k := p.item(e).key
	state, err := p.keys.Call(k, c)
	if err != nil {
		return operator.AsFatal(err)
	}
	p.chunk.keep(p, k, state, next)
	return nil
}
