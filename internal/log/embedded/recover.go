package embedded

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/state"
	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// Recovery says what Open found in the directory.
type Recovery struct {
	// CutSeq is the frame that was cut off the end of the log, as its write
	// was interrupted; 0 is none. Nobody was told that it was durable.
	CutSeq   uint64
	CutBytes int64 // of it
	// ReplayedFrames were redone, since the last checkpoint lacked them.
	ReplayedFrames int
	// LostMeta is the copy of META that was damaged or missing, and was written
	// again from the other; "" is none.
	LostMeta string
}

// DamageError says that the log has damage which no interrupted write explains:
// what was durable is missing or changed. It may be a *DamageError of Open,
// which then cut nothing, or of a read.
type DamageError struct {
	Dir    string // of the log
	Path   string // the file
	Offset int64  // in bytes
	Seq    uint64 // of the frame that should be there; 0 is unknown
	Reason string
}

// Error says where the damage is and what to do.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d (frame %d): %s (next: afterbay doctor %s, which says what each way out would lose)",
		e.Path, e.Offset, e.Seq, e.Reason, e.Dir)
}

func (l *Log) damage(path string, pos int64, seq uint64, reason string) error {
	return &DamageError{Dir: l.dir, Path: path, Offset: pos, Seq: seq, Reason: reason}
}

