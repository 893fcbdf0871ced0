package task

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/task/clock"
	"github.com/afterbay/afterbay/stream"
)

// A repartitioner copies topics that are read together, or have another key, to one
// topic, by key. Its copies are read in the order of package order.
//
//  1. A copy is the event's bytes and headers with its event time. It says where it
//     comes from, and its place in the order.
//  2. Behind the copies of a step all partitions of the repartition topic get a mark that
//     says how far its source partitions are.
//  3. If a copy waits for a source partition that was read to its end and had no record for
//     CopyPlan.Idle, its repartitioner writes a mark with its clock. The log has what the
//     clock said.
//  4. A source partition that no copy waits for is not read while Options.Copies records of
//     the repartition topic wait, or half as many copies of its own that are behind the first
//     that waits.
//  5. With Options.Ended there is no clock: the sources are silent when that says so, and
//     copies may wait without a bound.

// source is a source partition that a repartitioner reads.
type source struct {
	number  int32
	begun   time.Time // when the task began
	writers []*writer // at least one
	byName  map[string]*writer
	name    []byte  // of the writer of a record
	news    *survey // which holds for the writers when all is read that was there then; nil is none

	told  order.Mark      // in the newest step
	ends  []stream.Offset // of the repartition topic, when the newest mark with a clock was made
	still bool            // it is not read
	ended bool            // the next mark says that no more records come now
	asked *question       // whether it has more records; nil is not asked

	copies int64    // so far
	steps  []copied // with copies behind the first event that waits, and the step before these
}

// copied is how many copies there are after a step, and the place of the newest.
type copied struct {
	copies int64
	newest order.Key
}

// ahead returns about how many copies are behind a place.
func (s *source) ahead(of order.Key) int64 {
	n := 0
	for n+1 < len(s.steps) && !of.Before(s.steps[n+1].newest) {
		n++
	}
	if s.steps = s.steps[n:]; len(s.steps) == 0 {
		return 0
	}
	return s.copies - s.steps[0].copies
}

// decoders returns a reader of records for each source of copies, or that of the input.
func (p *Plan) decoders() (list []*envelope.Reader, err error) {
	sources := p.Sources
	if sources == nil {
		sources = []Source{{Topic: p.Topic, Fields: p.Fields, Format: p.Format, Envelope: p.Envelope}}
	}
	for _, s := range sources {
		if s.Format == nil {
			s.Format = decode.JSON{}
		}
		d, err := envelope.New(s.Envelope, s.Format, s.Fields)
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", s.Topic, err)
		}
		list = append(list, d)
	}
	return list, nil
}

// clockSkew is how far the time of an append may be ahead of the clock of a repartitioner. One
// that is further ahead is that of a producer whose clock is wrong, and counts as now.
const clockSkew = time.Minute

// appendedAt returns when a record was appended, microseconds.
func (a *admission) appendedAt(r *stream.Record) int64 {
	if now := a.now; r.Time.After(now.Add(clockSkew)) {
		return now.UnixMicro()
	}
	return r.Time.UnixMicro()
}

// copy appends the copy of an event, or a client's cancel of an event before it.
func (ch *chunk) copy(it *item) {
	w, appended := it.partition.source.writer(it.Record, ch.now), ch.appendedAt(it.Record)
	if header.Value(it.Record, header.Cancel) != nil {
		c := order.Copy{Placed: order.Placed{Key: w.At(int64(it.Record.Offset))}, Appended: appended}
		ch.building.Pass(&it.Event, ch.plan.Copy.Partitions, &c)
	}
	ch.readers.copied++
	if it.Time == never {
		return
	}
	c := order.Copy{Placed: w.Place(ch.plan.rules(), int64(it.Record.Offset), it.Time, appended), Appended: appended}
	w.moved = true
	c.Written = header.Written(it.Record.Headers)
	c.Late = c.Late && !ch.plan.Time.Appended && !it.point.judged
	if !it.Alive() {
		return
	}
	it.partition.source.copies++
	before := len(ch.building.Outputs)
	asked := ch.building.ask(ch.plan, it, &c)
	if it.Failure == nil {
		ch.building.Copy(&it.Event, ch.plan.Key, &c, asked)
	}
	if it.Failure != nil {
		ch.building.Outputs = ch.building.Outputs[:before]
	}
}

// tellMarks appends the marks of source partitions that moved.
func (tx *committer) tellMarks() {
	var marks order.Marks
	for _, p := range tx.building.touched {
		s := p.source
		for _, w := range s.writers {
			w.Next = int64(p.next)
		}
		m := s.mark(tx.plan.rules())
		if s.ended {
			m.Silent = math.MaxInt64
		}
		if m != s.told || s.ended {
			s.told = m
			if n := len(s.steps); n == 0 || s.steps[n-1].copies < s.copies {
				s.steps = append(s.steps, copied{s.copies, s.newest(tx.plan.rules())})
			}
			marks = append(marks, m)
		}
		s.ended = false
	}
	if len(marks) > 0 {
		tx.building.Marks(marks, tx.plan.Copy.Partitions, tx.plan.Copy.Stages)
	}
}

