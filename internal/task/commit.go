package task

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/log/optional"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/internal/task/clock"
	"github.com/afterbay/afterbay/internal/task/keyed"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/stream"
)

// committer builds transactions from computed events. It builds one while the previous one commits.
type committer struct {
	plan       *Plan
	shared     *shared
	options    Options
	member     stream.Member
	metrics    *observe.Member
	partitions map[stream.Partition]*partition
	dispatcher *async.Dispatcher // the async queue
	readers    *readers          // progress of the readers of the copies; nil without Plan.Copy

	bytes     int             // most bytes of a transaction
	building  *transaction    // the transaction being built
	inFlight  *transaction    // handed to Commit, or free for reuse
	pending   *stream.Pending // outcome of inFlight; nil when decided
	committed time.Time       // when the newest commit began
	timer     clock.Timer     // wakes Poll when a commit is due
	waiting   time.Time       // time that the timer is set to; zero if it is not set
	delay     time.Duration   // shortest time between commits while Poll returns full batches
	warmed    int64           // keeps the compiler from removing the reads of keyed.Warm
}

func newCommitter(plan *Plan, shared *shared, options Options, s stream.Member, metrics *observe.Member) *committer {
	tx := &committer{plan: plan, shared: shared, options: options, member: s, metrics: metrics, partitions: map[stream.Partition]*partition{}}
	pace := optional.Pace(s)
	tx.options.OutputMaxBytes = min(options.OutputMaxBytes, pace.RecordBytes-output.RecordRoom)
	form := plan.form(tx.options.OutputMaxBytes)
	tx.building, tx.inFlight = &transaction{Writer: output.NewWriter(form), number: 1}, &transaction{Writer: output.NewWriter(form)}
	tx.options.StepEvents, tx.bytes = cmp.Or(options.StepEvents, pace.Events), pace.Bytes
	tx.timer = options.Clock.AfterFunc(time.Hour, s.Wake)
	tx.timer.Stop()
	tx.dispatcher = async.NewDispatcher(async.Plan{
		Pipeline: plan.Name, Stages: plan.Stages, Labels: plan.resumption.labels, Schema: plan.Schema, ID: plan.Meta.ID, Ordered: plan.Ordered, Queues: plan.queues, Commands: &shared.commands, Journal: plan.Journal,
		Fairness: plan.Fairness, Tenants: &shared.tenants, Attach: plan.Groups.Attach, Clock: options.Clock,
	}, s.Wake, tx.store)
	// Early reads may return events that are never committed. They are used only if nothing outside
	// the log sees these events: no remote model and no observer.
	if early, ok := s.(stream.EarlyReader); ok && !plan.remote && options.Observe == nil {
		early.ReadEarly(true) // the member says when there is something to compute
	} else {
		tx.options.CommitInterval = cmp.Or(options.CommitInterval, pace.Interval)
	}
	return tx
}

// transaction holds computed results that commit together, and the partitions and keys that they
// change. Two transactions alternate: one is built while the other commits.
type transaction struct {
	output.Writer
	number   uint64
	events   int
	late     int
	forced   int // events that arrived after their turn
	elements int // list elements that an each ran its steps for
	counts   [counters]int
	ended    int // keys checked for expiry
	fired    int // timers
	again    int // queued events that were resumed
	dirty    []*keyed.Key
	owners   []*partition // owners[i] is the partition of dirty[i]
	touched  []*partition
	way      observe.Way
}

func (s *transaction) empty() bool { return len(s.touched) == 0 }

// touch records that the transaction changes p.
func (s *transaction) touch(p *partition) {
	if p.step != s.number {
		p.step = s.number
		s.touched = append(s.touched, p)
	}
}

func (tx *committer) full() bool {
	return tx.building.events+tx.building.again >= tx.options.StepEvents || tx.building.Size() >= tx.bytes || tx.building.ended >= expiriesMax || tx.building.fired >= tx.firingsMax()
}

// behindInterval bounds the commit interval while more than one chunk waits to be read. The
// interval is half the age of the first event of the batch, at most behindInterval. A longer
// interval saves work, because a transaction writes each key once.
const behindInterval = 20 * time.Millisecond

// commitDue settles the outstanding commit if it is decided. It commits the current transaction if
// that is due. Otherwise it sets the timer that wakes Poll in time.
func (tx *committer) commitDue() error {
	if tx.pending != nil {
		select {
		case <-tx.pending.Done():
			if err := tx.settle(); err != nil {
				return err
			}
		default:
		}
	}
	if tx.building.empty() {
		return nil
	}
	now, due := tx.options.Clock.Now(), tx.committed.Add(max(tx.options.CommitInterval, tx.delay))
	switch {
	case !now.Before(due) && tx.pending == nil || tx.full():
		return tx.commit()
	case now.Before(due) && !due.Equal(tx.waiting): // the timer is unset, or set for another time
		tx.waiting = due
		tx.timer.Reset(due.Sub(now))
	}
	return nil
}

// commit waits until the previous transaction is decided, then hands the current one to the member.
func (tx *committer) commit() error {
	if err := tx.settle(); err != nil {
		return err
	}
	tx.seal()
	tx.fault("write")
	tx.pending, tx.committed, tx.waiting = tx.member.Commit(tx.building.Transaction), tx.options.Clock.Now(), time.Time{}
	tx.fault("sync")
	tx.building, tx.inFlight = tx.inFlight, tx.building
	tx.building.reset()
	return nil
}

