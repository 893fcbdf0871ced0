package state

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"
	"unsafe"
)

// Flags of a cell.
const (
	live   uint8 = 1 << iota // the cell is in use
	dirty                    // changed since it was handed to Pebble
	handed                   // in a batch that Pebble may not have applied
	recent                   // used since the last pass of the clock
)

// cell holds one key and the location of its bytes. It has no pointers, so the garbage collector
// never scans cells or slabs.
type cell struct {
	hash     uint32
	keyLen   uint32
	valueLen int32 // -1 for a deletion
	chunk    uint32
	slot     uint32 // in a free cell: id + 1 of the next free cell
	class    uint8
	flags    uint8
}

// cellBytes is the memory of a cell without its bytes: the cell and its share of the index, if the
// index is half full.
const cellBytes = 24 + 8

// page is a block of cells. Cells are allocated in pages, so that growth does not copy them.
type page [1 << 12]cell

// table finds cells by key with open addressing and linear probing over ids.
type table struct {
	seed  maphash.Seed
	index []uint32 // cell id + 1; 0 is empty; length is a power of two
	pages []*page  // of cells
	made  uint32   // number of cells, used or free
	mover uint32   // cell at which compact continues
	free  uint32   // id + 1 of the first free cell
	count int
	slab  slab

	warmed byte // keeps the reads of warm alive
}

func newTable() table {
	return table{seed: maphash.MakeSeed(), index: make([]uint32, 16), slab: newSlab()}
}

func (t *table) cell(id uint32) *cell {
	return &t.pages[id/uint32(len(page{}))][id%uint32(len(page{}))]
}

func (t *table) find(hash uint64, key []byte) (id uint32, found bool) {
	mask := uint32(len(t.index) - 1)
	for i := uint32(hash) & mask; t.index[i] != 0; i = (i + 1) & mask {
		id := t.index[i] - 1
		if t.cell(id).hash == uint32(hash) && bytes.Equal(t.key(id), key) {
			return id, true
		}
	}
	return 0, false
}

// warm reads the memory that find and set will read for at most aheadMost changes. The reads within
// a loop are independent, so they run in parallel. The reads of a single search depend on each
// other.
func (t *table) warm(changes []change) {
	var ids [aheadMost]uint32
	mask := uint32(len(t.index) - 1)
	for i := range changes {
		ids[i] = t.index[uint32(changes[i].hash)&mask]
	}
	for i := range changes {
		if id := ids[i]; id > 0 && t.cell(id-1).class == noClass {
			ids[i] = 0
		}
	}
	sum := byte(0)
	for i := range changes {
		if id := ids[i]; id > 0 {
			data := t.slab.at(t.cell(id - 1))
			sum += data[0] + data[len(data)-1]
		}
	}
	t.warmed = sum
}

// insert creates a cell for a new key, as a deletion without bytes.
func (t *table) insert(hash uint64, key []byte) uint32 {
	if t.count >= len(t.index)/4*3 {
		t.grow()
	}
	id := t.free
	if id > 0 {
		id--
		t.free = t.cell(id).slot
	} else {
		id = t.made
		if t.made++; id%uint32(len(page{})) == 0 {
			memory := t.slab.arena.take(int(unsafe.Sizeof(page{})))
			t.pages = append(t.pages, (*page)(unsafe.Pointer(unsafe.SliceData(memory))))
		}
	}
	*t.cell(id) = cell{hash: uint32(hash), class: noClass, valueLen: -1, flags: live}
	t.place(id)
	t.count++
	return id
}

func (t *table) place(id uint32) {
	mask := uint32(len(t.index) - 1)
	i := t.cell(id).hash & mask
	for t.index[i] != 0 {
		i = (i + 1) & mask
	}
	t.index[i] = id + 1
}

func (t *table) grow() {
	arena, old := t.slab.arena, t.index
	memory := arena.take(2 * 4 * len(old))
	t.index = unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(memory))), 2*len(old))
	for id := range t.made {
		if t.cell(id).flags&live != 0 {
			t.place(id)
		}
	}
	arena.give(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(old))), 4*len(old)))
}

func (t *table) key(id uint32) []byte {
	c := t.cell(id)
	return t.slab.at(c)[:c.keyLen]
}

// value returns the value in place, without a copy; nil for a deletion.
func (t *table) value(id uint32) []byte {
	c := t.cell(id)
	if c.valueLen < 0 {
		return nil
	}
	return t.slab.at(c)[c.keyLen : c.keyLen+uint32(c.valueLen)]
}

// set writes key and value into a cell and returns the growth of memory in bytes. A nil value is a
// deletion. The slices must not alias the slab.
func (t *table) set(id uint32, key, value []byte) (grown int64) {
	c := t.cell(id)
	if c.class == noClass {
		grown = cellBytes
	} else {
		grown = -int64(t.slab.size(c))
	}
	if c.class == noClass || !t.slab.fits(c, len(key)+len(value)) {
		if c.class != noClass {
			t.slab.release(c)
		}
		t.slab.take(c, len(key)+len(value))
	}
	c.keyLen, c.valueLen = uint32(len(key)), -1
	data := t.slab.at(c)
	copy(data, key)
	if value != nil {
		c.valueLen = int32(len(value))
		copy(data[len(key):], value)
	}
	return grown + int64(t.slab.size(c))
}

// compact checks a few cells and moves those that prevent the release of memory.
func (t *table) compact() {
	for range 8 {
		if t.mover++; t.mover >= t.made {
			t.mover = 0
		}
		if c := t.cell(t.mover); c.flags&live != 0 && c.class != noClass {
			t.slab.move(c, int(c.keyLen)+int(max(c.valueLen, 0)))
		}
	}
}

// remove frees a cell and returns the freed bytes. It moves up the following index entries, so that
// no search stops at a gap.
func (t *table) remove(id uint32) int64 {
	mask := uint32(len(t.index) - 1)
	i := t.cell(id).hash & mask
	for t.index[i] != id+1 {
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; t.index[j] != 0; j = (j + 1) & mask {
		home := t.cell(t.index[j]-1).hash & mask
		if (j-home)&mask >= (j-i)&mask {
			t.index[i] = t.index[j]
			i = j
		}
	}
	t.index[i] = 0
	c := t.cell(id)
	bytes := int64(cellBytes + t.slab.size(c))
	t.slab.release(c)
	*c = cell{slot: t.free}
	t.free = id + 1
	t.count--
	return bytes
}

// raise sets a to v if v is greater.
func raise(a *atomic.Uint64, v uint64) {
	for old := a.Load(); v > old && !a.CompareAndSwap(old, v); old = a.Load() {
	}
}
