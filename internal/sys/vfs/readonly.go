package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ReadOnly returns a read-only view of a file system. Changes succeed and are discarded, so a
// reader sees the files as they are. It is for code that tidies up while it reads.
func ReadOnly(inner FS) FS { return readOnly{inner} }

type readOnly struct{ FS }

// Create implements vfs.FS.
func (readOnly) Create(string, vfs.DiskWriteCategory) (File, error) {
	file, err := vfs.NewMem().Create("dropped", WriteCategoryUnspecified)
	return dropped{file}, err
}

// ReuseForWrite implements vfs.FS.
func (r readOnly) ReuseForWrite(_, name string, category vfs.DiskWriteCategory) (File, error) {
	return r.Create(name, category)
}

// OpenReadWrite implements vfs.FS.
func (r readOnly) OpenReadWrite(name string, _ vfs.DiskWriteCategory, opts ...vfs.OpenOption) (File, error) {
	file, err := r.Open(name, opts...)
	return dropped{file}, err
}

// OpenDir implements vfs.FS.
func (r readOnly) OpenDir(name string) (File, error) {
	file, err := r.FS.OpenDir(name)
	return dropped{file}, err
}

// Link implements vfs.FS.
func (readOnly) Link(string, string) error { return nil }

// Remove implements vfs.FS.
func (readOnly) Remove(string) error { return nil }

// RemoveAll implements vfs.FS.
func (readOnly) RemoveAll(string) error { return nil }

// Rename implements vfs.FS.
func (readOnly) Rename(string, string) error { return nil }

// MkdirAll implements vfs.FS.
func (readOnly) MkdirAll(string, os.FileMode) error { return nil }

// Lock implements vfs.FS.
func (readOnly) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// dropped is a file that discards its changes.
type dropped struct{ File }

func (dropped) Write(b []byte) (int, error)            { return len(b), nil }
func (dropped) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }
func (dropped) Preallocate(int64, int64) error         { return nil }
func (dropped) Sync() error                            { return nil }
func (dropped) SyncTo(int64) (bool, error)             { return true, nil }
func (dropped) SyncData() error                        { return nil }

// ErrIrregular means that a path is a pipe, a device or a socket. A read from it might block.
var ErrIrregular = errors.New("it is not a regular file")

// regular is the operating system's file system, limited to regular files and folders.
type regular struct{ FS }

// Open implements vfs.FS.
func (r regular) Open(name string, opts ...vfs.OpenOption) (File, error) {
	if err := r.check(name); err != nil {
		return nil, err
	}
	return r.FS.Open(name, opts...)
}

// OpenReadWrite implements vfs.FS.
func (r regular) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (File, error) {
	if err := r.check(name); err != nil {
		return nil, err
	}
	return r.FS.OpenReadWrite(name, category, opts...)
}

func (r regular) check(name string) error {
	about, err := r.Stat(name)
	if err == nil && !about.Mode().IsRegular() && !about.IsDir() {
		return &fs.PathError{Op: "open", Path: name, Err: ErrIrregular}
	}
	return nil // opening the file reports other errors
}
