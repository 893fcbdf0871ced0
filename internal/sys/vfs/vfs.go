// Package vfs has the file systems of the embedded log: the operating system's, one in memory that
// can crash, and a wrapper that injects errors. All of them are Pebble's vfs.FS, since the
// checkpoint of the log uses them too.
package vfs

import (
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is the file system interface of the log and its checkpoint.
type FS = vfs.FS

// File is an open file or folder of an FS.
type File = vfs.File

// WriteCategoryUnspecified is for writes that need no statistics by category.
const WriteCategoryUnspecified = vfs.WriteCategoryUnspecified

// OS returns the operating system's file system, for data that only this user may read. It creates
// files with mode 0600 and folders with mode 0700, whatever the umask. It opens only regular files
// and folders, since a pipe would block its reader.
func OS() FS { return private{regular{vfs.Default}} }

// Shared returns the operating system's file system, for files that other programs read. The umask
// decides their permissions. It opens the same kinds of files as OS.
func Shared() FS { return regular{vfs.Default} }

// ReadFile reads a whole file. If the file becomes shorter meanwhile, it returns
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
