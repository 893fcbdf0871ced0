package kafka

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/internal/state"
	"github.com/afterbay/afterbay/internal/sys/vfs"
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
	made   int        // how often it was begun anew
	owner  any        // what may change it: the *share that a member has of the partition, or a *standby; nil is none
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

	stateFolder = "state"
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
	if err := vfs.Protect(vfs.OS(), s.dir, stateFolder, slotFile); err != nil {
		o.Logger.Warn("other users have permissions on the local state: make the user of this process the owner of all that is in it (chown -R), or mount its file system so that no other user can read it", "dir", s.dir, "reason", err)
	}
	s.cells, err = state.Open(state.Options{Dir: filepath.Join(s.dir, stateFolder), MemoryMaxBytes: o.State.MemoryBytes})
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
	if err := s.known(); err != nil {
		return nil, errors.Join(err, s.cells.Close(), s.remove())
	}
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
	ticker := time.NewTicker(s.opts.State.CheckpointEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := errors.Join(s.purge(), s.checkpoint()); err != nil {
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
	type marked struct {
		copied *local
		mark   []byte
		made   int
	}
	var all []marked
	s.mu.Lock()
	for _, l := range s.locals {
		if mark, made := l.mark(); mark != nil {
			all = append(all, marked{l, mark, made})
		}
	}
	s.mu.Unlock()
	if err := s.cells.Checkpoint(context.Background(), s.seq.Load(), true); err != nil {
		return err
	}
	for _, m := range all {
		m.copied.mu.Lock()
		if m.copied.made == m.made { // else the mark is of cells that are gone
			s.setMark(m.copied.name, m.mark)
		}
		m.copied.mu.Unlock()
	}
	return nil
}

// makeRoom waits while changes fill the memory faster than checkpoints empty it.
func (s *store) makeRoom(ctx context.Context) error {
	for s.cells.Full() {
		if err := s.checkpoint(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (s *store) setMark(name string, mark []byte) {
	s.marks.Apply(s.seq.Add(1), func(yield func(key, value []byte) bool) { yield([]byte(name), mark) })
}

// known notes the copies that earlier processes left.
func (s *store) known() error {
	var names []string
	for e, err := range s.marks.Scan(nil) {
		if err != nil {
			return err
		}
		names = append(names, string(e.Key))
	}
	for _, name := range names {
		if _, err := s.named(name); err != nil {
			return err
		}
	}
	return nil
}

// purge removes copies that nobody owns or keeps warm and that are too old to be
// used.
func (s *store) purge() error {
	s.mu.Lock()
	locals := slices.Collect(maps.Values(s.locals))
	s.mu.Unlock()
	for _, l := range locals {
		if err := l.purge(); err != nil {
			return fmt.Errorf("remove the local state of %q: %w", l.name, err)
		}
	}
	return nil
}

func (l *local) purge() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner != nil || l.topic == [16]byte{} || l.fresh() {
		return nil
	}
	err := l.clear()
	l.topic = [16]byte{}
	return err
}

// fresh reports whether compaction cannot have forgotten deletions since.
func (l *local) fresh() bool { return time.Since(l.caught) < l.store.opts.State.RebuildAfter }

// clear empties a copy. Its mark goes first, durably: it must not speak of cells
// that are gone.
func (l *local) clear() error {
	l.made++
	ctx := context.Background()
	if l.topic != [16]byte{} {
		l.store.setMark(l.name, nil)
		if err := l.store.cells.Checkpoint(ctx, l.store.seq.Load(), true); err != nil {
			return err
		}
	}
	clear(l.parts)
	return errors.Join(l.space.Clear(ctx, l.store.seq.Add(1)), l.large.Clear(ctx, l.store.seq.Add(1)))
}

// local returns the copy of the state of group beside p.
func (s *store) local(group string, p stream.Partition) (*local, error) {
	return s.named(group + "\x00" + p.String())
}

func (s *store) named(name string) (*local, error) {
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

// mark returns what says how far a copy is, nil for one that was never begun,
// and how often it was begun.
func (l *local) mark() (mark []byte, made int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.topic == [16]byte{} {
		return nil, l.made
	}
	if l.whole {
		l.caught = time.Now()
	}
	b := append(make([]byte, 0, 40), l.topic[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(l.next))
	b = binary.BigEndian.AppendUint64(b, uint64(l.caught.UnixMilli()))
	return binary.BigEndian.AppendUint64(b, uint64(l.position)), l.made
}

// take makes who the one who may change the copy, and returns where to go on
// reading the changelog with this id and these offsets; a standby is refused
// while somebody else may. A copy that is of no use is emptied: of another
// changelog, or of one that let go of what follows it, or so old that compaction
// may have forgotten deletions.
func (l *local) take(who any, topic [16]byte, first, end int64) (next int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := who.(*standby); ok && l.owner != nil && l.owner != who {
		return 0, errTaken
	}
	l.owner, l.whole = who, false
	if l.topic == topic && l.next >= first && l.next <= end && l.fresh() {
		return l.next, nil
	}
	if err := l.clear(); err != nil {
		return 0, fmt.Errorf("empty the local state: %w", err)
	}
	l.topic, l.next, l.position, l.caught = topic, first, -1, time.Now()
	return l.next, nil
}

// apply follows what was committed, where who may.
func (l *local) apply(who any, e edits) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner != who {
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

// copies returns up to which offset of its changelog each usable copy of a state
// of group is, by topic and partition.
func (s *store) copies(group string) map[string]map[int32]int64 {
	s.mu.Lock()
	locals := slices.Collect(maps.Values(s.locals))
	s.mu.Unlock()
	copies := map[string]map[int32]int64{}
	for _, l := range locals {
		name, ok := strings.CutPrefix(l.name, group+"\x00")
		slash := strings.LastIndexByte(name, '/')
		index, err := strconv.ParseInt(name[slash+1:], 10, 32)
		if next := l.usable(); ok && err == nil && slash > 0 && next > 0 {
			if copies[name[:slash]] == nil {
				copies[name[:slash]] = map[int32]int64{}
			}
			copies[name[:slash]][int32(index)] = next
		}
	}
	return copies
}

// usable returns up to which offset of the changelog the copy is, 0 where take
// would empty it for its age.
func (l *local) usable() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.topic == [16]byte{} || !l.whole && !l.fresh() {
		return 0
	}
	return l.next
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

// seen notes that all that was in the changelog at a moment is in the copy of a
// standby.
func (l *local) seen(who any, moment time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner == who {
		l.caught = moment
	}
}

// others reports whether another than who may change the copy.
func (l *local) others(who any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owner != nil && l.owner != who
}

// kept reports whether the copy is who's to change and of use to go on with.
func (l *local) kept(who any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owner == who && l.fresh()
}

// caughtUp notes that the copy is at the end of its changelog.
func (l *local) caughtUp(who any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner == who {
		l.whole, l.caught = true, time.Now()
	}
	return l.owner == who
}

// leave ends the time of who as the owner.
func (l *local) leave(who any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner == who {
		if l.whole {
			l.caught = time.Now()
		}
		l.owner, l.whole = nil, false
	}
}
