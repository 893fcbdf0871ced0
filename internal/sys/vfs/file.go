package vfs

import (
	"io"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// file is an open node. Only one goroutine at a time may use its position.
type file struct {
	fs   *Memory
	node *node
	name string
	pos  int64
}

// Read implements vfs.File.
func (f *file) Read(b []byte) (int, error) {
	n, err := f.ReadAt(b, f.pos)
	f.pos += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// ReadAt implements vfs.File.
func (f *file) ReadAt(b []byte, at int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.node.folder {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: syscall.EISDIR}
	}
	n := copy(b, f.node.data[min(at, int64(len(f.node.data))):])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Write implements vfs.File.
func (f *file) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, f.pos)
	f.pos += int64(n)
	return n, err
}

// WriteAt implements vfs.File. If the capacity is too small, it writes the bytes that fit and
// returns ENOSPC.
func (f *file) WriteAt(b []byte, at int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n := f.node
	var err error
	if n.folder {
		return 0, &fs.PathError{Op: "write", Path: f.name, Err: syscall.EISDIR}
	}
	if grow := at + int64(len(b)) - int64(len(n.data)); grow > 0 && f.fs.capacity > 0 {
		if over := grow - max(0, f.fs.capacity-f.fs.root.bytes()); over > 0 {
			b = b[:max(0, int64(len(b))-over)]
			err = &fs.PathError{Op: "write", Path: f.name, Err: syscall.ENOSPC}
		}
	}
	if len(b) > 0 {
		n.modified = time.Now()
		n.data = put(n.data, int(at), b)
		n.writes = append(n.writes, write{int(at), slices.Clone(b), len(n.data)})
	}
	return len(b), err
}

// put writes b into data. It extends data with zeros if needed.
func put(data []byte, at int, b []byte) []byte {
	if grow := at + len(b) - len(data); grow > 0 {
		data = append(data, make([]byte, grow)...)
	}
	copy(data[at:], b)
	return data
}

// Sync implements vfs.File.
func (f *file) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n := f.node
	for _, w := range n.writes {
		n.disk = put(n.disk, w.at, w.data)
	}
	for _, c := range n.changes {
		apply(n.stored, c)
	}
	n.writes, n.changes = nil, nil
	return nil
}

// forget marks unsynced data as clean, as Linux does after a failed sync: it can be read, but no
// later sync writes it.
func (f *file) forget() {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.writes = nil
}

// SyncData implements vfs.File.
func (f *file) SyncData() error { return f.Sync() }

// SyncTo implements vfs.File. It makes no data durable.
func (f *file) SyncTo(int64) (bool, error) { return false, nil }

// Preallocate implements vfs.File.
func (f *file) Preallocate(int64, int64) error { return nil }

// Prefetch implements vfs.File.
func (f *file) Prefetch(int64, int64) error { return nil }

// Fd implements vfs.File.
func (f *file) Fd() uintptr { return vfs.InvalidFd }

// Close implements vfs.File.
func (f *file) Close() error { return nil }

// Stat implements vfs.File.
func (f *file) Stat() (vfs.FileInfo, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return info{f.name, int64(len(f.node.data)), f.node.folder, f.node.modified}, nil
}

type info struct {
	name     string
	size     int64
	folder   bool
	modified time.Time
}

func (i info) Name() string           { return i.name }
func (i info) Size() int64            { return i.size }
func (i info) IsDir() bool            { return i.folder }
func (i info) ModTime() time.Time     { return i.modified }
func (i info) Sys() any               { return nil }
func (i info) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }

// Mode returns the permissions. Only the owner may write.
func (i info) Mode() fs.FileMode {
	if i.folder {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
