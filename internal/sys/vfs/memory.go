package vfs

import (
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Memory is a file system in memory that records which data was synced. Crash returns a possible
// content of the disk after a power failure. It is safe for concurrent use.
type Memory struct {
	mu       sync.Mutex
	root     *node
	locked   map[string]bool
	capacity int64 // 0 is unlimited
}

var _ FS = (*Memory)(nil)

// node is a file or a folder: the visible content, the content that is certainly on the disk, and
// the changes since then, in order.
type node struct {
	modified time.Time

	data   []byte
	disk   []byte
	writes []write

	folder  bool
	names   map[string]*node
	stored  map[string]*node
	changes []change
}

// write is an unsynced write.
type write struct {
	at   int
	data []byte
	size int // file size after the write
}

// change holds the changes of one call to the names in a folder. A rename within a folder is one
// change, as on every journalling file system. A nil node removes a name.
type change map[string]*node

func newFolder() *node {
	return &node{folder: true, names: map[string]*node{}, stored: map[string]*node{}, modified: time.Now()}
}

// NewMemory returns an empty file system.
func NewMemory() *Memory { return &Memory{root: newFolder(), locked: map[string]bool{}} }

// SetCapacity limits the total size of all files. Writes beyond it return ENOSPC. 0 is unlimited.
func (m *Memory) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// Used returns the total size of all files in bytes.
func (m *Memory) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.root.bytes()
}

func (n *node) bytes() int64 {
	total := int64(len(n.data))
	for _, child := range n.names {
		total += child.bytes()
	}
	return total
}

func split(name string) []string {
	return strings.FieldsFunc(path.Clean(name), func(r rune) bool { return r == '/' })
}

// folderOf returns the folder that contains name, and the last element of name, "" for the root.
// The caller must hold mu.
func (m *Memory) folderOf(op, name string) (*node, string, error) {
	parts := split(name)
	dir := m.root
	if len(parts) == 0 || parts[0] == "." {
		return dir, "", nil
	}
	for _, part := range parts[:len(parts)-1] {
		child := dir.names[part]
		if child == nil || !child.folder {
			return nil, "", &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
		}
		dir = child
	}
	return dir, parts[len(parts)-1], nil
}

// find returns the node called name. The caller must hold mu.
func (m *Memory) find(op, name string) (*node, error) {
	dir, base, err := m.folderOf(op, name)
	if err != nil || base == "" {
		return dir, err
	}
	if n := dir.names[base]; n != nil {
		return n, nil
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
}

// change applies a change. It reaches the disk when the folder is synced.
func (n *node) change(c change) {
	n.changes = append(n.changes, c)
	apply(n.names, c)
}

func apply(names map[string]*node, c change) {
	for name, child := range c {
		if child == nil {
			delete(names, name)
		} else {
			names[name] = child
		}
	}
}

// Create implements vfs.FS.
func (m *Memory) Create(name string, _ vfs.DiskWriteCategory) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.folderOf("create", name)
	if err == nil && (base == "" || dir.names[base] != nil && dir.names[base].folder) {
		err = &fs.PathError{Op: "create", Path: name, Err: syscall.EISDIR}
	}
	if err != nil {
		return nil, err
	}
	n := &node{modified: time.Now()}
	dir.change(change{base: n})
	return &file{fs: m, node: n, name: base}, nil
}

// Open implements vfs.FS.
func (m *Memory) Open(name string, _ ...vfs.OpenOption) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("open", name)
	if err != nil {
		return nil, err
	}
	return &file{fs: m, node: n, name: path.Base(name)}, nil
}

// OpenDir implements vfs.FS.
func (m *Memory) OpenDir(name string) (File, error) { return m.Open(name) }

// OpenReadWrite implements vfs.FS.
func (m *Memory) OpenReadWrite(name string, category vfs.DiskWriteCategory, _ ...vfs.OpenOption) (File, error) {
	f, err := m.Open(name)
	if err != nil {
		return m.Create(name, category)
	}
	return f, nil
}

// Link implements vfs.FS.
func (m *Memory) Link(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("link", from)
	if err != nil {
		return err
	}
	dir, base, err := m.folderOf("link", to)
	if err == nil && (base == "" || dir.names[base] != nil) {
		err = &fs.PathError{Op: "link", Path: to, Err: syscall.EEXIST}
	}
	if err != nil {
		return err
	}
	dir.change(change{base: n})
	return nil
}

// Rename implements vfs.FS.
func (m *Memory) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("rename", from)
	if err != nil {
		return err
	}
	source, old, err := m.folderOf("rename", from)
	if err != nil {
		return err
	}
	target, base, err := m.folderOf("rename", to)
	if err != nil {
		return err
	}
	if source == target {
		c := change{old: nil}
		c[base] = n // also if both names are equal
		source.change(c)
		return nil
	}
	target.change(change{base: n})
	source.change(change{old: nil})
	return nil
}

// ReuseForWrite implements vfs.FS.
func (m *Memory) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (File, error) {
	if err := m.Rename(from, to); err != nil {
		return nil, err
	}
	return m.OpenReadWrite(to, category)
}

// Remove implements vfs.FS.
func (m *Memory) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("remove", name)
	if err != nil {
		return err
	}
	dir, base, err := m.folderOf("remove", name)
	if err == nil && (base == "" || len(n.names) > 0) {
		err = &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
	}
	if err != nil {
		return err
	}
	dir.change(change{base: nil})
	return nil
}

// RemoveAll implements vfs.FS.
func (m *Memory) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.folderOf("remove", name)
	if err == nil && base != "" && dir.names[base] != nil {
		dir.change(change{base: nil})
	}
	return nil
}

// MkdirAll implements vfs.FS.
func (m *Memory) MkdirAll(name string, _ fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir := m.root
	for _, part := range split(name) {
		child := dir.names[part]
		switch {
		case part == ".":
			continue
		case child == nil:
			child = newFolder()
			dir.change(change{part: child})
		case !child.folder:
			return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
		}
		dir = child
	}
	return nil
}

// Lock implements vfs.FS. A second lock of a file returns EAGAIN.
func (m *Memory) Lock(name string) (io.Closer, error) {
	f, err := m.OpenReadWrite(name, WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locked[name] {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: syscall.EAGAIN}
	}
	m.locked[name] = true
	return &lock{File: f, fs: m, name: name}, nil
}

type lock struct {
	File
	fs   *Memory
	name string
}

// Close releases the lock.
func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locked, l.name)
	return nil
}

// List implements vfs.FS.
func (m *Memory) List(name string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("list", name)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(n.names)), nil
}

// Stat implements vfs.FS.
func (m *Memory) Stat(name string) (vfs.FileInfo, error) {
	f, err := m.Open(name)
	if err != nil {
		return nil, err
	}
	return f.Stat()
}

// PathBase implements vfs.FS.
func (m *Memory) PathBase(name string) string { return path.Base(name) }

// PathJoin implements vfs.FS.
func (m *Memory) PathJoin(elem ...string) string { return path.Join(elem...) }

// PathDir implements vfs.FS.
func (m *Memory) PathDir(name string) string { return path.Dir(name) }

// GetDiskUsage implements vfs.FS.
func (m *Memory) GetDiskUsage(string) (vfs.DiskUsage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	total := m.capacity
	if total == 0 {
		total = 1 << 40
	}
	used := m.root.bytes()
	return vfs.DiskUsage{TotalBytes: uint64(total), UsedBytes: uint64(used), AvailBytes: uint64(max(0, total-used))}, nil
}

// Unwrap implements vfs.FS.
func (m *Memory) Unwrap() FS { return nil }
