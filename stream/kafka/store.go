package kafka

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/state"
	"github.com/afterbay/afterbay/stream"
)

// store is the local copy of the states of partitions: a cache of their
// changelogs, never ahead of what was committed.
//
// A mark says up to which offset of its changelog a copy is complete. It is
// taken before a checkpoint and written after it, so that it is never durable
// before the cells that it speaks of. Cells may be newer than their mark: the
// values of a changelog are absolute, so reading some of it again changes
// nothing.
type store struct {
	opts  *Options
	dir   string
	id    string // of the process
	cells *state.Store
	marks *state.Space
	seq   atomic.Uint64
	stop  chan struct{}
	done  chan struct{}

	mu     sync.Mutex // guards locals
	locals map[string]*local
}

// local is the copy of one state.
type local struct {
	store *store
	name  string
	space *state.Space
	large *state.Space // the number of parts of each value that has parts

	mu     sync.Mutex // guards the rest
	owner  *session   // who may change it
	topic  [16]byte   // the id of the changelog
	next   int64      // all of the changelog before is in space
	caught time.Time  // when next was the changelog's end, or the reading began from its beginning
	whole  bool       // owned and at the end: it is caught up at any time
	parts  map[string]int

	position int64 // that the changelog says at next; -1 before the first
}

const (
	marksSpace = "\x00marks"
	largeSpace = "\x00large\x00"
	slotFile   = "SLOT"
)

func openStore(o *Options) (*store, error) {
	s := &store{opts: o, dir: o.Dir, locals: map[string]*local{}, stop: make(chan struct{}), done: make(chan struct{})}
	err := error(nil)
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "afterbay-kafka-"); err != nil {
			return nil, err
		}
	} else if err = os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	s.cells, err = state.Open(state.Options{Dir: filepath.Join(s.dir, "state"), MemoryMaxBytes: o.StateMemoryBytes})
	if heldBy(err) {
		err = fmt.Errorf("%s: %w", s.dir, ErrLocked)
	}
	if err != nil {
		return nil, errors.Join(err, s.remove())
	}
	s.marks = s.cells.Space(marksSpace)
	if s.id, err = slot(filepath.Join(s.dir, slotFile)); err != nil {
		return nil, errors.Join(err, s.cells.Close(), s.remove())
	}
	s.seq.Store(s.cells.Seen() + 1)
	go s.checkpoints()
	return s, nil
}

// slot reads the identity of whoever has the folder, or makes one. The lock of
// the state beside it lets one process in.
func slot(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err == nil && len(b) == 16 {
		return string(b), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	random := make([]byte, 8)
	_, _ = rand.Read(random) // it never fails
	id := hex.EncodeToString(random)
	return id, os.WriteFile(path, []byte(id), 0o600)
}

// remove takes a temporary folder away.
func (s *store) remove() error {
	if s.opts.Dir == "" {
		return os.RemoveAll(s.dir)
	}
	return nil
}

func (s *store) close() error {
	close(s.stop)
	<-s.done
	var err error
	if s.opts.Dir != "" {
		err = errors.Join(s.checkpoint(), s.checkpoint())
	}
	return errors.Join(err, s.cells.Close(), s.remove())
}

// checkpoints ends between two: one that is cut short writes on in the
// background, to a store that is being closed.
func (s *store) checkpoints() {
	defer close(s.done)
	ticker := time.NewTicker(s.opts.CheckpointEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := s.checkpoint(); err != nil {
				s.opts.Logger.Error("kafka: the local state is not kept: a restart reads it from the changelog", "error", err)
				return
			}
		case <-s.stop:
			return
		}
	}
}

// checkpoint makes the cells durable, and then marks them so; the marks are
// durable after the next.
func (s *store) checkpoint() error {
	marks := map[string][]byte{}
	s.mu.Lock()
	for name, l := range s.locals {
		marks[name] = l.mark()
	}
	s.mu.Unlock()
	if err := s.cells.Checkpoint(context.Background(), s.seq.Load(), true); err != nil {
		return err
	}
	s.marks.Apply(s.seq.Add(1), func(yield func(key, value []byte) bool) {
		for name, mark := range marks {
			if !yield([]byte(name), mark) {
				return
			}
		}
	})
	return nil
}

