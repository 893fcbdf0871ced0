package state

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// located is where a pending cell stands in the order of keys, as far as the first
// bytes of its key tell.
type located struct {
	first, second uint64
	id            uint32
}

// orderCells are put in order at once.
const orderCells = 1 << 16

// order sorts the pending cells by the beginning of their keys: Pebble finds the
// place of a key that follows the one before it much sooner than that of any.
// Only the checkpoint under way changes pending, so that the mutex need not be
// held for as long as sorting takes.
func (s *Space) order() {
	places := make([]located, min(len(s.pending), orderCells))
	for pending := range slices.Chunk(s.pending[s.taken:], orderCells) {
		places = places[:len(pending)]
		for from := 0; from < len(places); from += chunkCells {
			s.locate(places[from:min(len(places), from+chunkCells)], pending[from:])
		}
		slices.SortFunc(places, func(a, b located) int {
			return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.second, b.second))
		})
		s.mu.Lock()
		for i := range places {
			pending[i] = places[i].id
		}
		s.mu.Unlock()
	}
}

// locate reads the beginnings of the keys of cells.
func (s *Space) locate(places []located, ids []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range places {
		var begin [16]byte
		copy(begin[:], s.table.key(ids[i]))
		places[i] = located{binary.BigEndian.Uint64(begin[:8]), binary.BigEndian.Uint64(begin[8:]), ids[i]}
	}
}
