package task

import (
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// admission decodes what is read, and decides what goes on to the operators.
type admission struct {
	*committer
	scanners []*decode.Scanner // by source; the only one where there are none
	idling   bool              // time moves on, without an event
	keyBuf   []byte
}

// admit decodes the event and finds its key, time and watermark.
func (a *admission) admit(it *item) {
	r, plan, p := it.Record, a.plan, it.partition
	if a.idling {
		it.Watermark, it.Outcome = p.watermark(plan.Time.Lateness), operator.Tick
		return
	}
	if len(r.Headers) > 0 && !a.returned(it) || plan.Sources != nil && !a.read(it) {
		return
	}
	if len(r.Value) > plan.MaxBytes && !it.point.judged {
		it.fail("decode", fmt.Errorf("value of %d bytes is over max_bytes of %d", len(r.Value), plan.MaxBytes))
		return
	}
	if err := a.scanners[it.source].Scan(r.Value, it.Row); err != nil {
		it.fail("decode", err)
		return
	}
	if plan.Copy == nil && plan.Sources == nil {
		a.keyBuf = it.Row.AppendKey(a.keyBuf[:0], plan.Key)
		if string(a.keyBuf) != string(r.Key) {
			it.fail("key", fmt.Errorf("field %s is %q but the record was written with key %q: produce with --key %s, or set input.repartition", plan.Key.Name, a.keyBuf, r.Key, plan.Key.Name))
			return
		}
	}
	t, err := r.Time.UnixMicro(), error(nil)
	if !it.point.judged {
		t, err = plan.Time.Of(it.Row, r.Time, a.shared.times)
	}
	if err != nil {
		it.fail("time", err)
		return
	}
	it.Time = t
	if plan.Sources == nil {
		before := p.watermark(plan.Time.Lateness)
		p.newest = max(p.newest, t)
		it.Watermark = p.watermark(plan.Time.Lateness)
		it.broadcast = plan.Copy != nil && broadcasts(before, it.Watermark)
	}
	a.setMeta(it)
	if it.point.judged {
		a.rerun(it)
	}
}

// judge looks at whether the event was seen before, or comes late.
func (a *admission) judge(it *item) {
	if p, t := it.partition, it.Time; p.ids != nil && !it.point.seen {
		a.keyBuf = it.Row.AppendKey(a.keyBuf[:0], a.plan.Dedupe.Slot)
		if p.ids.Seen(value.Text(a.keyBuf), t, p.newest) {
			it.Become(operator.Duplicate)
			return
		}
	}
	if it.Time < it.Watermark && !it.point.judged && !a.appended(it) {
		a.late(it)
	}
}

// appended reports whether the event's time is that of its append, so that it is not
// late: producers who append at once come in another order than their clocks.
func (a *admission) appended(it *item) bool {
	return a.plan.Sources != nil && a.plan.Sources[it.source].Appended || a.plan.Time.Appended && !header.Written(it.Record.Headers)
}

func (a *admission) late(it *item) {
	it.late = true
	switch a.plan.Time.Late {
	case operator.LateDead:
		it.fail("late", fmt.Errorf("event time is %v before the watermark", time.Duration(it.Watermark-it.Time)*time.Microsecond))
	case operator.LateDrop:
		it.Become(operator.Late)
	case operator.LateTopic:
		it.Become(operator.Diverted)
	}
}

func (a *admission) setMeta(it *item) {
	m, r := &a.plan.Meta, it.Record
	it.Row.SetInt(m.Time, it.Time)
	from := deadletter.Position{Partition: r.Partition, Offset: r.Offset}
	if it.Return != nil {
		from = it.Return.Origin
	} else if it.Place != nil {
		from = *it.Place
	}
	it.Row.SetInt(m.Partition, int64(from.Index))
	it.Row.SetInt(m.Offset, int64(from.Offset))
	it.Row.SetText(m.Key, value.Text(r.Key))
	it.Row.SetText(m.ID, a.building.ID(r))
	if m.Topic != nil {
		it.Row.SetText(*m.Topic, a.plan.Sources[it.source].Topic)
	}
}

// returned looks at whether the event was a dead letter that was sent back, and
// takes its row from there. It reports whether there is an event to go on with:
// an event for another pipeline and a client's cancel are not.
func (a *admission) returned(it *item) bool {
	it.Return = deadletter.Returned(it.Record.Headers)
	switch {
	case it.partition.queue.Cancels(it.Record), it.Return != nil && it.Return.Letters != a.plan.DeadTopic:
		it.Become(operator.Notice)
		return false
	case it.Return == nil:
		return true
	}
	var err error
	if it.point, err = a.plan.resumption.find(it.Return.Resume); err == nil && it.point.judged {
		err = a.plan.resumption.restore(it.Row, it.Return.Row)
	}
	if err != nil {
		it.fail("redrive", err)
	}
	return err == nil
}

// rerun brings the event to where it failed.
func (a *admission) rerun(it *item) {
	on, err := a.plan.resumption.rerun(it.Row, it.point.done)
	if err != nil {
		it.fail("redrive", err)
	}
	if !on && err == nil {
		it.Become(operator.Filtered)
	}
}

// read takes in what a copy or a broadcast says of its source. It reports
// whether there is an event to go on with.
func (a *admission) read(it *item) bool {
	p := it.partition
	if it.Return != nil { // which said what it had to say when it came first
		var err error
		if it.source, err = p.sources.topic(it.Return.Source); err != nil {
			it.fail("source", err)
		}
		it.Watermark = p.newest
		return err == nil
	}
	var from, watermark string
	for i := range it.Record.Headers {
		switch h := &it.Record.Headers[i]; h.Key {
		case header.Source:
			from = value.Text(h.Value)
		case header.Watermark:
			watermark = value.Text(h.Value)
		}
	}
	mark, err := p.sources.read(from, watermark)
	if err != nil {
		it.fail("source", err)
		return false
	}
	p.newest = max(p.newest, p.sources.take(mark))
	it.source, it.Watermark = mark.topic, p.newest
	if !mark.event {
		it.Become(operator.Notice)
	}
	return mark.event
}
