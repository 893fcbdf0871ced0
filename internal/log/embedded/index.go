package embedded

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"sort"
	"time"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

// chunkBytes is the granularity of the index and of cold reads. A chunk holds the frames that begin
// within this many bytes. Readers of all partitions share a chunk that was read and parsed.
const chunkBytes = 256 << 10

// index is the sparse index of a segment. For each partition it holds the first offset in each
// chunk that has records of the partition.
type index struct {
	marks []int64 // start positions of the chunks
	parts map[stream.Partition][]indexEntry
}

type indexEntry struct {
	offset stream.Offset
	mark   int   // index into marks
	time   int64 // of the record at offset, in microseconds
}

func newIndex() *index { return &index{parts: map[stream.Partition][]indexEntry{}} }

// frame records that a frame begins at pos.
func (x *index) frame(pos int64) {
	if n := len(x.marks); n == 0 || pos-x.marks[n-1] >= chunkBytes {
		x.marks = append(x.marks, pos)
	}
}

// note adds the records of the newest frame.
func (x *index) note(p stream.Partition, v *records) {
	entries, mark := x.parts[p], len(x.marks)-1
	if n := len(entries); n > 0 && entries[n-1].mark == mark {
		return
	}
	e := indexEntry{offset: v.first, mark: mark}
	if len(v.body) >= 8 {
		e.time = int64(binary.LittleEndian.Uint64(v.body))
	}
	x.parts[p] = append(entries, e)
}

// chunk returns the number of the chunk that contains offset of p.
func (x *index) chunk(p stream.Partition, offset stream.Offset) (int, bool) {
	entries := x.parts[p]
	i := sort.Search(len(entries), func(i int) bool { return entries[i].offset > offset })
	if i == 0 {
		return 0, false
	}
	return entries[i-1].mark, true
}

// The index file holds the index and the other facts that the log needs about a sealed segment. So
// the log does not have to read the segment.
const indexMagic = "afterbay index 1"

