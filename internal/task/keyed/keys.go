// Package keyed implements the keyed state of a partition. Memory caches decoded keys and runs
// ahead of the committed state. Circle bounds the cache, and Terms decides when a key expires.
package keyed

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/stream"
)

// Never is the newest event time of a key that has had no event.
const Never = math.MinInt64

// Plan describes the keyed state of a pipeline.
type Plan struct {
	Terms
	Calls []*operator.Call // by Index
	Keyed bool             // a call has state and timers
}

// Featureless reports whether keys have no cells.
func (p *Plan) Featureless() bool { return p.Sets == [2]*feature.Set{} }

// Key is the decoded state of one key. It takes four cache lines of the processor, and each cell is
// in one line.
type Key struct {
	Member
	Name   string
	Newest int64            // event time of its newest event, microseconds; Never before the first
	Cells  [2]*feature.Cell // by set, in own; nil if there is no set

	Chunk   uint64  // the chunk that last had an event of it
	Tail    int32   // its newest item in that chunk
	Count   int32   // number of its items in that chunk
	calls   []*Call // by Plan.Calls; nil until loaded
	timer   int64   // time of its entry in the timers, if awaited
	due     int64   // time of its entry in the queue; 0 if unknown
	awaited bool    // the timers have an entry for it
	queued  bool    // the queue of silent keys has an entry for its windows
	Dirty   bool    // the current transaction changes it

	_   uint64 // padding: own begins a cache line
	own [2]feature.Cell
}

// Used implements Value. A key is used in each chunk that has an event of it.
func (k *Key) Used() uint64 { return k.Chunk }

// Held reports whether the key must stay in memory.
func (k *Key) Held() bool { return k.Dirty }

// bytes returns about how much memory k takes, including its places in the map and the circle.
func (k *Key) bytes() int {
	n := int(unsafe.Sizeof(*k)) + 56 + len(k.Name)
	for _, c := range k.Cells {
		if c != nil {
			n += c.Bytes() - int(unsafe.Sizeof(*c)) // the struct of the cell is part of k
		}
	}
	for _, c := range k.calls {
		if c != nil {
			n += c.Keyed.Bytes()
		}
	}
	return n
}

// Read returns a key from its stored entries. get returns the entry of a state key.
func Read(plan *Plan, name string, get func(stored []byte) ([]byte, error)) (*Key, error) {
	k := &Key{Name: name, Newest: Never}
	return k, k.load(plan, nil, get)
}

// load reads the key's cells from its stored entries. It uses buf for their state keys.
func (k *Key) load(plan *Plan, buf []byte, get func(stored []byte) ([]byte, error)) error {
	for i, set := range plan.Sets {
		if set == nil {
			continue
		}
		k.Cells[i] = &k.own[i]
		err := set.Reload(k.Cells[i], func(sub []byte) ([]byte, error) {
			return get(statekey.AppendCell(buf[:0], i, k.Name, sub))
		})
		if err != nil {
			return err
		}
		if newest, ok := k.Cells[i].Last(); ok {
			k.Newest = max(k.Newest, newest)
		}
	}
	return nil
}

// Observe updates the key's cell of a set, if it has one, for an event at a time. It drops the
// expired state and records the time.
func (k *Key) Observe(plan *Plan, set int, ended Ended, at int64) {
	if k.Cells[set] == nil {
		return
	}
	plan.End(set, k.Cells[set], ended)
	plan.Sets[set].Touch(k.Cells[set], at)
}

// Warm touches the cells of keys, so that the processor waits for the memory of all keys at once.
// It skips nil keys. It reads the keys themselves first. The addresses and sizes of the cells are
// then known, and no branch misprediction delays the other reads. The caller must use the result,
// or the compiler removes the reads.
func Warm(list []*Key) (sum int64) {
	for _, k := range list {
		if k != nil {
			early, _ := k.own[0].Last()
			late, _ := k.own[1].Last()
			sum += int64(k.Chunk) + int64(k.Count) + early + late
		}
	}
	for _, k := range list {
		if k != nil && k.Name != "" {
			sum += int64(k.Name[0]) + k.own[0].Warm() + k.own[1].Warm()
		}
	}
	return sum
}

