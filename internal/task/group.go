package task

import (
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/stream"
)

// Groups are collected, and pairs of a join made, in log order, before the waves. The event
// made of one is an item of its own: behind the event that completes it, or before the one
// whose watermark ends it.

// compose makes the events of the groups and pairs that ended at a watermark and offset,
// and takes them through the rest of the stages before the waves. It returns about how
// many bytes they have.
func (ch *chunk) compose(p *partition, watermark int64, at stream.Offset) (bytes int, err error) {
	for _, e := range p.groups.Ended() {
		e.At = at
		row := &ch.plan.Schema.NewRows(1)[0]
		record, err := p.groups.Compose(e, row)
		if err != nil {
			return 0, err
		}
		c := composed{item: composedOf(ch, p, record, row, e.Time, watermark), place: ch.plan.groups[e.Group.Index], refused: e.Refused()}
		if c.group, c.Place = e, e.Place(); e.ByTime() {
			c.due(e.Time)
		}
		if err := c.goOn(ch, at, watermark); err != nil {
			return 0, err
		}
		bytes += e.Bytes
	}
	for _, e := range p.joins.Ended() {
		e.At = at
		row := &ch.plan.Schema.NewRows(1)[0]
		record, err := p.joins.Compose(e, row)
		if err != nil {
			return 0, err
		}
		c := composed{item: composedOf(ch, p, record, row, e.Time, watermark), place: ch.plan.join, dropped: e.Join.Inner && !e.Matched()}
		if c.joined, c.Place = e, e.Place(); e.ByTime() {
			c.due(e.Due)
		}
		if err := c.goOn(ch, at, watermark); err != nil {
			return 0, err
		}
		bytes += len(record.Value)
	}
	return bytes, nil
}

// composed is an event that is made of others.
type composed struct {
	item
	place   int   // of the operator that made it, from 1
	byTime  bool  // time ended it, at until
	until   int64 // likewise
	refused error // why it is a dead letter
	dropped bool
}

func composedOf(ch *chunk, p *partition, record *stream.Record, row *value.Row, time, watermark int64) item {
	return item{
		Event: output.Event{
			Event:  operator.Event{Record: record, Row: row, Time: time, Watermark: watermark, Index: int32(len(ch.items)), Kept: p},
			Origin: &p.origin,
		},
		partition: p, point: point{seen: true, judged: true},
	}
}

// due notes that time ended it.
func (c *composed) due(at int64) { c.byTime, c.until, c.Watermark = true, at, at }

// goOn takes an event that ended at an offset and watermark through the rest of the stages
// before the waves.
func (c *composed) goOn(ch *chunk, at stream.Offset, watermark int64) error {
	ch.items = append(ch.items, c.item)
	it, p := &ch.items[len(ch.items)-1], c.partition
	if c.byTime {
		ch.mark(p, due.Mark{Item: it.Index, Offset: int64(at), Watermark: watermark, Until: c.until - 1})
	}
	var err error
	if p.sources != nil {
		if it.source, err = p.sources.topic(header.Get(it.Record, header.Copied)); err != nil {
			return err
		}
	}
	ch.setMeta(it)
	if c.dropped { // it lacks what the next stages need
		it.Become(operator.Filtered)
		return nil
	}
	var on bool
	if it.point.done, on, err = ch.plan.resumption.beyond(it.Row, c.place); err == nil {
		if err = c.refused; !on {
			it.Become(operator.Filtered)
		}
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
