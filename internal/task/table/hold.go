package table

import (
	"context"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/log/optional"
	"github.com/afterbay/afterbay/internal/task/clock"
	"github.com/afterbay/afterbay/stream"
)

// The limits of the records that a member holds. At a limit it stops reading until some of them are
// due.
const (
	heldMax      = 1 << 16  // records
	heldBytesMax = 64 << 20 // bytes of records
)

// Wait returns how long events wait for the rows of tables.
func Wait(specs []Spec) (wait time.Duration) {
	for _, spec := range specs {
		wait = max(wait, spec.Versions.Wait)
	}
	return wait
}

// Hold returns a member that returns a record only when a time has passed since its append, and
// when it is ready. It returns m itself if the time is 0 and ready is nil. Later records of the
// partition wait too. Held records are not committed, so they are read again after a crash. If
// ready returns false for a record, its owner must wake the member when that may have changed.
func Hold(m stream.Member, wait time.Duration, ready func(*stream.Record) bool, clock clock.Clock) stream.Member {
	if wait == 0 && ready == nil {
		return m
	}
	if ready == nil {
		ready = func(*stream.Record) bool { return true }
	}
	h := &holder{Member: m, wait: wait, ready: ready, clock: clock, timer: clock.AfterFunc(wait, m.Wake)}
	if d, ok := m.(stream.Deliverer); ok {
		return &deliverer{h, d}
	}
	return h
}

// holder is a member that holds records.
type holder struct {
	stream.Member
	wait  time.Duration
	ready func(*stream.Record) bool
	clock clock.Clock
	timer clock.Timer // wakes the member when the first record is due
	parts []*heldPart // owned partitions
	turn  int         // index of the partition in parts that is first
	count int         // number of held records
	bytes int
	full  bool            // a limit is reached: all partitions are paused
	out   []stream.Record // records of the newest Poll
}

// heldPart holds the records of a partition, in log order.
type heldPart struct {
	id      stream.Partition
	paused  bool // paused by the caller
	stuck   bool // its first record is due but not ready, so reading stops
	stopped bool // it is paused in the inner member
	records []held
	gone    int // number of records that were returned
}

// held is a record and the time when it is due.
type held struct {
	stream.Record
	due time.Time
}

var _ stream.Pacer = (*holder)(nil)

// Holds reports whether a member of Hold holds records of a partition.
func Holds(m stream.Member, id stream.Partition) bool {
	var p *heldPart
	switch h := m.(type) {
	case *holder:
		p = h.part(id)
	case *deliverer:
		p = h.part(id)
	}
	return p != nil && p.gone < len(p.records)
}

// Pace implements stream.Pacer.
func (h *holder) Pace() stream.Pace { return optional.Pace(h.Member) }

// Poll implements stream.Member.
func (h *holder) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	if next, some := h.next(); some {
		if now := h.clock.Now(); next.After(now) {
			h.timer.Reset(next.Sub(now))
		} else {
			h.Wake() // the held records suffice: do not wait for more
		}
	}
	batch, err := h.Member.Poll(ctx, limit)
	h.timer.Stop()
	if err != nil {
		return batch, err
	}
	for _, a := range batch.Assigned {
		p := &heldPart{id: a.Partition}
		h.parts = append(h.parts, p)
		h.steer(p)
	}
	now := h.clock.Now()
	for i := range batch.Records {
		h.take(&batch.Records[i], now)
	}
	for _, p := range batch.Revoked {
		h.drop(p)
	}
	batch.Records = h.release(now, limit)
	h.full = h.count >= heldMax || h.bytes >= heldBytesMax
	for _, p := range h.parts {
		h.steer(p)
	}
	return batch, nil
}

// part returns the held records of a partition, or nil if the member does not own it.
func (h *holder) part(id stream.Partition) *heldPart {
	if i := slices.IndexFunc(h.parts, func(p *heldPart) bool { return p.id == id }); i >= 0 {
		return h.parts[i]
	}
	return nil
}

// take holds a record. It allows for a producer with a clock that is ahead.
func (h *holder) take(r *stream.Record, now time.Time) {
	due := now
	if r.Time.Before(now) {
		due = r.Time
	}
	p := h.part(r.Partition)
	p.records = append(p.records, held{*r, due.Add(h.wait)})
	h.count, h.bytes = h.count+1, h.bytes+size(r)
}

// next returns when the first record is due that may be returned and is ready.
func (h *holder) next() (due time.Time, some bool) {
	for _, p := range h.parts {
		if p.paused || p.gone == len(p.records) {
			continue
		}
		if at := p.records[p.gone].due; (!some || at.Before(due)) && h.ready(&p.records[p.gone].Record) {
			due, some = at, true
		}
	}
	return due, some
}

// release returns the records that are due, at most limit. The partitions take turns in being
// first.
func (h *holder) release(now time.Time, limit int) []stream.Record {
	clear(h.out)
	h.out = h.out[:0]
	for i := range h.parts {
		p := h.parts[(h.turn+i)%len(h.parts)]
		p.stuck = false
		for !p.paused && p.gone < len(p.records) && len(h.out) < limit && !p.records[p.gone].due.After(now) {
			r := &p.records[p.gone].Record
			if p.stuck = !h.ready(r); p.stuck {
				break
			}
			h.count, h.bytes = h.count-1, h.bytes-size(r)
			h.out = append(h.out, *r)
			p.records[p.gone] = held{}
			p.gone++
		}
		if p.gone > len(p.records)/2 {
			p.records, p.gone = slices.Delete(p.records, 0, p.gone), 0
		}
	}
	h.turn++
	return h.out
}

// drop removes a partition.
func (h *holder) drop(id stream.Partition) {
	p := h.part(id)
	if p == nil {
		return
	}
	for i := range p.records[p.gone:] {
		h.count, h.bytes = h.count-1, h.bytes-size(&p.records[p.gone+i].Record)
	}
	h.parts = slices.DeleteFunc(h.parts, func(o *heldPart) bool { return o == p })
}

// steer pauses or resumes a partition.
func (h *holder) steer(p *heldPart) {
	stop := p.paused || p.stuck || h.full
	switch {
	case stop == p.stopped:
		return
	case stop:
		h.Member.Pause(p.id)
	default:
		h.Member.Resume(p.id)
	}
	p.stopped = stop
}

// Pause implements stream.Member.
func (h *holder) Pause(partitions ...stream.Partition) { h.pause(true, partitions) }

// Resume implements stream.Member.
func (h *holder) Resume(partitions ...stream.Partition) { h.pause(false, partitions) }

func (h *holder) pause(paused bool, partitions []stream.Partition) {
	for _, id := range partitions {
		if p := h.part(id); p != nil {
			p.paused = paused
			h.steer(p)
		}
	}
}

// Close implements stream.Member.
func (h *holder) Close() error {
	h.timer.Stop()
	return h.Member.Close()
}

func size(r *stream.Record) int { return len(r.Key) + len(r.Value) }

// deliverer is a holder for a log that delivers outputs before they are committed.
type deliverer struct {
	*holder
	inner stream.Deliverer
}

// Deliver implements stream.Deliverer.
func (d *deliverer) Deliver(outputs []stream.Record) { d.inner.Deliver(outputs) }
