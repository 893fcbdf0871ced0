// Package embedded is a stream.Log in one directory of one process: durable, exactly-once, and
// without a server. The commit log is the database; all other files are caches of it.
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
	// ErrLocked means that another process, or another Log of this process, has the directory open.
	ErrLocked = errors.New("directory is in use")

	// ErrFull means that the disk has no space for another append. The log wrote nothing. Reads and
	// commits continue. Append again later.
	ErrFull = errors.New("no space left for the log")

	// ErrIrregular means that a file in the directory is a pipe, a device or a socket.
	ErrIrregular = vfs.ErrIrregular

	// ErrReadOnly means that the log is open for reading only.
	ErrReadOnly = errors.New("the log is open for reading only")
)

// Log is an embedded log. Open returns one.
//
// One goroutine, the writer, makes frames. It takes the requests in the queue, writes them as one
// frame and syncs it. Then it applies the frame: it updates the state, makes the records visible to
// readers, and answers the callers. Recovery applies frames with the same code. Invariants:
//
//  1. Nothing of frame s leaves the writer before s is durable, except that
//     members may read its inputs early: see early.go.
//  2. Frame s+1 is written after s is durable. So after a crash only the newest
//     frame can be torn, and a valid frame s+1 proves that s was durable.
//  3. A failed write or sync is never repeated. The log stops accepting
//     requests, because the content of the disk is unknown.
//  4. The ownership of a frame's transactions is checked under mu. A share
//     with a transaction in that frame gets no other owner until the frame is
//     applied.
//
// The lock order is mu, then the mutexes of the queue, the spares, the chunks and the state. The
// writer holds none of them while it waits for the disk.
type Log struct {
	opts Options
	directory
	store *state.Store
	cells *state.Space // topics, offsets and producers, stored as state

	queue       queue
	spares      spares
	chunks      chunkCache
	buffers     buffers
	stats       counters
	applied     atomic.Uint64 // newest frame that is fully applied
	checkpoints checkpointer

	kick chan struct{} // the keeper has work
	lifetime

	mu       sync.Mutex // guards the fields below and those of topics, groups and members
	err      error      // why the log accepts no requests
	segments []*segment // oldest first; the writer writes to the last
	indexes  indexes
	ring     ring
	awaited  awaited
	catalog
}

// directory is the directory of a log and the results of opening it.
type directory struct {
	dir      string
	lock     *dirLock
	meta     meta
	recovery Recovery
}

// lifetime holds the fields that end a log.
type lifetime struct {
	closing  <-chan struct{} // closed by Close
	stop     context.CancelFunc
	writer   sync.WaitGroup
	helpers  sync.WaitGroup
	closed   sync.Once
	closeErr error
}

// buffers holds buffers that frames reuse.
type buffers struct {
	results bodies
	steps   bodies // the sections of transactions
}

// Open opens the log in dir, or creates one. It redoes the frames that the last checkpoint lacks.
// If there is damage that an interrupted write does not explain, Open returns a *DamageError and
// changes nothing.
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

// Recovery returns the results of the recovery in Open.
func (l *Log) Recovery() Recovery { return l.recovery }

// usable returns an error if the log can no longer be read. The caller must hold mu.
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

// submit queues r and waits until it is decided. If ctx ends before the writer has taken r, submit
// withdraws r.
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

// Tail implements stream.Log. A slow reader delays retention.
func (l *Log) Tail(ctx context.Context, p stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error] {
	return l.TailKeys(ctx, p, from, nil)
}

// TailKeys implements stream.KeyTailer; a nil keep keeps every record, as Tail does.
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

// tail yields records until yield returns false, which is not an error.
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

// space returns the state of group for p.
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

// fail makes the log reject all further writes. Reads continue.
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

// Close implements stream.Log. It first writes a checkpoint, so that the next Open has no frames to
// redo.
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

// closeTimeout limits the time for the last checkpoint, which never ends on a full disk. Without it
// no data is lost; the next Open redoes more frames.
const closeTimeout = 30 * time.Second

// shut writes the last checkpoint and releases the directory.
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