// settle waits for the outstanding commit, if there is one.
func (tx *committer) settle() error {
	if tx.pending == nil {
		return nil
	}
	if err := tx.pending.Wait(context.Background()); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	tx.fault("after")
	tx.measureCommit(tx.pending.At())
	tx.pending = nil
	if tx.plan.queues {
		tx.dispatcher.Settle(tx.inFlight.number)
		tx.member.Wake() // queued events may now be called for
	}
	tx.bound()
	return nil
}

// reset empties s for reuse. Its number grows by two, because two transactions alternate.
func (s *transaction) reset() {
	*s = transaction{
		Writer: s.Reset(), number: s.number + 2, touched: s.touched[:0],
		dirty: s.dirty[:0], owners: s.owners[:0], way: s.way.Emptied(),
	}
}

// seal turns the changes of the transaction into state changes.
func (tx *committer) seal() {
	s := tx.building
	for i, k := range s.dirty {
		if i%warmKeys == 0 {
			tx.warmed += keyed.Warm(s.dirty[i:min(len(s.dirty), i+warmKeys)])
		}
		s.owners[i].keys.Seal(k, &s.Writer)
	}
	tx.dispatcher.Seal(func(p *async.Partition, changes []stream.Change) {
		s.touch(tx.partitions[p.ID])
		s.Changes = append(s.Changes, changes...)
	})
	if tx.plan.Copy != nil {
		tx.tellMarks()
	}
	for _, p := range s.touched {
		s.Offsets[p.id] = p.next
		if p.moved {
			at := len(s.Bytes)
			s.Bytes = binary.BigEndian.AppendUint64(s.Bytes, uint64(p.newest))
			tx.building.Change(p.id, []byte{statekey.Watermark}, s.Bytes[at:])
			p.moved = false
		}
		if tx.shared.tells {
			tx.tellWatermark(p)
		}
		if p.source != nil {
			p.source.changes(func(key, data []byte) { tx.building.Change(p.id, key, data) })
		}
		p.collected.changes(func(key, data []byte) { tx.building.CopyChange(p.id, key, data) })
		p.tables.Changes(func(key, data []byte) { tx.building.CopyChange(p.id, key, data) })
		if p.ids != nil {
			p.ids.Changes(func(key, data []byte) { tx.building.CopyChange(p.id, append([]byte{statekey.ID}, key...), data) })
		}
		if p.change != generation.Same {
			at := len(s.Bytes)
			s.Bytes = tx.plan.Fingerprint.Append(s.Bytes, p.generation)
			tx.building.Change(p.id, []byte{statekey.Generation}, s.Bytes[at:])
			p.change = generation.Same
		}
	}
}

// measureCommit adds the counts of the transaction that became durable at the given time.
func (tx *committer) measureCommit(at time.Time) {
	s, m := tx.inFlight, tx.metrics
	s.way.Commit(m, at)
	m.Events.Add(uint64(s.events - s.counts[notices]))
	m.Outputs.Add(uint64(len(s.Outputs) - s.Dead - s.Between))
	m.Duplicates.Add(uint64(s.counts[repeats]))
	m.DeadLetters.Add(uint64(s.Dead))
	m.Late.Add(uint64(s.late))
	m.Forced.Add(uint64(s.forced))
	m.Elements.Add(uint64(s.elements))
	m.Dropped.Add(uint64(s.counts[dropped]))
	m.Steps.Add(1)
}

func (tx *committer) fault(stage string) {
	if tx.options.Fault != nil && !(tx.building.empty() && tx.pending == nil && stage != "after") {
		tx.options.Fault(stage)
	}
}

// touch records that the current transaction changes k.
func (tx *committer) touch(p *partition, k *keyed.Key) {
	if k.Dirty {
		return
	}
	k.Dirty = true
	tx.building.dirty = append(tx.building.dirty, k)
	tx.building.owners = append(tx.building.owners, p)
}

// expiriesMax is how many silent keys one transaction checks. If the watermark passes more of them,
// further transactions follow, so that none becomes too large.
const expiriesMax = 1024

// expire ends the keys that fell silent before the end of the chunk. It may run at any time without
// changing a result, because each event checks the expiry of its own key.
func (tx *committer) expire() error {
	if tx.plan.keys.Featureless() {
		return nil
	}
	for _, p := range tx.building.touched {
		watermark := p.watermark(tx.plan.Time.Lateness)
		n, err := p.keys.Expire(watermark, expiriesMax-tx.building.ended, func(k *keyed.Key) { tx.touch(p, k) })
		if err != nil {
			return err
		}
		tx.building.ended += n
		p.overdue = p.keys.Overdue(watermark)
	}
	return nil
}

// bound evicts keys from memory until they fit the limits. No transaction may be outstanding.
func (tx *committer) bound() {
	share := tx.options.KeyBytes / int64(tx.options.Members*max(1, len(tx.partitions)))
	decoded, bytes, due := 0, 0, int64(0)
	for _, p := range tx.partitions {
		evicted, loads := p.keys.Bound(tx.options.Keys, share)
		tx.metrics.KeyEvictions.Add(uint64(evicted))
		tx.metrics.KeyLoads.Add(uint64(loads))
		decoded += p.keys.Len()
		bytes += p.keys.Bytes()
		due += p.keys.DueBytes()
	}
	tx.metrics.Keys.Store(int64(decoded))
	tx.metrics.KeyBytes.Store(int64(bytes))
	tx.metrics.ExpiryBytes.Store(due)
}
