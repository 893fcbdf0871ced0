// Package embedded is a stream.Log in one directory of one process: no server,
// durable, exactly-once. Its commit log is the database, and everything else is
// a cache of it.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/internal/state"
	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

var (
	_ stream.Log       = (*Log)(nil)
	_ stream.Inspector = (*Log)(nil)
	_ stream.Member    = (*member)(nil)
)

var (
	// ErrLocked says that another process, or another Log of this one, has the
	// directory open.
	ErrLocked = errors.New("directory is in use")

	// ErrFull says that the disk has no room for another append. Nothing was
	// written, and reads and commits go on: append again later.
	ErrFull = errors.New("no space left for the log")

	// ErrIrregular says that a file of the directory is a pipe, a device or a socket.
	ErrIrregular = vfs.ErrIrregular

	// ErrReadOnly says that the log is open for reading only.
	ErrReadOnly = errors.New("the log is open for reading only")
)

// Log is an embedded log. Make one with Open.
//
// One goroutine, the writer, makes frames: it takes what waits in the queue,
// writes it as one frame, syncs it, and only then applies it: to the state, to
// what readers see, to those who wait for it. Recovery applies frames by the
// same code. Invariants:
//
//  1. Nothing of frame s leaves the writer before s is durable, but that its
//     inputs go to members that read early: see early.go.
//  2. Frame s+1 is written after s is durable. So of a log that was not closed
//     only the newest frame can be torn, and a valid frame s+1 proves that s
//     was durable.
//  3. A write or sync that failed is never repeated: the log stops accepting,
//     since nobody knows what the disk has.
//  4. A frame is built, and the ownership of its steps checked, under mu; a
//     share with a step in that frame has no other owner until it is applied.
//
// The mutexes' order is mu, then those of the queue, the spares, the chunks and
// the state; only the writer holds none while it waits for the disk.
type Log struct {
	opts Options
	directory
	store *state.Store
	cells *state.Space // topics, offsets and producers, as state

	queue       queue
	spares      spares
	chunks      chunkCache
	buffers     buffers
	stats       counters
	applied     atomic.Uint64 // newest frame whose changes are all applied
	checkpoints checkpointer

	kick chan struct{} // the keeper has work
	lifetime

	mu       sync.Mutex // guards the rest, and the fields of topics, groups and members
	err      error      // why the log accepts nothing any more
	segments []*segment // oldest first; the last is written
	indexes  indexes
	ring     ring
	awaited  awaited
	catalog
}

// directory is where a log is, and what Open found there.
type directory struct {
	dir      string
	lock     *dirLock
	meta     meta
	recovery Recovery
}

// lifetime is how a log ends.
type lifetime struct {
	closing  <-chan struct{} // closed by Close
	stop     context.CancelFunc
	writer   sync.WaitGroup
	helpers  sync.WaitGroup
	closed   sync.Once
	closeErr error
}

// buffers are reused by frames.
type buffers struct {
	results bodies
	steps   bodies // their sections
}

// Open opens the log in dir, or makes one. It redoes what the last checkpoint
// lacks. Where the log is damaged other than by the write that a crash
// interrupted it returns a *DamageError and changes nothing.
func Open(dir string, o Options) (*Log, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &Log{
		opts:      o.withDefaults(),
		directory: directory{dir: dir},
		kick:      make(chan struct{}, 1),
		catalog:   catalog{topics: map[string]*topic{}, groups: map[string]*group{}, producers: newProducers(o.withDefaults().MaxProducers)},
	}
	l.checkpoints = checkpointer{log: l, due: make(chan struct{}, 1)}
	l.closing, l.stop = ctx.Done(), stop
	l.awaited.none = make(chan struct{}, 1)
	l.queue.signal, l.queue.most = make(chan struct{}, 1), l.opts.QueueBytes
	l.queue.enough.events, l.queue.enough.bytes = l.opts.GroupEvents, l.opts.GroupBytes
	l.spares.changed, l.spares.grown = make(chan struct{}, 1), make(chan struct{}, 1)
	if err := (&opener{l}).open(); err != nil {
		if l.store != nil {
			err = errors.Join(err, l.store.Close())
		}
		return nil, fmt.Errorf("open log %s: %w", dir, errors.Join(err, l.lock.release()))
	}
	if l.opts.ReadOnly {
		l.queue.refuse(ErrReadOnly)
		return l, nil
	}
	w := &writer{log: l, current: l.segments[len(l.segments)-1], next: l.applied.Load() + 1}
	if err := w.open(); err != nil {
		return nil, fmt.Errorf("open log %s: %w", dir, errors.Join(err, l.store.Close(), l.lock.release()))
	}
	l.writer.Go(w.run)
	l.helpers.Go((&keeper{l}).run)
	l.helpers.Go((&filler{log: l}).run)
	l.helpers.Go(func() { l.checkpoints.run(ctx) })
	return l, nil
}

