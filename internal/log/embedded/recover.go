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

// opener brings the memory of a log to where its directory is. It is used by Open, and by
// what checks and repairs a directory.
type opener struct{ *Log }

// open brings memory to where the log is.
func (o *opener) open() error {
	fs := o.opts.fs
	if err := checkForeign(fs, o.dir); err != nil {
		return err
	}
	if o.opts.ReadOnly {
		if err := isLog(fs, o.dir); err != nil {
			return err
		}
		fs = vfs.ReadOnly(fs)
	}
	for _, dir := range []string{o.dir, o.path("log"), o.path("idx")} {
		if err := fs.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	var err error
	if o.lock, err = lockDir(o.opts, o.dir, o.opts.ReadOnly); err != nil {
		return err
	}
	if !o.opts.ReadOnly {
		if err := vfs.Protect(fs, o.dir, own...); err != nil {
			o.opts.Logger.Warn("other users have permissions on the data directory: make the user of this process the owner of all that is in it (chown -R), or mount its file system so that no other user can read it", "dir", o.dir, "reason", err)
		}
	}
	o.opts.fs = fs
	var found bool
	if o.meta, found, err = readMeta(fs, o.dir); err != nil {
		return err
	}
	if lost := o.meta.lost; lost != nil {
		o.recovery.LostMeta = lost.Path
		o.opts.Logger.Warn("a copy of META is damaged; the other is used, and written over it", "file", lost.Path, "reason", lost.Reason)
	}
	others, err := o.list()
	if err != nil {
		return err
	}
	if !found {
		if err := o.create(); err != nil {
			return err
		}
	}
	if o.store, err = state.Open(state.Options{Dir: o.path("state"), FS: fs, MemoryMaxBytes: o.opts.StateMemoryBytes, Rest: o.checkpoints.rest, ReadOnly: o.opts.ReadOnly}); err != nil {
		return o.badState(err)
	}
	if err := o.loadCells(); err != nil {
		return fmt.Errorf("read state: %w", o.badState(err))
	}
	o.producers.sort()
	o.applied.Store(o.store.Applied())
	if err := o.replay(others); err != nil {
		return err
	}
	for _, t := range o.topics {
		for _, p := range t.parts {
			p.built = p.next
		}
	}
	o.meta.begin(o.applied.Load()+1, o.segments[0].first)
	return o.meta.write(fs, o.dir)
}

// create makes META, and syncs the names of the folders. A log without META
// never had an acknowledged frame.
func (o *opener) create() error {
	if len(o.segments) > 0 {
		return o.damage(o.path(metaName), 0, 0, "it is missing beside a log")
	}
	for _, dir := range []string{o.path("log"), o.path("idx"), o.dir, o.opts.fs.PathDir(o.dir)} {
		if err := syncDir(o.opts.fs, dir); err != nil {
			return err
		}
	}
	o.meta = newMeta()
	return o.meta.write(o.opts.fs, o.dir)
}

// list finds segments, and returns the other files that frames may be in:
// spares, and what a crash left half done.
func (o *opener) list() (others []string, err error) {
	fs := o.opts.fs
	names, err := fs.List(o.path("log"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		path := o.path("log", name)
		first, isSegment := segmentFirst(name)
		switch {
		case isSegment:
			info, err := fs.Stat(path)
			if err != nil {
				return nil, err
			}
			o.segments = append(o.segments, &segment{path: path, first: first, last: first - 1, size: info.Size()})
		case strings.HasSuffix(name, spareSuffix) || strings.HasSuffix(name, halfSuffix):
			others = append(others, path)
		}
	}
	return others, nil
}

// adopt makes spares of files that are no segments, or removes them. One that
// begins with a frame after the newest was a segment whose name was synced and
// is lost all the same.
func (o *opener) adopt(others []string) error {
	fs, newest := o.opts.fs, o.applied.Load()
	for _, path := range others {
		seq, err := o.firstFrame(path)
		if err != nil {
			return err
		}
		if seq > newest {
			return o.damage(path, 0, newest+1, fmt.Sprintf("frame %d is in it, so those before it were durable, and the name of their segment", seq))
		}
	}
	for _, path := range others {
		info, err := fs.Stat(path)
		if err != nil {
			return err
		}
		if o.spares.known(fs.PathBase(path)) && info.Size() == o.opts.SegmentBytes && len(o.spares.ready) < spareMost {
			o.spares.ready = append(o.spares.ready, path)
		} else if err := fs.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// firstFrame returns the seq of the frame that a file begins with, 0 where it
// begins with none of this log.
func (o *opener) firstFrame(path string) (seq uint64, err error) {
	f, err := o.opts.fs.Open(path)
	if err != nil {
		return 0, err
	}
	b := make([]byte, frameHeader)
	n, err := f.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	h := parseHeader(b)
	if n == len(b) && err == nil && h.seq > o.applied.Load() && o.meta.has(h.seq, h.epoch) {
		if b, err = vfs.ReadFile(o.opts.fs, path); err == nil {
			if _, _, bad := o.parse(b, h.seq); bad == nil {
				seq = h.seq
			}
		}
	}
	return seq, errors.Join(err, f.Close())
}

// replay reads the segments: of those sealed and checkpointed only the index,
// of the others all frames, and redoes those that the checkpoint lacks.
func (o *opener) replay(others []string) error {
	applied := o.applied.Load()
	if len(o.segments) == 0 {
		if err := o.adopt(others); err != nil {
			return err
		}
		if newest := max(applied, o.meta.Clean, o.store.Seen()); newest > 0 {
			return o.damage(o.path("log"), 0, newest, "it has no segments, though frames were durable")
		}
		return o.firstSegment()
	}
	if first := o.segments[0].first; first > applied+1 {
		return o.damage(o.segments[0].path, 0, applied+1, fmt.Sprintf("the frames before %d are missing", first))
	}
	for i, s := range o.segments {
		last := i == len(o.segments)-1
		if !last && o.segments[i+1].first <= applied+1 {
			done, err := o.trust(s, o.segments[i+1].first)
			if err != nil || done {
				if err != nil {
					return err
				}
				continue
			}
		}
		if err := o.scan(s, i); err != nil {
			return err
		}
	}
	o.applied.Store(o.segments[len(o.segments)-1].last)
	return o.adopt(others)
}

// trust takes what the index file says of a sealed segment that the checkpoint
// has all of.
func (o *opener) trust(s *segment, next uint64) (bool, error) {
	b, err := vfs.ReadFile(o.opts.fs, o.path("idx", s.indexName()))
	if err != nil {
		return false, ignoreMissing(err)
	}
	spans, err := decodeIndex(s, b, o.meta.salt)
	if err != nil || s.last+1 != next {
		*s = segment{path: s.path, first: s.first, last: s.first - 1, size: s.size}
		return false, nil
	}
	for id, sp := range spans {
		if o.topics[id.Topic] == nil {
			continue // deleted before it had a record that is there
		}
		p, err := o.anyPart(id.Topic, id.Index)
		if err != nil {
			return false, o.damage(o.path("idx", s.indexName()), 0, s.first, err.Error())
		}
		if sp.next > p.base {
			p.spans = append(p.spans, sp)
		}
	}
	o.indexes.use(s)
	return true, nil
}

// firstSegment makes the first segment of a new log.
func (o *opener) firstSegment() error {
	s := &segment{path: o.path("log", segmentName(1)), first: 1, size: o.opts.SegmentBytes, index: newIndex()}
	o.segments = []*segment{s}
	if err := fill(o.Log, s.path); err != nil {
		return err
	}
	return syncDir(o.opts.fs, o.path("log"))
}

// scan reads the frames of segment i.
func (o *opener) scan(s *segment, i int) error {
	b, err := vfs.ReadFile(o.opts.fs, s.path)
	if err != nil {
		return err
	}
	s.index = newIndex()
	applied := o.store.Applied()
	pos, seq, last := 0, s.first, 0
	for pos < len(b) {
		f, n, err := o.parse(b[pos:], seq)
		if errors.Is(err, errFormat) {
			return fmt.Errorf("%s at byte %d: %w", s.path, pos, err)
		}
		if err != nil {
			break
		}
		redo := seq > applied
		if redo {
			o.recovery.ReplayedFrames++
		}
		if err := o.apply(&f, place{segment: s, pos: int64(pos), bytes: n}, redo); err != nil {
			return fmt.Errorf("%s at byte %d: %w", s.path, pos, err)
		}
		last, pos, seq = pos, pos+n, seq+1
	}
	if i < len(o.segments)-1 {
		return o.scanned(s, o.segments[i+1].first)
	}
	return o.tailEnd(s, b, last)
}

// scanned checks that a segment with another after it is whole: the next was
// begun when all of this was durable.
func (o *opener) scanned(s *segment, next uint64) error {
	if s.last+1 != next {
		return o.damage(s.path, s.end, s.last+1, fmt.Sprintf("segment %d follows, so it was durable", next))
	}
	info, err := o.opts.fs.Stat(s.path)
	if err != nil {
		return err
	}
	s.sealed = info.ModTime()
	return nil
}

// tailEnd decides what follows the last valid frame of the log: nothing, the
// rest of an interrupted write, which is cut, or damage.
func (o *opener) tailEnd(s *segment, b []byte, last int) error {
	bad, rest := s.last+1, b[s.end:]
	if newest := max(o.meta.Clean, o.store.Seen(), o.store.Applied()); bad <= newest {
		return o.damage(s.path, s.end, bad, fmt.Sprintf("frame %d was durable", newest))
	}
	if pos := o.findLater(rest, bad); pos >= 0 {
		return o.damage(s.path, s.end, bad, fmt.Sprintf("a valid frame follows at byte %d, which was written when this one was durable", s.end+int64(pos)))
	}
	if o.outdated(rest, bad) {
		return o.damage(s.path, s.end, bad, "it is whole, and of an Open that the copy of META in use does not know: META is gone, and a version that knows no copy wrote it last")
	}
	f, err := o.opts.fs.OpenReadWrite(s.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = o.cut(s, f, rest, bad)
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
func (o *opener) outdated(b []byte, seq uint64) bool {
	if o.meta.lost == nil || o.meta.lost.Path != o.path(metaName) {
		return false
	}
	f, _, err := parseFrame(b, o.meta.salt)
	return err == nil && f.seq == seq && !o.meta.has(f.seq, f.epoch)
}

// cut removes what looks like the beginning of frame bad.
func (o *opener) cut(s *segment, f vfs.File, rest []byte, bad uint64) error {
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
	o.recovery.CutSeq = bad
	o.recovery.CutBytes = int64(len(rest))
	if h.length >= frameHeader && h.length < len(rest) {
		o.recovery.CutBytes = int64(align(h.length))
	}
	o.opts.Logger.Warn("cut an unfinished frame off the log", "segment", s.path, "offset", s.end, "frame", bad, "bytes", o.recovery.CutBytes)
	_, err := f.WriteAt(make([]byte, len(rest)), s.end)
	return err
}

// findLater returns where in b a frame after seq begins, whose writer knew that
// frame seq was durable; -1 is nowhere.
func (o *opener) findLater(b []byte, seq uint64) int {
	most := seq + uint64(len(b)/frameHeader)
	for pos := 0; pos+frameHeader <= len(b); pos += frameAlign {
		h := parseHeader(b[pos:])
		if h.seq <= seq || h.seq > most || h.durable < seq || h.durable >= h.seq {
			continue
		}
		if _, _, err := o.parse(b[pos:], h.seq); !errors.Is(err, errFrame) {
			return pos
		}
	}
	return -1
}
