// Package vfs is the file system under the embedded engine: the operating
// system's, one in memory that crashes, and a wrapper that breaks calls. All
// are Pebble's vfs.FS, since its checkpoint runs on them too.
package vfs

import (
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is what the engine and its checkpoint ask of a file system.
type FS = vfs.FS

// File is an open file or folder of an FS.
type File = vfs.File

// WriteCategoryUnspecified is for writes that nobody counts by kind.
const WriteCategoryUnspecified = vfs.WriteCategoryUnspecified

// OS returns the file system of the operating system, for data that only this user may
// read: it makes files with mode 0600 and folders with mode 0700, whatever the umask. It
// opens regular files and folders only: a pipe would block its reader.
func OS() FS { return private{regular{vfs.Default}} }

// Shared returns the file system of the operating system, for files that other programs
// read: the umask decides their permissions. It opens the same files as OS.
func Shared() FS { return regular{vfs.Default} }

// ReadFile reads a whole file. A file that got shorter meanwhile is
// io.ErrUnexpectedEOF.
func ReadFile(fs FS, path string) (b []byte, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b = make([]byte, info.Size())
	n, err := f.ReadAt(b, 0)
	switch {
	case err != nil && err != io.EOF:
		return nil, err
	case n < len(b):
		return nil, io.ErrUnexpectedEOF
	}
	return b, nil
}
