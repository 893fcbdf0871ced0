package task

import (
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/stream"
)

// Groups are collected in log order, before the waves. The event made of one is an
// item of its own: behind the event that completes the group, or before the one
// whose watermark ends it.

// compose makes the events of the groups that ended at a watermark and offset, and
// takes them through the rest of the stages before the waves. It returns about how
// many bytes they have.
func (ch *chunk) compose(p *partition, watermark int64, at stream.Offset) (bytes int, err error) {
	for _, e := range p.groups.Ended() {
		e.At = at
		seen := watermark
		if e.ByTime() {
			seen = e.Time
		}
		row := &ch.plan.Schema.NewRows(1)[0]
		record, err := p.groups.Compose(e, row)
		if err != nil {
			return 0, err
		}
		ch.items = append(ch.items, item{
			Event: output.Event{
				Event:  operator.Event{Record: record, Row: row, Time: e.Time, Watermark: seen, Index: int32(len(ch.items)), Kept: p},
				Origin: &p.origin, Place: e.Place(),
			},
			partition: p, group: e, point: point{seen: true, judged: true},
		})
		it := &ch.items[len(ch.items)-1]
		if e.ByTime() {
			ch.mark(p, due.Mark{Item: it.Index, Offset: int64(at), Watermark: watermark, Until: e.Time - 1})
		}
		if p.sources != nil {
			if it.source, err = p.sources.topic(header.Get(record, header.Copied)); err != nil {
				return 0, err
			}
		}
		ch.setMeta(it)
		var on bool
		place := ch.plan.groups[e.Group.Index]
		if it.point.done, on, err = ch.plan.resumption.beyond(row, place); err == nil {
			if err = e.Refused(); !on {
				it.Become(operator.Filtered)
			}
		}
		if err != nil {
			it.failAt(&ch.plan.Stages[place-1], err)
		}
		if it.Alive() && !ch.plan.Stateless() {
			if err := ch.link(it.Index, it, nil); err != nil {
				return 0, err
			}
		}
		if err := ch.stages(it); err != nil {
			return 0, err
		}
		bytes += e.Bytes
	}
	return bytes, nil
}
