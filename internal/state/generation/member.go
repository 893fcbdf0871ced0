package generation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/optional"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// member is a member of a generation's group. It holds records that are not to be
// given out yet; their partitions are paused meanwhile, so that they are few.
type member struct {
	stream.Member
	of    *Deriving
	ctx   context.Context // of the views
	parts map[stream.Partition]*part

	going   []stream.Partition // revoked by the newest Poll
	flying  *stream.Pending    // nil where none is undecided
	offsets map[stream.Partition]stream.Offset
}

var (
	_ stream.Pacer       = (*member)(nil)
	_ stream.EarlyReader = (*earlyMember)(nil)
)

// part is a partition that is assigned.
type part struct {
	id    stream.Partition
	state stream.View
	next  stream.Offset // committed
	given stream.Offset // after the newest record that was given out
	until stream.Offset // before it, records may be given out
	end   stream.Offset // from where the generation is live; below 0 where that is not known
	held  []stream.Record

	after  bool                   // all before end is committed
	queued map[stream.Offset]bool // of those, events that are queued
	paused bool                   // by who polls
	still  bool                   // in fact
}

// give notes that a record was given out. One by which time moves on is at the offset of the next
// event, and is no event: nothing is committed for it.
func (p *part) give(r *stream.Record) {
	if p.given = r.Offset; !header.MovesTime(r) {
		p.given++
	}
}

// open reports whether a record may be given out.
func (p *part) open(at stream.Offset) bool {
	return p.end >= 0 && at >= p.end && p.after || at < p.until && (p.end < 0 || at < p.end)
}

// waitMost is how long a Poll waits before it looks again what may be given out.
const waitMost = 50 * time.Millisecond

// commitEvery is the least time between the commits of a generation that is behind
// the live one, whose commits so wait less.
const commitEvery = 50 * time.Millisecond

// Pace implements stream.Pacer.
func (s *member) Pace() stream.Pace {
	pace := optional.Pace(s.Member)
	if s.of.alone {
		pace.Interval = max(pace.Interval, commitEvery)
	}
	return pace
}

// settled reports whether all partitions are live, and nothing of before is left to
// be given out.
func (s *member) settled() bool {
	for _, p := range s.parts {
		if !p.after || len(p.held) > 0 {
			return false
		}
	}
	return len(s.parts) > 0
}

// Poll implements stream.Member.
func (s *member) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	s.settle()
	for _, id := range s.going {
		delete(s.parts, id)
	}
	s.going = nil
	if s.of.pace.rate <= 0 && s.settled() {
		batch, err := s.Member.Poll(ctx, limit)
		if err != nil || len(batch.Assigned)+len(batch.Revoked) == 0 {
			s.note(batch.Records)
			return batch, err
		}
		return s.give(batch, limit)
	}
	if err := s.look(ctx); err != nil {
		return stream.Batch{}, err
	}
	wait := waitMost
	if s.givable() {
		if wait = min(wait, s.of.pace.wait()); wait == 0 {
			s.Member.Wake()
			wait = waitMost
		}
	}
	short, cancel := context.WithTimeout(ctx, wait)
	batch, err := s.Member.Poll(short, limit)
	late := short.Err() != nil
	cancel()
	if err != nil && !(late && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)) {
		return batch, err
	}
	return s.give(batch, limit)
}

// note says that records were given out.
func (s *member) note(records []stream.Record) {
	for i := range records {
		s.parts[records[i].Partition].give(&records[i])
	}
}

// settle takes note of the commit that is decided.
func (s *member) settle() {
	if s.flying == nil {
		return
	}
	select {
	case <-s.flying.Done():
	default:
		return
	}
	if s.flying.Wait(s.ctx) == nil {
		for id, next := range s.offsets {
			if p := s.parts[id]; p != nil {
				p.next = next
			}
		}
	}
	s.flying = nil
}

