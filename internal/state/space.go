package state

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"runtime"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/afterbay/afterbay/stream"
)

// Space is the state of one group for one partition. It is safe for concurrent use.
type Space struct {
	store  *Store
	prefix []byte // of its keys in Pebble

	mu      sync.Mutex // guards the fields below
	table   table
	known   bool     // away contains all keys without a cell that Pebble may have
	away    filter   // evicted keys, including some that were loaded again
	dirty   []uint32 // cells whose dirty flag was set since the last swap
	pending []uint32 // taken from dirty for the checkpoint; the first taken of them are handed over
	taken   int
	clock   uint32 // cell at which eviction continues
	loads   []*load
}

var _ stream.View = (*Space)(nil)

// load is a running read of Pebble for a key with this hash. An Apply to such a key makes it stale:
// its value must not become a cell.
type load struct {
	hash  uint64
	stale bool
}

// Limits of the work done during one lock of a space's mutex.
const (
	chunkCells = 256
	chunkBytes = 256 << 10
	sweepCells = 1024
)

func newSpace(store *Store, prefix []byte, known bool) *Space {
	s := &Space{store: store, prefix: prefix, table: newTable(), known: known}
	runtime.AddCleanup(s, (*arena).release, s.table.slab.arena)
	return s
}

// Get returns the value of key, or nil if the key is absent. The caller owns the slice. A key that
// is not in memory costs a search in the checkpoint. Most keys that never existed cost none, if
// this store has known the space from its beginning.
func (s *Space) Get(key []byte) ([]byte, error) {
	hash := maphash.Bytes(s.table.seed, key)
	for {
		s.mu.Lock()
		if id, found := s.table.find(hash, key); found {
			value := s.table.value(id)
			s.table.cell(id).flags |= recent
			if value != nil {
				value = append([]byte{}, value...)
			}
			s.mu.Unlock()
			s.store.counters.hits.Add(1)
			return value, nil
		}
		if s.known && !s.away.has(hash) && !s.store.closing.Load() {
			s.mu.Unlock()
			s.store.counters.absent.Add(1)
			return nil, nil
		}
		l := &load{hash: hash}
		s.loads = append(s.loads, l)
		s.mu.Unlock()

		value, err := s.store.read(s.diskKey(key))
		if fresh := s.loaded(l, key, value, err); fresh || err != nil {
			s.store.counters.misses.Add(1)
			s.store.evict()
			if err != nil {
				err = fmt.Errorf("read state: %w", err)
			}
			return value, err
		}
	}
}

// loaded ends a load and keeps its value in a cell. It reports whether the value is valid.
func (s *Space) loaded(l *load, key, value []byte, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads = slices.DeleteFunc(s.loads, func(other *load) bool { return other == l })
	if err != nil || l.stale {
		return false
	}
	if value != nil {
		if _, found := s.table.find(l.hash, key); !found {
			id := s.table.insert(l.hash, key)
			s.set(id, key, value)
		}
	}
	return true
}

// set writes the value of a cell and updates the store's memory counter.
func (s *Space) set(id uint32, key, value []byte) {
	s.store.used.Add(s.table.set(id, key, value))
}

func (s *Space) diskKey(key []byte) []byte {
	return append(slices.Clip(s.prefix), key...)
}

// Apply applies the changes of the durable log frame seq, in order. A nil value deletes. Apply
// copies the slices. Get and Scan see all of the changes or none.
func (s *Space) Apply(seq uint64, changes iter.Seq2[[]byte, []byte]) {
	raise(&s.store.latest, seq)
	s.mu.Lock()
	var ahead [aheadMost]change
	n := 0
	for key, value := range changes {
		ahead[n] = change{maphash.Bytes(s.table.seed, key), key, value}
		if n++; n == len(ahead) {
			s.applyAll(ahead[:n])
			n = 0
		}
	}
	s.applyAll(ahead[:n])
	s.mu.Unlock()
	s.store.evict()
}

// aheadMost is how many changes are looked up at once.
const aheadMost = 32

// change sets the value of the key with this hash; a nil value deletes.
type change struct {
	hash       uint64
	key, value []byte
}

// applyAll applies changes in order. The cells of many keys are far apart in memory. So it first
// looks up all of them, and their memory loads in parallel.
func (s *Space) applyAll(changes []change) {
	s.table.warm(changes)
	for i := range changes {
		s.apply(changes[i].hash, changes[i].key, changes[i].value)
	}
}

func (s *Space) apply(hash uint64, key, value []byte) {
	for _, l := range s.loads {
		if l.hash == hash {
			l.stale = true
		}
	}
	id, found := s.table.find(hash, key)
	if !found {
		id = s.table.insert(hash, key)
	}
	s.set(id, key, value)
	c := s.table.cell(id)
	if c.flags&dirty == 0 {
		s.dirty = append(s.dirty, id)
	}
	c.flags |= dirty | recent
	if s.table.slab.wasteful() {
		s.table.compact()
	}
}

// swapDirty moves the dirty cells to pending and returns how many are pending. Cells that an
// interrupted checkpoint left pending stay pending.
func (s *Space) swapDirty() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, s.dirty...)
	s.dirty = nil
	return len(s.pending)
}

