package state

import "math/bits"

// filter is a growing Bloom filter of hashes, 12 bits per hash. It never forgets a hash. It falsely
// reports one in a hundred of the other hashes. It grows in layers, each four times as large as the
// previous one.
type filter struct {
	layers [][]line
	room   int // free hashes in the last layer
}

// line is a cache line. All bits of a hash are in one line.
type line [8]uint64

const (
	filterLeast = 1 << 12 // hashes in the first layer
	hashBits    = 12      // bits per hash
	hashProbes  = 6
)

// place returns the line of a hash in a layer, and bits that select positions in it.
func place(layer []line, hash uint64) (b *line, at uint64) {
	i, _ := bits.Mul64(hash, uint64(len(layer)))
	return &layer[i], hash * 0x9e3779b97f4a7c15
}

// has reports whether hash may have been added.
func (f *filter) has(hash uint64) bool {
	for k := len(f.layers) - 1; k >= 0; k-- { // most hashes are in the last layers
		b, at := place(f.layers[k], hash)
		found := true
		for range hashProbes {
			found = found && b[at>>3&7]>>(at>>6&63)&1 != 0
			at >>= 9
		}
		if found {
			return true
		}
	}
	return false
}

// bytes returns the memory of all layers.
func (f *filter) bytes() (n int64) {
	for _, layer := range f.layers {
		n += int64(len(layer) * 64)
	}
	return n
}

// add adds a hash and returns the growth of memory in bytes.
func (f *filter) add(hash uint64) (grown int64) {
	if f.has(hash) {
		return 0
	}
	if f.room == 0 {
		f.room = filterLeast << (2 * len(f.layers))
		layer := make([]line, f.room*hashBits/512)
		f.layers = append(f.layers, layer)
		grown = int64(len(layer) * 64)
	}
	f.room--
	b, at := place(f.layers[len(f.layers)-1], hash)
	for range hashProbes {
		b[at>>3&7] |= 1 << (at >> 6 & 63)
		at >>= 9
	}
	return grown
}
