package fetch

import (
	"bytes"
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// cache stores content by its hash, in memory or in a folder, up to max bytes. It evicts the least
// recently used content first. In a folder, each content is a file named by its hash. The file gets
// that name when it is complete, and is verified when it is read. A process can use the files that
// an earlier process left.
type cache struct {
	dir string
	max int64

	mu      *sync.Mutex // guards the fields below
	opened  bool
	known   map[string]*list.Element // *kept by hash
	order   *list.List               // *kept, most recently used first
	bytes   int64
	evicted uint64
}

type kept struct {
	sum     string
	size    int64
	content []byte // only without a folder
}

// storing is an error of the cache folder.
type storing struct{ err error }

// Error returns the text of err.
func (s *storing) Error() string { return s.err.Error() }

// writer receives content before its hash is known.
type writer interface {
	io.Writer
	abort() // no effect after commit
}

type memory struct{ bytes.Buffer }

func (m *memory) abort() {}

type file struct {
	*os.File
	kept bool
}

// Write writes to the file. An error becomes a *storing.
func (f *file) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if err != nil {
		err = &storing{away("keep content: %w", err)}
	}
	return n, err
}

func (f *file) abort() {
	if !f.kept {
		f.Close()
		os.Remove(f.Name())
	}
}

func newCache(dir string, max int64) cache {
	return cache{dir: dir, max: max, mu: &sync.Mutex{}, known: map[string]*list.Element{}, order: list.New()}
}

func (c *cache) stats() (bytes int64, evicted uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes, c.evicted
}

func (c *cache) path(sum string) string { return filepath.Join(c.dir, sum[:2], sum) }

const unfinished = "unfinished-"

// begin returns a writer for content with a hash that is not yet known.
func (c *cache) begin() (writer, error) {
	if c.dir == "" {
		return &memory{}, nil
	}
	if err := c.open(); err != nil {
		return nil, err
	}
	to, err := os.CreateTemp(c.dir, unfinished)
	if err != nil {
		return nil, away("keep content: %w", err)
	}
	return &file{File: to}, nil
}

// commit stores the written content under its hash.
func (c *cache) commit(w writer, sum string, size int64) error {
	switch w := w.(type) {
	case *memory:
		content := w.Bytes()
		if cap(content) > len(content)+len(content)/8 || content == nil {
			content = append([]byte{}, content...) // a copy without spare capacity
		}
		c.note(&kept{sum, size, content})
	case *file:
		if c.has(sum) || size > c.max {
			return nil
		}
		if err := w.Close(); err != nil {
			return away("keep content: %w", err)
		}
		if err := os.MkdirAll(filepath.Dir(c.path(sum)), 0o700); err != nil {
			return away("keep content: %w", err)
		}
		if err := os.Rename(w.Name(), c.path(sum)); err != nil {
			return away("keep content: %w", err)
		}
		w.kept = true
		c.note(&kept{sum: sum, size: size})
	}
	return nil
}

// put stores content.
func (c *cache) put(sum string, content []byte) error {
	w, err := c.begin()
	if err != nil {
		return err
	}
	defer w.abort()
	if _, err := w.Write(content); err != nil {
		return err
	}
	return c.commit(w, sum, int64(len(content)))
}

func (c *cache) has(sum string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.known[sum]
	if at != nil {
		c.order.MoveToFront(at)
	}
	return at != nil
}

// note adds content, and evicts other content if necessary.
func (c *cache) note(k *kept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[k.sum] != nil || k.size > c.max {
		return
	}
	c.known[k.sum] = c.order.PushFront(k)
	for c.bytes += k.size; c.bytes > c.max; {
		oldest := c.order.Back()
		c.evicted += uint64(oldest.Value.(*kept).size)
		c.drop(oldest)
	}
}

// drop removes content. The caller holds the mutex.
func (c *cache) drop(at *list.Element) {
	k := at.Value.(*kept)
	c.order.Remove(at)
	delete(c.known, k.sum)
	c.bytes -= k.size
	if c.dir != "" {
		os.Remove(c.path(k.sum))
	}
}

// get returns the content of a hash, nil if it is not cached.
func (c *cache) get(sum string) []byte {
	if c.dir != "" && c.open() != nil {
		return nil
	}
	c.mu.Lock()
	at := c.known[sum]
	if at == nil {
		c.mu.Unlock()
		return nil
	}
	c.order.MoveToFront(at)
	k := at.Value.(*kept)
	c.mu.Unlock()
	if c.dir == "" {
		return k.content
	}
	content, err := os.ReadFile(c.path(sum))
	if found := sha256.Sum256(content); err == nil && hex.EncodeToString(found[:]) == sum {
		return content
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[sum] == at { // the file was damaged or removed
		c.drop(at)
	}
	return nil
}

// open loads the list of content that an earlier process left.
func (c *cache) open() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opened {
		return nil
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return away("keep content: %w", err)
	}
	type aged struct {
		kept
		used time.Time
	}
	var all []aged
	err := filepath.WalkDir(c.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return nil // the file was removed meanwhile
		}
		name := entry.Name()
		switch hash, err := hex.DecodeString(name); {
		case err == nil && len(hash) == sha256.Size:
			all = append(all, aged{kept{sum: name, size: info.Size()}, info.ModTime()})
		case strings.HasPrefix(name, unfinished) && time.Since(info.ModTime()) > time.Hour:
			os.Remove(path) // left by a process that was killed
		}
		return nil
	})
	if err != nil {
		return away("keep content: %w", fmt.Errorf("look into %s: %w", c.dir, err))
	}
	slices.SortFunc(all, func(a, b aged) int { return a.used.Compare(b.used) })
	for i := range all {
		c.known[all[i].sum] = c.order.PushFront(&all[i].kept)
		for c.bytes += all[i].size; c.bytes > c.max; {
			c.drop(c.order.Back())
		}
	}
	c.opened = true
	return nil
}