// local returns the copy of the state of group beside p.
func (s *store) local(group string, p stream.Partition) (*local, error) {
	name := group + "\x00" + p.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.locals[name]; l != nil {
		return l, nil
	}
	l := &local{position: -1, store: s, name: name, space: s.cells.Space(name), large: s.cells.Space(largeSpace + name), parts: map[string]int{}}
	mark, err := s.marks.Get([]byte(name))
	if err != nil {
		return nil, err
	}
	if len(mark) == 40 {
		copy(l.topic[:], mark)
		l.next = int64(binary.BigEndian.Uint64(mark[16:]))
		l.caught = time.UnixMilli(int64(binary.BigEndian.Uint64(mark[24:])))
		l.position = int64(binary.BigEndian.Uint64(mark[32:]))
	}
	for e, err := range l.large.Scan(nil) {
		if err != nil {
			return nil, err
		}
		n, _ := binary.Uvarint(e.Value)
		l.parts[string(e.Key)] = int(n)
	}
	s.locals[name] = l
	return l, nil
}

func (l *local) mark() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.whole {
		l.caught = time.Now()
	}
	b := append(make([]byte, 0, 40), l.topic[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(l.next))
	b = binary.BigEndian.AppendUint64(b, uint64(l.caught.UnixMilli()))
	return binary.BigEndian.AppendUint64(b, uint64(l.position))
}

// take makes s the one who may change the copy, and returns where to go on
// reading the changelog with this id and these offsets. A copy that is of no
// use is emptied: of another changelog, or of one that let go of what follows
// it, or so old that compaction may have forgotten deletions.
func (l *local) take(s *session, topic [16]byte, first, end int64) (next int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner, l.whole = s, false
	if l.topic == topic && l.next >= first && l.next <= end && time.Since(l.caught) < l.store.opts.RebuildAfter {
		return l.next, nil
	}
	for _, space := range []*state.Space{l.space, l.large} {
		if err := empty(space, l.store.seq.Add(1)); err != nil {
			return 0, fmt.Errorf("empty the local state: %w", err)
		}
	}
	l.topic, l.next, l.position, l.caught = topic, first, -1, time.Now()
	clear(l.parts)
	return l.next, nil
}

func empty(space *state.Space, seq uint64) (err error) {
	var keys [][]byte
	for e, scanErr := range space.Scan(nil) {
		if scanErr != nil {
			return scanErr
		}
		keys = append(keys, e.Key)
	}
	space.Apply(seq, func(yield func(key, value []byte) bool) {
		for _, key := range keys {
			if !yield(key, nil) {
				return
			}
		}
	})
	return nil
}

// apply follows what was committed, where s may.
func (l *local) apply(s *session, e edits) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner != s {
		return false
	}
	seq := l.store.seq.Add(1)
	if len(e.parts) > 0 {
		l.large.Apply(seq, func(yield func(key, value []byte) bool) {
			for key, n := range e.parts {
				var value []byte
				if n > 0 {
					value = binary.AppendUvarint(nil, uint64(n))
					l.parts[key] = n
				} else {
					delete(l.parts, key)
				}
				if !yield([]byte(key), value) {
					return
				}
			}
		})
	}
	l.space.Apply(seq, e.changes)
	l.next, l.position = max(l.next, e.next), e.position
	return true
}

func (l *local) positionNow() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.position
}

// partsOf returns how many parts the value of key has.
func (l *local) partsOf(key []byte) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parts[string(key)]
}

// caughtUp notes that the copy is at the end of its changelog.
func (l *local) caughtUp(s *session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner == s {
		l.whole, l.caught = true, time.Now()
	}
	return l.owner == s
}

// leave ends the time of s as the owner.
func (l *local) leave(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner == s {
		if l.whole {
			l.caught = time.Now()
		}
		l.owner, l.whole = nil, false
	}
}