func (l *Log) path(elem ...string) string {
	return filepath.Join(append([]string{l.dir}, elem...)...)
}

// Recovery says what Open found.
func (l *Log) Recovery() Recovery { return l.recovery }

// usable returns why nothing can be read any more. Its caller holds mu.
func (l *Log) usable() error {
	select {
	case <-l.closing:
		return stream.ErrClosed
	default:
		return nil
	}
}

// Append implements stream.Log. On a full disk it returns ErrFull.
func (l *Log) Append(ctx context.Context, records ...stream.Record) error {
	_, err := l.append(ctx, "", 0, records)
	return err
}

// AppendOnce implements stream.Log. On a full disk it returns ErrFull.
func (l *Log) AppendOnce(ctx context.Context, producer string, first int64, records ...stream.Record) (int, error) {
	if first < 1 || producer == "" || len(producer) > 1<<10 {
		return 0, fmt.Errorf("append for producer %q: want a name of 1 to 1,024 bytes and numbers from 1, not from %d", producer, first)
	}
	return l.append(ctx, producer, first, records)
}

func (l *Log) append(ctx context.Context, producer string, first int64, records []stream.Record) (int, error) {
	if len(records) == 0 {
		return 0, nil
	}
	now := time.Now()
	for i := range records {
		if records[i].Time.IsZero() {
			records[i].Time = now
		}
		records[i].Time = time.UnixMicro(records[i].Time.UnixMicro()).UTC()
	}
	r, err := l.appendRequest(producer, first, 0, records)
	if err == nil {
		err = l.submit(ctx, r)
	}
	if err != nil {
		return 0, fmt.Errorf("append: %w", err)
	}
	r.setOffsets()
	return r.repeated, nil
}

// submit queues r and waits until it is decided. A request that is not being
// written can still be taken back when ctx ends.
func (l *Log) submit(ctx context.Context, r *request) error {
	done := make(chan error, 1)
	r.decide = func(err error) { done <- err }
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		freed, err := l.queue.add(r)
		if err != nil {
			return err
		}
		if freed == nil {
			break
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		if l.queue.remove(r) {
			return ctx.Err()
		}
		return <-done
	}
}

// Tail implements stream.Log. A slow reader holds retention back.
func (l *Log) Tail(ctx context.Context, p stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error] {
	return l.TailKeys(ctx, p, from, nil)
}

// TailKeys implements stream.KeyTailer; a nil keep is Tail.
func (l *Log) TailKeys(ctx context.Context, p stream.Partition, from stream.Offset, keep func(key []byte) bool) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		if err := l.tail(ctx, p, from, keep, yield); err != nil {
			if err != ctx.Err() {
				err = fmt.Errorf("tail %v: %w", p, err)
			}
			yield(stream.Record{}, err)
		}
	}
}