// readers is how far the readers of a repartition topic are.
type readers struct {
	log    stream.Inspector
	plan   *CopyPlan
	topic  string
	most   int       // records that may wait for their pipeline, but for those that others wait for
	copied int       // events since it was looked
	next   time.Time // when it is looked again
	heads  []head    // of the partitions, when it was looked

	ctx    context.Context // of questions; done when the readers are closed
	cancel context.CancelFunc
	asking sync.WaitGroup

	upstreams []*upstream // of the topic that is copied
	survey    *survey     // under way; nil is none
}

func newReaders(ctx context.Context, log stream.Log, plan *Plan, most int, upstreams []Upstream) (*readers, error) {
	inspector, ok := log.(stream.Inspector)
	if !ok {
		return nil, fmt.Errorf("a log of type %T cannot be inspected: topics that are copied need that", log)
	}
	known, err := upstreamsOf(ctx, log, upstreams)
	if err != nil {
		return nil, err
	}
	r := &readers{log: inspector, plan: plan.Copy, topic: plan.Outputs[0], most: most, heads: slices.Repeat([]head{{committed: -1}}, int(plan.Copy.Partitions)), upstreams: known}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r, nil
}

// close ends the questions.
func (r *readers) close() {
	r.cancel()
	r.asking.Wait()
}

// waiting is what waits in a repartition topic.
type waiting struct {
	records stream.Offset   // that are not committed
	ends    []stream.Offset // of the partitions
	first   []head          // events of partitions that wait
}

// head is the first event of a partition that is not committed.
type head struct {
	partition int32
	committed stream.Offset // it was looked for from there on
	offset    stream.Offset
	key       order.Key
	unawaited bool // see order.Placed
	event     bool
}

// look finds out what waits.
func (r *readers) look(ctx context.Context) (w waiting, err error) {
	for i := range r.plan.Partitions {
		p := stream.Partition{Topic: r.topic, Index: i}
		committed, err := r.log.Committed(ctx, r.plan.Group, p)
		if err != nil {
			return w, err
		}
		_, end, err := r.log.Offsets(ctx, p)
		if err != nil {
			return w, err
		}
		w.ends = append(w.ends, end)
		if committed >= end {
			continue
		}
		w.records += end - committed
		h := &r.heads[i]
		if h.committed != committed {
			record, found, err := r.log.Peek(ctx, p, committed)
			if err != nil {
				return w, err
			}
			if !found {
				continue
			}
			*h = head{partition: i, committed: committed, offset: record.Offset}
			c, err := order.ParseCopy(header.Value(&record, header.Order))
			h.key, h.unawaited, h.event = c.Key, c.Unawaited, err == nil
		}
		if h.event {
			w.first = append(w.first, *h)
		}
	}
	return w, nil
}

// least returns the least place of an event that waits; the last if none does.
func (w *waiting) least() order.Key {
	least := order.Last
	for _, h := range w.first {
		if h.key.Before(least) {
			least = h.key
		}
	}
	return least
}

// holds reports whether an event waits for a source, and from which time on a mark with the
// clock releases it. That is idle after the event, and a microsecond more: at equal times the
// numbers of the sources decide. The time is zero if no event waits, or if the newest mark with
// a clock is enough.
//
// A mark with the clock moves a stage no further than the events that the stage read before it.
// So where there are stages, the mark is written again if the event still waits after lookRarely.
// Behind an unawaited event others may wait that are released first: then it is written again, too.
func (w *waiting) holds(s *source, plan *CopyPlan) (holds bool, from time.Time) {
	for _, h := range w.first {
		behind := s.told.Key.Before(h.key)
		hides := len(plan.Stages) > 0 && h.unawaited && s.told.Key.Time < s.told.Silent
		if !behind && !hides {
			continue
		}
		holds = true
		at := time.UnixMicro(h.key.Time + 1)
		if !behind || s.ends != nil && h.offset < s.ends[h.partition] && h.key.Time < s.told.Silent {
			if len(plan.Stages) == 0 {
				continue
			}
			at = time.UnixMicro(s.told.Silent).Add(lookRarely)
		}
		if at = at.Add(plan.Idle); from.IsZero() || at.Before(from) {
			from = at
		}
	}
	return holds, from
}

// behind reports whether an event that waits is behind the ends of a mark; nil is no mark.
func (w *waiting) behind(ends []stream.Offset) bool {
	return slices.ContainsFunc(w.first, func(h head) bool { return ends == nil || h.offset >= ends[h.partition] })
}

const (
	lookShare  = 8                     // of readers.most: copies after which a repartitioner looks how far its readers are
	lookAgain  = 20 * time.Millisecond // after which it does while it does not read a source partition, or told that one is silent
	lookRarely = 500 * time.Millisecond
)

