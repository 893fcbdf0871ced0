package state

import (
	"encoding/binary"
	"slices"
	"sort"
)

// slab stores bytes in slots of a few sizes, cut from chunks.
type slab struct {
	arena   *arena
	classes []class
	total   int // size of all chunks in bytes
	used    int // size of the used slots in bytes
}

// class holds the slots of one size.
type class struct {
	slot   int // size in bytes; 0 if each slot is a chunk of its own size
	chunks []chunk
	open   []uint32 // chunks with a free slot, and some that have no free slot any more
	empty  []uint32 // chunks without memory, for reuse
	total  int      // size of the chunks in bytes
}

// chunk is a run of slots. Slots from fresh on were never used. Released slots form a linked list
// through their first four bytes.
type chunk struct {
	data  []byte
	free  uint32 // first free slot + 1; 0 if the list is empty
	fresh uint32
	live  uint32
	open  bool // listed in class.open
	drain bool // slots are not reused; their content moves to other chunks
}

const (
	noClass      = 255
	chunkLeast   = 4 << 10
	chunkMost    = 256 << 10
	largestClass = 32 << 10
)

// slotSizes grow by about an eighth, so a slot wastes 6 % on average.
var slotSizes = func() []int {
	var sizes []int
	for size := 16; size <= largestClass; size += max(8, size/8&^7) {
		sizes = append(sizes, size)
	}
	return sizes
}()

func newSlab() slab {
	s := slab{arena: &arena{taken: map[*byte][]byte{}}, classes: make([]class, len(slotSizes)+1)}
	for i, size := range slotSizes {
		s.classes[i].slot = size
	}
	return s
}

// size returns the slot size of c in bytes.
func (s *slab) size(c *cell) int {
	if slot := s.classes[c.class].slot; slot > 0 {
		return slot
	}
	return len(s.classes[c.class].chunks[c.chunk].data)
}

// at returns the slot of c.
func (s *slab) at(c *cell) []byte {
	k := &s.classes[c.class]
	data := k.chunks[c.chunk].data
	if k.slot == 0 {
		return data
	}
	start := int(c.slot) * k.slot
	return data[start : start+k.slot]
}

// fits reports whether n bytes fit into the slot of c without wasting most of it.
func (s *slab) fits(c *cell, n int) bool {
	size := s.size(c)
	return n <= size && (n >= size/2 || size <= 64)
}

// take assigns c a slot of at least n bytes.
func (s *slab) take(c *cell, n int) {
	c.class = uint8(sort.SearchInts(slotSizes, n))
	k := &s.classes[c.class]
	before := k.total
	c.chunk = k.withRoom(n, s.arena)
	s.total += k.total - before
	s.used += s.size(c)
	ch := &k.chunks[c.chunk]
	ch.live++
	if ch.free > 0 {
		c.slot = ch.free - 1
		ch.free = binary.LittleEndian.Uint32(s.at(c))
		return
	}
	c.slot = ch.fresh
	ch.fresh++
}

// withRoom returns a chunk with a free slot for n bytes.
func (k *class) withRoom(n int, memory *arena) uint32 {
	for len(k.open) > 0 {
		i := k.open[len(k.open)-1]
		ch := &k.chunks[i]
		if ch.free > 0 || int(ch.fresh+1)*k.slot <= len(ch.data) && k.slot > 0 {
			return i
		}
		ch.open = false
		k.open = k.open[:len(k.open)-1]
	}
	size := n
	if k.slot > 0 {
		size = max(min(max(k.total, chunkLeast), chunkMost), k.slot)
		size -= size % k.slot
	}
	k.total += size
	i := uint32(len(k.chunks))
	if last := len(k.empty) - 1; last >= 0 {
		i, k.empty = k.empty[last], k.empty[:last]
		k.chunks[i] = chunk{data: memory.take(size)}
	} else {
		k.chunks = append(k.chunks, chunk{data: memory.take(size)})
	}
	if k.slot > 0 {
		k.list(i)
	}
	return i
}

// release frees the slot of c. With the last slot it also frees the chunk's memory.
func (s *slab) release(c *cell) {
	k := &s.classes[c.class]
	ch := &k.chunks[c.chunk]
	s.used -= s.size(c)
	ch.live--
	if ch.live == 0 {
		k.total -= len(ch.data)
		s.total -= len(ch.data)
		if ch.open {
			k.forget(c.chunk)
		}
		s.arena.give(ch.data)
		*ch = chunk{}
		k.empty = append(k.empty, c.chunk)
		return
	}
	if !ch.open && !ch.drain {
		k.list(c.chunk)
	}
	binary.LittleEndian.PutUint32(s.at(c), ch.free)
	ch.free = c.slot + 1
}

// list adds a chunk to those with free slots.
func (k *class) list(i uint32) {
	k.chunks[i].open = true
	k.open = append(k.open, i)
}

// forget removes a chunk from those with free slots.
func (k *class) forget(i uint32) {
	at := slices.Index(k.open, i)
	k.open[at] = k.open[len(k.open)-1]
	k.open = k.open[:len(k.open)-1]
}

// wasteful reports whether free slots take a quarter of the memory or more. This happens if most
// values outgrew their slots.
func (s *slab) wasteful() bool { return s.total-s.used > s.total/4+chunkMost }

// move gives c, with n bytes, another slot if a third of its chunk is free, so that the chunk's
// memory can be freed.
func (s *slab) move(c *cell, n int) {
	k := &s.classes[c.class]
	ch := &k.chunks[c.chunk]
	filling := int(ch.fresh+1)*k.slot <= len(ch.data)
	if k.slot == 0 || filling || !ch.drain && 3*int(ch.live)*k.slot > 2*len(ch.data) {
		return
	}
	if ch.drain = true; ch.open {
		ch.open = false
		k.forget(c.chunk)
	}
	old, data := *c, s.at(c)
	s.take(c, n)
	copy(s.at(c), data[:n])
	s.release(&old)
}
