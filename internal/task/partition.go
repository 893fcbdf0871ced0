package task

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/state/dedupe"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/internal/task/group"
	"github.com/afterbay/afterbay/internal/task/join"
	"github.com/afterbay/afterbay/internal/task/keyed"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/internal/task/table"
	"github.com/afterbay/afterbay/stream"
)

const never = output.Never

// partition is the loop's memory of one assigned partition, on top of the committed state. It runs
// ahead of the committed state and is discarded after a failed commit.
type partition struct {
	chunk  *chunk // the chunk being computed
	id     stream.Partition
	origin output.Origin
	next   stream.Offset // offset of the next record
	reached
	generation uint64
	change     generation.Change // change since the generation was stored; Same once a transaction stores it
	keys       *keyed.Memory
	overdue    bool        // more keys had expired than one transaction takes
	ids        *dedupe.Set // ids that were seen; nil without Plan.Dedupe
	collected
	due    due.Queue // timers and ends of keys and groups
	queue  *async.Partition
	tables *table.State // nil without Plan.Tables
	timerMarks
	heard time.Time // when it last had a record or was declared idle
	turns
	source *source // nil without Plan.Copy
	step   uint64  // number of the newest transaction that changes it
}

// reached is the event-time progress of a partition.
type reached struct {
	newest int64 // newest event time, microseconds; never before the first event
	moved  bool  // newest is not yet in a transaction
	told   int64 // newest watermark that a transaction broadcast
}

func (p *partition) watermark(lateness time.Duration) int64 {
	if p.newest == never {
		return never
	}
	return p.newest - lateness.Microseconds()
}

// turns describes the newest event of Plan.Sources.
type turns struct {
	turn   int32       // number of its source partition; -1 if it was not released at its own place
	placed order.Place // place where it was released
}

// behind returns the position of the newest event: its place in the order or, if the topic is read
// by its own key, its offset.
func (p *partition) behind() order.Place {
	if p.chunk.plan.Sources == nil {
		return order.PlaceAt(order.Key{Offset: int64(p.next) - 1})
	}
	return p.placed
}

// collected holds events that wait for other events of a group or pair.
type collected struct {
	groups *group.Set // nil without Plan.Groups
	joins  *join.Set  // nil without Plan.Joins
}

// come handles a due entry of the lane of groups. It returns about how many bytes of changes a join
// makes.
func (c *collected) come(e due.Entry) (bytes int, err error) {
	if c.joins != nil {
		return c.joins.Come(e)
	}
	return 0, c.groups.Come(e)
}

func (c *collected) changes(write func(key, data []byte)) {
	c.groups.Changes(write)
	c.joins.Changes(write)
}

// close removes the waiting events from the counts of the process.
func (c *collected) close() {
	c.groups.Close()
	c.joins.Close()
}

// timerMarks says where timers of a partition may fire, and how far they have fired.
type timerMarks struct {
	marks     due.Marks // marks of the chunk
	markChunk uint64    // chunk that marks belong to
	fired     fired
}

// newPartition restores a partition from its state. keyBytes limits the memory for its keys.
func newPartition(ch *chunk, a stream.Assigned, keyBytes int64) (*partition, error) {
	plan := ch.plan
	p := &partition{
		chunk: ch, id: a.Partition, origin: output.Origin{Index: a.Partition.Index}, next: a.Next,
		reached: reached{newest: never, told: never}, timerMarks: timerMarks{fired: fired{at: -1}}, heard: ch.options.Clock.Now(),
	}
	var err error
	if p.generation, p.change, err = plan.Fingerprint.Load(p.id, a.State); err != nil {
		return nil, err
	}
	p.origin.Provenance = fmt.Appendf(nil, "%s sha256:%s %d", plan.Name, plan.Fingerprint.Outputs, p.generation)
	if data, err := a.State.Get([]byte{statekey.Watermark}); err != nil {
		return nil, err
	} else if len(data) == 8 {
		p.newest = int64(binary.BigEndian.Uint64(data))
	}
	if p.queue, err = ch.dispatcher.Restore(a, p.change.Queued()); err != nil {
		return nil, err
	}
	if p.keys, err = keyed.Open(&plan.keys, p.id, a.State, &p.due, p.queue.Queue, keyBytes); err != nil {
		return nil, err
	}
	if p.groups, err = group.Open(&plan.Groups, ch.shared.groups, p.id, a.State, &p.due); err != nil {
		return nil, err
	}
	if p.joins, err = join.Open(&plan.Joins, &ch.shared.joins, p.id, a.State, &p.due); err != nil {
		return nil, err
	}
	if plan.Dedupe != nil {
		if p.ids, err = dedupe.Restore(p.id, a.State, plan.Dedupe.Spec); err != nil {
			return nil, err
		}
	}
	if plan.Sources != nil {
		if p.placed, err = order.Released(a.State); err != nil {
			return nil, err
		}
	}
	if plan.Copy != nil {
		p.heard = ch.shared.begun // members that come and go do not restart the idle time
		p.source = &source{number: order.Number(plan.Copy.Rank, p.id.Index), told: order.NoMark, byName: map[string]*writer{}, begun: p.heard}
		if err := p.source.restore(p.id, p.newest, a.State, ch.readers.upstreams); err != nil {
			return nil, err
		}
	}
	return p, nil
}
