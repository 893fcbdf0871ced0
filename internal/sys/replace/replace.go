// Package replace writes files whole or not at all: readers see the old content of a file or
// the new one.
package replace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// File is the new content of a file. It is written beside the file until Commit. Close has to
// be called in any case.
type File struct {
	*os.File
	path string // with links followed
	done bool
}

// Create begins to write a file. A new file has the mode less the umask; one that is replaced
// keeps its permissions. A link is followed, as os.WriteFile does, so the file that it names is
// replaced and not the link. Something else than a regular file is refused.
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

const linksMax = 40 // one after the other

// follow returns what a path names if it is a link, which may name nothing yet.
func follow(path string) (string, error) {
	for range linksMax {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil // no link, or nothing: opening it says why
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", fmt.Errorf("%s: more than %d links, one after the other", path, linksMax)
}

// Commit makes what was written durable, and the content of the file.
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

// Close drops what was not committed.
func (f *File) Close() error {
	if f.done {
		return nil
	}
	f.done = true
	err := f.File.Close()
	if errors.Is(err, fs.ErrClosed) { // by Commit, which failed
		err = nil
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// WriteFile replaces a file by data.
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
