package embedded

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/afterbay/afterbay/stream"
)

// partition holds the positions of a partition's records. Log.mu guards it.
type partition struct {
	stream.Partition
	next    stream.Offset // offset of the next record
	base    stream.Offset // records before it were deleted with their topic
	deleted bool          // the topic is deleted; only the writer changes it, under mu
	spans   []span        // positions of the records on disk, in order
	blocks  []block       // the newest records, in the ring, in order
	early   []block       // inputs of the frame in flight that members may read
	readers []*cursor

	// Only the writer uses these, for the frame being built.
	built           stream.Offset // offset for the next record
	inputs, outputs []*piece
}

// span is the range of offsets of a partition in one segment.
type span struct {
	segment     *segment
	first, next stream.Offset
}

// block is the records of a partition in one section of a frame.
type block struct {
	seq    uint64
	first  stream.Offset
	count  int
	body   []byte
	packed bool // encoded by appendResult
}

// blockBytes is the memory of a block in the ring without its records, including its share of the
// frame's data.
const blockBytes = 128

// records returns a reader of the block's records.
func (b *block) records() recordReader {
	return recordReader{reader: reader{b: b.body}, packed: b.packed, left: b.count}
}

func (b *block) next() stream.Offset { return b.first + stream.Offset(b.count) }

// first returns the first retained offset.
func (p *partition) first() stream.Offset {
	if len(p.spans) == 0 {
		return p.next
	}
	return max(p.spans[0].first, p.base)
}

// note adds the records of a frame in s.
func (p *partition) note(s *segment, v *records) {
	next := v.first + stream.Offset(v.count)
	if n := len(p.spans); n > 0 && p.spans[n-1].segment == s {
		p.spans[n-1].next = next
		return
	}
	p.spans = append(p.spans, span{s, v.first, next})
}

// span returns the span that contains offset, or nil.
func (p *partition) span(offset stream.Offset) *span {
	i := sort.Search(len(p.spans), func(i int) bool { return p.spans[i].next > offset })
	if i == len(p.spans) || p.spans[i].first > offset {
		return nil
	}
	return &p.spans[i]
}

// hot returns the blocks in memory from offset on. If offset was written, they are from the ring,
// or nil if it is no longer there. Otherwise they are blocks that may be read early.
func (p *partition) hot(offset stream.Offset) []block {
	if offset >= p.next {
		return blocksFrom(p.early, offset)
	}
	return blocksFrom(p.blocks, offset)
}

// blocksFrom returns the blocks from the one with offset on, or nil if no block has it.
func blocksFrom(blocks []block, offset stream.Offset) []block {
	i := sort.Search(len(blocks), func(i int) bool { return blocks[i].next() > offset })
	if i == len(blocks) || blocks[i].first > offset {
		return nil
	}
	return blocks[i:]
}

// end returns the offset after the last record that a member may read.
func (p *partition) end(early bool) stream.Offset {
	if n := len(p.early); early && n > 0 {
		return max(p.next, p.early[n-1].next())
	}
	return p.next
}

func comparePartitions(a, b stream.Partition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
}

// ring holds the records of the newest frames, up to a number of bytes.
type ring struct {
	frames []ringFrame // oldest first
	bytes  int64
}

type ringFrame struct {
	seq   uint64
	bytes int64
	parts []*partition
}

// add adds a frame and drops the oldest frames beyond limit. The partitions must already have the
// frame's blocks.
func (r *ring) add(f ringFrame, limit int64) {
	r.frames = append(r.frames, f)
	r.bytes += f.bytes
	for r.bytes > limit {
		oldest := r.frames[0]
		r.frames[0] = ringFrame{}
		r.frames = r.frames[1:]
		r.bytes -= oldest.bytes
		for _, p := range oldest.parts {
			n := 0
			for n < len(p.blocks) && p.blocks[n].seq <= oldest.seq {
				n++
			}
			clear(p.blocks[:n])
			p.blocks = p.blocks[n:]
		}
	}
}

// removeReader removes c from the readers of its partition.
func (p *partition) removeReader(c *cursor) {
	p.readers = slices.DeleteFunc(p.readers, func(other *cursor) bool { return other == c })
}
