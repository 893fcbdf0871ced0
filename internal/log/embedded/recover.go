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

// Recovery describes what Open found in the directory.
type Recovery struct {
	// CutSeq is the frame that Open cut off the end of the log because its write was interrupted; 0
	// is none. The log had not acknowledged it.
	CutSeq   uint64
	CutBytes int64 // size of that frame
	// ReplayedFrames is the number of frames that Open redid because the last checkpoint lacked
	// them.
	ReplayedFrames int
	// LostMeta is the file of META that was damaged or missing; "" is none. Open wrote it again
	// from the other one.
	LostMeta string
}

// DamageError means that the log has damage that no interrupted write explains: durable data is
// missing or changed. Open returns it and then cuts nothing. Reads return it too.
type DamageError struct {
	Dir    string // of the log
	Path   string // the file
	Offset int64  // in bytes
	Seq    uint64 // of the expected frame; 0 if unknown
	Reason string
}

// Error says where the damage is and how to continue.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d (frame %d): %s (next: run afterbay doctor %s, which lists the remedies and what each would lose)",
		e.Path, e.Offset, e.Seq, e.Reason, e.Dir)
}

func (l *Log) damage(path string, pos int64, seq uint64, reason string) error {
	return &DamageError{Dir: l.dir, Path: path, Offset: pos, Seq: seq, Reason: reason}
}

// opener loads a log from its directory into memory. Open uses it, and so do Check and Cut.
type opener struct{ *Log }

// open loads the log into memory.
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
			o.opts.Logger.Warn("other users have permissions on the data directory: make the user of this process the owner of all its files (chown -R), or mount its file system so that no other user can read it", "dir", o.dir, "reason", err)
		}
	}
	o.opts.fs = fs
	var found bool
	if o.meta, found, err = readMeta(fs, o.dir); err != nil {
		return err
	}
	if lost := o.meta.lost; lost != nil {
		o.recovery.LostMeta = lost.Path
		o.opts.Logger.Warn("a copy of META is damaged; the log uses the other copy and replaces the damaged one", "file", lost.Path, "reason", lost.Reason)
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

// create writes META and syncs the folders. A log without META never acknowledged a frame.
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

// list finds the segments. It returns the other files that may hold frames: spares, and unfinished
// files from a crash.
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

// adopt turns files that are not segments into spares, or removes them. A file that begins with a
// frame after the newest one is damage: it was a segment, and its durable name was lost.
func (o *opener) adopt(others []string) error {
	fs, newest := o.opts.fs, o.applied.Load()
	for _, path := range others {
		seq, err := o.firstFrame(path)
		if err != nil {
			return err
		}
		if seq > newest {
			return o.damage(path, 0, newest+1, fmt.Sprintf("frame %d is in it, so the frames before it and the name of their segment were durable", seq))
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

// firstFrame returns the seq of the first frame of a file, or 0 if the file does not begin with a
// frame of this log.
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

// replay reads the segments. Of sealed segments in the checkpoint it reads only the index. Of the
// others it reads all frames, and redoes those that the checkpoint lacks.
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

// trust loads a sealed segment from its index file. The checkpoint must contain the whole segment.
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
			continue // the topic was deleted, and no record of it remains
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

// firstSegment creates the first segment of a new log.
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

// scanned checks that a segment that is not the last one is whole. The log began the next segment
// when all frames of this one were durable.
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

// tailEnd decides what follows the last valid frame of the log: nothing, the rest of an interrupted
// write, or damage. It cuts off the rest of an interrupted write.
func (o *opener) tailEnd(s *segment, b []byte, last int) error {
	bad, rest := s.last+1, b[s.end:]
	if newest := max(o.meta.Clean, o.store.Seen(), o.store.Applied()); bad <= newest {
		return o.damage(s.path, s.end, bad, fmt.Sprintf("frame %d was durable", newest))
	}
	if pos := o.findLater(rest, bad); pos >= 0 {
		return o.damage(s.path, s.end, bad, fmt.Sprintf("a valid frame follows at byte %d, which was written when this one was durable", s.end+int64(pos)))
	}
	if o.outdated(rest, bad) {
		return o.damage(s.path, s.end, bad, "it is complete, but the copy of META in use does not have its epoch: META is missing, and an older version, which writes no copy, wrote it last")
	}
	f, err := o.opts.fs.OpenReadWrite(s.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = o.cut(s, f, rest, bad)
	if err == nil && s.end > int64(last) {
		// After a failed sync the page cache may hold a frame that the disk lacks, and mark it
		// clean. So write it again.
		_, err = f.WriteAt(b[last:s.end], int64(last))
	}
	if err == nil {
		err = f.SyncData()
	}
	return errors.Join(err, f.Close())
}

// outdated reports whether b begins with frame seq of an epoch that META does not know, if only the
// copy of META could be read. Versions that do not know the copy leave it outdated.
func (o *opener) outdated(b []byte, seq uint64) bool {
	if o.meta.lost == nil || o.meta.lost.Path != o.path(metaName) {
		return false
	}
	f, _, err := parseFrame(b, o.meta.salt)
	return err == nil && f.seq == seq && !o.meta.has(f.seq, f.epoch)
}

// cut removes bytes that look like the beginning of frame bad.
func (o *opener) cut(s *segment, f vfs.File, rest []byte, bad uint64) error {
	if len(rest) < frameHeader {
		return nil
	}
	// A recycled segment has bytes of older frames here. A torn frame has its own number, or names
	// the previous frame as durable. A new segment has zeros here.
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

// findLater returns the position in b of a later frame that proves that frame seq was durable, or
// -1.
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