// encodeIndex returns the content of the index file of s. The index of s must be in memory. spans
// are the offsets of each partition in s.
func encodeIndex(s *segment, spans map[stream.Partition]span, salt uint32) []byte {
	b := []byte(indexMagic)
	for _, v := range []uint64{s.first, s.last, uint64(s.end), uint64(s.sealed.UnixMicro())} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.AppendUvarint(b, uint64(len(s.index.marks)))
	for _, m := range s.index.marks {
		b = binary.AppendUvarint(b, uint64(m))
	}
	b = binary.AppendUvarint(b, uint64(len(spans)))
	parts := make([]stream.Partition, 0, len(spans))
	for p := range spans {
		parts = append(parts, p)
	}
	slices.SortFunc(parts, comparePartitions)
	for _, p := range parts {
		b = appendPartition(b, p)
		b = binary.LittleEndian.AppendUint64(b, uint64(spans[p].next))
		entries := s.index.parts[p]
		b = binary.AppendUvarint(b, uint64(len(entries)))
		for _, e := range entries {
			b = binary.LittleEndian.AppendUint64(b, uint64(e.offset))
			b = binary.LittleEndian.AppendUint64(b, uint64(e.time))
			b = binary.AppendUvarint(b, uint64(e.mark))
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Update(salt, castagnoli, b))
}

// decodeIndex reads the index file of s and returns the offsets of each partition in s.
func decodeIndex(s *segment, b []byte, salt uint32) (map[stream.Partition]span, error) {
	bad := fmt.Errorf("index of segment %d: %w", s.first, errFormat)
	if len(b) < len(indexMagic)+4 || string(b[:len(indexMagic)]) != indexMagic {
		return nil, bad
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if sum != crc32.Update(salt, castagnoli, body) {
		return nil, bad
	}
	r := reader{b: body[len(indexMagic):]}
	first, last, end := r.uint64(), r.uint64(), int64(r.uint64())
	sealed := time.UnixMicro(int64(r.uint64()))
	if first != s.first || end > s.size || end < 0 {
		return nil, bad
	}
	x := newIndex()
	x.marks = make([]int64, r.count())
	for i := range x.marks {
		x.marks[i] = int64(r.uvarint())
	}
	spans := map[stream.Partition]span{}
	for range r.count() {
		p := stream.Partition{Topic: string(r.bytes()), Index: int32(r.uvarint())}
		next := stream.Offset(r.uint64())
		entries := make([]indexEntry, r.count())
		for i := range entries {
			entries[i] = indexEntry{offset: stream.Offset(r.uint64()), time: int64(r.uint64()), mark: int(r.uvarint())}
			if m := entries[i].mark; m < 0 || m >= len(x.marks) {
				return nil, bad
			}
		}
		if len(entries) == 0 || r.bad {
			return nil, bad
		}
		x.parts[p] = entries
		spans[p] = span{s, entries[0].offset, next}
	}
	if r.bad || len(r.b) > 0 {
		return nil, bad
	}
	s.last, s.end, s.sealed, s.index, s.saved = last, end, sealed, x, true
	return spans, nil
}

// count reads the number of elements, each of at least one byte.
func (r *reader) count() int {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return 0
	}
	return int(n)
}

// saveIndexes writes the missing index files of sealed segments. If a write fails, the next Open
// rebuilds the index.
func (k *keeper) saveIndexes() {
	type file struct {
		segment *segment
		bytes   []byte
	}
	var files []file
	k.mu.Lock()
	for _, s := range k.segments[:len(k.segments)-1] {
		if !s.saved && s.index != nil {
			files = append(files, file{s, encodeIndex(s, k.spansIn(s), k.meta.salt)})
		}
	}
	k.mu.Unlock()
	for _, f := range files {
		if err := writeFile(k.opts.fs, k.path("idx", f.segment.indexName()), f.bytes); err != nil {
			k.opts.Logger.Warn("index of a segment not written; the next open rebuilds it", "segment", f.segment.path, "error", err)
			continue
		}
		k.mu.Lock()
		f.segment.saved = true
		k.indexes.use(f.segment)
		k.mu.Unlock()
	}
}

// spansIn returns the offsets of all partitions in s. The caller must hold mu.
func (k *keeper) spansIn(s *segment) map[stream.Partition]span {
	spans := map[stream.Partition]span{}
	for _, t := range k.topics {
		for _, p := range t.parts {
			i := sort.Search(len(p.spans), func(i int) bool { return p.spans[i].segment.first >= s.first })
			if i < len(p.spans) && p.spans[i].segment == s {
				spans[p.Partition] = p.spans[i]
			}
		}
	}
	return spans
}

// indexes holds the sealed segments with an index in memory, least recently used first. Log.mu
// guards it.
type indexes []*segment

// indexesMost is the most sealed segments that keep their index in memory.
const indexesMost = 16

// use records a use of the index of a sealed segment. It evicts the least recently used index,
// which is also on disk.
func (x *indexes) use(s *segment) {
	*x = append(slices.DeleteFunc(*x, func(other *segment) bool { return other == s }), s)
	if list := *x; len(list) > indexesMost {
		list[0].index = nil
		*x = slices.Delete(list, 0, 1)
	}
}

// loadIndex returns the index of a sealed segment from its file. If the file is bad, it rebuilds
// the index from the frames.
func (c *cursor) loadIndex(s *segment) (*index, error) {
	c.log.mu.Lock()
	copied := *s
	c.log.mu.Unlock()
	if copied.index != nil {
		return copied.index, nil
	}
	b, err := vfs.ReadFile(c.log.opts.fs, c.log.path("idx", s.indexName()))
	if err == nil {
		_, err = decodeIndex(&copied, b, c.log.meta.salt)
	}
	if err != nil {
		if copied.index, err = c.rebuildIndex(s); err != nil {
			return nil, err
		}
	}
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	s.index = copied.index
	c.log.indexes.use(s)
	return s.index, nil
}

// rebuildIndex builds the index of a sealed segment from its frames.
func (c *cursor) rebuildIndex(s *segment) (*index, error) {
	b, err := vfs.ReadFile(c.log.opts.fs, s.path)
	if err != nil {
		return nil, err
	}
	x := newIndex()
	seq, pos := s.first, int64(0)
	for pos < s.end {
		f, n, err := c.log.parse(b[pos:s.end], seq)
		if err != nil {
			return nil, c.log.damage(s.path, pos, seq, err.Error())
		}
		x.frame(pos)
		for i := range f.body {
			if f.body[i].hasRecords() {
				v, err := parseRecords(&f.body[i])
				if err != nil {
					return nil, c.log.damage(s.path, pos, seq, err.Error())
				}
				x.note(v.partition(), &v)
			}
		}
		seq++
		pos += int64(n)
	}
	return x, nil
}

func (v *records) partition() stream.Partition {
	return stream.Partition{Topic: string(v.topic), Index: v.index}
}