// lookEvery is how often it looks while it has silent source partitions. An event waits for
// one for Idle at least, and so is seen in time.
func (p *CopyPlan) lookEvery() time.Duration {
	if p.Idle == 0 {
		return lookRarely
	}
	return min(p.Idle/2, lookRarely)
}

// align pauses source partitions that are ahead of others, and marks those that are silent.
func (w *worker) align(ctx context.Context) error {
	r, now := w.readers, w.options.Clock.Now()
	if r.copied < r.most/lookShare && now.Before(r.next) {
		return nil
	}
	r.copied, r.next = 0, now.Add(r.plan.lookEvery())
	if w.options.Ended != nil {
		r.next = now.Add(lookAgain)
		return w.alignEnded(ctx)
	}
	waits, err := r.look(ctx)
	if err != nil {
		return err
	}
	first := waits.least()
	var waiting []waitedFor
	for _, p := range w.partitions {
		holds, from := waits.holds(p.source, r.plan)
		full := waits.records >= stream.Offset(r.most) || p.source.ahead(first) >= int64(r.most/2)
		if w.let(p, !full || holds); p.source.still {
			r.lookBy(now.Add(lookAgain))
		}
		if !holds {
			continue
		}
		if p.source.named() {
			waiting = append(waiting, waitedFor{p, from})
			continue
		}
		if err := w.listenToClock(p, now, from, waits.ends); err != nil {
			return err
		}
	}
	return w.listen(waiting, now, waits.ends)
}

// listenToClock marks a source partition as silent if the clock says so from a time on.
func (w *worker) listenToClock(p *partition, now, from time.Time, ends []stream.Offset) error {
	r, s := w.readers, p.source.writers[0]
	if r.plan.Idle == 0 {
		return nil
	}
	if from.IsZero() { // others wait when the readers have the newest mark
		if told := time.UnixMicro(s.Silent).Add(r.plan.Idle); now.Sub(told) < lookRarely {
			r.lookBy(now.Add(lookAgain))
		}
		return nil
	}
	if silent := p.heard.Add(r.plan.Idle); from.Before(silent) {
		from = silent
	}
	if now.Before(from) {
		r.lookBy(from)
		return nil
	}
	at, err := w.endsAt(p, now)
	if err != nil || at.IsZero() {
		return err
	}
	s.Silent, p.source.ends = max(s.Silent, at.Add(-r.plan.Idle).UnixMicro()), ends
	w.building.touch(p)
	r.lookBy(now.Add(lookAgain))
	return nil
}

// question asks whether a source partition has more records than were read. It is asked beside
// the loop: the records of a transaction of a producer that is under way are hidden, and whether
// there are any is not known before it ends. That may take minutes.
type question struct {
	at   time.Time
	done chan struct{} // closed when the rest is there
	more bool
	err  error
}

// ask asks whether a source partition has records from an offset on.
func (r *readers) ask(p stream.Partition, next stream.Offset, now time.Time) *question {
	q := &question{at: now, done: make(chan struct{})}
	r.asking.Go(func() {
		defer close(q.done)
		_, q.more, q.err = r.log.Peek(r.ctx, p, next)
	})
	return q
}

// endsAt returns a time at which a source partition had no more records than were read; zero if
// it has, or if that is not known yet.
func (w *worker) endsAt(p *partition, now time.Time) (at time.Time, err error) {
	q, wait := p.source.asked, time.Duration(0)
	if q == nil {
		q, wait = w.readers.ask(p.id, p.next, now), lookAgain // which is enough for most answers
	}
	select {
	case <-q.done:
	case <-clock.After(w.options.Clock, wait):
		p.source.asked = q
		w.readers.lookBy(now.Add(max(lookAgain, now.Sub(q.at))))
		return at, nil
	}
	p.source.asked = nil
	if q.err == nil && !q.more {
		at = q.at
	}
	return at, q.err
}

// alignEnded marks source partitions as silent if events wait and the sources have ended. For which
// of them an event waits is not known: a forced one has its turn behind its own place.
func (w *worker) alignEnded(ctx context.Context) error {
	if !w.options.Ended() {
		return nil
	}
	waits, err := w.readers.look(ctx)
	if err != nil {
		return err
	}
	for _, p := range w.partitions {
		if waits.behind(p.source.ends) {
			p.source.ended, p.source.ends = true, waits.ends
			w.building.touch(p)
		}
	}
	return nil
}

// lookBy moves the next look to a time, if that is earlier.
func (r *readers) lookBy(t time.Time) {
	if t.Before(r.next) {
		r.next = t
	}
}

// let reads a source partition, or pauses it.
func (w *worker) let(p *partition, read bool) {
	if p.source.still != read || w.held {
		return
	}
	p.source.still = !read
	if read {
		w.member.Resume(p.id)
	} else {
		w.member.Pause(p.id)
	}
}
