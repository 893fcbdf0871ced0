package task

import (
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// Groups collect events, and joins make pairs, in log order, before the waves. The event made of a
// group or pair is an item of its own. It comes after the event that completes it, or before the
// event that ends it by its watermark.

// compose makes the events of the groups and pairs that ended at a watermark and offset. It runs
// them through the remaining operators before the waves. It returns their approximate size in
// bytes.
func (ch *chunk) compose(p *partition, watermark int64, at stream.Offset) (bytes int, err error) {
	for _, e := range p.groups.Ended() {
		e.At = at
		c := composed{item: item{group: e}, place: ch.plan.groups[e.Group.Index], byTime: e.ByTime(), until: e.Time, refused: e.Refused()}
		c.Time, c.compose = e.Time, func(row *value.Row) (*stream.Record, error) { return p.groups.Compose(e, row) }
		if err := c.goOn(ch, p, watermark); err != nil {
			return 0, err
		}
		bytes += e.Bytes
	}
	for _, e := range p.joins.Ended() {
		e.At = at
		c := composed{item: item{joined: e}, place: ch.plan.join, byTime: e.ByTime(), until: e.Due, dropped: e.Join.Inner && !e.Matched()}
		c.Time, c.compose = e.Time, func(row *value.Row) (*stream.Record, error) { return p.joins.Compose(e, row) }
		if err := c.goOn(ch, p, watermark); err != nil {
			return 0, err
		}
		bytes += len(c.Record.Value)
	}
	return bytes, nil
}

// composed is an event that is made of others.
type composed struct {
	item
	compose func(*value.Row) (*stream.Record, error)
	place   int   // number of the operator that made it, from 1
	byTime  bool  // time ended it, at until
	until   int64 // end time; used if byTime is set
	refused error // why it becomes a dead letter
	dropped bool
}

// goOn makes the event, and runs it through the remaining operators before the waves.
func (c *composed) goOn(ch *chunk, p *partition, watermark int64) (err error) {
	c.Row = &ch.plan.Schema.NewRows(1)[0]
	if c.Record, err = c.compose(c.Row); err != nil {
		return err
	}
	c.Index, c.Kept, c.Origin, c.partition, c.point = int32(len(ch.items)), p, &p.origin, p, point{seen: true, judged: true}
	c.Place = c.madeAt()
	if c.Watermark = watermark; c.byTime {
		c.Watermark = c.until
		ch.mark(p, due.Mark{Item: c.Index, Offset: int64(c.Place.Offset), Watermark: watermark, Until: c.until - 1})
	}
	ch.items = append(ch.items, c.item)
	it := &ch.items[c.Index]
	if ch.plan.Sources != nil {
		if it.Source = ch.copiedFrom(it.Record); it.Source == nil {
			return errHeaders
		}
		if it.source, err = ch.plan.source(*it.Source); err != nil {
			return err
		}
	}
	ch.setMeta(it)
	if c.dropped { // it lacks fields that the next operators need
		it.Become(operator.Filtered)
		return nil
	}
	var on bool
	it.point.done, on, err = ch.plan.resumption.beyond(it.Row, c.place)
	switch {
	case c.refused != nil:
		err = c.refused
	case err == nil && !on:
		it.Become(operator.Filtered)
	}
	if err != nil {
		it.failAt(&ch.plan.Stages[c.place-1], err)
	}
	if it.Alive() && !ch.plan.Stateless() {
		if err := ch.link(it.Index, it, nil); err != nil {
			return err
		}
	}
	return ch.stages(it)
}
