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

// member is a member of a generation's group. It holds records that it must not return yet. It
// pauses their partitions meanwhile, so it holds only a few.
type member struct {
	stream.Member
	of    *Deriving
	ctx   context.Context // context of the views
	parts map[stream.Partition]*part

	going   []stream.Partition // revoked by the newest Poll
	flying  *stream.Pending    // commit in flight, or nil
	offsets map[stream.Partition]stream.Offset
}

var (
	_ stream.Pacer       = (*member)(nil)
	_ stream.EarlyReader = (*earlyMember)(nil)
)

// part is an assigned partition.
type part struct {
	id    stream.Partition
	state stream.View
	next  stream.Offset // committed offset
	given stream.Offset // offset after the newest returned record
	until stream.Offset // records before it may be returned
	end   stream.Offset // first offset of the live generation; below 0 if unknown
	held  []stream.Record

	after  bool                   // all records before end are committed
	queued map[stream.Offset]bool // queued events among them
	paused bool                   // by the caller
	still  bool                   // actually paused
}

// give records that a record was returned. A record that only advances time has the offset of the
// next event and is not an event, so the offset does not move.
func (p *part) give(r *stream.Record) {
	if p.given = r.Offset; !header.MovesTime(r) {
		p.given++
	}
}

// open reports whether a record may be returned.
func (p *part) open(at stream.Offset) bool {
	return p.end >= 0 && at >= p.end && p.after || at < p.until && (p.end < 0 || at < p.end)
}

// waitMost is how long a Poll waits before it checks again which records may be returned.
const waitMost = 50 * time.Millisecond

// commitEvery is the minimum time between the commits of a generation behind the live one, so that
// commits of the live one wait less.
const commitEvery = 50 * time.Millisecond

// Pace implements stream.Pacer.
func (s *member) Pace() stream.Pace {
	pace := optional.Pace(s.Member)
	if s.of.alone {
		pace.Interval = max(pace.Interval, commitEvery)
	}
	return pace
}

// settled reports whether all partitions are live and all earlier records were returned.
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

// note records that records were returned.
func (s *member) note(records []stream.Record) {
	for i := range records {
		s.parts[records[i].Partition].give(&records[i])
	}
}

// settle processes the commit in flight if it is decided.
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

// look updates which records may be returned.
func (s *member) look(ctx context.Context) (err error) {
	for _, p := range s.parts {
		if p.after {
			continue
		}
		if p.until, p.end, err = s.of.look(ctx, p.id); err != nil {
			return err
		}
		come := len(p.held) > 0 && p.held[0].Offset >= p.end // some offsets before it may have no record
		if p.end >= 0 && p.given <= p.next && (p.next >= p.end || come) {
			if err := s.pass(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// pass records that all records before the switch are committed, and which of their events are
// queued.
func (s *member) pass(p *part) error {
	p.after, p.queued = true, map[stream.Offset]bool{}
	for e, err := range p.state.Scan([]byte{statekey.Queued}) {
		if err != nil {
			return fmt.Errorf("read the queued events in %v: %w", p.id, err)
		}
		if at, ok := statekey.QueuedOffset(e.Key); ok && stream.Offset(at) < p.end {
			p.queued[stream.Offset(at)] = true
		}
	}
	return nil
}

// givable reports whether held records may be returned, apart from the pace.
func (s *member) givable() bool {
	for _, p := range s.parts {
		if len(p.held) > 0 && !p.paused && p.open(p.held[0].Offset) {
			return true
		}
	}
	return false
}

// give takes in a batch and returns the records that may be returned now.
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

// pausing pauses a partition while it has held records or the caller paused it, and otherwise
// resumes it.
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

// place moves outputs of events from before the generation is live to the generation's topics. It
// drops outputs of events from before the generation begins.
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
		if header.MovesTime(&r) { // watermarks come from the live group
			if p = s.parts[stream.Partition{Topic: s.topic(), Index: r.Partition.Index}]; p != nil && p.after {
				placed = append(placed, r)
			}
			continue
		}
		if known && p != nil && at < s.of.first(p.id) {
			continue
		}
		switch {
		case r.Partition.Topic == naming.Of(s.of.pipeline, naming.Order): // only from the live generation
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

// topic returns the topic that the member reads.
func (s *member) topic() string {
	for id := range s.parts {
		return id.Topic
	}
	return ""
}

// Event returns the partition and offset at which the pipeline read the event of an output.
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

// earlyMember is a member of a log with early reads. It reads early once it no longer has to hold
// records.
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

// View returns the state of the generation for a partition, based on its stored state. If that has
// no generation number yet, the view adds it. If it lacks a journal answer, the view reads it from
// the previous generation.
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
	before    stream.View // state of the previous generation; nil until needed
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
