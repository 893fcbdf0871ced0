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

// Follower is a member for a replay. Tables are read between the same events as in the run whose
// notes it follows:
//
//  1. A Poll returns no events from both sides of a note.
//  2. Before the events behind a note, time moves on to where that run was. So what was due by
//     then finds the rows before.
//  3. Until then the Reader takes no row that the note says.
//
// All records of the replay may be held in memory.
type Follower struct {
	stream.Member
	notes   map[int32][]order.TableRead // by the index of the partition
	ordered bool
	parts   []*followed
	going   []stream.Partition // revoked by the newest Poll
	out     []stream.Record    // of it
}

// followed is a partition of a Follower.
type followed struct {
	id      stream.Partition
	ordered bool                               // its events have places in an order
	notes   []order.TableRead                  // that are not passed
	read    map[stream.Partition]stream.Offset // as the others say
	unread  bool                               // the Reader has not read so far
	records []stream.Record                    // that are held
	next    stream.Offset                      // of the next event that is returned
	behind  order.Place                        // of the newest event that was
	time    int64                              // that was reached
	paused  bool
}

var _ stream.Pacer = (*Follower)(nil)

// Follow returns a member that follows notes. The events are read in the order of several
// partitions, or by their offsets.
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
			f.Wake() // what is held is enough
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

// part returns a partition; nil if it is not owned.
func (f *Follower) part(id stream.Partition) *followed {
	if i := slices.IndexFunc(f.parts, func(p *followed) bool { return p.id == id }); i >= 0 {
		return f.parts[i]
	}
	return nil
}

// assign passes the notes about the events that are committed.
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

// pass has the Reader read as the next note says.
func (p *followed) pass() {
	for _, t := range p.notes[0].Tables {
		p.read[t.Partition] = max(p.read[t.Partition], t.Next)
	}
	p.notes, p.unread = p.notes[1:], true
}

// atNote reports whether the next note is about what follows the newest event.
func (p *followed) atNote() bool { return len(p.notes) > 0 && p.notes[0].Behind == p.behind }

// release appends what comes before the next note, at most limit records in all.
func (p *followed) release(to []stream.Record, limit int) []stream.Record {
	for n := len(to); len(to) < limit && !p.paused; {
		switch {
		case p.atNote() || len(p.notes) > 0 && len(p.records) > 0 && p.isBehind(&p.records[0], &p.notes[0]):
			if len(to) > n {
				return to // that is computed before
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

// isBehind reports whether a record comes after what a note says.
func (p *followed) isBehind(r *stream.Record, n *order.TableRead) bool {
	if header.MovesTime(r) {
		return r.Time.UnixMicro() > n.Time
	}
	return n.Behind.Before(p.place(r))
}

// place returns where an event stands.
func (p *followed) place(r *stream.Record) order.Place {
	if !p.ordered {
		return order.PlaceAt(order.Key{Offset: int64(r.Offset)})
	}
	c, _ := order.ParseCopy(header.Value(r, header.Order)) // a reader has written it
	return c.Turn()
}

// give notes that a record is returned.
func (p *followed) give(r *stream.Record) {
	if header.MovesTime(r) {
		p.time = max(p.time, r.Time.UnixMicro())
		return
	}
	p.behind, p.next = p.place(r), r.Offset+1
	p.time = max(p.time, p.behind.Time())
}

// until returns up to where a partition of a table is read beside a partition.
func (f *Follower) until(id, table stream.Partition) stream.Offset {
	p := f.part(id)
	p.unread = false
	return p.read[table]
}

// unread reports whether notes were passed since the tables were read.
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
