package vfs

import (
	"io"
	"io/fs"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Kind is the kind of a call.
type Kind uint8

// The kinds of calls. Kinds from Create on may change the disk.
const (
	Open Kind = iota
	List
	Stat
	Read
	Close
	Create
	Link
	Remove
	Rename
	MakeFolder
	Lock
	Write
	Sync
)

// Changes reports whether calls of the kind may change the content of the disk.
func (k Kind) Changes() bool { return k >= Create }

// String returns the kind's name.
func (k Kind) String() string {
	return []string{"open", "list", "stat", "read", "close", "create", "link", "remove", "rename", "make folder", "lock", "write", "sync"}[k]
}

// Call is a file system call that is about to happen.
type Call struct {
	Kind Kind
	Path string // the first path of calls with two
}

// Outcome is the outcome of a call. The zero Outcome executes the call normally.
type Outcome struct {
	// Err fails the call before it has an effect. A failed sync marks unsynced data as clean: it
	// can still be read, but no later sync makes it durable.
	Err error
	// Short makes a failing write write its first half.
	Short bool
	// Lie makes a sync return success without an effect.
	Lie bool
}

// Faulty returns inner with a call to decide before each file or folder operation. decide may
// block. It may be called from several goroutines.
func Faulty(inner FS, decide func(Call) Outcome) FS { return &faulty{inner, decide} }

// Nth returns a decide function. It applies outcome to the n-th call, from 1, that match accepts.
// If forever is true, it also applies outcome to all later ones.
func Nth(n int64, forever bool, outcome Outcome, match func(Call) bool) func(Call) Outcome {
	var seen atomic.Int64
	return func(c Call) Outcome {
		if !match(c) {
			return Outcome{}
		}
		if i := seen.Add(1); i == n || forever && i > n {
			return outcome
		}
		return Outcome{}
	}
}

type faulty struct {
	inner  FS
	decide func(Call) Outcome
}

var _ FS = (*faulty)(nil)

func (f *faulty) fails(kind Kind, path string) error {
	if err := f.decide(Call{kind, path}).Err; err != nil {
		return &fs.PathError{Op: kind.String(), Path: path, Err: err}
	}
	return nil
}

// open opens a file and returns it as a faultyFile.
func (f *faulty) open(kind Kind, path string, open func() (File, error)) (File, error) {
	if err := f.fails(kind, path); err != nil {
		return nil, err
	}
	file, err := open()
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: file, fs: f, path: path}, nil
}

// Create implements vfs.FS.
func (f *faulty) Create(name string, category vfs.DiskWriteCategory) (File, error) {
	return f.open(Create, name, func() (File, error) { return f.inner.Create(name, category) })
}

// Open implements vfs.FS.
func (f *faulty) Open(name string, opts ...vfs.OpenOption) (File, error) {
	return f.open(Open, name, func() (File, error) { return f.inner.Open(name, opts...) })
}

// OpenDir implements vfs.FS.
func (f *faulty) OpenDir(name string) (File, error) {
	return f.open(Open, name, func() (File, error) { return f.inner.OpenDir(name) })
}

// OpenReadWrite implements vfs.FS.
func (f *faulty) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (File, error) {
	return f.open(Open, name, func() (File, error) { return f.inner.OpenReadWrite(name, category, opts...) })
}

// ReuseForWrite implements vfs.FS.
func (f *faulty) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (File, error) {
	if err := f.fails(Rename, from); err != nil {
		return nil, err
	}
	return f.open(Open, to, func() (File, error) { return f.inner.ReuseForWrite(from, to, category) })
}

// Link implements vfs.FS.
func (f *faulty) Link(from, to string) error {
	if err := f.fails(Link, from); err != nil {
		return err
	}
	return f.inner.Link(from, to)
}

