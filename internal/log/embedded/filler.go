package embedded

import (
	"errors"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// filler makes spares of zeros, a little at a time and no faster than the log
// needs them: the sync of a frame waits for all that was written to the disk
// before it, so that a whole segment at once would hold commits up.
type filler struct {
	log    *Log
	paced  bool     // there were enough spares once
	path   string   // of the file when it is whole
	file   vfs.File // nil while none is being made
	filled int64
	zeros  []byte
}

// fillBytes are written at a time.
const fillBytes = 256 << 10

// run makes spares until the log is closed.
func (f *filler) run() {
	const retry = 100 * time.Millisecond // while the disk is full
	for l := f.log; ; {
		grown, tick := l.spares.grown, (<-chan time.Time)(nil)
		if err := f.work(); err != nil {
			l.spares.failed(err)
			grown, tick = nil, time.After(retry) // a step that waits asks again at once
		}
		select {
		case <-grown:
		case <-tick:
		case <-l.closing:
			if err := f.abandon(); err != nil {
				l.opts.Logger.Warn("unfinished spare not removed; the next open removes it", "error", err)
			}
			return
		}
	}
}

// work fills until the log needs no more.
func (f *filler) work() error {
	for f.behind() {
		if f.file == nil {
			f.path = f.log.spares.name(f.log)
		}
		whole, err := f.step()
		if err != nil {
			return err
		}
		if whole {
			f.log.spares.add(f.path)
		}
	}
	return nil
}

// behind reports whether there is less than the log needs at once: one spare,
// and of another one a third more than the segment that is written is full.
func (f *filler) behind() bool {
	l := f.log
	select {
	case <-l.closing:
		return false
	default:
	}
	n, err := l.spares.count()
	if n >= spareFiles {
		f.paced = true
		return false
	}
	if n == 0 || err != nil || !f.paced {
		return true
	}
	l.mu.Lock()
	s := l.segments[len(l.segments)-1]
	used := float64(s.end) / float64(s.size)
	l.mu.Unlock()
	return float64(f.filled) < used*4/3*float64(l.opts.SegmentBytes)
}

// fill makes a file of zeros at once.
func fill(l *Log, path string) error {
	f := filler{log: l, path: path}
	for whole := false; !whole; {
		var err error
		if whole, err = f.step(); err != nil {
			return err
		}
	}
	return nil
}

// step writes some zeros, and reports whether the file is whole and has its
// name. After an error there is no file.
func (f *filler) step() (whole bool, err error) {
	size := f.log.opts.SegmentBytes
	if f.file == nil {
		f.file, err = f.log.opts.fs.Create(f.path+halfSuffix, vfs.WriteCategoryUnspecified)
		if err != nil {
			return false, fmt.Errorf("prepare segment: %w", err)
		}
	}
	if f.zeros == nil {
		f.zeros = make([]byte, min(fillBytes, size))
	}
	zeros := f.zeros[:min(int64(len(f.zeros)), size-f.filled)]
	clear(zeros) // a vfs.File may change what it writes
	_, err = f.file.Write(zeros)
	f.filled += int64(len(zeros))
	whole = f.filled == size
	switch {
	case err != nil:
	case whole:
		err = f.finish()
	default:
		_, err = f.file.SyncTo(f.filled) // begins to write, and waits for the step before
	}
	if err != nil {
		return false, fmt.Errorf("prepare segment: %w", errors.Join(err, f.abandon()))
	}
	return whole, nil
}

// finish gives the file its name.
func (f *filler) finish() error {
	err := f.file.Sync()
	if err = errors.Join(err, f.file.Close()); err == nil {
		err = f.log.opts.fs.Rename(f.path+halfSuffix, f.path)
	}
	f.file, f.filled = nil, 0
	if err != nil {
		return errors.Join(err, ignoreMissing(f.log.opts.fs.Remove(f.path+halfSuffix)))
	}
	return nil
}

// abandon removes an unfinished file.
func (f *filler) abandon() error {
	if f.file == nil {
		return nil
	}
	err := errors.Join(f.file.Close(), ignoreMissing(f.log.opts.fs.Remove(f.path+halfSuffix)))
	f.file, f.filled = nil, 0
	return err
}
