package dedupe

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// maxBlock limits the number of a block: 2^56 entries.
const maxBlock = 1 << 50

// Changes calls fn for every state write since the last Changes or the loading. First come deletes,
// with a nil value, then blocks of up to 64 entries of 24 bytes, both in key order. For a few new
// ids that is one write of at most 1.5 KB. A key is the block number, 8 bytes big-endian. The
// slices are valid only during the call. The sum of all writes depends only on the events, not on
// when Changes was called.
func (s *Set) Changes(fn func(key, value []byte)) {
	kept := s.kept()
	for n := s.savedFrom; n < min(kept, s.savedNext); n += blockLen {
		s.scratch = binary.BigEndian.AppendUint64(s.scratch[:0], n/blockLen)
		fn(s.scratch, nil)
	}
	from := max(kept, s.savedNext/blockLen*blockLen)
	if s.next == s.savedNext {
		from = s.next
	}
	for n := from; n < s.next; n += blockLen {
		s.scratch = binary.BigEndian.AppendUint64(s.scratch[:0], n/blockLen)
		for k := n; k < min(n+blockLen, s.next); k++ {
			s.scratch = append(s.scratch, s.at(k).stored[:]...)
		}
		fn(s.scratch[:8:8], s.scratch[8:])
	}
	s.savedFrom, s.savedNext = kept, s.next
}

// Add loads a state entry that Changes wrote. Load the whole state into a new Set in key order,
// before the first Seen. The spec may differ from that of the Set that wrote it. Add returns an
// error for an entry that Changes cannot have written; the Set is then unusable.
func (s *Set) Add(key, value []byte) error {
	if len(key) != 8 {
		return fmt.Errorf("load ids: corrupt state: a key of %d bytes", len(key))
	}
	block := binary.BigEndian.Uint64(key)
	if err := s.add(block, value); err != nil {
		return fmt.Errorf("load ids: corrupt state: block %d: %w", block, err)
	}
	return nil
}

func (s *Set) add(block uint64, value []byte) error {
	empty := s.savedNext == s.savedFrom
	switch {
	case block >= maxBlock:
		return errors.New("the number is out of range")
	case len(value) == 0 || len(value)%entrySize != 0 || len(value) > blockLen*entrySize:
		return fmt.Errorf("%d bytes are not 1 to 64 entries of 24", len(value))
	case s.next != s.savedNext:
		return errors.New("ids were remembered before")
	case !empty && block*blockLen != s.next:
		return fmt.Errorf("it follows entry %d", s.next)
	case empty:
		first := block * blockLen
		s.savedFrom, s.first, s.next, s.base = first, first, first, first/pageLen*pageLen
		s.pages = []*page{new(page)}
	}
	for ; len(value) > 0; value = value[entrySize:] {
		s.remember((*[entrySize]byte)(value))
	}
	s.savedNext = s.next
	return nil
}