// open brings memory to where the log is.
func (l *Log) open() error {
	fs := l.opts.fs
	if err := checkForeign(fs, l.dir); err != nil {
		return err
	}
	if l.opts.ReadOnly {
		if err := isLog(fs, l.dir); err != nil {
			return err
		}
		fs = vfs.ReadOnly(fs)
	}
	for _, dir := range []string{l.dir, l.path("log"), l.path("idx")} {
		if err := fs.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	var err error
	if l.lock, err = lockDir(l.opts, l.dir, l.opts.ReadOnly); err != nil {
		return err
	}
	if !l.opts.ReadOnly {
		if err := vfs.Protect(fs, l.dir, own...); err != nil {
			l.opts.Logger.Warn("other users have permissions on the data directory: make the user of this process the owner of all that is in it (chown -R), or mount its file system so that no other user can read it", "dir", l.dir, "reason", err)
		}
	}
	l.opts.fs = fs
	var found bool
	if l.meta, found, err = readMeta(fs, l.dir); err != nil {
		return err
	}
	if lost := l.meta.lost; lost != nil {
		l.recovery.LostMeta = lost.Path
		l.opts.Logger.Warn("a copy of META is damaged; the other is used, and written over it", "file", lost.Path, "reason", lost.Reason)
	}
	others, err := l.list()
	if err != nil {
		return err
	}
	if !found {
		if err := l.create(); err != nil {
			return err
		}
	}
	if l.store, err = state.Open(state.Options{Dir: l.path("state"), FS: fs, MemoryMaxBytes: l.opts.StateMemoryBytes, Rest: l.restCheckpoint, ReadOnly: l.opts.ReadOnly}); err != nil {
		return l.badState(err)
	}
	if err := l.loadCells(); err != nil {
		return fmt.Errorf("read state: %w", l.badState(err))
	}
	l.producers.sort()
	l.applied.Store(l.store.Applied())
	if err := l.replay(others); err != nil {
		return err
	}
	for _, t := range l.topics {
		for _, p := range t.parts {
			p.built = p.next
		}
	}
	l.meta.begin(l.applied.Load()+1, l.segments[0].first)
	return l.meta.write(fs, l.dir)
}

// create makes META, and syncs the names of the folders. A log without META
// never had an acknowledged frame.
func (l *Log) create() error {
	if len(l.segments) > 0 {
		return l.damage(l.path(metaName), 0, 0, "it is missing beside a log")
	}
	for _, dir := range []string{l.path("log"), l.path("idx"), l.dir, l.opts.fs.PathDir(l.dir)} {
		if err := syncDir(l.opts.fs, dir); err != nil {
			return err
		}
	}
	l.meta = newMeta()
	return l.meta.write(l.opts.fs, l.dir)
}

// list finds segments, and returns the other files that frames may be in:
// spares, and what a crash left half done.
func (l *Log) list() (others []string, err error) {
	fs := l.opts.fs
	names, err := fs.List(l.path("log"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		path := l.path("log", name)
		first, isSegment := segmentFirst(name)
		switch {
		case isSegment:
			info, err := fs.Stat(path)
			if err != nil {
				return nil, err
			}
			l.segments = append(l.segments, &segment{path: path, first: first, last: first - 1, size: info.Size()})
		case strings.HasSuffix(name, spareSuffix) || strings.HasSuffix(name, halfSuffix):
			others = append(others, path)
		}
	}
	return others, nil
}

// adopt makes spares of files that are no segments, or removes them. One that
// begins with a frame after the newest was a segment whose name was synced and
// is lost all the same.
func (l *Log) adopt(others []string) error {
	fs, newest := l.opts.fs, l.applied.Load()
	for _, path := range others {
		seq, err := l.firstFrame(path)
		if err != nil {
			return err
		}
		if seq > newest {
			return l.damage(path, 0, newest+1, fmt.Sprintf("frame %d is in it, so those before it were durable, and the name of their segment", seq))
		}
	}
	for _, path := range others {
		info, err := fs.Stat(path)
		if err != nil {
			return err
		}
		if l.spares.known(fs.PathBase(path)) && info.Size() == l.opts.SegmentBytes && len(l.spares.ready) < spareMost {
			l.spares.ready = append(l.spares.ready, path)
		} else if err := fs.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// firstFrame returns the seq of the frame that a file begins with, 0 where it
// begins with none of this log.
func (l *Log) firstFrame(path string) (seq uint64, err error) {
	f, err := l.opts.fs.Open(path)
	if err != nil {
		return 0, err
	}
	b := make([]byte, frameHeader)
	n, err := f.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	h := parseHeader(b)
	if n == len(b) && err == nil && h.seq > l.applied.Load() && l.meta.has(h.seq, h.epoch) {
		if b, err = vfs.ReadFile(l.opts.fs, path); err == nil {
			if _, _, bad := l.parse(b, h.seq); bad == nil {
				seq = h.seq
			}
		}
	}
	return seq, errors.Join(err, f.Close())
}

// replay reads the segments: of those sealed and checkpointed only the index,
// of the others all frames, and redoes those that the checkpoint lacks.
func (l *Log) replay(others []string) error {
	applied := l.applied.Load()
	if len(l.segments) == 0 {
		if err := l.adopt(others); err != nil {
			return err
		}
		if newest := max(applied, l.meta.Clean, l.store.Seen()); newest > 0 {
			return l.damage(l.path("log"), 0, newest, "it has no segments, though frames were durable")
		}
		return l.firstSegment()
	}
	if first := l.segments[0].first; first > applied+1 {
		return l.damage(l.segments[0].path, 0, applied+1, fmt.Sprintf("the frames before %d are missing", first))
	}
	for i, s := range l.segments {
		last := i == len(l.segments)-1
		if !last && l.segments[i+1].first <= applied+1 {
			done, err := l.trust(s, l.segments[i+1].first)
			if err != nil || done {
				if err != nil {
					return err
				}
				continue
			}
		}
		if err := l.scan(s, i); err != nil {
			return err
		}
	}
	l.applied.Store(l.segments[len(l.segments)-1].last)
	return l.adopt(others)
}

// trust takes what the index file says of a sealed segment that the checkpoint
// has all of.
func (l *Log) trust(s *segment, next uint64) (bool, error) {
	b, err := vfs.ReadFile(l.opts.fs, l.path("idx", s.indexName()))
	if err != nil {
		return false, ignoreMissing(err)
	}
	spans, err := decodeIndex(s, b, l.meta.salt)
	if err != nil || s.last+1 != next {
		*s = segment{path: s.path, first: s.first, last: s.first - 1, size: s.size}
		return false, nil
	}
	for id, sp := range spans {
		if l.topics[id.Topic] == nil {
			continue // deleted before it had a record that is there
		}
		p, err := l.anyPart(id.Topic, id.Index)
		if err != nil {
			return false, l.damage(l.path("idx", s.indexName()), 0, s.first, err.Error())
		}
		if sp.next > p.base {
			p.spans = append(p.spans, sp)
		}
	}
	l.keepIndex(s)
	return true, nil
}

// firstSegment makes the first segment of a new log.
func (l *Log) firstSegment() error {
	s := &segment{path: l.path("log", segmentName(1)), first: 1, size: l.opts.SegmentBytes, index: newIndex()}
	l.segments = []*segment{s}
	if err := l.fill(s.path); err != nil {
		return err
	}
	return syncDir(l.opts.fs, l.path("log"))
}

// scan reads the frames of segment i.
func (l *Log) scan(s *segment, i int) error {
	b, err := vfs.ReadFile(l.opts.fs, s.path)
	if err != nil {
		return err
	}
	s.index = newIndex()
	applied := l.store.Applied()
	pos, seq, last := 0, s.first, 0
	for pos < len(b) {
		f, n, err := l.parse(b[pos:], seq)
		if errors.Is(err, errFormat) {
			return fmt.Errorf("%s at byte %d: %w", s.path, pos, err)
		}
		if err != nil {
			break
		}
		redo := seq > applied
		if redo {
			l.recovery.ReplayedFrames++
		}
		if err := l.apply(&f, place{segment: s, pos: int64(pos), bytes: n}, redo); err != nil {
			return fmt.Errorf("%s at byte %d: %w", s.path, pos, err)
		}
		last, pos, seq = pos, pos+n, seq+1
	}
	if i < len(l.segments)-1 {
		return l.scanned(s, l.segments[i+1].first)
	}
	return l.tailEnd(s, b, last)
}

// scanned checks that a segment with another after it is whole: the next was
// begun when all of this was durable.
func (l *Log) scanned(s *segment, next uint64) error {
	if s.last+1 != next {
		return l.damage(s.path, s.end, s.last+1, fmt.Sprintf("segment %d follows, so it was durable", next))
	}
	info, err := l.opts.fs.Stat(s.path)
	if err != nil {
		return err
	}
	s.sealed = info.ModTime()
	return nil
}

// tailEnd decides what follows the last valid frame of the log: nothing, the
// rest of an interrupted write, which is cut, or damage.
func (l *Log) tailEnd(s *segment, b []byte, last int) error {
	bad, rest := s.last+1, b[s.end:]
	if newest := max(l.meta.Clean, l.store.Seen(), l.store.Applied()); bad <= newest {
		return l.damage(s.path, s.end, bad, fmt.Sprintf("frame %d was durable", newest))
	}
	if pos := l.findLater(rest, bad); pos >= 0 {
		return l.damage(s.path, s.end, bad, fmt.Sprintf("a valid frame follows at byte %d, which was written when this one was durable", s.end+int64(pos)))
	}
	if l.outdated(rest, bad) {
		return l.damage(s.path, s.end, bad, "it is whole, and of an Open that the copy of META in use does not know: META is gone, and a version that knows no copy wrote it last")
	}
	f, err := l.opts.fs.OpenReadWrite(s.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = l.cut(s, f, rest, bad)
	if err == nil && s.end > int64(last) {
		// After a failed sync the cache may show a frame that the disk
		// does not have, and call it clean. Writing it again decides.
		_, err = f.WriteAt(b[last:s.end], int64(last))
	}
	if err == nil {
		err = f.SyncData()
	}
	return errors.Join(err, f.Close())
}

// outdated reports whether b begins with frame seq of an epoch unknown to a copy
// of META that nothing confirms. Versions without a copy leave an old one behind.
func (l *Log) outdated(b []byte, seq uint64) bool {
	if l.meta.lost == nil || l.meta.lost.Path != l.path(metaName) {
		return false
	}
	f, _, err := parseFrame(b, l.meta.salt)
	return err == nil && f.seq == seq && !l.meta.has(f.seq, f.epoch)
}

// cut removes what looks like the beginning of frame bad.
func (l *Log) cut(s *segment, f vfs.File, rest []byte, bad uint64) error {
	if len(rest) < frameHeader {
		return nil
	}
	// Recycled segments have older frames' bytes here, where a torn frame has
	// its own number, or that of the frame before. Before the first frame
	// there are zeros.
	h := parseHeader(rest)
	if h.seq != bad && h.durable != bad-1 || h == (header{}) {
		return nil
	}
	l.recovery.CutSeq = bad
	l.recovery.CutBytes = int64(len(rest))
	if h.length >= frameHeader && h.length < len(rest) {
		l.recovery.CutBytes = int64(align(h.length))
	}
	l.opts.Logger.Warn("cut an unfinished frame off the log", "segment", s.path, "offset", s.end, "frame", bad, "bytes", l.recovery.CutBytes)
	_, err := f.WriteAt(make([]byte, len(rest)), s.end)
	return err
}

// findLater returns where in b a frame after seq begins, whose writer knew that
// frame seq was durable; -1 is nowhere.
func (l *Log) findLater(b []byte, seq uint64) int {
	most := seq + uint64(len(b)/frameHeader)
	for pos := 0; pos+frameHeader <= len(b); pos += frameAlign {
		h := parseHeader(b[pos:])
		if h.seq <= seq || h.seq > most || h.durable < seq || h.durable >= h.seq {
			continue
		}
		if _, _, err := l.parse(b[pos:], h.seq); !errors.Is(err, errFrame) {
			return pos
		}
	}
	return -1
}