// tail yields records until yield wants no more, which is no error.
func (l *Log) tail(ctx context.Context, p stream.Partition, from stream.Offset, keep func(key []byte) bool, yield func(stream.Record, error) bool) error {
	ready := make(chan struct{}, 1)
	c, err := l.newCursor(p, from, ready)
	if err != nil {
		return err
	}
	defer c.close()
	c.keep = keep
	var records [64]stream.Record
	for {
		got, err := c.read(records[:0], len(records))
		for _, r := range got {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if !yield(r, nil) {
				return nil
			}
		}
		if err != nil {
			return err
		}
		if len(got) > 0 {
			continue
		}
		select {
		case <-ready:
		case <-l.closing:
			return stream.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Offsets implements stream.Inspector.
func (l *Log) Offsets(_ context.Context, p stream.Partition) (first, next stream.Offset, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part, err := l.part(p.Topic, p.Index)
	if err := errors.Join(l.usable(), err); err != nil {
		return 0, 0, fmt.Errorf("offsets: %w", err)
	}
	return part.first(), part.next, nil
}

// Peek implements stream.Inspector.
func (l *Log) Peek(_ context.Context, p stream.Partition, from stream.Offset) (stream.Record, bool, error) {
	l.mu.Lock()
	part, err := l.part(p.Topic, p.Index)
	if err := errors.Join(l.usable(), err); err != nil {
		l.mu.Unlock()
		return stream.Record{}, false, fmt.Errorf("peek: %w", err)
	}
	c := l.cursorAt(part, max(from, part.first()), make(chan struct{}, 1))
	l.mu.Unlock()
	defer c.close()
	var record [1]stream.Record
	got, err := c.read(record[:0], 1)
	if err != nil || len(got) == 0 {
		return stream.Record{}, false, err
	}
	return got[0], true, nil
}

// Committed implements stream.Inspector.
func (l *Log) Committed(_ context.Context, name string, p stream.Partition) (stream.Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part, err := l.part(p.Topic, p.Index)
	if err := errors.Join(l.usable(), err); err != nil {
		return 0, fmt.Errorf("committed: %w", err)
	}
	if g := l.groups[name]; g != nil && g.all[part] != nil {
		return g.all[part].committed, nil
	}
	return 0, nil
}

// State implements stream.Inspector.
func (l *Log) State(_ context.Context, group string, p stream.Partition) (stream.View, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.part(p.Topic, p.Index)
	if err := errors.Join(l.usable(), err); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return l.space(group, p), nil
}

// space returns the state of group beside p.
func (l *Log) space(group string, p stream.Partition) *state.Space {
	return l.store.Space(string(appendEditsHead(nil, group, p)))
}

// Groups implements stream.Inspector.
func (l *Log) Groups(context.Context) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return nil, err
	}
	names := maps.Keys(l.groups)
	return slices.DeleteFunc(slices.Sorted(names), func(name string) bool { return !l.groups[name].everCommitted }), nil
}

// fail makes the log stop accepting. Reads go on.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	first := l.err == nil
	if first {
		l.err = fmt.Errorf("the log stopped accepting: %w", err)
	}
	err = l.err
	l.mu.Unlock()
	if first {
		l.opts.Logger.Error("the log stopped accepting; close it and open it again", "dir", l.dir, "error", err)
		l.queue.refuse(err)
	}
	return err
}

// Close implements stream.Log. It returns after a checkpoint, so that the next
// Open has nothing to redo.
func (l *Log) Close() error {
	l.closed.Do(func() {
		l.mu.Lock()
		l.stop()
		for _, g := range l.groups {
			for _, s := range g.members {
				s.err = stream.ErrClosed
				signal(s.ready)
			}
		}
		l.mu.Unlock()
		l.queue.refuse(stream.ErrClosed)
		l.writer.Wait()
		l.helpers.Wait()
		l.closeErr = l.shut()
	})
	return l.closeErr
}

// closeTimeout bounds the last checkpoint, which a full disk would hold up for
// ever. Without it nothing is lost: the next Open redoes more.
const closeTimeout = 30 * time.Second

// shut makes the last checkpoint and lets the directory go.
func (l *Log) shut() error {
	err := l.err
	if l.opts.ReadOnly {
		return errors.Join(err, l.store.Close(), l.lock.release())
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		err = l.store.Checkpoint(ctx, l.applied.Load(), true)
		cancel()
	}
	if err == nil {
		(&keeper{l}).saveIndexes()
		l.meta.Clean = l.applied.Load()
		err = l.meta.write(l.opts.fs, l.dir)
	}
	if err := errors.Join(err, l.store.Close(), l.lock.release()); err != nil {
		return fmt.Errorf("close log %s: %w", l.dir, err)
	}
	return nil
}
