package task

import (
	"encoding/binary"
	"time"

	"github.com/afterbay/afterbay/decode"
	"github.com/afterbay/afterbay/observe"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/value"
)

// worker is the loop's memory of one session. One goroutine owns it.
type worker struct {
	plan    *Plan
	options Options
	session stream.Session
	metrics *sessionMetrics
	scanner *decode.Scanner

	partitions map[stream.Partition]*partition
	step       *step           // being made
	flying     *step           // handed to Commit, or free for reuse
	pending    *stream.Pending // outcome of flying; nil when decided
	committed  time.Time       // when the newest commit began
	timer      *time.Timer     // wakes Poll when a commit is due
	waiting    bool            // the timer runs

	// of the chunk being computed
	chunk   uint64
	items   []item
	rows    []value.Row
	active  []int32 // items of the wave
	score   scoreScratch
	keyBuf  []byte
	spent   [len(observe.Hops)]time.Duration
	columns []float64
	scratch []byte
}

func newWorker(plan *Plan, options Options, s stream.Session, metrics *sessionMetrics) *worker {
	w := &worker{
		plan: plan, options: options, session: s, metrics: metrics,
		scanner:    decode.New(plan.Fields),
		partitions: map[stream.Partition]*partition{},
		step:       newStep(1), flying: newStep(0),
		rows:    plan.Schema.NewRows(options.ChunkEvents),
		columns: make([]float64, plan.columns),
	}
	w.timer = time.AfterFunc(time.Hour, s.Wake)
	w.timer.Stop()
	return w
}

func (w *worker) fault(stage string) {
	if w.options.Fault != nil && !(w.step.empty() && w.pending == nil && stage != "after") {
		w.options.Fault(stage)
	}
}

// step is a stream.Step being made, with the memory that its records point to.
// Two of them take turns: one is computed while the other commits.
type step struct {
	stream.Step
	number  uint64
	events  int
	dead    int
	late    int
	dropped int
	carried int // bytes of outputs that are not in bytes: dead letters
	dirty   []*keyState
	owners  []*partition // of dirty, item by item
	touched []*partition
	bytes   []byte          // of outputs and changes; a slice of it stays valid when it grows
	headers []stream.Header // likewise
	chunks  []chunkTime
}

type chunkTime struct {
	events int
	made   time.Time
}

func newStep(number uint64) *step {
	return &step{
		Step:   stream.Step{Offsets: map[stream.Partition]stream.Offset{}},
		number: number,
	}
}

func (s *step) empty() bool { return len(s.touched) == 0 }

// size is about how many bytes the step will take in the log.
func (s *step) size() int { return len(s.bytes) + s.carried }

// touch notes that the step moves p.
func (s *step) touch(p *partition) {
	if p.step != s.number {
		p.step = s.number
		s.touched = append(s.touched, p)
	}
}

// reset makes s the step after the next one: its number goes up by two, since
// two steps take turns.
func (s *step) reset() {
	clear(s.Offsets)
	clear(s.Outputs) // let go of what they point to
	clear(s.Changes)
	*s = step{
		Step:   stream.Step{Outputs: s.Outputs[:0], Changes: s.Changes[:0], Offsets: s.Offsets},
		number: s.number + 2, touched: s.touched[:0],
		dirty: s.dirty[:0], owners: s.owners[:0],
		bytes: s.bytes[:0], headers: s.headers[:0], chunks: s.chunks[:0],
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
		w.sealKey(s.owners[i], k)
	}
	for _, p := range s.touched {
		s.Offsets[p.id] = p.next
		if p.moved {
			at := len(s.bytes)
			s.bytes = binary.BigEndian.AppendUint64(s.bytes, uint64(p.newest))
			w.change(p, []byte{kindWatermark}, s.bytes[at:])
			p.moved = false
		}
		if p.fresh {
			at := len(s.bytes)
			s.bytes = binary.AppendUvarint(s.bytes, p.generation)
			s.bytes = append(append(append(s.bytes, w.plan.Cells...), ' '), w.plan.Digest...)
			w.change(p, []byte{kindGeneration}, s.bytes[at:])
			p.fresh = false
		}
	}
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
			s.bytes = appendStateKey(s.bytes, i, k.key, sub)
			key := s.bytes[at:len(s.bytes):len(s.bytes)]
			if data != nil {
				at = len(s.bytes)
				s.bytes = append(s.bytes, data...)
				data = s.bytes[at:len(s.bytes):len(s.bytes)]
			}
			w.change(p, key, data)
		})
	}
}

// measureCommit counts what the step that became durable at a time did.
func (w *worker) measureCommit(at time.Time) {
	s, m := w.flying, w.metrics
	for _, c := range s.chunks {
		m.latency.Record(observe.Commit, at.Sub(c.made), c.events)
	}
	m.Events.Add(uint64(s.events))
	m.Outputs.Add(uint64(len(s.Outputs) - s.dead))
	m.DeadLetters.Add(uint64(s.dead))
	m.Late.Add(uint64(s.late))
	m.Dropped.Add(uint64(s.dropped))
	m.Steps.Add(1)
}