// Remove implements vfs.FS.
func (f *faulty) Remove(name string) error {
	if err := f.fails(Remove, name); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

// RemoveAll implements vfs.FS.
func (f *faulty) RemoveAll(name string) error {
	if err := f.fails(Remove, name); err != nil {
		return err
	}
	return f.inner.RemoveAll(name)
}

// Rename implements vfs.FS.
func (f *faulty) Rename(from, to string) error {
	if err := f.fails(Rename, from); err != nil {
		return err
	}
	return f.inner.Rename(from, to)
}

// MkdirAll implements vfs.FS.
func (f *faulty) MkdirAll(name string, mode fs.FileMode) error {
	if err := f.fails(MakeFolder, name); err != nil {
		return err
	}
	return f.inner.MkdirAll(name, mode)
}

// Lock implements vfs.FS.
func (f *faulty) Lock(name string) (io.Closer, error) {
	if err := f.fails(Lock, name); err != nil {
		return nil, err
	}
	return f.inner.Lock(name)
}

// List implements vfs.FS.
func (f *faulty) List(name string) ([]string, error) {
	if err := f.fails(List, name); err != nil {
		return nil, err
	}
	return f.inner.List(name)
}

// Stat implements vfs.FS.
func (f *faulty) Stat(name string) (vfs.FileInfo, error) {
	if err := f.fails(Stat, name); err != nil {
		return nil, err
	}
	return f.inner.Stat(name)
}

// GetDiskUsage implements vfs.FS.
func (f *faulty) GetDiskUsage(name string) (vfs.DiskUsage, error) { return f.inner.GetDiskUsage(name) }

// PathBase implements vfs.FS.
func (f *faulty) PathBase(name string) string { return f.inner.PathBase(name) }

// PathJoin implements vfs.FS.
func (f *faulty) PathJoin(elem ...string) string { return f.inner.PathJoin(elem...) }

// PathDir implements vfs.FS.
func (f *faulty) PathDir(name string) string { return f.inner.PathDir(name) }

// Unwrap implements vfs.FS.
func (f *faulty) Unwrap() FS { return f.inner }

type faultyFile struct {
	File
	fs   *faulty
	path string
}

// Read implements vfs.File.
func (f *faultyFile) Read(b []byte) (int, error) {
	if err := f.fs.fails(Read, f.path); err != nil {
		return 0, err
	}
	return f.File.Read(b)
}

// ReadAt implements vfs.File.
func (f *faultyFile) ReadAt(b []byte, at int64) (int, error) {
	if err := f.fs.fails(Read, f.path); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, at)
}

// Write implements vfs.File.
func (f *faultyFile) Write(b []byte) (int, error) { return f.write(b, f.File.Write) }

// WriteAt implements vfs.File.
func (f *faultyFile) WriteAt(b []byte, at int64) (int, error) {
	return f.write(b, func(b []byte) (int, error) { return f.File.WriteAt(b, at) })
}

func (f *faultyFile) write(b []byte, write func([]byte) (int, error)) (int, error) {
	outcome := f.fs.decide(Call{Write, f.path})
	if outcome.Err == nil {
		return write(b)
	}
	n := 0
	if outcome.Short {
		n, _ = write(b[:len(b)/2])
	}
	return n, &fs.PathError{Op: "write", Path: f.path, Err: outcome.Err}
}

// Sync implements vfs.File.
func (f *faultyFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData implements vfs.File.
func (f *faultyFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *faultyFile) sync(sync func() error) error {
	outcome := f.fs.decide(Call{Sync, f.path})
	switch {
	case outcome.Err != nil:
		if dirty, ok := f.File.(interface{ forget() }); ok {
			dirty.forget()
		}
		return &fs.PathError{Op: "sync", Path: f.path, Err: outcome.Err}
	case outcome.Lie:
		return nil
	}
	return sync()
}

// SyncTo implements vfs.File. It counts as a Sync call.
func (f *faultyFile) SyncTo(length int64) (whole bool, err error) {
	err = f.sync(func() (err error) {
		whole, err = f.File.SyncTo(length)
		return err
	})
	return whole, err
}

// Preallocate implements vfs.File. It counts as a Write call.
func (f *faultyFile) Preallocate(at, length int64) error {
	if err := f.fs.fails(Write, f.path); err != nil {
		return err
	}
	return f.File.Preallocate(at, length)
}

// Stat implements vfs.File.
func (f *faultyFile) Stat() (vfs.FileInfo, error) {
	if err := f.fs.fails(Stat, f.path); err != nil {
		return nil, err
	}
	return f.File.Stat()
}

// Close implements vfs.File. It closes the file even if it returns an injected error.
func (f *faultyFile) Close() error {
	failure := f.fs.fails(Close, f.path)
	if err := f.File.Close(); err != nil {
		return err
	}
	return failure
}

// Errors of real disks.
const (
	EIO    = syscall.EIO
	ENOSPC = syscall.ENOSPC
)
