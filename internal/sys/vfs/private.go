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

// The modes of what OS makes: only the owner may use it.
const (
	fileMode   fs.FileMode = 0o600
	folderMode fs.FileMode = 0o700
	others     fs.FileMode = 0o077 // the permissions of the group and of all other users
)

// private is the file system of the operating system for data that only its owner
// may read.
type private struct{ regular }

// Create implements vfs.FS.
func (p private) Create(name string, category vfs.DiskWriteCategory) (File, error) {
	return restricted(p.regular.Create(name, category))
}

// OpenReadWrite implements vfs.FS. It makes a file that is missing.
func (p private) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (File, error) {
	return restricted(p.regular.OpenReadWrite(name, category, opts...))
}

// MkdirAll implements vfs.FS. It ignores the mode, also that of Pebble's folders.
func (p private) MkdirAll(name string, _ fs.FileMode) error {
	return p.regular.MkdirAll(name, folderMode)
}

// Lock implements vfs.FS. It makes a file that is missing. A file that exists keeps its
// mode: to open and close it would release the lock of this process.
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

// restricted gives a file that was opened the mode 0600, or closes it.
func restricted(f File, err error) (File, error) {
	if err != nil {
		return f, err
	}
	if err := settled(unix.Fchmod(int(f.Fd()), uint32(fileMode))); err != nil {
		return f, errors.Join(err, f.Close())
	}
	return f, nil
}

// settled returns the error of a change of mode, nil if the file is used as it is: only
// the owner of a file may change its mode, and some file systems have no modes.
func settled(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// Protect takes the permissions of other users from the folder dir of OS, from its
// entries with these names, and from the regular files and the folders in them. It reads
// a folder only if others have permissions on it, so a folder that is protected costs
// one call. The error names each file that stays open to others: it belongs to another
// user, or its file system has no modes. Links in dir are not followed, also if a
// file becomes one meanwhile. Other file systems than OS have no permissions.
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

// protectFolder changes a folder after its content: if the process dies in between, the
// next Protect reads the folder again.
func protectFolder(folder *os.File, names []string) error {
	var errs []error
	for _, name := range names {
		if err := protect(folder, name); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, narrow(folder))...)
}

// protect changes an entry of a folder. It opens an entry only if others have permissions
// on it: to close a file releases the locks that this process has on it.
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

// narrow takes the permissions of other users from an open file or folder.
func narrow(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return f.Chmod(info.Mode() &^ others)
}
