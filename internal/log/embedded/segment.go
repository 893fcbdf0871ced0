package embedded

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// segment is one file of the log. All segments but the last are sealed.
type segment struct {
	path   string
	first  uint64 // seq of its first frame
	last   uint64 // seq of its last frame; first-1 if it has none
	size   int64  // file size
	end    int64  // position after its last frame
	sealed time.Time
	index  *index // nil if it is only on disk
	saved  bool   // the index is on disk
}

const segmentSuffix, spareSuffix, halfSuffix = ".seg", ".spare", ".half"

func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, segmentSuffix) }

// segmentFirst returns the seq in a segment's file name.
func segmentFirst(name string) (uint64, bool) {
	digits, found := strings.CutSuffix(name, segmentSuffix)
	first, err := strconv.ParseUint(digits, 10, 64)
	return first, found && err == nil && name == segmentName(first)
}

func (s *segment) indexName() string {
	return strings.TrimSuffix(filepath.Base(s.path), segmentSuffix) + ".idx"
}

// spares holds files that will become segments, zero-filled or recycled. They exist before the log
// needs them for two reasons: the sync of a growing file is 9 to 18 times slower, and the log must
// notice a full disk before it builds a frame.
type spares struct {
	mu      sync.Mutex
	ready   []string // paths
	made    int
	err     error         // why no more could be created
	changed chan struct{} // one token
	grown   chan struct{} // one token: the log may need another spare
}

// The log keeps spareFiles ready. It removes recycled segments beyond spareMost.
const (
	spareFiles = 2
	spareMost  = 4
)

// next returns the spare to use next, or "".
func (s *spares) next() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ready) == 0 {
		return ""
	}
	return s.ready[0]
}

// used records that the next spare became a segment. Until then it counts as a spare, so that no
// reader sees a spare less while the last segment is still the full one.
func (s *spares) used() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = s.ready[1:]
}

// count returns the number of spares, and why no more could be created.
func (s *spares) count() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ready), s.err
}

func (s *spares) add(path string) {
	s.mu.Lock()
	s.ready, s.err = append(s.ready, path), nil
	s.mu.Unlock()
	signal(s.changed)
}

func (s *spares) failed(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	signal(s.changed)
}

// name returns a new path for a spare.
func (s *spares) name(l *Log) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	return l.path("log", strconv.Itoa(s.made)+spareSuffix)
}

// known reports whether name is the name of a spare. It reserves the number of the name.
func (s *spares) known(name string) bool {
	digits, found := strings.CutSuffix(name, spareSuffix)
	n, err := strconv.Atoi(digits)
	if found && err == nil {
		s.made = max(s.made, n)
	}
	return found && err == nil
}

// recycle turns a segment that left the log into a spare.
func (k *keeper) recycle(s *segment) error {
	n, _ := k.spares.count()
	if n >= spareMost || s.size != k.opts.SegmentBytes {
		return k.opts.fs.Remove(s.path)
	}
	path := k.spares.name(k.Log)
	if err := k.opts.fs.Rename(s.path, path); err != nil {
		return err
	}
	k.spares.add(path)
	return nil
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writeFile replaces a file atomically: a crash leaves the old or the new content.
func writeFile(fs vfs.FS, path string, b []byte) error {
	f, err := fs.Create(path+halfSuffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(path+halfSuffix, path); err != nil {
		return err
	}
	return syncDir(fs, fs.PathDir(path))
}
