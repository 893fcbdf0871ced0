package embedded

import (
	"errors"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// filler creates zero-filled spares in small parts, at the rate at which the log uses them. The
// sync of a frame waits for all earlier writes to the disk, so writing a whole segment at once
// would delay commits.
type filler struct {
	log    *Log
	paced  bool     // there were enough spares at least once
	path   string   // of the finished file
	file   vfs.File // nil while no file is being written
	filled int64
	zeros  []byte
}

// fillBytes is the size of one write.
const fillBytes = 256 << 10

// run creates spares until the log is closed.
func (f *filler) run() {
	const retry = 100 * time.Millisecond // while the disk is full
	for l := f.log; ; {
		grown, tick := l.spares.grown, (<-chan time.Time)(nil)
		if err := f.work(); err != nil {
			l.spares.failed(err)
			grown, tick = nil, time.After(retry) // do not listen to grown: a waiting transaction would retry at once
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

// work fills files until the log needs no more.
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

// behind reports whether the filler must continue. The log needs one complete spare. It also needs
// a part of a second one, a third more than the full part of the current segment.
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

// fill writes a complete file of zeros.
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

// step writes some zeros. It reports whether the file is complete and has its name. After an error
// the file does not exist.
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
	clear(zeros) // a vfs.File may modify the written slice
	_, err = f.file.Write(zeros)
	f.filled += int64(len(zeros))
	whole = f.filled == size
	switch {
	case err != nil:
	case whole:
		err = f.finish()
	default:
		_, err = f.file.SyncTo(f.filled) // starts writing, and waits for the previous step
	}
	if err != nil {
		return false, fmt.Errorf("prepare segment: %w", errors.Join(err, f.abandon()))
	}
	return whole, nil
}

// finish syncs the file and renames it to its final name.
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
