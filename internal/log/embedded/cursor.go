package embedded

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/afterbay/afterbay/stream"
)

// cursor reads a partition in order. One goroutine uses it. While it is open, retention keeps the
// records from next on.
type cursor struct {
	log   *Log
	part  *partition
	next  atomic.Int64
	ready chan struct{} // gets a token when there are more records
	early *member       // member that reads early with this cursor, or nil; only that member writes it, under Log.mu
	keep  func(key []byte) bool

	blocks []block      // fetched
	body   recordReader // unread rest of the first block
	at     stream.Offset
}

// newCursor opens a cursor at offset from.
func (l *Log) newCursor(p stream.Partition, from stream.Offset, ready chan struct{}) (*cursor, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part, err := l.part(p.Topic, p.Index)
	if err := errors.Join(l.usable(), err); err != nil {
		return nil, err
	}
	if from < part.first() {
		return nil, fmt.Errorf("offset %d, the first is %d: %w", from, part.first(), stream.ErrTrimmed)
	}
	return l.cursorAt(part, from, ready), nil
}

// cursorAt opens a cursor. The caller must hold mu.
func (l *Log) cursorAt(part *partition, from stream.Offset, ready chan struct{}) *cursor {
	c := &cursor{log: l, part: part, ready: ready}
	c.next.Store(int64(from))
	part.readers = append(part.readers, c)
	return c
}

func (c *cursor) close() {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	c.part.removeReader(c)
}

// read appends at most limit records to dst. It appends fewer only if no more are available. The
// records alias immutable buffers.
func (c *cursor) read(dst []stream.Record, limit int) ([]stream.Record, error) {
	for n := 0; n < limit; {
		if len(c.blocks) == 0 {
			blocks, err := c.fetch(c.part, stream.Offset(c.next.Load()), c.early != nil)
			if err != nil || len(blocks) == 0 {
				return dst, err
			}
			c.blocks = blocks
			c.open()
		}
		b := &c.blocks[0]
		for ; n < limit && c.at < b.next(); c.at++ {
			keep, passed := c.keep, int64(c.at) < c.next.Load()
			if passed { // the record is before the cursor's next offset
				keep = none
			}
			dst = append(dst, stream.Record{Partition: c.part.Partition, Offset: c.at})
			c.body.record(&dst[len(dst)-1], keep)
			if c.body.bad {
				c.blocks = nil
				return dst[:len(dst)-1], fmt.Errorf("record %d of %v: %w", c.at, c.part.Partition, errFormat)
			}
			if passed {
				dst = dst[:len(dst)-1]
				continue
			}
			c.next.Store(int64(c.at) + 1)
			n++
		}
		if c.at == b.next() {
			if c.blocks = c.blocks[1:]; len(c.blocks) > 0 {
				c.open()
			}
		}
	}
	return dst, nil
}

// none keeps no record.
func none([]byte) bool { return false }

// open starts to read the first of the blocks.
func (c *cursor) open() {
	passed := c.body.passed
	c.body, c.at = c.blocks[0].records(), c.blocks[0].first
	c.body.passed = passed
}

// fetchBlocks is the most blocks that a cursor gets at once. The cursor keeps their frames in
// memory.
const fetchBlocks = 16

// fetch returns blocks; the first one contains offset from. It returns none if that record does not
// exist yet and cannot be read early.
func (c *cursor) fetch(p *partition, from stream.Offset, early bool) ([]block, error) {
	c.log.mu.Lock()
	err := c.log.usable()
	if err == nil && p.deleted {
		err = stream.ErrUnknownTopic
	}
	if err != nil || from >= p.end(early) {
		c.log.mu.Unlock()
		return nil, err
	}
	if hot := p.hot(from); hot != nil {
		blocks := slices.Clone(hot[:min(len(hot), fetchBlocks)])
		c.log.mu.Unlock()
		return blocks, nil
	}
	s := p.span(from)
	if s == nil {
		c.log.mu.Unlock()
		return nil, fmt.Errorf("offset %d: %w", from, stream.ErrTrimmed)
	}
	seg := s.segment
	if seg.index == nil {
		c.log.mu.Unlock()
		if _, err := c.loadIndex(seg); err != nil {
			return nil, err
		}
		c.log.mu.Lock()
	}
	x := seg.index
	if x == nil { // other readers evicted the index in between
		c.log.mu.Unlock()
		return c.fetch(p, from, early)
	}
	n, found := x.chunk(p.Partition, from)
	if !found {
		c.log.mu.Unlock()
		return nil, fmt.Errorf("offset %d of %v is not in the index of %s: %w", from, p.Partition, seg.path, errFormat)
	}
	id := chunkID{seg.first, n}
	pos, end, whole := x.marks[n], seg.end, !seg.sealed.IsZero()
	if n+1 < len(x.marks) {
		end, whole = x.marks[n+1], true
	}
	c.log.mu.Unlock()
	c.log.stats.cold.Add(1)
	return c.coldBlocks(p, from, id, seg.path, pos, end, whole)
}

