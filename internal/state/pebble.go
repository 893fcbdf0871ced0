package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

// breaker is the logger that Pebble gets. If Pebble cannot continue, it calls Fatalf and expects
// that Fatalf never returns, because the process exits. Here the store fails instead, and the
// calling goroutine ends with runtime.Goexit, which runs its deferred unlocks. Pebble's own
// goroutines may end like that. Our calls that can reach Fatalf run inside guard.
type breaker struct {
	once   sync.Once
	failed chan struct{}
	reason error
	exits  sync.Once
	gone   chan struct{} // closed when a Pebble goroutine has ended; Pebble's Close might then never return
}

func newBreaker() *breaker { return &breaker{failed: make(chan struct{}), gone: make(chan struct{})} }

func (b *breaker) Infof(string, ...any)  {}
func (b *breaker) Errorf(string, ...any) {}

func (b *breaker) Fatalf(format string, args ...any) {
	f := fatal{text: fmt.Sprintf(format, args...)}
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			f.cause = err
		}
	}
	b.fail(f)
	b.exit()
}

// exit ends the calling goroutine, which belongs to Pebble.
func (b *breaker) exit() {
	b.exits.Do(func() { close(b.gone) })
	runtime.Goexit()
}

// fatal is the message of a Fatalf call.
type fatal struct {
	text  string
	cause error
}

func (f fatal) Error() string { return f.text }
func (f fatal) Unwrap() error { return f.cause }

func (b *breaker) fail(reason error) {
	b.once.Do(func() {
		b.reason = fmt.Errorf("%w: %w", ErrFailed, reason)
		close(b.failed)
	})
}

func (b *breaker) err() error {
	select {
	case <-b.failed:
		return b.reason
	default:
		return nil
	}
}

// guard runs f in a new goroutine and returns its error. It returns the store's failure if Fatalf
// ended f, or if another goroutine failed that f may wait for. If ctx ends first, f continues.
func (b *breaker) guard(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() {
		result := error(nil)
		defer func() {
			if p := recover(); p != nil {
				b.exits.Do(func() { close(b.gone) })
				b.fail(fmt.Errorf("panic: %v", p))
			}
			if failure := b.err(); failure != nil && result == nil {
				result = failure
			}
			done <- result
		}()
		result = f()
	}()
	select {
	case err := <-done:
		return err
	case <-b.failed:
		return b.reason
	case <-ctx.Done():
		return ctx.Err()
	}
}

// damage is a corruption of a file that Pebble reported.
type damage struct{ info pebble.DataCorruptionInfo }

func (d damage) Error() string { return fmt.Sprintf("%s is damaged: %v", d.info.Path, d.info.Details) }
func (d damage) Unwrap() error { return d.info.Details }

// users counts the running reads of Pebble. Pebble panics on a read after it was closed.
type users struct {
	mu     sync.Mutex // guards closed, and the start of reads against close
	closed bool
	count  sync.WaitGroup
}

// enter begins a read; leave ends it.
func (u *users) enter() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return stream.ErrClosed
	}
	u.count.Add(1)
	return nil
}

func (u *users) leave() { u.count.Done() }

// close rejects new reads and waits for the running ones.
func (u *users) close() {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.count.Wait()
}

// backgroundError ends a Pebble goroutine that would retry a hopeless operation without pause.
func (s *Store) backgroundError(error) {
	if s.broken.err() != nil || s.cut.Load() {
		s.broken.exit()
	}
}

// closePebble closes the database. If one of Pebble's goroutines has ended, it does not wait.
func (s *Store) closePebble() error {
	select {
	case <-s.broken.gone:
		return s.broken.err()
	default:
	}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v", p)
			}
		}()
		done <- s.db.Close()
	}()
	select {
	case err := <-done:
		return errors.Join(s.broken.err(), err)
	case <-s.broken.gone:
		return s.broken.err()
	}
}

// locked is a file system with a lock that its user already holds.
type locked struct{ vfs.FS }

// Lock does nothing.
func (locked) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// cutOff fails calls that goroutines of a failed database still make, so that the folder can be
// opened again.
func (s *Store) cutOff(vfs.Call) (o vfs.Outcome) {
	if s.cut.Load() {
		o.Err = stream.ErrClosed
	}
	return o
}

// unlock releases the lock of the folder.
func (s *Store) unlock() error {
	s.cut.Store(true)
	return s.lock.Close()
}

