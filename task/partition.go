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
	"github.com/afterbay/afterbay/merge"
	"github.com/afterbay/afterbay/stream"
)

// Kinds of state keys: the first byte of each. A key has an entry and blocks in
// each of the plan's sets.
const (
	kindGeneration = 'g' // -> generation, digests
	kindWatermark  = 'w' // -> newest event time
	kindSource     = 's' // topic/partition -> newest watermark that came from there
	kindID         = 'd' // number -> ids seen
	kindCall       = 'c' // user key, function -> its state and timers
)

var (
	kindCell  = [2]byte{'e', 'l'} // user key -> header of the early, late cell
	kindBlock = [2]byte{'E', 'L'} // user key, block -> entries of an exact window
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
	due        due.Queue    // keys whose silence may end something
	timers     due.Queue    // keys of which a timer may be due
	ids        *dedupe.Set  // seen; nil without Plan.Dedupe
	sources    *merge.State // nil without Plan.Sources
	marks      []point      // of the chunk, where timers may fire
	markChunk  uint64
	fired      int64     // offset before which all that was due has fired, in steps of its own
	heard      time.Time // when it last had a record or was said to be idle
	idle       bool
	step       uint64 // number of the newest step that moves it
}

// keyState is the decoded state of one key.
type keyState struct {
	key     string
	newest  int64            // event time of its newest event
	cells   [2]*feature.Cell // early and late
	calls   []*callState     // by Plan.Calls; nil until looked at
	awaited bool             // the partition's timers have it,
	timer   int64            // then
	dirty   bool             // in the step being made
	queued  bool             // the partition's due has it,
	due     int64            // then; 0 where that was not remembered

	chunk uint64 // the chunk it was last seen in,
	tail  int32  // its newest item there,
	count int32  // and how many it has
}

// span of an expiry check: what a key's silence up to a watermark ended.
type ended uint8

const (
	endedNothing ended = iota
	endedWindows
	endedAll
)

func (p *Plan) endedBy(newest, watermark int64) ended {
	switch {
	case newest == never || watermark < newest+p.Retention.Microseconds():
		return endedNothing
	case watermark < newest+p.Keep.Microseconds():
		return endedWindows
	}
	return endedAll
}

func (p *partition) watermark(lateness time.Duration) int64 {
	if p.newest == never {
		return never
	}
	return p.newest - lateness.Microseconds()
}

func newPartition(plan *Plan, a stream.Assigned) (*partition, error) {
	p := &partition{
		id: a.Partition, index: a.Partition.Index, view: a.State, next: a.Next,
		newest: never, fired: -1, keys: map[string]*keyState{}, heard: time.Now(),
	}
	if err := p.loadGeneration(plan); err != nil {
		return nil, err
	}
	p.provenance = fmt.Appendf(nil, "%s sha256:%s %d", plan.Name, plan.Digest, p.generation)
	if data, err := p.view.Get([]byte{kindWatermark}); err != nil {
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
	for entry, err := range p.view.Scan([]byte{kindID}) {
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
	data, err := p.view.Get([]byte{kindGeneration})
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

// loadExpiry finds when each stored key may end. Keys keep no timers in the
// state: the newest event time, which is there anyway, decides.
func (p *partition) loadExpiry(plan *Plan) error {
	if plan.featureless() {
		return nil
	}
	set := 0 // the one that keeps a key longest
	if plan.Early == nil || plan.Late != nil && !plan.Early.KeepsForever() {
		set = 1
	}
	var entries []due.Entry
	for entry, err := range p.view.Scan([]byte{kindCell[set]}) {
		if err != nil {
			return err
		}
		newest, err := feature.HeaderTime(entry.Value)
		if err != nil {
			return fmt.Errorf("key %q in %v: %w", entry.Key[1:], p.id, err)
		}
		entries = append(entries, due.Entry{At: newest + plan.Retention.Microseconds(), Key: string(entry.Key[1:])})
	}
	p.due.Fill(entries)
	return nil
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
	k := &keyState{key: string(key), newest: never}
	if err := k.load(plan, p.view.Get); err != nil {
		return nil, fmt.Errorf("key %q in %v: %w", key, p.id, err)
	}
	k.queued = k.newest != never // loadExpiry queued every stored key
	p.keys[k.key] = k
	return k, nil
}

// load reads the key's cells from its stored entries.
func (k *keyState) load(plan *Plan, get func(stored []byte) ([]byte, error)) error {
	for i, set := range plan.sets() {
		if set == nil {
			continue
		}
		cell, err := set.Load(func(sub []byte) ([]byte, error) {
			return get(appendStateKey(nil, i, k.key, sub))
		})
		if err != nil {
			return err
		}
		k.cells[i] = cell
		if newest, ok := cell.Last(); ok {
			k.newest = max(k.newest, newest)
		}
	}
	return nil
}

// appendStateKey appends the key of a cell's header, where sub is empty, or of
// one of its blocks.
func appendStateKey(dst []byte, set int, key string, sub []byte) []byte {
	if len(sub) == 0 {
		return append(append(dst, kindCell[set]), key...)
	}
	dst = binary.AppendUvarint(append(dst, kindBlock[set]), uint64(len(key)))
	return append(append(dst, key...), sub...)
}

// end drops what a silent key lost, in one of the plan's sets.
func (k *keyState) end(plan *Plan, set int, what ended) {
	if what == endedNothing || k.cells[set] == nil {
		return
	}
	if what == endedAll {
		plan.sets()[set].Forget(k.cells[set])
	} else {
		plan.sets()[set].DropWindows(k.cells[set])
	}
}

// expire ends the silent keys that the watermark has reached, and calls changed
// for each. A key that had an event since it was queued is queued again.
func (p *partition) expire(plan *Plan, changed func(*keyState)) error {
	watermark := p.watermark(plan.Time.Lateness)
	for p.due.Until(watermark) {
		entry := p.due.Pop()
		k, err := p.lookup(plan, []byte(entry.Key))
		if err != nil {
			return err
		}
		if k.due != 0 && k.due != entry.At {
			continue // it was queued again since, for sooner
		}
		k.queued = false
		if k.newest == never {
			continue
		}
		what := plan.endedBy(k.newest, watermark)
		for set := range k.cells {
			k.end(plan, set, what)
		}
		if what != endedNothing {
			changed(k)
		}
		if what == endedAll || what == endedWindows && !plan.keeps() {
			k.newest = never
			continue
		}
		p.queue(plan, k, what)
	}
	return nil
}

// keeps reports whether a key outlives its windows.
func (p *Plan) keeps() bool {
	return p.Early != nil && p.Early.KeepsForever() || p.Late != nil && p.Late.KeepsForever()
}

// queue notes when k is to be looked at next: when its windows end, or, where
// those have, when it is forgotten.
func (p *partition) queue(plan *Plan, k *keyState, after ended) {
	wait := plan.Retention
	if after == endedWindows {
		wait = plan.Keep
	}
	k.queued, k.due = true, k.newest+wait.Microseconds()
	p.due.Push(due.Entry{At: k.due, Key: k.key})
}

// evict forgets decoded keys that the step being made does not change, until at
// most limit remain. They are read again from the committed state, so it is
// called only when no step is outstanding.
func (p *partition) evict(limit int) {
	for key, k := range p.keys {
		if len(p.keys) <= limit {
			return
		}
		if !k.dirty {
			delete(p.keys, key)
		}
	}
}
