package hub

import (
	"hash/maphash"

	"github.com/afterbay/afterbay/stream"
)

// index holds the newest records of a partition by the hash of their key. It stores them in blocks,
// and drops the oldest block when there are too many. Different keys can have the same hash, so
// readers must compare the key of each record.
type index struct {
	start  stream.Offset // the blocks contain all records from this offset on
	blocks []*block      // at most blocksMost+1, so that blocksMost are full
	each   int           // records in a block
}

// block is part of an index. Only the reader of the partition writes it, and only after the part
// that a view covers.
type block struct {
	hashes  []uint32
	offsets []stream.Offset
}

// blocksMost is the number of blocks that an index is divided into.
const blocksMost = 64

var seed = maphash.MakeSeed()

func hash(key []byte) uint32 { return uint32(maphash.Bytes(seed, key)) }

func newIndex(start stream.Offset, records int) index {
	return index{start: start, each: (records + blocksMost - 1) / blocksMost}
}

func (x *index) add(hash uint32, offset stream.Offset) {
	n := len(x.blocks)
	if n == 0 || len(x.blocks[n-1].hashes) == x.each {
		if n > blocksMost {
			x.blocks[0] = nil
			x.blocks = x.blocks[1:]
			x.start = x.blocks[0].offsets[0]
		}
		x.blocks = append(x.blocks, &block{make([]uint32, 0, x.each), make([]stream.Offset, 0, x.each)})
	}
	b := x.blocks[len(x.blocks)-1]
	b.hashes, b.offsets = append(b.hashes, hash), append(b.offsets, offset)
}

// view returns a snapshot of the index, which callers may read while the index grows.
func (x *index) view() []block {
	blocks := make([]block, len(x.blocks))
	for i, b := range x.blocks {
		blocks[i] = *b
	}
	return blocks
}

// find returns up to limit offsets of records with this hash, from offset from on.
func find(view []block, hash uint32, from stream.Offset, limit int) []stream.Offset {
	var found []stream.Offset
	for _, b := range view {
		if b.offsets[len(b.offsets)-1] < from {
			continue
		}
		for i, h := range b.hashes {
			if h != hash || b.offsets[i] < from {
				continue
			}
			if found = append(found, b.offsets[i]); len(found) == limit {
				return found
			}
		}
	}
	return found
}
