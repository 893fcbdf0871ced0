package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
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
	f, err := p.regular.Create(name, category)
	return restricted(f, err, name)
}

// OpenReadWrite implements vfs.FS. It makes a file that is missing.
func (p private) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (File, error) {
	f, err := p.regular.OpenReadWrite(name, category, opts...)
	return restricted(f, err, name)
}

// MkdirAll implements vfs.FS. It ignores the mode, also that of Pebble's folders.
func (p private) MkdirAll(name string, _ fs.FileMode) error {
	return p.regular.MkdirAll(name, folderMode)
}

// Lock implements vfs.FS.
func (p private) Lock(name string) (io.Closer, error) {
	lock, err := p.regular.Lock(name)
	return restricted(lock, err, name)
}

// restricted gives a file that was opened the mode 0600, or closes it. A file of another
// user keeps its mode, since only the owner may change it.
func restricted[F io.Closer](f F, err error, name string) (F, error) {
	if err != nil {
		return f, err
	}
	if err := os.Chmod(name, fileMode); err != nil && !errors.Is(err, fs.ErrPermission) {
		return f, errors.Join(err, f.Close())
	}
	return f, nil
}

// Protect takes the permissions of other users from the folder dir of OS, and from the
// regular files and the folders in it. It reads a folder only if others have
// permissions on it, so a folder that is protected costs one call. The error names
// each file that belongs to another user and stays open to others. Links in dir
// are not followed. Other file systems than OS have no permissions.
func Protect(files FS, dir string) error {
	if files != OS() {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	return protect(dir, info)
}

// protect changes a folder after its content: if the process dies in between, the
// next Protect reads the folder again.
func protect(path string, info fs.FileInfo) error {
	mode := info.Mode()
	if mode.Perm()&others == 0 || !mode.IsDir() && !mode.IsRegular() {
		return nil
	}
	var errs []error
	if mode.IsDir() {
		entries, err := os.ReadDir(path)
		errs = append(errs, err)
		for _, entry := range entries {
			about, err := entry.Info()
			if err == nil {
				err = protect(filepath.Join(path, entry.Name()), about)
			}
			errs = append(errs, ignoreMissing(err))
		}
	}
	errs = append(errs, ignoreMissing(os.Chmod(path, mode&^others)))
	return errors.Join(errs...)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
