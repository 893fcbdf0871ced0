package task

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// admission decodes the records that were read and decides which events go on to the operators.
type admission struct {
	*committer
	decoders []*envelope.Reader // by source; one decoder if the plan has no Sources
	idling   bool               // time advances without an event
	now      time.Time          // when the chunk began
	keyBuf   []byte
	places   []deadletter.Position // source positions of the copies in the chunk
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
	if err := a.decode(it); err != nil {
		a.undecoded(it, err)
		return
	}
	if plan.Copy == nil && plan.Sources == nil {
		a.keyBuf = it.Row.AppendKey(a.keyBuf[:0], plan.Key)
		if string(a.keyBuf) != string(r.Key) && !a.keyed(it) {
			it.fail("key", fmt.Errorf("field %s is %q but the record was written with key %q: produce with --key %s, or set input.repartition", plan.Key.Name, a.keyBuf, r.Key, plan.keyPath()))
			return
		}
	}
	t, err := r.Time.UnixMicro(), operator.CheckAppended(r.Time)
	if err == nil && !it.point.judged {
		t, err = a.timeOf(it)
	}
	if err != nil {
		it.fail("time", err)
		return
	}
	it.Time = t
	if plan.Sources == nil {
		newest := t
		if plan.Copy != nil {
			newest = min(t, a.appendedAt(r))
		}
		p.newest = max(p.newest, newest)
		it.Watermark = p.watermark(plan.Time.Lateness)
	}
	a.setMeta(it)
	if it.point.judged {
		a.rerun(it)
	}
}

// keyed reports whether the key of the record is an encoded form of the key of the event. Without
// an envelope this is an error, because outputs would get the encoded form as their key.
func (a *admission) keyed(it *item) bool {
	if a.plan.Envelope == envelope.None {
		return false
	}
	key, err := a.decoders[it.source].Key(it.Record.Key)
	return err == nil && string(a.keyBuf) == string(key)
}

// decode reads the fields of an event. If a group or a join made the event, decode reads no value:
// the dead letter already supplied the row, and decode only checks that required fields are
// present.
func (a *admission) decode(it *item) error {
	if it.point.composed {
		return lacking(it.Row, a.plan.fields(it.source))
	}
	return a.decoders[it.source].Scan(it.Record, it.Row)
}

// undecoded handles a record that could not be decoded. A tombstone is not an event and is dropped.
// Any other record becomes a dead letter.
func (a *admission) undecoded(it *item, err error) {
	if errors.Is(err, envelope.ErrTombstone) {
		it.Become(operator.Filtered)
		return
	}
	it.fail("decode", err)
}

// timeOf returns the time of an event. A repartitioner accepts a time from a field up to max_ahead
// past its own clock. The append time is not used as this bound if it is ahead of that clock by
// more than clockSkew.
func (a *admission) timeOf(it *item) (int64, error) {
	appended := it.Record.Time
	if a.plan.Copy != nil && a.plan.Time.FromField {
		appended = time.UnixMicro(a.appendedAt(it.Record))
	}
	return a.plan.Time.Of(it.Row, appended, a.shared.times)
}

// judge checks whether the event is a duplicate or late.
func (a *admission) judge(it *item) {
	if p, t := it.partition, it.Time; p.ids != nil && !it.point.seen {
		a.keyBuf = it.Row.AppendKey(a.keyBuf[:0], a.plan.Dedupe.Slot)
		if p.ids.Seen(value.Text(a.keyBuf), t, p.newest) {
			it.Become(operator.Duplicate)
			return
		}
	}
	if a.plan.Copy != nil {
		return // its place in the order decides whether it is late
	}
	if a.plan.Sources == nil { // a copy already says whether it is late
		it.late = it.Time < it.Watermark && !it.point.judged && !a.appended(it)
	}
	if it.late {
		a.late(it)
	}
}

// appended reports whether the event's time is its append time. Such an event is never late,
// because producers that append at the same time can arrive in another order than their clocks.
func (a *admission) appended(it *item) bool {
	return a.plan.Time.Appended && !header.Written(it.Record.Headers)
}

func (a *admission) late(it *item) {
	switch a.plan.Time.Late {
	case operator.LateDead:
		err := fmt.Errorf("event time is %v before the watermark", time.Duration(it.Watermark-it.Time)*time.Microsecond)
		if a.plan.Sources != nil {
			err = fmt.Errorf("event time is more than the lateness of %v before the newest event time of its source partition", a.plan.Sources[it.source].Lateness)
		}
		it.fail("late", err)
	case operator.LateDrop:
		it.Become(operator.Late)
	case operator.LateTopic:
		it.Become(operator.Diverted)
	}
}

