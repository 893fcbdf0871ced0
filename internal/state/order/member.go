package order

import (
	"context"
	"maps"

	"github.com/afterbay/afterbay/internal/log/optional"
	"github.com/afterbay/afterbay/stream"
)

// member is a member of a group that reads in order.
type member struct {
	stream.Member
	sources []int32
	arrival bool
	stages  Stages
	parts   map[stream.Partition]*part
	turns   []*part
	turn    int                // of turns is first
	going   []stream.Partition // revoked by the newest Poll
	records []stream.Record    // of the newest Poll
}

var _ stream.Pacer = (*member)(nil)

// Pace implements stream.Pacer.
func (m *member) Pace() stream.Pace { return optional.Pace(m.Member) }

// Poll implements stream.Member.
func (m *member) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	m.drop()
	for _, p := range m.turns {
		if p.ready() {
			m.Wake() // what is there is enough
			break
		}
	}
	batch, err := m.Member.Poll(ctx, limit)
	if err != nil {
		return batch, err
	}
	for i := range batch.Assigned {
		a := &batch.Assigned[i]
		p, err := restore(*a, m.sources, m.arrival, m.stages)
		if err != nil {
			return stream.Batch{}, err
		}
		m.parts[a.Partition], m.turns = p, append(m.turns, p)
		a.Next = p.stepped.next
	}
	for i := range batch.Records {
		m.parts[batch.Records[i].Partition].take(&batch.Records[i])
	}
	m.going = batch.Revoked
	batch.Records = m.release(limit)
	return batch, nil
}

// drop forgets the partitions that the newest Poll revoked.
func (m *member) drop() {
	for _, id := range m.going {
		delete(m.parts, id)
	}
	if len(m.going) > 0 {
		m.turns = m.turns[:0]
		for _, p := range m.parts {
			m.turns = append(m.turns, p)
		}
	}
	m.going = nil
}

// release returns what may be released, and lets the partitions take turns in being first.
func (m *member) release(limit int) []stream.Record {
	clear(m.records)
	m.records = m.records[:0]
	for i := range m.turns {
		p := m.turns[(m.turn+i)%len(m.turns)]
		if room := limit - len(m.records); room > 0 && !p.paused {
			m.records = p.release(m.records, room)
		}
	}
	m.turn++
	return m.records
}

// Pause implements stream.Member.
func (m *member) Pause(partitions ...stream.Partition) {
	m.pause(true, partitions)
	m.Member.Pause(partitions...)
}

// Resume implements stream.Member.
func (m *member) Resume(partitions ...stream.Partition) {
	m.pause(false, partitions)
	m.Member.Resume(partitions...)
}

func (m *member) pause(paused bool, partitions []stream.Partition) {
	for _, id := range partitions {
		if p := m.parts[id]; p != nil {
			p.paused = paused
		}
	}
}

// Commit implements stream.Member.
func (m *member) Commit(step stream.Transaction) *stream.Pending {
	offsets := maps.Clone(step.Offsets)
	for id, next := range step.Offsets {
		p := m.parts[id]
		if p == nil {
			continue // the log refuses what is not owned
		}
		var err error
		if offsets[id], step.Changes, err = p.step(step.Changes, next); err != nil {
			failed := stream.NewPending()
			failed.Decide(err)
			return failed
		}
	}
	step.Offsets = offsets
	return m.Member.Commit(step)
}

// deliverer is a member of a log that writes outputs apart from their step.
type deliverer struct {
	*member
	inner stream.Deliverer
}

// Deliver implements stream.Deliverer.
func (d *deliverer) Deliver(outputs []stream.Record) { d.inner.Deliver(outputs) }
