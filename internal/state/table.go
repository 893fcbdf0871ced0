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
	recent                   // used since the clock's hand came by
)

// cell is one key and where its bytes are. It holds no pointer, so that the
// garbage collector never looks at cells or slabs.
type cell struct {
	hash     uint32
	keyLen   uint32
	valueLen int32 // -1 is a deletion
	chunk    uint32
	slot     uint32 // also the next free cell's id + 1, where the cell is free
	class    uint8
	flags    uint8
}

// cellBytes is what a cell costs beside its bytes: itself and its share of the
// index, at half of the load.
const cellBytes = 24 + 8

// page is cells that lie together. Cells come by pages, so that they need not be
// copied when there are more.
type page [1 << 12]cell

// table finds cells by key: open addressing with linear probing over ids.
type table struct {
	seed  maphash.Seed
	index []uint32 // cell id + 1; 0 is empty; length is a power of two
	pages []*page  // of cells
	made  uint32   // cells, in use or free
	mover uint32   // the cell at which compact goes on
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

// warm reads what find and set are to read for at most aheadMost changes. Each
// loop's reads do not wait for each other, as those of one search do.
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

// insert makes a cell for key, which has none, as a deletion without bytes.
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

// value returns the bytes of the value in place, nil for a deletion.
func (t *table) value(id uint32) []byte {
	c := t.cell(id)
	if c.valueLen < 0 {
		return nil
	}
	return t.slab.at(c)[c.keyLen : c.keyLen+uint32(c.valueLen)]
}

// set writes key and value, nil for a deletion, into a cell and returns by how
// many bytes memory grew. The slices must not alias the slab.
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

// compact looks at a few cells and moves those that hold back memory.
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

// remove frees a cell and returns how many bytes that gave back. The entries
// behind it in the index move up, so that a search never meets a gap.
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

// raise sets a to v where v is greater.
func raise(a *atomic.Uint64, v uint64) {
	for old := a.Load(); v > old && !a.CompareAndSwap(old, v); old = a.Load() {
	}
}
