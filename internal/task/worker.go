package task

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/internal/task/clock"
	"github.com/afterbay/afterbay/internal/task/keyed"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/internal/task/table"
	"github.com/afterbay/afterbay/stream"
)

// worker is the loop's memory of one session. One goroutine owns it.
type worker struct {
	plan     *Plan
	options  Options
	bytes    int // of a step, at most
	session  stream.Session
	metrics  *observe.Session
	scanners []*decode.Scanner // by source; the only one where there are none

	partitions map[stream.Partition]*partition
	tables     *table.Reader
	step       *draft          // being made
	flying     *draft          // handed to Commit, or free for reuse
	pending    *stream.Pending // outcome of flying; nil when decided
	committed  time.Time       // when the newest commit began
	timer      clock.Timer     // wakes Poll when a commit is due
	waiting    time.Time       // for this to come does the timer run; zero where it does not
	delay      time.Duration   // of commits, while Poll brings all that is asked for

	// of what is parked, where the plan parks
	desk     *async.Desk
	gate     *control.Gate
	down     bool // an endpoint is waited for
	held     bool // nothing is read
	idling   bool // time moves on, without an event
	standing bool // too much becomes dead letters
	rowBuf   []byte

	// of the chunk being computed
	chunk   uint64
	now     time.Time // when it was begun
	items   []item
	rows    []value.Row
	active  []int32 // items of the wave
	score   scoreScratch
	firings []firing
	fired   int // timers, since that was last looked at
	keyBuf  []byte
	spent   [len(observe.Phases)]time.Duration
	ahead   [warmKeys]*keyed.Key // of the events to come, where they are in memory
	warmed  int64                // keeps the reads of warm alive
}

func newWorker(plan *Plan, options Options, s stream.Session, metrics *observe.Session) *worker {
	w := &worker{
		plan: plan, options: options, session: s, metrics: metrics,
		scanners:   plan.scanners(),
		partitions: map[stream.Partition]*partition{},
		rows:       plan.Schema.NewRows(options.ChunkEvents),
	}
	pace := stream.PaceOf(s)
	w.options.OutputMaxBytes = min(options.OutputMaxBytes, pace.RecordBytes-output.RecordRoom)
	form := plan.form(w.options.OutputMaxBytes)
	w.step, w.flying = &draft{Writer: output.NewWriter(form), number: 1}, &draft{Writer: output.NewWriter(form)}
	w.options.StepEvents, w.bytes = cmp.Or(options.StepEvents, pace.Events), pace.Bytes
	w.timer = options.Clock.AfterFunc(time.Hour, s.Wake)
	w.timer.Stop()
	w.gate = plan.Queue.Gate(options.Sessions)
	w.desk = async.NewDesk(async.Plan{
		Pipeline: plan.Name, Stages: plan.Stages, Labels: plan.resumption.Labels(), Schema: plan.Schema, ID: plan.Meta.ID, Ordered: plan.Ordered, Parks: plan.parks, Orders: &plan.Orders, Journal: plan.Journal,
		Fairness: plan.Turns, Tenants: &plan.Tenants, Attach: plan.Groups.Attach, Clock: options.Clock,
	}, s.Wake, w.store)
	// Events that may never come to be are computed only where nobody outside
	// the log is told: no remote model, no observer.
	if early, ok := s.(stream.EarlyReader); ok && !plan.remote && options.Observe == nil {
		early.ReadEarly(true) // it says when there is something to compute
	} else {
		w.options.CommitInterval = cmp.Or(options.CommitInterval, pace.Interval)
	}
	return w
}

func (w *worker) fault(stage string) {
	if w.options.Fault != nil && !(w.step.empty() && w.pending == nil && stage != "after") {
		w.options.Fault(stage)
	}
}

// draft is the step being made, and what it touches. Two of them take turns: one
// is computed while the other commits.
type draft struct {
	output.Writer
	number  uint64
	events  int
	late    int
	counts  [counters]int
	ended   int // keys looked at for their silence
	again   int // events that were parked, and gone on with
	dirty   []*keyed.Key
	owners  []*partition // of dirty, item by item
	touched []*partition
	way     observe.Way
}

func (s *draft) empty() bool { return len(s.touched) == 0 }

// touch notes that the step moves p.
func (s *draft) touch(p *partition) {
	if p.step != s.number {
		p.step = s.number
		s.touched = append(s.touched, p)
	}
}

// reset makes s the step after the next one: its number goes up by two, since
// two steps take turns.
func (s *draft) reset() {
	*s = draft{
		Writer: s.Reset(), number: s.number + 2, touched: s.touched[:0],
		dirty: s.dirty[:0], owners: s.owners[:0], way: s.way.Emptied(),
	}
}

// touch notes that the step being made changes k.
func (w *worker) touch(p *partition, k *keyed.Key) {
	if k.Dirty {
		return
	}
	k.Dirty = true
	w.step.dirty = append(w.step.dirty, k)
	w.step.owners = append(w.step.owners, p)
}

// seal turns what the step touched into changes of state.
func (w *worker) seal() {
	s := w.step
	for i, k := range s.dirty {
		if i%warmKeys == 0 {
			w.warmed += keyed.Warm(s.dirty[i:min(len(s.dirty), i+warmKeys)])
		}
		s.owners[i].keys.Seal(k, &s.Writer)
	}
	w.desk.Seal(func(p *async.Partition, changes []stream.Change) {
		s.touch(w.partitions[p.ID])
		s.Changes = append(s.Changes, changes...)
	})
	for _, p := range s.touched {
		s.Offsets[p.id] = p.next
		if p.moved {
			at := len(s.Bytes)
			s.Bytes = binary.BigEndian.AppendUint64(s.Bytes, uint64(p.newest))
			w.step.Change(p.id, []byte{statekey.Watermark}, s.Bytes[at:])
			p.moved = false
		}
		if p.sources != nil {
			p.sources.Changes(func(position string, data []byte) {
				w.step.Change(p.id, append([]byte{statekey.Source}, position...), data)
			})
		}
		p.groups.Changes(func(key, data []byte) { w.step.CopyChange(p.id, key, data) })
		p.tables.Changes(func(key, data []byte) { w.step.CopyChange(p.id, key, data) })
		if p.ids != nil {
			p.ids.Changes(func(key, data []byte) { w.step.CopyChange(p.id, append([]byte{statekey.ID}, key...), data) })
		}
		if p.change != generation.Same {
			at := len(s.Bytes)
			s.Bytes = w.plan.Fingerprint.Append(s.Bytes, p.generation)
			w.step.Change(p.id, []byte{statekey.Generation}, s.Bytes[at:])
			p.change = generation.Same
		}
	}
}

// measureCommit counts what the step that became durable at a time did.
func (w *worker) measureCommit(at time.Time) {
	s, m := w.flying, w.metrics
	s.way.Commit(m, at)
	m.Events.Add(uint64(s.events - s.counts[notices]))
	m.Outputs.Add(uint64(len(s.Outputs) - s.Dead))
	m.Duplicates.Add(uint64(s.counts[repeats]))
	m.DeadLetters.Add(uint64(s.Dead))
	m.Late.Add(uint64(s.late))
	m.Dropped.Add(uint64(s.counts[dropped]))
	m.Steps.Add(1)
}
