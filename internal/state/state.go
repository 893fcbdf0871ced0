// Package state stores the keyed state of partitions. It holds only committed values: in memory
// cells, with a Pebble database as their checkpoint. The log is the source of truth. A store is a
// cache, and knows the last log frame that it contains completely.
package state

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// Options configures a Store. The zero value of every field but Dir is a good default.
type Options struct {
	Dir            string // folder of the checkpoint; created if missing
	MemoryMaxBytes int64  // limit for cells in memory; 0 is 1 GiB. Cells that are not checkpointed yet may exceed it by a quarter
	CacheBytes     int64  // Pebble's block cache; 0 is 64 MiB
	// Rest is called between the chunks of a checkpoint without hurry. share is the part of the
	// cells that is already handed over, from 0 to 1. The next chunk waits until Rest returns. If
	// Rest is nil, there is no wait. Rest is not called while cells exceed MemoryMaxBytes, since
	// handed cells can be evicted.
	Rest func(ctx context.Context, share float64)
	FS   vfs.FS // nil is the file system of the operating system
	// ReadOnly opens an existing store for reading. Cells can be stored in memory, but there are no
	// checkpoints.
	ReadOnly bool
}

// Validate returns all errors in the options.
func (o Options) Validate() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("state: Dir is empty: the checkpoint needs a folder"))
	}
	if o.MemoryMaxBytes < 0 || o.CacheBytes < 0 {
		errs = append(errs, errors.New("state: a limit of bytes is negative"))
	}
	return errors.Join(errs...)
}

// ErrFailed means that the checkpoint database failed. Cells in memory can still be read, but no
// more checkpoints are possible.
var ErrFailed = errors.New("state checkpoint failed")

// Store holds the spaces of one log. It is safe for concurrent use.
//
// Invariants:
//  1. A cell stays in memory while it is dirty (changed since it was handed to
//     Pebble) or handed (in a batch that Pebble may not have applied). So the
//     value of a key without a cell is exactly the one in Pebble.
//  2. Without its write-ahead log, Pebble keeps a prefix of the applied batches
//     after a crash. The redo point is the last batch of a checkpoint, so it is
//     never durable before the cells that it covers.
//  3. Each batch records the newest log frame that any of its cells could come
//     from (Seen). A log that ends before it has lost frames.
//  4. A space that Pebble had no data of knows which of its keys without a cell
//     Pebble may have: the evicted ones, and false positives of the filter.
//
// Each space has its own mutex, so that partitions do not wait for each other. The lock order is
// Store.checkpointing, Store.mu, Space.mu. No mutex but checkpointing is held during writes to or
// searches in Pebble.
type Store struct {
	opts   Options
	db     *pebble.DB
	lock   io.Closer
	cut    atomic.Bool // the database must not use the disk any more
	broken *breaker

	mu     sync.Mutex // guards spaces and list
	spaces map[string]*Space
	list   []*Space

	checkpointing sync.Mutex // one checkpoint at a time
	evicting      sync.Mutex // one eviction at a time
	opened        atomic.Bool
	closing       atomic.Bool
	users         users

	applied, seen, latest atomic.Uint64
	usage
	room     chan struct{}
	counters counters
}

// usage is the memory use of a Store.
type usage struct {
	used    atomic.Int64 // of cells and filters, in bytes
	filters atomic.Int64 // of filters, in bytes
	crowded atomic.Bool  // no cell was evictable; reset by the next checkpointed chunk
}

type counters struct {
	hits, absent, misses, evictions, checkpoints, handed atomic.Uint64
	checkpointTime                                       atomic.Int64
}

// Stats holds counters since Open, and current sizes.
type Stats struct {
	Cells, Bytes        int64  // in memory
	DirtyCells          int64  // not checkpointed yet
	Hits, Misses        uint64 // reads served from memory; reads that searched the checkpoint
	Absent              uint64 // reads of keys known to be absent
	Evictions           uint64
	Checkpoints, Handed uint64        // checkpoints, and cells written by them
	CheckpointTime      time.Duration // duration of the last checkpoint
	DiskBytes           uint64        // size of the checkpoint
}

