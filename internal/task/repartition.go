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

// A repartitioner copies topics that are read together, or that have another key, to one topic, by
// key. The copies are read in the order of package order.
//
//  1. A copy has the event's bytes and headers, and its event time. It says where it comes from, and
//     its place in the order.
//  2. After the copies of a transaction, each partition of the repartition topic gets a mark that
//     says how far the source partitions have advanced.
//  3. A copy may wait for a source partition that was read to its end and had no record for
//     CopyPlan.Idle. The repartitioner of that partition then writes a mark with the time of its
//     clock. The log records this time.
//  4. The repartitioner pauses a source partition that no copy waits for in two cases:
//     Options.Copies records of the repartition topic wait, or half as many copies of that partition
//     are after the first waiting event.
//  5. With Options.Ended there is no clock. The sources are silent when Ended says so, and any
//     number of copies may wait.

// source is a source partition that a repartitioner reads.
type source struct {
	number  int32
	begun   time.Time // when the task began
	writers []*writer // at least one
	byName  map[string]*writer
	name    []byte  // buffer for the name of the writer of a record
	news    *survey // survey that applies once all records that it saw are read; nil without one

	told  order.Mark      // mark in the newest transaction
	ends  []stream.Offset // ends of the repartition topic when the newest mark with a clock was made
	still bool            // paused
	ended bool            // the next mark says that no more records come for now
	asked *question       // open question whether it has more records; nil if not asked

	copies int64    // number of copies so far
	steps  []copied // transactions with copies after the first waiting event, and the one before them
}

// copied is the number of copies after a transaction, and the place of the newest one.
type copied struct {
	copies int64
	newest order.Key
}

// ahead returns about how many copies come after a place.
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

// decoders returns a record reader for each source of copies. Without Sources it returns the reader
// of the input.
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

// clockSkew is how far an append time may be ahead of the clock of a repartitioner. If it is
// further ahead, the producer's clock is wrong, and the time counts as now.
const clockSkew = time.Minute

// appendedAt returns the append time of a record in microseconds, subject to clockSkew.
func (a *admission) appendedAt(r *stream.Record) int64 {
	if now := a.now; r.Time.After(now.Add(clockSkew)) {
		return now.UnixMicro()
	}
	return r.Time.UnixMicro()
}

// copy appends the copy of an event, or of a client's cancel of an earlier event.
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

// tellMarks appends the marks of source partitions that advanced.
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

// readers tracks how far the readers of a repartition topic are.
type readers struct {
	log    stream.Inspector
	plan   *CopyPlan
	topic  string
	most   int       // most records that may wait for their pipeline, except records that others wait for
	copied int       // events since the last look
	next   time.Time // time of the next look
	heads  []head    // heads of the partitions at the last look

	ctx    context.Context // context of questions; done when the readers are closed
	cancel context.CancelFunc
	asking sync.WaitGroup

	upstreams []*upstream // pipelines that write the copied topic
	survey    *survey     // survey in progress; nil without one
}

func newReaders(ctx context.Context, log stream.Log, plan *Plan, most int, upstreams []Upstream) (*readers, error) {
	inspector, ok := log.(stream.Inspector)
	if !ok {
		return nil, fmt.Errorf("a log of type %T cannot be inspected, and repartition needs that", log)
	}
	known, err := upstreamsOf(ctx, log, upstreams)
	if err != nil {
		return nil, err
	}
	r := &readers{log: inspector, plan: plan.Copy, topic: plan.Outputs[0], most: most, heads: slices.Repeat([]head{{committed: -1}}, int(plan.Copy.Partitions)), upstreams: known}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r, nil
}

// close cancels the questions and waits for them.
func (r *readers) close() {
	r.cancel()
	r.asking.Wait()
}

// waiting describes the uncommitted records of a repartition topic.
type waiting struct {
	records stream.Offset   // number of uncommitted records
	ends    []stream.Offset // end offsets of the partitions
	first   []head          // heads of the partitions that are waiting events
}

// head is the first uncommitted event of a partition.
type head struct {
	partition int32
	committed stream.Offset // committed offset where the search for it began
	offset    stream.Offset
	key       order.Key
	unawaited bool // see order.Placed
	event     bool
}

// look finds the waiting records.
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

// least returns the least place of a waiting event, or order.Last if none waits.
func (w *waiting) least() order.Key {
	least := order.Last
	for _, h := range w.first {
		if h.key.Before(least) {
			least = h.key
		}
	}
	return least
}

// holds reports whether an event waits for a source, and from when a mark with the clock releases
// it. That time is the event's time plus Idle plus one microsecond, because at equal times the
// numbers of the sources decide. The time is zero if no event waits, or if the newest mark with a
// clock suffices.
//
// A mark with the clock advances a stage only up to the events that the stage read before the mark.
// So if there are stages, the repartitioner writes the mark again if the event still waits after
// lookRarely. Behind an unawaited event, other events may wait that are released first. Then the
// repartitioner writes the mark again, too.
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

// behind reports whether a waiting event comes after the ends of a mark. nil ends mean that there
// is no mark.
func (w *waiting) behind(ends []stream.Offset) bool {
	return slices.ContainsFunc(w.first, func(h head) bool { return ends == nil || h.offset >= ends[h.partition] })
}

const (
	lookShare  = 8                     // a repartitioner looks at its readers after readers.most/lookShare copies
	lookAgain  = 20 * time.Millisecond // time to the next look while a source partition is paused or was just marked silent
	lookRarely = 500 * time.Millisecond
)

// lookEvery is the time between looks while source partitions are silent. An event waits at least
// Idle for a source, so a look sees it in time.
func (p *CopyPlan) lookEvery() time.Duration {
	if p.Idle == 0 {
		return lookRarely
	}
	return min(p.Idle/2, lookRarely)
}

// align pauses source partitions that are ahead of others, and marks silent source partitions.
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

// listenToClock marks a source partition as silent if the clock says so and an event waits for it
// since from.
func (w *worker) listenToClock(p *partition, now, from time.Time, ends []stream.Offset) error {
	r, s := w.readers, p.source.writers[0]
	if r.plan.Idle == 0 {
		return nil
	}
	if from.IsZero() { // events still wait for a reader to see the newest mark
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

// question asks the log whether a source partition has more records than were read. It runs outside
// the loop, because the answer may take minutes: the records of an open producer transaction are
// hidden until that transaction ends.
type question struct {
	at   time.Time
	done chan struct{} // closed when more and err are set
	more bool
	err  error
}

// ask starts a question whether a source partition has records from an offset on.
func (r *readers) ask(p stream.Partition, next stream.Offset, now time.Time) *question {
	q := &question{at: now, done: make(chan struct{})}
	r.asking.Go(func() {
		defer close(q.done)
		_, q.more, q.err = r.log.Peek(r.ctx, p, next)
	})
	return q
}

// endsAt returns a time at which a source partition had no more records than were read. It returns
// zero if the partition has more, or if that is not known yet.
func (w *worker) endsAt(p *partition, now time.Time) (at time.Time, err error) {
	q, wait := p.source.asked, time.Duration(0)
	if q == nil {
		q, wait = w.readers.ask(p.id, p.next, now), lookAgain // long enough for most answers
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

// alignEnded marks source partitions as silent if events wait and the sources have ended. It marks
// all of them, because a forced event is released after its own place and may wait for any of them.
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

// lookBy moves the next look forward to t, unless it is earlier.
func (r *readers) lookBy(t time.Time) {
	if t.Before(r.next) {
		r.next = t
	}
}

// let resumes a source partition if read is set, and pauses it otherwise.
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
