// Package replace writes files atomically: readers see the old or the new content.
package replace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// File is the new content of a file. Until Commit it is a separate file in the same folder. The
// caller must always call Close.
type File struct {
	*os.File
	path string // with symbolic links resolved
	done bool
}

// Create begins to write a file. A new file gets mode minus the umask; a replaced file keeps its
// permissions. Create follows a symbolic link, as os.WriteFile does: it replaces the target and not
// the link. It fails if path is something other than a regular file.
func Create(path string, mode fs.FileMode) (*File, error) {
	path, err := follow(path)
	if err != nil {
		return nil, err
	}
	old, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !old.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file, so it cannot be replaced", path)
	}
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()+".tmp")
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	f := &File{File: file, path: path}
	if old != nil {
		if err := file.Chmod(old.Mode().Perm()); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

const linksMax = 40 // most consecutive links

// follow resolves symbolic links. The target may not exist yet.
func follow(path string) (string, error) {
	for range linksMax {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil // not a link or missing: opening it reports the error
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", fmt.Errorf("%s: more than %d links, one after the other", path, linksMax)
}

// Commit makes the written data durable and replaces the file.
func (f *File) Commit() error {
	err := errors.Join(f.Sync(), f.File.Close())
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err == nil {
		f.done = true
	}
	return err
}

// Close discards data that was not committed.
func (f *File) Close() error {
	if f.done {
		return nil
	}
	f.done = true
	err := f.File.Close()
	if errors.Is(err, fs.ErrClosed) { // a failed Commit has closed it
		err = nil
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// WriteFile replaces the content of a file by data.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	f, err := Create(path, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Commit()
	}
	return errors.Join(err, f.Close())
}