// The store's own keys begin with two zero bytes. No key of a space does.
var (
	keyApplied = []byte("\x00\x00applied")
	keySeen    = []byte("\x00\x00seen")
)

// Open opens the store in o.Dir, or creates one. A *DamageError means that the checkpoint is
// damaged.
func Open(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.MemoryMaxBytes == 0 {
		o.MemoryMaxBytes = 1 << 30
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	s := &Store{opts: o, broken: newBreaker(), spaces: map[string]*Space{}, room: make(chan struct{}, 1)}
	if err := s.openPebble(); err != nil {
		return nil, fmt.Errorf("open state in %s: %w", o.Dir, err)
	}
	for key, to := range map[*[]byte]*atomic.Uint64{&keyApplied: &s.applied, &keySeen: &s.seen} {
		value, err := s.read(*key)
		if err == nil && value != nil && len(value) != 8 {
			err = fmt.Errorf("it has %d bytes", len(value))
		}
		if err != nil {
			err = fmt.Errorf("read %s: %w", (*key)[2:], err)
			return nil, errors.Join(fmt.Errorf("open state in %s: %w", o.Dir, s.damaged(err)), s.Close())
		}
		if value != nil {
			to.Store(binary.LittleEndian.Uint64(value))
		}
	}
	s.latest.Store(s.seen.Load())
	return s, nil
}

// Applied returns the redo point: the checkpoint durably contains the cells of every frame up to
// it. It is 0 without a checkpoint.
func (s *Store) Applied() uint64 { return s.applied.Load() }

// Seen returns the newest frame that a durable cell may come from, as of the last Open. A log that
// ends before it has lost durable frames.
func (s *Store) Seen() uint64 { return s.seen.Load() }

// Space returns the space called name. The name must have 1 to 65,535 bytes; otherwise Space
// panics.
func (s *Store) Space(name string) *Space {
	if name == "" || len(name) > 1<<16-1 {
		panic("state: the name of a space must have 1 to 65,535 bytes")
	}
	s.mu.Lock()
	space := s.spaces[name]
	s.mu.Unlock()
	if space != nil {
		return space
	}
	prefix := append(binary.BigEndian.AppendUint16(nil, uint16(len(name))), name...)
	empty := s.lacks(prefix) // valid only until a space exists that could hand over cells
	s.mu.Lock()
	defer s.mu.Unlock()
	if space = s.spaces[name]; space == nil {
		space = newSpace(s, prefix, empty)
		s.spaces[name] = space
		s.list = append(s.list, space)
	}
	return space
}

func (s *Store) all() []*Space {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// Checkpoint makes every change applied so far durable and sets Applied to seq. The caller must
// have applied all changes up to seq. Checkpoint works in small chunks and rests between them, as
// Options.Rest says, so that Apply and Get are not delayed. With hurry it does not rest.
//
// Applied never decreases, since the log may have deleted the frames that it covers. If another
// checkpoint passed seq while this one waited for its turn, it does nothing.
func (s *Store) Checkpoint(ctx context.Context, seq uint64, hurry bool) error {
	s.checkpointing.Lock()
	defer s.checkpointing.Unlock()
	if seq < s.applied.Load() {
		return nil
	}
	start := time.Now()
	if err := s.handOver(ctx, hurry); err != nil {
		return fmt.Errorf("checkpoint state: %w", err)
	}
	batch := s.db.NewBatch()
	if err := setSeq(batch, keyApplied, seq); err != nil {
		return fmt.Errorf("checkpoint state: %w", err)
	}
	if err := s.write(ctx, batch); err != nil {
		return fmt.Errorf("checkpoint state: %w", err)
	}
	if err := s.flush(ctx); err != nil {
		return fmt.Errorf("checkpoint state: flush: %w", err)
	}
	s.applied.Store(seq)
	s.counters.checkpoints.Add(1)
	s.counters.checkpointTime.Store(int64(time.Since(start)))
	return nil
}

// handOver hands the dirty cells to Pebble.
func (s *Store) handOver(ctx context.Context, hurry bool) error {
	spaces := s.all()
	done, total := 0, 0
	for _, space := range spaces {
		total += space.swapDirty()
	}
	for _, space := range spaces {
		space.order()
		for {
			start := time.Now()
			n, err := s.handChunk(ctx, space)
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			if done += n; done < total && !hurry {
				s.rest(ctx, start, float64(done)/float64(total))
			}
		}
	}
	return nil
}

// handChunk hands some pending cells of space to Pebble and returns their number.
func (s *Store) handChunk(ctx context.Context, space *Space) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	batch := s.db.NewBatch()
	n, err := space.hand(batch)
	if err != nil || n == 0 {
		return 0, errors.Join(err, batch.Close())
	}
	if err := setSeq(batch, keySeen, s.latest.Load()); err != nil {
		return 0, err
	}
	if err := s.write(ctx, batch); err != nil {
		return 0, err
	}
	space.handed(n)
	s.counters.handed.Add(uint64(n))
	s.crowded.Store(false)
	s.tellRoom()
	return n, nil
}

// rest pauses a checkpoint after a chunk that began at start.
func (s *Store) rest(ctx context.Context, start time.Time, share float64) {
	if s.used.Load() > s.opts.MemoryMaxBytes {
		return // clean cells can be evicted, so do not wait
	}
	if pause := 2 * time.Since(start); pause > 0 { // use at most a third of a core
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	if s.opts.Rest != nil {
		s.opts.Rest(ctx, share)
	}
}

func setSeq(batch *pebble.Batch, key []byte, seq uint64) error {
	return batch.Set(key, binary.LittleEndian.AppendUint64(nil, seq), nil)
}

// evict drops clean cells until memory is within its limit.
func (s *Store) evict() {
	limit := s.opts.MemoryMaxBytes
	if s.used.Load() <= limit || s.crowded.Load() || !s.evicting.TryLock() {
		return
	}
	defer s.tellRoom()
	defer s.evicting.Unlock()
	target := limit - limit/64
	for range 2 { // the first pass may only clear the recent flags
		for _, space := range s.all() {
			for left := space.slots(); left > 0; left -= sweepCells {
				s.counters.evictions.Add(uint64(space.sweep(target)))
				if s.used.Load() <= target {
					return
				}
			}
		}
	}
	s.crowded.Store(true)
}

// Full reports whether memory exceeds its limit by more than a quarter, because changes are faster
// than checkpoints. The caller should then wait for checkpoints.
func (s *Store) Full() bool {
	most := s.opts.MemoryMaxBytes + s.opts.MemoryMaxBytes/4
	if s.used.Load() <= most {
		return false
	}
	s.evict()
	return s.used.Load() > most && slices.ContainsFunc(s.all(), func(space *Space) bool {
		_, dirty := space.sizes()
		return dirty > 0
	})
}

// Room returns a channel that gets one token, for one reader, when Full may have become false:
// cells were handed over or evicted.
func (s *Store) Room() <-chan struct{} { return s.room }

func (s *Store) tellRoom() {
	select {
	case s.room <- struct{}{}:
	default:
	}
}

// Failed returns a channel that is closed when the store failed. Err then returns the reason.
func (s *Store) Failed() <-chan struct{} { return s.broken.failed }

// Err returns why the store failed, or nil.
func (s *Store) Err() error { return s.broken.err() }

// Stats returns the store's counters.
func (s *Store) Stats() Stats {
	c := &s.counters
	st := Stats{
		Bytes: s.used.Load(), Hits: c.hits.Load(), Misses: c.misses.Load(), Absent: c.absent.Load(),
		Evictions: c.evictions.Load(), Checkpoints: c.checkpoints.Load(), Handed: c.handed.Load(),
		CheckpointTime: time.Duration(c.checkpointTime.Load()),
	}
	for _, space := range s.all() {
		cells, dirty := space.sizes()
		st.Cells += cells
		st.DirtyCells += dirty
	}
	if s.broken.err() == nil {
		st.DiskBytes = s.db.Metrics().DiskSpaceUsage()
	}
	return st
}

// Close releases the store without a checkpoint. It waits for running reads. A later read that does
// not find its key in memory gets stream.ErrClosed.
func (s *Store) Close() error {
	s.closing.Store(true)
	s.users.close()
	err := s.closePebble()
	if unlock := s.unlock(); err == nil {
		err = unlock
	}
	return err
}
