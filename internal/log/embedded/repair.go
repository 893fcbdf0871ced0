package embedded

import (
	"errors"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// ErrNoRemedy says that the directory is not in the state that the remedy was
// made for, or that it is healthy. Nothing was changed: Check again.
var ErrNoRemedy = errors.New("no such remedy")

// Cut makes the directory of a log that nobody has open consistent again, by a
// remedy of its Report. All that it takes away it puts into folder, which must
// not exist, inside of dir; a crash in between leaves a directory that Check
// and Cut go on with.
func Cut(dir string, r Remedy, folder string) error {
	return cut(Options{}.withDefaults(), dir, r, folder)
}

func cut(o Options, dir string, r Remedy, folder string) error {
	c, err := examine(o, dir)
	if err != nil {
		return fmt.Errorf("cut log %s: %w", dir, err)
	}
	same := func(other Remedy) bool {
		return other.First == r.First && other.Last == r.Last && other.Rebuild == r.Rebuild
	}
	if !slices.ContainsFunc(c.report.Remedies, same) {
		err = fmt.Errorf("keep frames %d to %d: %w", r.First, r.Last, ErrNoRemedy)
	} else {
		s := &surgeon{checker: c, fs: o.fs, folder: c.path(folder), keep: r}
		err = s.cut()
	}
	if err = errors.Join(err, c.lock.release()); err != nil {
		return fmt.Errorf("cut log %s: %w", dir, err)
	}
	return nil
}

// surgeon carries out a remedy. Its steps are in an order in which a crash
// leaves nothing that opens as another log: what is cut away is durable in the
// folder before it leaves its place, state that has to go goes before the
// frames that it knows, and the frames to be kept are in place before those
// around them go.
type surgeon struct {
	*checker
	fs     vfs.FS
	folder string
	keep   Remedy
}

func (s *surgeon) cut() error {
	if _, err := s.fs.Stat(s.folder); err == nil {
		return fmt.Errorf("%s is there already", s.folder)
	}
	for _, dir := range []string{"", "log", "idx", "state"} {
		if err := s.fs.MkdirAll(s.fs.PathJoin(s.folder, dir), 0o700); err != nil {
			return err
		}
	}
	for _, dir := range []string{s.folder, s.dir} {
		if err := syncDir(s.fs, dir); err != nil {
			return err
		}
	}
	steps := []func() error{s.cutState, s.cutIndexes, s.writeMeta, s.cutAfter, s.cutBefore, s.emptySegment}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return syncDir(s.fs, s.path("log"))
}

// cutState takes a checkpoint away that the log does not lead to.
func (s *surgeon) cutState() error {
	if !s.keep.Rebuild {
		return nil
	}
	names, err := s.fs.List(s.path("state"))
	if err != nil {
		return ignoreMissing(err)
	}
	for _, name := range names {
		if err := s.move(s.path("state", name), "state", name); err != nil {
			return err
		}
	}
	if err := s.fs.Remove(s.path("state")); err != nil {
		return err
	}
	return syncDir(s.fs, s.dir)
}

// cutIndexes takes those away that are damaged, or of a segment that does not
// stay as it is.
func (s *surgeon) cutIndexes() error {
	paths := slices.Clone(s.badIndex)
	for _, w := range s.segments {
		if !s.whole(w) {
			paths = append(paths, s.path("idx", (&segment{path: w.path}).indexName()))
		}
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		if _, err := s.fs.Stat(path); err != nil {
			if err := ignoreMissing(err); err != nil {
				return err
			}
			continue
		}
		if err := s.move(path, "idx", s.fs.PathBase(path)); err != nil {
			return err
		}
	}
	return nil
}

// writeMeta lowers the mark of the clean close to what is kept, and makes both
// copies whole.
func (s *surgeon) writeMeta() error {
	for _, name := range []string{metaName, metaCopyName} {
		b, err := vfs.ReadFile(s.fs, s.path(name))
		if err == nil {
			err = writeFile(s.fs, s.fs.PathJoin(s.folder, name), b)
		}
		if err := ignoreMissing(err); err != nil {
			return err
		}
	}
	s.meta.Clean = min(s.meta.Clean, s.keep.Last)
	return s.meta.write(s.fs, s.dir)
}

// kept returns the frames of a file that stay; nil is none.
func (s *surgeon) kept(w *walked) *stretch {
	for i, p := range w.stretches {
		if p.run.first == s.keep.First && p.run.last == s.keep.Last {
			return &w.stretches[i]
		}
	}
	return nil
}

// whole reports whether a file stays as it is.
func (s *surgeon) whole(w *walked) bool {
	p := s.kept(w)
	return p != nil && len(w.stretches) == 1 && p.from == 0 && !s.trimmed(w, p) && s.fs.PathBase(w.path) == segmentName(p.first)
}

// trimmed reports whether what is behind the frames of a file that stay goes:
// they are the last of the log, or damaged frames follow.
func (s *surgeon) trimmed(w *walked, p *stretch) bool {
	return p.last == s.keep.Last && slices.ContainsFunc(s.report.Damage, func(d Damage) bool {
		return d.Path == w.path && d.First > 0 && d.Offset >= p.to
	})
}

// cutAfter takes away what follows the frames that stay, the newest first.
func (s *surgeon) cutAfter() error {
	for _, w := range slices.Backward(s.segments) {
		p := s.kept(w)
		switch {
		case p == nil && w.first > s.keep.Last:
			if err := s.move(w.path, "log", s.fs.PathBase(w.path)); err != nil {
				return err
			}
		case p != nil && !s.whole(w):
			if err := s.rewrite(w, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// rewrite makes a segment of the frames of a file that stay.
func (s *surgeon) rewrite(w *walked, p *stretch) error {
	b, err := vfs.ReadFile(s.fs, w.path)
	if err != nil {
		return err
	}
	if err := writeFile(s.fs, s.fs.PathJoin(s.folder, "log", s.fs.PathBase(w.path)), slices.Clone(b)); err != nil {
		return err
	}
	n := copy(b, b[p.from:p.to])
	clear(b[n:])
	half, path := s.fs.PathJoin(s.folder, "segment"), s.path("log", segmentName(p.first))
	if err := writeFile(s.fs, half, b); err != nil {
		return err
	}
	if err := s.fs.Rename(half, path); err != nil {
		return err
	}
	return syncDir(s.fs, s.path("log"))
}

// cutBefore takes away what precedes the frames that stay, the oldest first.
func (s *surgeon) cutBefore() error {
	for _, w := range s.segments {
		p := s.kept(w)
		gone := p == nil && w.first <= s.keep.Last || p != nil && s.fs.PathBase(w.path) != segmentName(p.first)
		if !gone {
			continue
		}
		if err := s.move(w.path, "log", s.fs.PathBase(w.path)); err != nil {
			return err
		}
	}
	return nil
}

// emptySegment makes the first segment of a log of which the checkpoint alone
// was kept.
func (s *surgeon) emptySegment() error {
	if s.keep.First <= s.keep.Last {
		return nil
	}
	l := &Log{directory: directory{dir: s.dir}, opts: Options{fs: s.fs, SegmentBytes: 64 << 10}}
	if err := fill(l, s.path("log", segmentName(s.keep.First))); err != nil {
		return err
	}
	return syncDir(s.fs, s.path("log"))
}

// move puts a file into the folder, and takes it from its place when it is
// durable there.
func (s *surgeon) move(path string, to ...string) error {
	target := s.fs.PathJoin(append([]string{s.folder}, to...)...)
	if _, err := s.fs.Stat(target); err != nil {
		if err := ignoreMissing(err); err != nil {
			return err
		}
		if err := s.fs.Link(path, target); err != nil {
			return err
		}
	}
	if err := syncDir(s.fs, s.fs.PathDir(target)); err != nil {
		return err
	}
	if err := s.fs.Remove(path); err != nil {
		return err
	}
	return syncDir(s.fs, s.fs.PathDir(path))
}
