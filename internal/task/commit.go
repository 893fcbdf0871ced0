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

// committer makes transactions of what is computed: one is built while the one before it
// commits.
type committer struct {
	plan       *Plan
	shared     *shared
	options    Options
	member     stream.Member
	metrics    *observe.Member
	partitions map[stream.Partition]*partition
	dispatcher *async.Dispatcher // what is in the async queue
	readers    *readers          // of the copies; nil without Plan.Copy

	bytes     int             // of a transaction, at most
	building  *transaction    // of what is computed
	inFlight  *transaction    // handed to Commit, or free for reuse
	pending   *stream.Pending // outcome of inFlight; nil when decided
	committed time.Time       // when the newest commit began
	timer     clock.Timer     // wakes Poll when a commit is due
	waiting   time.Time       // for this to come does the timer run; zero where it does not
	delay     time.Duration   // of commits, while Poll brings all that is asked for
	warmed    int64           // keeps the reads of keyed.Warm alive
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
	// Events that may never come to be are computed only where nobody outside
	// the log is told: no remote model, no observer.
	if early, ok := s.(stream.EarlyReader); ok && !plan.remote && options.Observe == nil {
		early.ReadEarly(true) // it says when there is something to compute
	} else {
		tx.options.CommitInterval = cmp.Or(options.CommitInterval, pace.Interval)
	}
	return tx
}

// transaction is what is computed and commits together, and what it touches. Two of them
// take turns: one is built while the other commits.
type transaction struct {
	output.Writer
	number   uint64
	events   int
	late     int
	forced   int // events whose turn was over when they came
	elements int // of lists for which an each did its steps
	counts   [counters]int
	ended    int // keys looked at for their silence
	fired    int // timers
	again    int // events that were queued, and gone on with
	dirty    []*keyed.Key
	owners   []*partition // of dirty, item by item
	touched  []*partition
	way      observe.Way
}

func (s *transaction) empty() bool { return len(s.touched) == 0 }

// touch notes that the step moves p.
func (s *transaction) touch(p *partition) {
	if p.step != s.number {
		p.step = s.number
		s.touched = append(s.touched, p)
	}
}

func (tx *committer) full() bool {
	return tx.building.events+tx.building.again >= tx.options.StepEvents || tx.building.Size() >= tx.bytes || tx.building.ended >= expiriesMax || tx.building.fired >= tx.firingsMax()
}

// behindInterval is CommitInterval, while there is more to be read than one chunk
// and the events are twice as late: a step writes each key once. Of those that
// are less late, a step makes half as much later again.
const behindInterval = 20 * time.Millisecond

// commitDue settles the outstanding commit if it is decided, and commits the
// step being made when its time has come; else it makes sure that Poll
// returns in time.
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
	case now.Before(due) && !due.Equal(tx.waiting): // or it was for a time that has passed
		tx.waiting = due
		tx.timer.Reset(due.Sub(now))
	}
	return nil
}

// commit hands the step over, after the one before it was decided.
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
		tx.member.Wake() // there may be something to call for
	}
	tx.bound()
	return nil
}

// reset makes s the step after the next one: its number goes up by two, since
// two steps take turns.
func (s *transaction) reset() {
	*s = transaction{
		Writer: s.Reset(), number: s.number + 2, touched: s.touched[:0],
		dirty: s.dirty[:0], owners: s.owners[:0], way: s.way.Emptied(),
	}
}

// seal turns what the step touched into changes of state.
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

// measureCommit counts what the step that became durable at a time did.
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

// touch notes that the step being made changes k.
func (tx *committer) touch(p *partition, k *keyed.Key) {
	if k.Dirty {
		return
	}
	k.Dirty = true
	tx.building.dirty = append(tx.building.dirty, k)
	tx.building.owners = append(tx.building.owners, p)
}

// expiriesMax is how many silent keys a step looks at. Where the watermark jumps
// over more of them, steps of their own follow, so that none is too large.
const expiriesMax = 1024

// expire ends the keys that fell silent before the chunk's end. Events check
// the silence of their own key at their own position, so it makes no difference
// to any result when this runs.
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

// bound holds what is kept in memory of keys to its limit. No step may be
// outstanding.
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
