// Package state keeps keyed state beside partitions: committed values only, in
// cells in memory, with a Pebble database behind them as a checkpoint. The log
// of the engine is the truth; a store is a cache of it that remembers up to
// which frame of the log it is complete.
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

// Options of a Store. The zero value of every field but Dir is a good default.
type Options struct {
	Dir            string // the folder of the checkpoint; made where absent
	MemoryMaxBytes int64  // of cells in memory; 0 is 1 GiB. Cells not yet checkpointed may exceed it by a quarter
	CacheBytes     int64  // Pebble's block cache; 0 is 64 MiB
	// Rest is called between the chunks of a checkpoint that is in no hurry,
	// with the share of its cells that is handed over, from 0 to 1, and holds
	// the next chunk up until it returns. nil spreads nothing. It is not called
	// while cells exceed MemoryMaxBytes: those handed over can be evicted.
	Rest func(ctx context.Context, share float64)
	FS   vfs.FS // nil is the operating system's
	// ReadOnly reads a store that is there. Cells can be put in memory; there are
	// no checkpoints.
	ReadOnly bool
}

// Validate returns all that is wrong with the options.
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

// ErrFailed says that the checkpoint's database gave up. What is in memory can
// still be read; nothing can be checkpointed any more.
var ErrFailed = errors.New("state checkpoint failed")

// Store holds the spaces of one engine. It is safe for concurrent use.
//
// Invariants:
//  1. A cell that is dirty (changed since it was handed to Pebble) or handed
//     (in a batch that Pebble may not have applied) stays in memory. So a key
//     without a cell has exactly the value that Pebble has.
//  2. Without its write-ahead log Pebble keeps a prefix of the batches applied
//     to it. The redo point is the last batch of a checkpoint, hence never
//     durable before the cells it speaks of.
//  3. Each batch records the newest frame of the log that any cell could come
//     from (Seen): a log that ends before it has lost frames.
//  4. A space of which Pebble had nothing knows which of its keys Pebble may
//     have, but for those with a cell: the evicted ones, and more by chance.
//
// A space has a mutex, so that partitions do not wait for each other. The order
// is Store.checkpointing, Store.mu, Space.mu; no mutex is held while Pebble is
// written or searched.
type Store struct {
	opts   Options
	db     *pebble.DB
	lock   io.Closer
	cut    atomic.Bool // the database may use the disk no more
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

// usage is what the cells of a Store take.
type usage struct {
	used    atomic.Int64 // bytes of cells and filters
	filters atomic.Int64 // bytes of filters
	crowded atomic.Bool  // nothing was evictable; until the next checkpointed chunk
}

type counters struct {
	hits, absent, misses, evictions, checkpoints, handed atomic.Uint64
	checkpointTime                                       atomic.Int64
}

// Stats are counts since Open, and sizes at this moment.
type Stats struct {
	Cells, Bytes        int64  // in memory
	DirtyCells          int64  // not yet checkpointed
	Hits, Misses        uint64 // reads that memory served, and that went to the checkpoint
	Absent              uint64 // reads of which memory knew that there is nothing
	Evictions           uint64
	Checkpoints, Handed uint64        // checkpoints, and cells written by them
	CheckpointTime      time.Duration // of the last checkpoint
	DiskBytes           uint64        // of the checkpoint
}

// The store's own keys begin with two zero bytes, which no space's do.
var (
	keyApplied = []byte("\x00\x00applied")
	keySeen    = []byte("\x00\x00seen")
)

// Open opens the store in o.Dir, or makes one. A *DamageError says that the
// checkpoint is damaged.
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

// Applied is the redo point: the cells of every frame up to it are durable in
// the checkpoint. 0 is none.
func (s *Store) Applied() uint64 { return s.applied.Load() }

// Seen is the newest frame that a durable cell may come from, as of the last
// Open; a log that ends before it has lost frames that were durable.
func (s *Store) Seen() uint64 { return s.seen.Load() }

// Space returns the space called name, which must be 1 to 65,535 bytes.
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
	empty := s.lacks(prefix) // until there is a space that could hand it some
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

// Checkpoint makes every change applied so far durable and Applied equal to
// seq, of which the caller knows that all changes up to it were applied. It
// goes in small chunks and rests between them, as Options.Rest says, so that
// Apply and Get are not held up; with hurry it does not rest. Applied never goes back: what it covers
// may be gone from the log, so a seq that was overtaken while it waited for its
// turn does nothing.
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

// handOver gives the cells that are dirty to Pebble.
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

// handChunk gives some pending cells of space to Pebble, and returns how many.
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

// rest holds a checkpoint up after a chunk that was begun at start.
func (s *Store) rest(ctx context.Context, start time.Time, share float64) {
	if s.used.Load() > s.opts.MemoryMaxBytes {
		return // the sooner cells are clean, the sooner they can leave
	}
	if pause := 2 * time.Since(start); pause > 0 { // a third of a core at most
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

// evict drops clean cells until memory is within its limit again.
func (s *Store) evict() {
	limit := s.opts.MemoryMaxBytes
	if s.used.Load() <= limit || s.crowded.Load() || !s.evicting.TryLock() {
		return
	}
	defer s.tellRoom()
	defer s.evicting.Unlock()
	target := limit - limit/64
	for range 2 { // the first pass may only take away second chances
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

// Full reports whether memory holds more than a quarter above its limit, as more
// was changed than checkpoints could write. To wait for them helps then.
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

// Room gets a token, which it holds for one reader, when Full may have become
// false: cells were handed over or evicted.
func (s *Store) Room() <-chan struct{} { return s.room }

func (s *Store) tellRoom() {
	select {
	case s.room <- struct{}{}:
	default:
	}
}

// Failed is closed when the store gave up; Err then tells why.
func (s *Store) Failed() <-chan struct{} { return s.broken.failed }

// Err returns why the store gave up, or nil.
func (s *Store) Err() error { return s.broken.err() }

// Stats returns the store's counts.
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

// Close releases the store without a checkpoint. It waits for reads under way;
// what reads after it and finds nothing in memory gets stream.ErrClosed.
func (s *Store) Close() error {
	s.closing.Store(true)
	s.users.close()
	err := s.closePebble()
	if unlock := s.unlock(); err == nil {
		err = unlock
	}
	return err
}