func (a *admission) setMeta(it *item) {
	m, r := &a.plan.Meta, it.Record
	it.Row.SetInt(m.Time, it.Time)
	from := it.From()
	it.Row.SetInt(m.Partition, int64(from.Index))
	it.Row.SetInt(m.Offset, int64(from.Offset))
	it.Row.SetText(m.Key, value.Text(r.Key))
	it.Row.SetText(m.ID, a.building.ID(r))
	if m.Topic != nil {
		it.Row.SetText(*m.Topic, a.plan.Sources[it.source].Topic)
	}
	for i := range m.Headers {
		m.Headers[i].Set(it.Row, r)
	}
}

// returned checks whether the event is a dead letter that was sent back. If so, it restores the row
// from the dead letter. It reports whether processing of the event continues. It does not continue
// for an event of another pipeline or a client's cancel.
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
		it.point.composed, err = a.plan.resumption.restore(it.Row, it.Return.Row)
	}
	if err != nil {
		it.fail("redrive", err)
	}
	return err == nil
}

// rerun brings the event to the operator where it failed.
func (a *admission) rerun(it *item) {
	on, err := a.plan.resumption.rerun(it.Row, it.point.done)
	if err != nil {
		it.fail("redrive", err)
	}
	if !on && err == nil {
		it.Become(operator.Filtered)
	}
}

// read applies what a copy or a mark says about its source. It reports whether the record is an
// event to process.
func (a *admission) read(it *item) bool {
	p, r := it.partition, it.Record
	if header.MovesTime(r) {
		it.Watermark = p.moveTo(r.Time.UnixMicro(), a.plan.Slack)
		it.Become(operator.Notice)
		return false
	}
	c, err := order.ParseCopy(header.Value(r, header.Order))
	it.Watermark = p.moveTo(c.Key.Time, a.plan.Slack)
	p.placed = c.Turn()
	if p.turn = c.Key.Source; c.Forced || a.plan.Arrival {
		p.turn = -1
	}
	from := value.Text(header.Value(r, header.Source))
	if it.Return != nil { // the dead letter carries the source of its copy
		from = it.Return.Source
	}
	var at deadletter.Position
	if err == nil {
		at, err = deadletter.ParsePosition(from)
	}
	if err != nil {
		it.fail("source", errHeaders)
		return false
	}
	if it.source, err = a.plan.source(at); err != nil {
		it.fail("source", err)
		return false
	}
	at.Topic = a.plan.Sources[it.source].Topic // the topic text from the header lives only as long as the record
	if it.Return == nil {
		it.Source, it.late = a.from(at), c.Late
		it.appended, it.forced = c.AppendTime(), c.Forced
	}
	return true
}

// from stores a position for as long as the chunk exists.
func (a *admission) from(at deadletter.Position) *deadletter.Position {
	a.places = append(a.places, at)
	return &a.places[len(a.places)-1]
}

// copiedFrom returns the source position of a copy, or of an event made of copies. It returns nil
// if the pipeline reads no copies or the header is invalid.
func (a *admission) copiedFrom(r *stream.Record) *deadletter.Position {
	if a.plan.Sources == nil {
		return nil
	}
	at, err := deadletter.ParsePosition(header.SourceOf(r))
	if err != nil {
		return nil
	}
	return a.from(at)
}

var errHeaders = errors.New("the record does not name its source: only the pipeline may write to this topic")

// tied returns the smallest partition of a source that may still deliver an event with the
// watermark's time that is not late. If no partition may, it returns math.MaxInt32.
func (p *partition) tied(source int) int32 {
	plan := p.chunk.plan
	rank := plan.Sources[source].Rank
	switch turn := order.Topic(p.turn); {
	case plan.Slack > 0 || p.turn < 0 || turn < rank:
		return 0
	case turn > rank:
		return math.MaxInt32
	}
	return order.Partition(p.turn)
}

// moveTo advances the watermark of a partition of copies to a time in the order, minus the slack.
// It returns the watermark.
func (p *partition) moveTo(at int64, slack time.Duration) int64 {
	if at != never {
		p.newest = max(p.newest, at-slack.Microseconds())
	}
	return p.newest
}
