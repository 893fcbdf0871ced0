package embedded

import (
	"errors"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// ErrNoRemedy means that the remedy does not match the current state of the directory, or that the
// directory is healthy. Nothing was changed. Call Check again.
var ErrNoRemedy = errors.New("no such remedy")

// Cut makes the directory of a closed log consistent again, with a remedy from its Report. It moves
// all removed data into folder, a name in dir that must not exist yet. After a crash, Check and Cut
// can continue.
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

// surgeon carries out a remedy. The order of its steps guarantees that after a crash the directory
// never opens as a different log:
//
//   - removed data is durable in the folder before it leaves its place;
//   - state is removed before the frames that it was computed from;
//   - the kept frames are in place before the frames around them are removed.
type surgeon struct {
	*checker
	fs     vfs.FS
	folder string
	keep   Remedy
}

func (s *surgeon) cut() error {
	if _, err := s.fs.Stat(s.folder); err == nil {
		return fmt.Errorf("%s exists already", s.folder)
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

// cutState removes the checkpoint if the state must be rebuilt.
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

// cutIndexes removes indexes that are damaged or belong to a segment that changes.
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

// writeMeta lowers the seq of the last clean close to the kept frames, and makes both copies whole.
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

// kept returns the frames of a file that stay, or nil.
func (s *surgeon) kept(w *walked) *stretch {
	for i, p := range w.stretches {
		if p.run.first == s.keep.First && p.run.last == s.keep.Last {
			return &w.stretches[i]
		}
	}
	return nil
}

// whole reports whether a file stays unchanged.
func (s *surgeon) whole(w *walked) bool {
	p := s.kept(w)
	return p != nil && len(w.stretches) == 1 && p.from == 0 && !s.trimmed(w, p) && s.fs.PathBase(w.path) == segmentName(p.first)
}

// trimmed reports whether the bytes after the kept frames of a file must be removed: the frames are
// the last of the log and damage follows.
func (s *surgeon) trimmed(w *walked, p *stretch) bool {
	return p.last == s.keep.Last && slices.ContainsFunc(s.report.Damage, func(d Damage) bool {
		return d.Path == w.path && d.First > 0 && d.Offset >= p.to
	})
}

// cutAfter removes all data after the kept frames, the newest first.
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

// rewrite makes a segment from the kept frames of a file.
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

// cutBefore removes all data before the kept frames, the oldest first.
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

// emptySegment creates the first segment if the remedy keeps only the checkpoint.
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

// move copies a file into the folder. It removes the original when the copy is durable.
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
