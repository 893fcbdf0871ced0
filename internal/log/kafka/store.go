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

// store is the local copy of the states of partitions. It is a cache of their changelogs and never
// ahead of the committed records.
//
// A mark says how far a copy is complete, as a changelog offset. The store reads the mark before a
// checkpoint and writes it afterwards. So a mark is never durable before its cells. Cells may be
// newer than their mark. This is harmless, because changelog values are absolute and can be applied
// again.
type store struct {
	opts  *Options
	dir   string
	id    string // identity of the process
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
	large *state.Space // number of parts, for each value with parts

	mu     sync.Mutex // guards the fields below
	made   int        // how often the copy was emptied
	owner  any        // may change the copy: the *share of a member, or a *standby; nil if unowned
	topic  [16]byte   // id of the changelog topic
	next   int64      // space holds all of the changelog before this offset
	caught time.Time  // when next was at the end of the changelog, or when reading began at its start
	whole  bool       // owned and at the end, so always caught up
	parts  map[string]int

	position int64 // position in the changelog at next; -1 before the first
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
		o.Logger.Warn("other users have permissions on the local state: make the user of this process the owner of all its files (chown -R), or mount its file system so that no other user can read it", "dir", s.dir, "reason", err)
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

// slot reads the identity in the folder, or creates one. The lock of the state in the folder lets
// only one process in.
func slot(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err == nil && len(b) == 16 {
		return string(b), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	id := hex.EncodeToString(random)
	return id, os.WriteFile(path, []byte(id), 0o600)
}

// remove removes a temporary folder.
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

// checkpoints writes checkpoints. It ends only between two of them, because an interrupted one
// continues in the background, in a store that is being closed.
func (s *store) checkpoints() {
	defer close(s.done)
	ticker := time.NewTicker(s.opts.State.CheckpointEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := errors.Join(s.purge(), s.checkpoint()); err != nil {
				s.opts.Logger.Error("kafka: the local state was not saved: a restart reads it from the changelog", "error", err)
				return
			}
		case <-s.stop:
			return
		}
	}
}

// checkpoint makes the cells durable and then writes their marks. The next checkpoint makes the
// marks durable.
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
		if m.copied.made == m.made { // otherwise the mark belongs to cells that were removed
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

// known loads the list of copies from earlier processes.
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

// purge removes copies that have no owner or standby and are too old.
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

// fresh reports whether the changelog still has all deletion markers since the copy was caught up.
func (l *local) fresh() bool { return time.Since(l.caught) < l.store.opts.State.RebuildAfter }

// clear empties a copy. It first removes the mark durably, so that the mark never describes removed
// cells.
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

// local returns the copy of the state of group for p.
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

// mark returns the encoded mark of a copy, or nil if the copy was never begun. It also returns how
// often the copy was emptied.
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

// take makes who the owner of the copy. It returns the offset at which to continue reading the
// changelog with this id and these offsets. A standby gets errTaken if the copy has another owner.
//
// take empties a useless copy: one of another changelog, one that needs records that the changelog
// lost, or one so old that deletion markers may be gone.
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

// apply applies committed changes if who owns the copy.
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

// copies returns the changelog offset of each usable copy of group's state, by topic and partition.
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

// usable returns the changelog offset of the copy, or 0 if take would empty it because of its age.
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

// partsOf returns the number of parts of the value of key.
func (l *local) partsOf(key []byte) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parts[string(key)]
}

// seen records that the copy of a standby had all of the changelog at moment.
func (l *local) seen(who any, moment time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner == who {
		l.caught = moment
	}
}

// others reports whether the copy has an owner other than who.
func (l *local) others(who any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owner != nil && l.owner != who
}

// kept reports whether who owns the copy and the copy is still usable.
func (l *local) kept(who any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owner == who && l.fresh()
}

// caughtUp records that the copy is at the end of its changelog.
func (l *local) caughtUp(who any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner == who {
		l.whole, l.caught = true, time.Now()
	}
	return l.owner == who
}

// leave ends the ownership of who.
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
