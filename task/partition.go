package task

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/afterbay/afterbay/dedupe"
	"github.com/afterbay/afterbay/due"
	"github.com/afterbay/afterbay/feature"
	"github.com/afterbay/afterbay/internal/circle"
	"github.com/afterbay/afterbay/merge"
	"github.com/afterbay/afterbay/silence"
	"github.com/afterbay/afterbay/statekey"
	"github.com/afterbay/afterbay/stream"
)

const never = math.MinInt64

var errStateCorrupt = errors.New("stored state is damaged")

// partition is the loop's memory of one assigned partition: decoded cells over
// the committed state. It runs ahead of what is committed; after a failed
// commit it is thrown away.
type partition struct {
	id         stream.Partition
	index      int32
	view       stream.View
	next       stream.Offset // of the next record
	newest     int64         // event time, microseconds; never before the first
	moved      bool          // newest is not yet in a step
	generation uint64
	fresh      bool   // generation is not yet in a step
	provenance []byte // value of header.Pipeline
	keys       map[string]*keyState
	decoded    circle.Circle[*keyState]
	spare      []*keyState // evicted, to be used again
	loads      uint64      // keys decoded
	keyBuf     []byte
	due        *silence.Queue
	dueBytes   int64        // of due, at most
	overdue    bool         // more keys had ended than one step takes
	timers     due.Queue    // keys of which a timer may be due
	ids        *dedupe.Set  // seen; nil without Plan.Dedupe
	sources    *merge.State // nil without Plan.Sources
	marks      due.Marks    // of the chunk, where timers may fire
	markChunk  uint64
	fired      int64     // offset before which all that was due has fired, in steps of its own
	heard      time.Time // when it last had a record or was said to be idle
	idle       bool
	step       uint64 // number of the newest step that moves it
}

// keyState is the decoded state of one key: four lines of a processor's cache,
// each cell in one.
type keyState struct {
	circle.Member
	key    string
	newest int64            // event time of its newest event
	cells  [2]*feature.Cell // early and late, of own; nil where there is no set

	chunk   uint64       // the chunk it was last seen in,
	tail    int32        // its newest item there,
	count   int32        // and how many it has
	calls   []*callState // by Plan.Calls; nil until looked at
	timer   int64        // where awaited
	due     int64        // where queued; 0 where that was not remembered
	awaited bool         // the partition's timers have it
	queued  bool         // the partition's due has its windows
	dirty   bool         // in the step being made

	_   uint64 // own begins a line
	own [2]feature.Cell
}

func (p *partition) watermark(lateness time.Duration) int64 {
	if p.newest == never {
		return never
	}
	return p.newest - lateness.Microseconds()
}

// newPartition restores what is kept beside a partition. The times at which keys
// may end take dueBytes at most.
func newPartition(plan *Plan, a stream.Assigned, dueBytes int64) (*partition, error) {
	p := &partition{
		id: a.Partition, index: a.Partition.Index, view: a.State, next: a.Next,
		newest: never, fired: -1, keys: map[string]*keyState{}, heard: time.Now(), dueBytes: dueBytes,
		keyBuf: make([]byte, 0, 256),
	}
	if err := p.loadGeneration(plan); err != nil {
		return nil, err
	}
	p.provenance = fmt.Appendf(nil, "%s sha256:%s %d", plan.Name, plan.Digest, p.generation)
	if data, err := p.view.Get([]byte{statekey.Watermark}); err != nil {
		return nil, err
	} else if len(data) == 8 {
		p.newest = int64(binary.BigEndian.Uint64(data))
	}
	for _, load := range []func(*Plan) error{p.loadExpiry, p.loadIDs, p.loadSources, p.loadTimers} {
		if err := load(plan); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// loadIDs restores the ids seen.
func (p *partition) loadIDs(plan *Plan) error {
	if plan.Dedupe == nil {
		return nil
	}
	p.ids = dedupe.New(plan.Dedupe.Spec)
	for entry, err := range p.view.Scan([]byte{statekey.ID}) {
		if err != nil {
			return err
		}
		if err := p.ids.Add(entry.Key[1:], entry.Value); err != nil {
			return fmt.Errorf("ids seen in %v: %w", p.id, err)
		}
	}
	return nil
}

// loadGeneration compares what wrote the state with the plan. Cells of another
// meaning are refused: guessing would make every later score wrong.
func (p *partition) loadGeneration(plan *Plan) error {
	data, err := p.view.Get([]byte{statekey.Generation})
	if err != nil {
		return err
	}
	if data == nil {
		p.generation, p.fresh = 1, true
		return nil
	}
	generation, n := binary.Uvarint(data)
	cells, digest, ok := strings.Cut(string(data[max(n, 0):]), " ")
	if n <= 0 || !ok {
		return fmt.Errorf("generation of %v: %w", p.id, errStateCorrupt)
	}
	if cells != plan.Cells {
		return &ErrOtherFeatures{Pipeline: plan.Name, Partition: p.id}
	}
	p.generation = generation
	if digest != plan.Digest {
		p.generation, p.fresh = generation+1, true
	}
	return nil
}

// ErrOtherFeatures says that the state beside a partition was written by a
// pipeline whose key, time or features differ.
type ErrOtherFeatures struct {
	Pipeline  string
	Partition stream.Partition
}

// Error says what to do next.
func (e *ErrOtherFeatures) Error() string {
	return fmt.Sprintf("the state of pipeline %q beside %v was written with other features: give the pipeline another name, which starts from the beginning of its input with empty state, or undo the change", e.Pipeline, e.Partition)
}

// stateless reports that nothing is kept by key.
func (p *Plan) stateless() bool { return p.featureless() && !p.keyed }

func (p *Plan) featureless() bool { return p.Early == nil && p.Late == nil }

func (p *Plan) sets() [2]*feature.Set { return [2]*feature.Set{p.Early, p.Late} }

// lookup returns the state of key, from memory or from the committed state.
func (p *partition) lookup(plan *Plan, key []byte) (*keyState, error) {
	if k, ok := p.keys[string(key)]; ok {
		return k, nil
	}
	k := &keyState{}
	if last := len(p.spare) - 1; last >= 0 {
		k, p.spare = p.spare[last], p.spare[:last]
	}
	*k = keyState{key: string(key), newest: never, own: k.own}
	if err := k.load(plan, p.keyBuf, p.view.Get); err != nil {
		return nil, fmt.Errorf("key %q in %v: %w", key, p.id, err)
	}
	k.queued = plan.terms.Windowed(k.cells) // those of stored keys are in the queue
	p.keys[k.key] = k
	p.decoded.Add(k, k.bytes())
	p.loads++
	return k, nil
}

// load reads the key's cells from its stored entries. It makes their keys in buf.
func (k *keyState) load(plan *Plan, buf []byte, get func(stored []byte) ([]byte, error)) error {
	for i, set := range plan.sets() {
		if set == nil {
			continue
		}
		k.cells[i] = &k.own[i]
		err := set.Reload(k.cells[i], func(sub []byte) ([]byte, error) {
			return get(statekey.AppendCell(buf[:0], i, k.key, sub))
		})
		if err != nil {
			return err
		}
		if newest, ok := k.cells[i].Last(); ok {
			k.newest = max(k.newest, newest)
		}
	}
	return nil
}
