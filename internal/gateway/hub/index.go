package hub

import (
	"hash/maphash"

	"github.com/afterbay/afterbay/stream"
)

// index knows the newest records of a partition by the hashes of their keys, in
// blocks, the oldest of which is dropped when there are too many. Two keys may
// have one hash: who reads a record looks at its key.
type index struct {
	start  stream.Offset // all records from here on are in blocks
	blocks []*block      // at most blocksMost+1, so that blocksMost are full
	each   int           // records of a block
}

// block is written by the reader of its partition alone, and only behind what
// its views cover.
type block struct {
	hashes  []uint32
	offsets []stream.Offset
}

// blocksMost divide the records of an index.
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

// view returns the index as it is now, to be read while it grows.
func (x *index) view() []block {
	blocks := make([]block, len(x.blocks))
	for i, b := range x.blocks {
		blocks[i] = *b
	}
	return blocks
}

// find returns the offsets, from one on and at most limit, of the records whose
// keys have this hash.
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
