package state

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// located is the sort position of a pending cell: the first 16 bytes of its key.
type located struct {
	first, second uint64
	id            uint32
}

// orderCells is how many cells are sorted at once.
const orderCells = 1 << 16

// order sorts the pending cells by the beginning of their keys, since Pebble inserts sorted keys
// much faster. It does not hold the mutex while it sorts. This is safe because only the running
// checkpoint changes pending.
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
