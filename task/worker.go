package task

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/afterbay/afterbay/decode"
	"github.com/afterbay/afterbay/observe"
	"github.com/afterbay/afterbay/statekey"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/value"
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
	step       *draft          // being made
	flying     *draft          // handed to Commit, or free for reuse
	pending    *stream.Pending // outcome of flying; nil when decided
	committed  time.Time       // when the newest commit began
	timer      *time.Timer     // wakes Poll when a commit is due
	waiting    time.Time       // for this to come does the timer run; zero where it does not
	delay      time.Duration   // of commits, while Poll brings all that is asked for

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
	spent   [len(observe.Hops)]time.Duration
	scratch []byte
	ahead   [warmKeys]*keyState // of the events to come, where they are in memory
	warmed  int64               // keeps the reads of warm alive
}

func newWorker(plan *Plan, options Options, s stream.Session, metrics *observe.Session) *worker {
	w := &worker{
		plan: plan, options: options, session: s, metrics: metrics,
		scanners:   plan.scanners(),
		partitions: map[stream.Partition]*partition{},
		step:       newDraft(1), flying: newDraft(0),
		rows: plan.Schema.NewRows(options.ChunkEvents),
	}
	pace := stream.PaceOf(s)
	w.options.OutputMaxBytes = min(options.OutputMaxBytes, pace.RecordBytes-recordRoom)
	w.options.StepEvents, w.bytes = cmp.Or(options.StepEvents, pace.Events), pace.Bytes
	w.timer = time.AfterFunc(time.Hour, s.Wake)
	w.timer.Stop()
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

// draft is a stream.Step being made, with the memory that its records point to.
// Two of them take turns: one is computed while the other commits.
type draft struct {
	stream.Step
	number   uint64
	events   int
	dead     int
	late     int
	dropped  int
	repeats  int // duplicates
	notices  int // of sources: no events
	ended    int // keys looked at for their silence
	carried  int // bytes of outputs that are not in bytes: dead letters
	dirty    []*keyState
	owners   []*partition // of dirty, item by item
	touched  []*partition
	bytes    []byte          // of outputs and changes; a slice of it stays valid when it grows
	headers  []stream.Header // likewise
	passages []observe.Passage
}

func newDraft(number uint64) *draft {
	return &draft{
		Step:   stream.Step{Offsets: map[stream.Partition]stream.Offset{}},
		number: number,
	}
}

func (s *draft) empty() bool { return len(s.touched) == 0 }

// size is about how many bytes the step will take in the log.
func (s *draft) size() int { return len(s.bytes) + s.carried }

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
	clear(s.Offsets)
	clear(s.Outputs) // let go of what they point to
	clear(s.Changes)
	*s = draft{
		Step:   stream.Step{Outputs: s.Outputs[:0], Changes: s.Changes[:0], Offsets: s.Offsets},
		number: s.number + 2, touched: s.touched[:0],
		dirty: s.dirty[:0], owners: s.owners[:0],
		bytes: s.bytes[:0], headers: s.headers[:0], passages: s.passages[:0],
	}
}

// touch notes that the step being made changes k.
func (w *worker) touch(p *partition, k *keyState) {
	if k.dirty {
		return
	}
	k.dirty = true
	w.step.dirty = append(w.step.dirty, k)
	w.step.owners = append(w.step.owners, p)
}

// seal turns what the step touched into changes of state.
func (w *worker) seal() {
	s := w.step
	for i, k := range s.dirty {
		if i%warmKeys == 0 {
			w.warmCells(s.dirty[i:min(len(s.dirty), i+warmKeys)])
		}
		w.sealKey(s.owners[i], k)
		s.owners[i].decoded.Resize(k, k.bytes())
	}
	for _, p := range s.touched {
		s.Offsets[p.id] = p.next
		if p.moved {
			at := len(s.bytes)
			s.bytes = binary.BigEndian.AppendUint64(s.bytes, uint64(p.newest))
			w.change(p, []byte{statekey.Watermark}, s.bytes[at:])
			p.moved = false
		}
		if p.sources != nil {
			p.sources.Changes(func(position string, data []byte) { w.change(p, append([]byte{statekey.Source}, position...), data) })
		}
		if p.ids != nil {
			p.ids.Changes(func(key, data []byte) { w.copyChange(p, append([]byte{statekey.ID}, key...), data) })
		}
		if p.fresh {
			at := len(s.bytes)
			s.bytes = binary.AppendUvarint(s.bytes, p.generation)
			s.bytes = append(append(append(s.bytes, w.plan.Cells...), ' '), w.plan.Digest...)
			w.change(p, []byte{statekey.Generation}, s.bytes[at:])
			p.fresh = false
		}
	}
}

// copyChange is change with data that is valid only for now; nil deletes.
func (w *worker) copyChange(p *partition, key, data []byte) {
	if s := w.step; data != nil {
		at := len(s.bytes)
		s.bytes = append(s.bytes, data...)
		data = s.bytes[at:len(s.bytes):len(s.bytes)]
	}
	w.change(p, key, data)
}

func (w *worker) change(p *partition, key, data []byte) {
	w.step.Changes = append(w.step.Changes, stream.Change{Partition: p.id, Key: key, Value: data})
}

// sealKey writes what changed of the cells of k.
func (w *worker) sealKey(p *partition, k *keyState) {
	s := w.step
	k.dirty = false
	for i, set := range w.plan.sets() {
		if set == nil {
			continue
		}
		w.scratch = set.Changes(k.cells[i], w.scratch, func(sub, data []byte) {
			at := len(s.bytes)
			s.bytes = statekey.AppendCell(s.bytes, i, k.key, sub)
			w.copyChange(p, s.bytes[at:len(s.bytes):len(s.bytes)], data)
		})
	}
	for i, c := range k.calls {
		if c != nil && c.dirty {
			c.dirty = false
			w.sealCall(p, k, w.plan.Calls[i], c)
		}
	}
}

// measureCommit counts what the step that became durable at a time did.
func (w *worker) measureCommit(at time.Time) {
	s, m := w.flying, w.metrics
	for i := range s.passages {
		p := &s.passages[i]
		p.Committed = at
		m.Latency.Record(observe.Commit, at.Sub(p.Made), int(p.Next-p.First))
	}
	m.Events.Add(uint64(s.events - s.notices))
	m.Outputs.Add(uint64(len(s.Outputs) - s.dead))
	m.Duplicates.Add(uint64(s.repeats))
	m.DeadLetters.Add(uint64(s.dead))
	m.Late.Add(uint64(s.late))
	m.Dropped.Add(uint64(s.dropped))
	m.Steps.Add(1)
	m.Trace.Add(s.passages...)
}
