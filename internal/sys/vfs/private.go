package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// Modes of the files and folders that OS creates: only the owner may use them.
const (
	fileMode   fs.FileMode = 0o600
	folderMode fs.FileMode = 0o700
	others     fs.FileMode = 0o077 // permissions of the group and of all other users
)

// private is the operating system's file system for data that only the owner may read.
type private struct{ regular }

// Create implements vfs.FS.
func (p private) Create(name string, category vfs.DiskWriteCategory) (File, error) {
	return restricted(p.regular.Create(name, category))
}

// OpenReadWrite implements vfs.FS. It creates a missing file.
func (p private) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (File, error) {
	return restricted(p.regular.OpenReadWrite(name, category, opts...))
}

// MkdirAll implements vfs.FS. It ignores the mode, even for Pebble's folders.
func (p private) MkdirAll(name string, _ fs.FileMode) error {
	return p.regular.MkdirAll(name, folderMode)
}

// Lock implements vfs.FS. It creates a missing file. An existing file keeps its mode: opening and
// closing it would release the lock of this process.
func (p private) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err == nil {
		err = errors.Join(settled(f.Chmod(fileMode)), f.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return p.regular.Lock(name)
}

// restricted sets the mode of an opened file to 0600. If that fails, it closes the file.
func restricted(f File, err error) (File, error) {
	if err != nil {
		return f, err
	}
	if err := settled(unix.Fchmod(int(f.Fd()), uint32(fileMode))); err != nil {
		return f, errors.Join(err, f.Close())
	}
	return f, nil
}

// settled returns the error of a mode change, or nil if the file can be used anyway. Only the owner
// of a file may change its mode, and some file systems have no modes.
func settled(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// Protect removes the permissions of other users from the folder dir of OS and from its entries
// with these names. For an entry that is a folder it includes the regular files and folders in it.
// It reads a folder only if others have permissions on it, so a protected folder costs one call.
//
// The error names each file that stays accessible to others: it belongs to another user, or its
// file system has no modes. Protect does not follow links in dir, even if a file becomes a link
// meanwhile. It ignores file systems other than OS.
func Protect(files FS, dir string, names ...string) error {
	if files != OS() {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&others == 0 {
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return protectFolder(f, names)
}

// protectFolder changes the content of a folder before the folder itself. If the process dies in
// between, the next Protect reads the folder again.
func protectFolder(folder *os.File, names []string) error {
	var errs []error
	for _, name := range names {
		if err := protect(folder, name); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, narrow(folder))...)
}

// protect changes an entry of a folder. It opens an entry only if others have permissions on it,
// because closing a file releases the locks of this process on it.
func protect(folder *os.File, name string) error {
	path := filepath.Join(folder.Name(), name)
	wrap := func(op string, err error) error { return &fs.PathError{Op: op, Path: path, Err: err} }
	var about unix.Stat_t
	if err := unix.Fstatat(int(folder.Fd()), name, &about, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return wrap("stat", err)
	}
	if kind := about.Mode & unix.S_IFMT; uint32(about.Mode)&uint32(others) == 0 || kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return nil
	}
	fd, err := unix.Openat(int(folder.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return wrap("open", err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if about.Mode&unix.S_IFMT != unix.S_IFDIR {
		return narrow(f)
	}
	names, err := f.Readdirnames(-1)
	return errors.Join(err, protectFolder(f, names))
}

// narrow removes the permissions of other users from an open file or folder.
func narrow(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return f.Chmod(info.Mode() &^ others)
}
