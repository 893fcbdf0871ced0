package order

import (
	"context"
	"maps"
	"time"

	"github.com/afterbay/afterbay/internal/log/optional"
	"github.com/afterbay/afterbay/stream"
)

// member is a member of a group that reads in order.
type member struct {
	stream.Member
	sources []int32
	options Options
	reader  *Reader
	parts   map[stream.Partition]*part
	turns   []*part
	turn    int                // index into turns of the first partition
	going   []stream.Partition // revoked by the newest Poll
	records []stream.Record    // returned by the newest Poll
}

var _ stream.Pacer = (*member)(nil)

// Pace implements stream.Pacer.
func (m *member) Pace() stream.Pace { return optional.Pace(m.Member) }

// spillSteps limits the spilled bytes of a transaction, in multiples of its normal bytes. This
// keeps up with the reads and still fits into a frame of the log.
const spillSteps = 4

// crowded is how many bytes beyond twice the limit are held before Poll stops reading until the
// next transaction.
const crowded = 1 << 20

// Poll implements stream.Member.
func (m *member) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	m.drop()
	room := limit
	for _, p := range m.turns {
		if p.ready() {
			m.Wake() // the copies in memory suffice to release
		}
		if p.full() && p.bytes > 2*p.most+crowded && !p.paused {
			room = 0 // until a transaction has spilled some held events
		}
	}
	batch, err := m.Member.Poll(ctx, room)
	if err != nil {
		return batch, err
	}
	now := m.reader.lock()
	m.reader.newest = nil
	defer m.reader.mu.Unlock()
	for _, p := range m.turns {
		m.reader.of.waits(p, now)
	}
	if err := m.take(&batch, now); err != nil {
		return stream.Batch{}, err
	}
	batch.Records = m.release(limit, now)
	for _, p := range m.turns {
		p.look(now)
	}
	return batch, m.failed()
}

// take processes a batch that was read at time now.
func (m *member) take(batch *stream.Batch, now time.Time) error {
	for i := range batch.Assigned {
		a := &batch.Assigned[i]
		p, err := restore(*a, m.sources, m.options)
		if err != nil {
			return err
		}
		m.parts[a.Partition], m.turns = p, append(m.turns, p)
		if s, ok := m.Member.(stream.Seeker); ok {
			s.Seek(a.Partition, p.read)
		}
		a.Next = p.stepped.next
	}
	m.share()
	for i := range batch.Records {
		m.parts[batch.Records[i].Partition].take(&batch.Records[i], now)
	}
	m.going = batch.Revoked
	return nil
}

// share divides the member's memory limit evenly over its partitions.
func (m *member) share() {
	for _, p := range m.turns {
		p.most = m.options.Bytes
		if n := int64(len(m.turns)); p.most > 0 {
			p.most = max(1, p.most/n)
		}
	}
}

// failed returns the error of a failed partition, or nil.
func (m *member) failed() error {
	for _, p := range m.turns {
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

// drop removes the partitions that the newest Poll revoked.
func (m *member) drop() {
	m.reader.mu.Lock()
	defer m.reader.mu.Unlock()
	for _, id := range m.going {
		if p := m.parts[id]; p != nil {
			m.reader.of.waits(p, m.reader.of.Now())
		}
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

// release returns the records that are ready. Each call starts with another partition.
func (m *member) release(limit int, now time.Time) []stream.Record {
	clear(m.records)
	m.records = m.records[:0]
	for i := range m.turns {
		p := m.turns[(m.turn+i)%len(m.turns)]
		if room := limit - len(m.records); room > 0 && !p.paused {
			m.records = p.release(m.records, room, now)
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
	offsets, err := m.step(&step)
	if err != nil {
		failed := stream.NewPending()
		failed.Decide(err)
		return failed
	}
	step.Offsets = offsets
	m.tell()
	return m.Member.Commit(step)
}

// step adds the progress of the release to a transaction and returns the log offsets to commit.
func (m *member) step(step *stream.Transaction) (offsets map[stream.Partition]stream.Offset, err error) {
	m.reader.mu.Lock()
	defer m.reader.mu.Unlock()
	offsets = maps.Clone(step.Offsets)
	room := int64(spillSteps * m.Pace().Bytes)
	for id, next := range step.Offsets {
		p := m.parts[id]
		if p == nil {
			continue // the log rejects partitions that are not owned
		}
		if offsets[id], step.Changes, room, err = p.step(step.Changes, next, room); err != nil {
			return nil, err
		}
	}
	return offsets, nil
}

// tell reports the amount of held data.
func (m *member) tell() {
	if m.options.Tell == nil {
		return
	}
	var all Held
	for _, p := range m.turns {
		p.count(&all)
	}
	m.options.Tell(all)
}

// Close implements stream.Member.
func (m *member) Close() error {
	m.turns = nil
	m.tell()
	return m.Member.Close()
}

// deliverer is a member of a log that can write outputs outside their transaction.
type deliverer struct {
	*member
	inner stream.Deliverer
}

// Deliver implements stream.Deliverer.
func (d *deliverer) Deliver(outputs []stream.Record) { d.inner.Deliver(outputs) }