// coldBlocks reads the chunk from pos to end and returns the blocks of p from offset on. It uses
// the cache if the chunk is whole.
func (c *cursor) coldBlocks(p *partition, from stream.Offset, id chunkID, path string, pos, end int64, whole bool) ([]block, error) {
	load := func() (map[stream.Partition][]block, error) { return c.readChunk(path, pos, end) }
	var all map[stream.Partition][]block
	var err error
	if whole {
		all, err = c.log.chunks.get(id, load)
	} else {
		all, err = load()
	}
	if err != nil {
		return nil, err
	}
	blocks := all[p.Partition]
	i := sort.Search(len(blocks), func(i int) bool { return blocks[i].next() > from })
	if i == len(blocks) {
		return nil, c.log.damage(path, pos, 0, fmt.Sprintf("offset %d of %v is not at the place in the index", from, p.Partition))
	}
	return blocks[i:], nil
}

// readChunk reads and checks frames, and groups their records by partition.
func (c *cursor) readChunk(path string, pos, end int64) (map[stream.Partition][]block, error) {
	f, err := c.log.opts.fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	b := make([]byte, end-pos)
	n, err := f.ReadAt(b, pos)
	if err == io.EOF && n == len(b) {
		err = nil
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	blocks := map[stream.Partition][]block{}
	for at := 0; at < len(b); {
		f, n, err := c.log.parse(b[at:], 0)
		if err != nil {
			return nil, c.log.damage(path, pos+int64(at), 0, err.Error())
		}
		for i := range f.body {
			if f.body[i].hasRecords() {
				v, err := parseRecords(&f.body[i])
				if err != nil {
					return nil, c.log.damage(path, pos+int64(at), f.seq, err.Error())
				}
				p := v.partition()
				blocks[p] = append(blocks[p], v.block(f.seq))
			}
		}
		at += n
	}
	return blocks, nil
}

// chunkCache holds the most recently read chunks. Concurrent readers of the same chunk share one
// read.
type chunkCache struct {
	mu     sync.Mutex
	chunks []*chunk // least recently used first
}

type chunkID struct {
	segment uint64 // its first seq
	number  int
}

type chunk struct {
	id     chunkID
	once   sync.Once
	blocks map[stream.Partition][]block
	err    error
}

// chunksMost limits the cache: it holds this many chunks, each of at most chunkBytes plus one
// frame.
const chunksMost = 8

func (cc *chunkCache) get(id chunkID, load func() (map[stream.Partition][]block, error)) (map[stream.Partition][]block, error) {
	cc.mu.Lock()
	i := slices.IndexFunc(cc.chunks, func(c *chunk) bool { return c.id == id })
	var c *chunk
	if i >= 0 {
		c = cc.chunks[i]
		cc.chunks = slices.Delete(cc.chunks, i, i+1)
	} else {
		c = &chunk{id: id}
	}
	cc.chunks = append(cc.chunks, c)
	if len(cc.chunks) > chunksMost {
		cc.chunks = slices.Delete(cc.chunks, 0, 1)
	}
	cc.mu.Unlock()
	c.once.Do(func() { c.blocks, c.err = load() })
	if c.err != nil {
		cc.forget(c)
	}
	return c.blocks, c.err
}

// forget removes a chunk, so that the cache does not keep an error.
func (cc *chunkCache) forget(c *chunk) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	cc.chunks = slices.DeleteFunc(cc.chunks, func(other *chunk) bool { return other == c })
}
