package files

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// folder is a place in a file system. It writes and syncs an object under a hidden name. Then it
// links the object to its final name, which fails if the name exists, and syncs the folder.
type folder struct {
	fs   vfs.FS
	root string

	mu    sync.Mutex
	ready map[string]bool // folders that exist and contain no drafts of dead processes
}

func newFolder(fs vfs.FS, root string) *folder {
	return &folder{fs: fs, root: root, ready: map[string]bool{}}
}

const draftEnding = ".tmp"

// check implements place. It creates and removes a file in the folder, or in its nearest existing
// parent.
func (f *folder) check(context.Context) error {
	dir := f.root
	for dir != filepath.Dir(dir) {
		info, err := f.fs.Stat(dir)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("%s is not a folder", dir)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break // it exists, or creating the file will return the reason
		}
		dir = filepath.Dir(dir)
	}
	name := filepath.Join(dir, "."+rand.Text()+draftEnding)
	file, err := f.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("nothing can be written in %s: %w", dir, err)
	}
	return errors.Join(file.Close(), f.fs.Remove(name))
}

// prepare durably creates a folder and removes the drafts in it. If a draft's process is still
// alive, it has lost the partition.
func (f *folder) prepare(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ready[dir] {
		return nil
	}
	if err := f.fs.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	names, err := f.fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, ".") && strings.HasSuffix(name, draftEnding) {
			if err := f.fs.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	within := true // below the root; folders above it may belong to another user and are already durable
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		within = within && at != f.root
		if err := f.sync(filepath.Dir(at)); err != nil && within {
			return err
		}
	}
	f.ready[dir] = true
	return nil
}

// sync makes the file names in a folder durable.
func (f *folder) sync(dir string) error {
	d, err := f.fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// begin implements place.
func (f *folder) begin(_ context.Context, name string) (draft, error) {
	full := filepath.Join(f.root, filepath.FromSlash(name))
	dir, base := filepath.Split(full)
	dir = filepath.Clean(dir)
	if err := f.prepare(dir); err != nil {
		return nil, err
	}
	d := &fileDraft{folder: f, dir: dir, name: full, draft: filepath.Join(dir, "."+base+"."+rand.Text()+draftEnding)}
	file, err := f.fs.Create(d.draft, vfs.WriteCategoryUnspecified)
	d.File = file
	return d, err
}

// fileDraft is a draft in a file.
type fileDraft struct {
	vfs.File
	folder           *folder
	dir, name, draft string
	closed           bool
}

// keep implements draft.
func (d *fileDraft) keep(_ context.Context, sum [sha256.Size]byte) error {
	err := d.Sync()
	d.closed = true
	if err := errors.Join(err, d.Close()); err != nil {
		d.remove()
		return err
	}
	err = d.folder.fs.Link(d.draft, d.name)
	d.remove()
	if errors.Is(err, fs.ErrExist) {
		err = d.same(sum)
	}
	if err != nil {
		return err
	}
	return d.folder.sync(d.dir) // also for a link that another process made
}

// same checks whether the existing object has this checksum.
func (d *fileDraft) same(sum [sha256.Size]byte) (err error) {
	there, err := d.folder.fs.Open(d.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, there.Close()) }()
	found := sha256.New()
	if _, err := io.Copy(found, there); err != nil {
		return err
	}
	if [sha256.Size]byte(found.Sum(nil)) != sum {
		return &TakenError{d.name}
	}
	return nil
}

// drop implements draft.
func (d *fileDraft) drop() {
	if !d.closed {
		d.closed = true
		_ = d.Close() // the file is removed, so an error does not matter
		d.remove()
	}
}

// remove removes the draft. If that fails, the next process removes it.
func (d *fileDraft) remove() { _ = d.folder.fs.Remove(d.draft) }
