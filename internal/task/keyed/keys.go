// Package keyed holds what a pipeline keeps of the keys of a partition: decoded
// in memory, ahead of the committed state, of which it is a cache. Memory is the
// cache. Circle bounds it, and Terms says when a key expires.
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

// Plan is what is kept of keys.
type Plan struct {
	Terms
	Calls []*operator.Call // by Index
	Keyed bool             // one of them has state and timers
}

// Featureless reports that keys have no cells.
func (p *Plan) Featureless() bool { return p.Sets == [2]*feature.Set{} }

// Key is the decoded state of one key: four lines of a processor's cache, each
// cell in one.
type Key struct {
	Member
	Name   string
	Newest int64            // event time of its newest event, microseconds; Never before the first
	Cells  [2]*feature.Cell // by set, of own; nil where there is no set

	Chunk   uint64  // the chunk it was last seen in,
	Tail    int32   // its newest item there,
	Count   int32   // and how many it has
	calls   []*Call // by Plan.Calls; nil until looked at
	timer   int64   // where awaited
	due     int64   // where queued; 0 where that was not remembered
	awaited bool    // the timers have it
	queued  bool    // the queue of silent keys has its windows
	Dirty   bool    // in the step being made

	_   uint64 // own begins a line
	own [2]feature.Cell
}

// Used and Held are what a keyed.Circle asks of a key.
func (k *Key) Used() uint64 { return k.Chunk }

// Held reports whether the key must stay in memory.
func (k *Key) Held() bool { return k.Dirty }

// bytes returns about how much memory k takes, with its places in the map and
// the circle.
func (k *Key) bytes() int {
	n := int(unsafe.Sizeof(*k)) + 56 + len(k.Name)
	for _, c := range k.Cells {
		if c != nil {
			n += c.Bytes() - int(unsafe.Sizeof(*c)) // which is in k
		}
	}
	for _, c := range k.calls {
		if c != nil {
			n += c.Keyed.Bytes()
		}
	}
	return n
}

// Read returns a key from its stored entries, which get returns by state key.
func Read(plan *Plan, name string, get func(stored []byte) ([]byte, error)) (*Key, error) {
	k := &Key{Name: name, Newest: Never}
	return k, k.load(plan, nil, get)
}

// load reads the key's cells from its stored entries. It makes their keys in buf.
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

// Observe brings the key's cell of a set, where it has one, to an event at a
// time: what silence before it ended is dropped, and the time noted.
func (k *Key) Observe(plan *Plan, set int, ended Ended, at int64) {
	if k.Cells[set] == nil {
		return
	}
	plan.End(set, k.Cells[set], ended)
	plan.Sets[set].Touch(k.Cells[set], at)
}

// Warm reads of the cells of keys, nil ones left out, so that memory is waited
// for for all of them at once. What it returns keeps the reads alive. It reads of
// the keys themselves first: where a cell's words are, and how many, is then known
// when they are asked for, so that no guess holds up the rest.
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

// Memory is the keys of a partition. It runs ahead of what is committed; after a
// failed commit it is thrown away.
type Memory struct {
	plan     *Plan
	id       stream.Partition
	view     stream.View
	keys     map[string]*Key
	decoded  Circle[*Key]
	spare    []*Key // evicted, to be used again
	loads    int    // keys decoded
	buf      []byte
	scratch  []byte
	saved    feature.Saved // of the event being counted
	values   []feature.Value
	text     []byte // of a column
	due      *Queue
	dueBytes int64     // of due, at most
	timers   *due.Lane // keys of which a timer may be due
	events   *async.Queue
}

// Open returns the keys of a partition as its state has them, and the queue of its
// events. When they are to be looked at is put into queue. All of it takes so many bytes at
// most, as Bound says.
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

// Cached returns the state of a key where it is in memory, else nil.
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
	k.queued = m.plan.Windowed(k.Cells) // those of stored keys are in the queue
	m.keys[k.Name] = k
	m.decoded.Add(k, k.bytes())
	m.loads++
	return k, nil
}

// Seal writes what changed of a key, and takes it out of the step.
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

// Of evicted keys the memory of a few small ones is used again, so that keys
// that come and go leave little garbage.
const (
	spareKeys  = 1024
	spareBytes = 4 << 10
)

// Bound holds the memory to so many decoded keys and bytes, a quarter of which is
// theirs and the rest is for when keys fall silent. No step may be outstanding,
// as evicted keys are read again from the committed state. It returns how many
// were evicted, and were decoded since it was last called.
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

// DueBytes returns about how much memory it takes to know when keys fall silent
// and their timers may be due.
func (m *Memory) DueBytes() int64 { return m.due.Bytes() + m.timers.Bytes() }