// formatVersion is the format version of the database's files.
const formatVersion = pebble.FormatTableFormatV6

// damaged converts the error of a failed Pebble read.
func (s *Store) damaged(err error) error { return damaged(s.opts.Dir, err, s.broken.err()) }

// openPebble opens the database of s. The store holds the folder's lock itself, because a failed
// database never releases it.
func (s *Store) openPebble() error {
	fs := s.opts.FS
	if err := fs.MkdirAll(s.opts.Dir, 0o700); err != nil {
		return err
	}
	var err error
	if s.lock, err = fs.Lock(fs.PathJoin(s.opts.Dir, "LOCK")); err != nil {
		return err
	}
	if err := checkManifest(fs, s.opts.Dir); err != nil {
		return errors.Join(err, s.unlock())
	}
	opts := &pebble.Options{
		FS:                          pebblevfs.OnDiskFull(locked{vfs.Faulty(fs, s.cutOff)}, s.awaitSpace),
		Logger:                      s.broken,
		DisableWAL:                  true,
		ReadOnly:                    s.opts.ReadOnly,
		FormatMajorVersion:          formatVersion,
		CacheSize:                   s.opts.CacheBytes,
		MemTableSize:                8 << 20, // one full memtable, and the next one
		MemTableStopWritesThreshold: 4,
		// Every checkpoint adds an L0 table over all keys, so a compaction rewrites most of the
		// next level. Compacting four times as many tables at once takes a quarter less CPU and
		// half the bytes. Searches do not become slower, since they use the tables' filters.
		L0CompactionThreshold: 16,
		L0StopWritesThreshold: 48,
		EventListener: &pebble.EventListener{
			BackgroundError: s.backgroundError,
			DataCorruption:  func(info pebble.DataCorruptionInfo) { s.broken.fail(damage{info}) }, // the default calls Fatalf, which would end the reading goroutine
		},
	}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		opts.Levels[i].Compression = uncompressed // most of the disk space is used by the log anyway
	}
	err = s.broken.guard(context.Background(), func() (err error) {
		s.db, err = pebble.Open(s.opts.Dir, opts)
		return err
	})
	if err != nil {
		return errors.Join(s.damaged(err), s.unlock())
	}
	s.opened.Store(true)
	return nil
}

func uncompressed() *block.CompressionProfile { return block.NoCompression }

// awaitSpace blocks Pebble's writers while the disk is full. Pebble itself would retry without
// pause, or fail permanently. During Open it does not wait.
func (s *Store) awaitSpace() {
	const enough = 16 << 20
	for s.opened.Load() && !s.closing.Load() {
		usage, err := s.opts.FS.GetDiskUsage(s.opts.Dir)
		if err != nil || usage.AvailBytes > enough {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// patience is how long a write may continue after its context ended.
const patience = 5 * time.Second

// write applies batch and closes it. The batch becomes durable with the next flush. If a write
// takes too long, the store fails: the batch might otherwise be applied after a later one and hide
// it.
func (s *Store) write(ctx context.Context, batch *pebble.Batch) error {
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(patience, cancel) })
	defer stop()
	err := s.broken.guard(patient, func() error {
		return errors.Join(s.db.Apply(batch, pebble.NoSync), batch.Close())
	})
	if err != nil {
		s.broken.fail(err)
	}
	return err
}

// flush waits until all writes are durable.
func (s *Store) flush(ctx context.Context) error {
	var flushed <-chan struct{}
	err := s.broken.guard(ctx, func() (err error) {
		flushed, err = s.db.AsyncFlush()
		return err
	})
	if err != nil {
		return err
	}
	select {
	case <-flushed:
		return nil
	case <-s.broken.failed:
		return s.broken.reason
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read returns a copy of Pebble's value for key, or nil if the key has no value.
func (s *Store) read(key []byte) ([]byte, error) {
	if err := s.users.enter(); err != nil {
		return nil, err
	}
	defer s.users.leave()
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return append([]byte{}, value...), closer.Close()
}

// lacks reports whether Pebble certainly has no key that starts with prefix.
func (s *Store) lacks(prefix []byte) bool {
	if s.users.enter() != nil {
		return false
	}
	defer s.users.leave()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return false
	}
	found := it.First()
	return it.Close() == nil && !found
}