// look finds out what may be given out.
func (s *member) look(ctx context.Context) (err error) {
	for _, p := range s.parts {
		if p.after {
			continue
		}
		if p.until, p.end, err = s.of.look(ctx, p.id); err != nil {
			return err
		}
		come := len(p.held) > 0 && p.held[0].Offset >= p.end // offsets before may be of no record
		if p.end >= 0 && p.given <= p.next && (p.next >= p.end || come) {
			if err := s.pass(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// pass notes that all before the switch is committed, and what of that is queued.
func (s *member) pass(p *part) error {
	p.after, p.queued = true, map[stream.Offset]bool{}
	for e, err := range p.state.Scan([]byte{statekey.Queued}) {
		if err != nil {
			return fmt.Errorf("look what is queued in %v: %w", p.id, err)
		}
		if at, ok := statekey.QueuedOffset(e.Key); ok && stream.Offset(at) < p.end {
			p.queued[stream.Offset(at)] = true
		}
	}
	return nil
}

// givable reports whether records that are held may be given out but for the pace.
func (s *member) givable() bool {
	for _, p := range s.parts {
		if len(p.held) > 0 && !p.paused && p.open(p.held[0].Offset) {
			return true
		}
	}
	return false
}

// give takes in what came, and gives out what may be.
func (s *member) give(batch stream.Batch, limit int) (stream.Batch, error) {
	for i := range batch.Assigned {
		a := &batch.Assigned[i]
		p := &part{id: a.Partition, state: a.State, next: a.Next, given: a.Next, end: -1}
		s.parts[a.Partition] = p
		a.State = s.of.begun.View(s.ctx, s.of.Log, a.Partition, a.State)
	}
	for _, r := range batch.Records {
		p := s.parts[r.Partition]
		p.held = append(p.held, r)
	}
	batch.Records = nil
	if len(batch.Assigned) > 0 {
		if err := s.look(s.ctx); err != nil {
			return batch, err
		}
	}
	room := s.of.pace.take(limit)
	for _, p := range s.parts {
		n := 0
		for n < len(p.held) && room > 0 && !p.paused && p.open(p.held[n].Offset) {
			n++
			room--
		}
		if n > 0 {
			batch.Records = append(batch.Records, p.held[:n]...)
			p.give(&p.held[n-1])
			p.held = slices.Clone(p.held[n:])
		}
		s.pausing(p)
	}
	s.of.pace.give(room)
	s.going = batch.Revoked
	return batch, nil
}

// pausing pauses a partition that nothing is to come from, and resumes others.
func (s *member) pausing(p *part) {
	switch still := p.paused || len(p.held) > 0; {
	case still && !p.still:
		s.Member.Pause(p.id)
		p.still = true
	case !still && p.still:
		s.Member.Resume(p.id)
		p.still = false
	}
}

// Pause implements stream.Member.
func (s *member) Pause(list ...stream.Partition) { s.setPaused(list, true) }

// Resume implements stream.Member.
func (s *member) Resume(list ...stream.Partition) { s.setPaused(list, false) }

func (s *member) setPaused(list []stream.Partition, paused bool) {
	for _, id := range list {
		if p := s.parts[id]; p != nil {
			p.paused = paused
			s.pausing(p)
		}
	}
}

// Commit implements stream.Member.
func (s *member) Commit(step stream.Transaction) *stream.Pending {
	s.settle()
	step.Outputs = s.place(step.Outputs)
	for _, c := range step.Changes {
		if p := s.parts[c.Partition]; p != nil && c.Value == nil && len(p.queued) > 0 {
			if at, ok := statekey.QueuedOffset(c.Key); ok {
				delete(p.queued, stream.Offset(at))
			}
		}
	}
	s.offsets = maps.Clone(step.Offsets)
	s.flying = s.Member.Commit(step)
	return s.flying
}

// place puts outputs into the topics of the generation that are of events from
// before it is live, and leaves those out that are from before it begins.
func (s *member) place(outputs []stream.Record) []stream.Record {
	plain := s.of.begun.From == nil
	for _, p := range s.parts {
		plain = plain && p.after && len(p.queued) == 0
	}
	if plain {
		return outputs
	}
	placed := make([]stream.Record, 0, len(outputs))
	for _, r := range outputs {
		index, at, known := Event(&r)
		p := s.parts[stream.Partition{Topic: s.topic(), Index: index}]
		if header.MovesTime(&r) { // watermarks are those of the live group
			if p = s.parts[stream.Partition{Topic: s.topic(), Index: r.Partition.Index}]; p != nil && p.after {
				placed = append(placed, r)
			}
			continue
		}
		if known && p != nil && at < s.of.first(p.id) {
			continue
		}
		switch {
		case r.Partition.Topic == naming.Of(s.of.pipeline, naming.Order): // of the live generation alone
			if !s.settled() {
				continue
			}
		case !known || p == nil || !p.after || p.queued[at]:
			r.Partition.Topic = s.of.begun.TopicOf(r.Partition.Topic)
		}
		placed = append(placed, r)
	}
	return placed
}

// topic returns the topic that is read.
func (s *member) topic() string {
	for id := range s.parts {
		return id.Topic
	}
	return ""
}

// Event returns the partition and offset at which the pipeline read an output's event.
func Event(r *stream.Record) (partition int32, at stream.Offset, known bool) {
	text := cmp.Or(header.Get(r, header.Repartition), header.Get(r, header.Position))
	slash, sign := strings.LastIndexByte(text, '/'), strings.LastIndexByte(text, '@')
	if sign <= slash {
		return 0, 0, false
	}
	index, err := strconv.ParseInt(text[slash+1:sign], 10, 32)
	offset, errOffset := strconv.ParseInt(text[sign+1:], 10, 64)
	return int32(index), stream.Offset(offset), err == nil && errOffset == nil
}

// earlyMember is a member of a log that lets records be read early, which is done
// once nothing has to be held.
type earlyMember struct {
	*member
	inner  stream.EarlyReader
	wanted bool
	on     bool
}

// ReadEarly implements stream.EarlyReader.
func (s *earlyMember) ReadEarly(on bool) { s.wanted = on }

// Poll implements stream.Member.
func (s *earlyMember) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	if on := s.wanted && s.settled(); on != s.on {
		s.on = on
		s.inner.ReadEarly(on)
	}
	return s.member.Poll(ctx, limit)
}

// View returns the state of the generation beside a partition, of what is stored for
// it. Where that has no number yet it says which one; answers that it lacks are those
// of the generation before.
func (b *Begun) View(ctx context.Context, log Log, p stream.Partition, stored stream.View) stream.View {
	return &view{View: stored, begun: b, log: log, ctx: ctx, partition: p}
}

// view is the state of a generation.
type view struct {
	stream.View
	begun     *Begun
	log       Log
	ctx       context.Context
	partition stream.Partition
	before    stream.View // of the generation before; nil until it is asked for
}

// Get implements stream.View.
func (v *view) Get(key []byte) ([]byte, error) {
	value, err := v.View.Get(key)
	if err != nil || value != nil || len(key) == 0 {
		return value, err
	}
	switch {
	case key[0] == statekey.Generation && len(key) == 1:
		return seed(v.begun.Generation), nil
	case journal.IsAnswer(key):
		if v.before == nil {
			if v.before, err = v.log.State(v.ctx, v.begun.Group, v.partition); err != nil {
				return nil, fmt.Errorf("read the journal of group %q beside %v: %w", v.begun.Group, v.partition, err)
			}
		}
		return v.before.Get(key)
	}
	return nil, nil
}

var _ stream.View = (*view)(nil)