// Memory holds the keys of a partition. It runs ahead of the committed state and is discarded after
// a failed commit.
type Memory struct {
	plan     *Plan
	id       stream.Partition
	view     stream.View
	keys     map[string]*Key
	decoded  Circle[*Key]
	spare    []*Key // evicted keys for reuse
	loads    int    // number of keys decoded
	buf      []byte
	scratch  []byte
	saved    feature.Saved // state saved before the current event was counted
	values   []feature.Value
	text     []byte // buffer for a column
	due      *Queue
	dueBytes int64     // most bytes of due
	timers   *due.Lane // keys with a timer that may be due
	events   *async.Queue
}

// Open returns the keys of a partition from its state. events is the async queue of the partition.
// Open adds the times of expiry checks and timers to queue. bytes limits the memory, as in Bound.
func Open(plan *Plan, id stream.Partition, view stream.View, queue *due.Queue, events *async.Queue, bytes int64) (*Memory, error) {
	m := &Memory{
		plan: plan, id: id, view: view, events: events, keys: map[string]*Key{}, due: plan.NewQueue(queue), timers: &queue[due.Timer],
		dueBytes: bytes / 4 * 3, buf: make([]byte, 0, 256),
	}
	if err := m.loadExpiry(); err != nil {
		return nil, err
	}
	return m, m.loadTimers()
}

// Cached returns the state of a key if it is in memory, else nil.
func (m *Memory) Cached(key []byte) *Key { return m.keys[string(key)] }

// Get returns the state of a key, from memory or from the committed state.
func (m *Memory) Get(key []byte) (*Key, error) {
	if k, ok := m.keys[string(key)]; ok {
		return k, nil
	}
	k := &Key{}
	if last := len(m.spare) - 1; last >= 0 {
		k, m.spare = m.spare[last], m.spare[:last]
	}
	*k = Key{Name: string(key), Newest: Never, own: k.own}
	if err := k.load(m.plan, m.buf, m.view.Get); err != nil {
		return nil, fmt.Errorf("key %q in %v: %w", key, m.id, err)
	}
	m.recall(k)
	k.queued = m.plan.Windowed(k.Cells) // if it has windows, they are in the queue
	m.keys[k.Name] = k
	m.decoded.Add(k, k.bytes())
	m.loads++
	return k, nil
}

// Seal writes the changes of a key, and clears Dirty.
func (m *Memory) Seal(k *Key, to *output.Writer) {
	k.Dirty = false
	for i, set := range m.plan.Sets {
		if set == nil {
			continue
		}
		m.scratch = set.Changes(k.Cells[i], m.scratch, func(sub, data []byte) {
			at := len(to.Bytes)
			to.Bytes = statekey.AppendCell(to.Bytes, i, k.Name, sub)
			to.CopyChange(m.id, to.Bytes[at:len(to.Bytes):len(to.Bytes)], data)
		})
	}
	for i, c := range k.calls {
		if c != nil && c.dirty {
			c.dirty = false
			m.sealCall(k, m.plan.Calls[i], c, to)
		}
	}
	m.decoded.Resize(k, k.bytes())
}

// Memory reuses a few small evicted keys, so that keys that come and go leave little garbage.
const (
	spareKeys  = 1024
	spareBytes = 4 << 10
)

// Bound evicts state from memory until it fits the limits. A quarter of bytes is for decoded keys,
// and the rest for the times of expiry checks. No transaction may be outstanding, because evicted
// keys are read again from the committed state. Bound returns how many keys were evicted, and how
// many were decoded since the last call.
func (m *Memory) Bound(keys int, bytes int64) (evicted, loads int) {
	m.dueBytes = bytes / 4 * 3
	m.due.Trim(m.dueBytes)
	m.decoded.Evict(keys, int(bytes/4), func(k *Key, bytes int) {
		delete(m.keys, k.Name)
		evicted++
		if len(m.spare) < spareKeys && bytes < spareBytes {
			m.spare = append(m.spare, k)
		}
	})
	loads, m.loads = m.loads, 0
	return evicted, loads
}

// Len returns the number of decoded keys.
func (m *Memory) Len() int { return len(m.keys) }

// Bytes returns about how much memory the decoded keys take.
func (m *Memory) Bytes() int { return m.decoded.Bytes() }

// DueBytes returns about how much memory the times of expiry checks and timers take.
func (m *Memory) DueBytes() int64 { return m.due.Bytes() + m.timers.Bytes() }
