package table

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/optional"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/stream"
)

// Follower is a member for a replay. It makes the Reader read tables between the same events as in
// the original run, according to the notes of that run:
//
//  1. A Poll never returns events from both sides of a note.
//  2. Before the events after a note, time advances to where the original run was. So timers and
//     ends that are due by then find the earlier rows.
//  3. Only then does the Reader take the rows of the note.
//
// The Follower may hold all records of the replay in memory.
type Follower struct {
	stream.Member
	notes   map[int32][]order.TableRead // by the index of the partition
	ordered bool
	parts   []*followed
	going   []stream.Partition // partitions that the newest Poll revoked
	out     []stream.Record    // records of the newest Poll
}

// followed is a partition of a Follower.
type followed struct {
	id      stream.Partition
	ordered bool                               // its events have places in an order
	notes   []order.TableRead                  // notes that are not passed yet
	read    map[stream.Partition]stream.Offset // offsets from the notes that were passed
	unread  bool                               // the Reader has not read that far yet
	records []stream.Record                    // held records
	next    stream.Offset                      // offset of the next event to return
	behind  order.Place                        // place of the newest returned event
	time    int64                              // time that was reached
	paused  bool
}

var _ stream.Pacer = (*Follower)(nil)

// Follow returns a member that follows notes. ordered says whether events are read in the order of
// several partitions, or by their offsets.
func Follow(m stream.Member, notes map[int32][]order.TableRead, ordered bool) *Follower {
	return &Follower{Member: m, notes: notes, ordered: ordered}
}

// Pace implements stream.Pacer.
func (f *Follower) Pace() stream.Pace { return optional.Pace(f.Member) }

// Poll implements stream.Member.
func (f *Follower) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	f.parts = slices.DeleteFunc(f.parts, func(p *followed) bool { return slices.Contains(f.going, p.id) })
	for _, p := range f.parts {
		if !p.paused && (len(p.records) > 0 || p.atNote()) {
			f.Wake() // the held records suffice
			break
		}
	}
	batch, err := f.Member.Poll(ctx, limit)
	if err != nil {
		return batch, err
	}
	for _, a := range batch.Assigned {
		p, err := f.assign(a)
		if err != nil {
			return batch, err
		}
		f.parts = append(f.parts, p)
	}
	for _, r := range batch.Records {
		p := f.part(r.Partition)
		p.records = append(p.records, r)
	}
	f.going = batch.Revoked
	clear(f.out)
	f.out = f.out[:0]
	for _, p := range f.parts {
		if !slices.Contains(f.going, p.id) {
			f.out = p.release(f.out, limit)
		}
	}
	batch.Records = f.out
	return batch, nil
}

// part returns a partition, or nil if the member does not own it.
func (f *Follower) part(id stream.Partition) *followed {
	if i := slices.IndexFunc(f.parts, func(p *followed) bool { return p.id == id }); i >= 0 {
		return f.parts[i]
	}
	return nil
}

// assign restores a partition, and passes the notes before its committed events.
func (f *Follower) assign(a stream.Assigned) (p *followed, err error) {
	p = &followed{id: a.Partition, ordered: f.ordered, notes: f.notes[a.Partition.Index], read: map[stream.Partition]stream.Offset{}, next: a.Next, time: math.MinInt64}
	p.behind = order.PlaceAt(order.Key{Offset: int64(a.Next) - 1})
	if f.ordered {
		p.behind, err = order.Released(a.State)
	}
	for len(p.notes) > 0 && p.notes[0].Behind.Before(p.behind) {
		p.pass()
	}
	return p, err
}

// pass makes the Reader read as far as the next note says.
func (p *followed) pass() {
	for _, t := range p.notes[0].Tables {
		p.read[t.Partition] = max(p.read[t.Partition], t.Next)
	}
	p.notes, p.unread = p.notes[1:], true
}

// atNote reports whether the next note comes directly after the newest event.
func (p *followed) atNote() bool { return len(p.notes) > 0 && p.notes[0].Behind == p.behind }

// release appends the records before the next note, until to has limit records.
func (p *followed) release(to []stream.Record, limit int) []stream.Record {
	for n := len(to); len(to) < limit && !p.paused; {
		switch {
		case p.atNote() || len(p.notes) > 0 && len(p.records) > 0 && p.isBehind(&p.records[0], &p.notes[0]):
			if len(to) > n {
				return to // compute these records before the note
			}
			if at := p.notes[0].Time; p.ordered && at > p.time {
				p.time = at
				tick := order.Marks{{Key: order.Key{Time: at}}}.Record(p.id, time.UnixMicro(at))
				tick.Offset = p.next
				return append(to, tick)
			}
			p.pass()
		case len(p.records) == 0:
			return to
		default:
			p.give(&p.records[0])
			to = append(to, p.records[0])
			p.records = p.records[1:]
		}
	}
	return to
}

// isBehind reports whether a record comes after a note.
func (p *followed) isBehind(r *stream.Record, n *order.TableRead) bool {
	if header.MovesTime(r) {
		return r.Time.UnixMicro() > n.Time
	}
	return n.Behind.Before(p.place(r))
}

// place returns the place of an event.
func (p *followed) place(r *stream.Record) order.Place {
	if !p.ordered {
		return order.PlaceAt(order.Key{Offset: int64(r.Offset)})
	}
	c, _ := order.ParseCopy(header.Value(r, header.Order)) // the reader of the copies has validated the header
	return c.Turn()
}

// give records that a record is returned.
func (p *followed) give(r *stream.Record) {
	if header.MovesTime(r) {
		p.time = max(p.time, r.Time.UnixMicro())
		return
	}
	p.behind, p.next = p.place(r), r.Offset+1
	p.time = max(p.time, p.behind.Time())
}

// until returns how far to read a table partition for a partition: the offset after the last row.
func (f *Follower) until(id, table stream.Partition) stream.Offset {
	p := f.part(id)
	p.unread = false
	return p.read[table]
}

// unread reports whether notes were passed since the tables were last read.
func (f *Follower) unread() bool {
	return slices.ContainsFunc(f.parts, func(p *followed) bool { return p.unread })
}

// Pause implements stream.Member.
func (f *Follower) Pause(partitions ...stream.Partition) { f.pause(true, partitions) }

// Resume implements stream.Member.
func (f *Follower) Resume(partitions ...stream.Partition) { f.pause(false, partitions) }

func (f *Follower) pause(paused bool, partitions []stream.Partition) {
	for _, id := range partitions {
		if p := f.part(id); p != nil {
			p.paused = paused
		}
	}
}