// hand writes the next chunk of pending cells into batch and returns their number. A later change
// makes a cell dirty again.
func (s *Space) hand(batch *pebble.Batch) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := 0
	key := slices.Clone(s.prefix)
	for s.taken < min(len(s.pending), chunkCells) && size < chunkBytes {
		id := s.pending[s.taken]
		s.taken++
		c := s.table.cell(id)
		c.flags = c.flags&^dirty | handed
		key = append(key[:len(s.prefix)], s.table.key(id)...)
		value := s.table.value(id)
		size += len(key) + len(value)
		var err error
		if value == nil {
			err = batch.Delete(key, nil)
		} else {
			err = batch.Set(key, value, nil)
		}
		if err != nil {
			return 0, err
		}
	}
	return s.taken, nil
}

// handed records that Pebble has the last n handed cells.
func (s *Space) handed(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.pending[:n] {
		c := s.table.cell(id)
		c.flags &^= handed
		if c.flags&dirty == 0 && c.valueLen < 0 {
			s.remove(id)
		}
	}
	s.pending = s.pending[n:]
	s.taken = 0
}

func (s *Space) remove(id uint32) { s.store.used.Add(-s.table.remove(id)) }

func (s *Space) slots() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.table.made)
}

// sweep advances the clock over some cells. It evicts clean cells that were not used since the last
// pass, and returns how many.
func (s *Space) sweep(target int64) (evicted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range min(sweepCells, s.table.made) {
		if s.clock++; s.clock >= s.table.made {
			s.clock = 0
		}
		c := s.table.cell(s.clock)
		switch {
		case c.flags&live == 0 || c.flags&(dirty|handed) != 0:
		case c.flags&recent != 0:
			c.flags &^= recent
		default:
			if s.known {
				s.evicted(maphash.Bytes(s.table.seed, s.table.key(s.clock)))
			}
			s.remove(s.clock)
			if evicted++; s.store.used.Load() <= target {
				return evicted
			}
		}
	}
	return evicted
}

// evicted records that only Pebble has a key with this hash. Filters take at most an eighth of the
// memory, because cells are more useful.
func (s *Space) evicted(hash uint64) {
	grown := s.away.add(hash)
	s.store.used.Add(grown)
	if s.store.filters.Add(grown) > s.store.opts.MemoryMaxBytes/8 {
		bytes := s.away.bytes()
		s.store.used.Add(-bytes)
		s.store.filters.Add(-bytes)
		s.known, s.away = false, filter{}
	}
}

func (s *Space) sizes() (cells, dirty int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.table.count), int64(len(s.dirty) + len(s.pending))
}

// Scan yields the entries with keys that start with prefix, in key order. All entries are from one
// point in time between Applies. The caller owns the slices. Scan reads every cell that is not
// checkpointed and then searches the checkpoint.
func (s *Space) Scan(prefix []byte) iter.Seq2[stream.Entry, error] {
	return func(yield func(stream.Entry, error) bool) {
		err := s.store.users.enter()
		if err != nil {
			yield(stream.Entry{}, fmt.Errorf("scan state: %w", err))
			return
		}
		defer s.store.users.leave()
		memory, it, err := s.capture(prefix)
		if err != nil {
			yield(stream.Entry{}, fmt.Errorf("scan state: %w", s.store.damaged(err)))
			return
		}
		err = s.merge(memory, it, yield)
		if closeErr := it.Close(); err == nil {
			err = closeErr
		}
		if err != nil && err != errStopped {
			yield(stream.Entry{}, fmt.Errorf("scan state: %w", s.store.damaged(err)))
		}
	}
}

// capture returns the entries that Pebble may lack and an iterator over those of Pebble, both of
// the same point in time.
func (s *Space) capture(prefix []byte) ([]stream.Entry, *pebble.Iterator, error) {
	lower := s.diskKey(prefix)
	s.mu.Lock()
	defer s.mu.Unlock()
	it, err := s.store.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: after(lower)})
	if err != nil {
		return nil, nil, err
	}
	var memory []stream.Entry
	for _, ids := range [][]uint32{s.pending, s.dirty} {
		for _, id := range ids {
			if key := s.table.key(id); bytes.HasPrefix(key, prefix) {
				memory = append(memory, stream.Entry{Key: bytes.Clone(key), Value: bytes.Clone(s.table.value(id))})
			}
		}
	}
	slices.SortFunc(memory, func(a, b stream.Entry) int { return bytes.Compare(a.Key, b.Key) })
	memory = slices.CompactFunc(memory, func(a, b stream.Entry) bool { return bytes.Equal(a.Key, b.Key) })
	return memory, it, nil
}

// errStopped means that the caller of Scan stopped the iteration.
var errStopped = errors.New("stopped")

// merge yields the entries of memory and it in key order. For equal keys it yields that of memory.
func (s *Space) merge(memory []stream.Entry, it *pebble.Iterator, yield func(stream.Entry, error) bool) error {
	valid := it.First()
	for valid || len(memory) > 0 {
		order := -1 // compares the next entry in memory with the next one in Pebble
		if len(memory) == 0 {
			order = 1
		} else if valid {
			order = bytes.Compare(memory[0].Key, it.Key()[len(s.prefix):])
		}
		var entry stream.Entry
		if order <= 0 {
			entry, memory = memory[0], memory[1:]
		} else {
			value, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			entry = stream.Entry{Key: bytes.Clone(it.Key()[len(s.prefix):]), Value: append([]byte{}, value...)}
		}
		if order >= 0 {
			valid = it.Next()
		}
		if entry.Value != nil && !yield(entry, nil) {
			return errStopped
		}
	}
	return it.Error()
}

// after returns the smallest key that is greater than all keys with prefix.
func after(prefix []byte) []byte {
	upper := bytes.Clone(prefix)
	for i := len(upper) - 1; i >= 0; i-- {
		if upper[i]++; upper[i] != 0 {
			return upper[:i+1]
		}
	}
	return nil
}
