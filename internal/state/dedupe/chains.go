package dedupe

import (
	"encoding/binary"
	"math/bits"
)

// chains finds entries by hash. A chain has the entries of some low bits of the
// hash, the newest first, each linked to the next older one.
//
//  1. Links are numbers modulo 2^32. Entries leave in order of their numbers, so
//     the first link of a chain to an entry that is not live ends it, and
//     leaving takes no work. A number comes round after 2^32 entries: until
//     then a link is always made dead for good, that of an entry by dead when it
//     is linked, that of a chain by the sweep, which passes one at every entry.
//  2. There are as many chains as there ever were live entries. A chain is added
//     at a time, by linear hashing (W. Litwin, VLDB 1980): chain n takes its
//     entries from chain n less its highest bit. No event waits for a table
//     to be rebuilt.
type chains struct {
	pages []*[chainPageLen]uint32
	n     uint64
	swept uint64 // the chain that the sweep passes next
}

const chainPageLen = 1_024

func (c *chains) at(k uint64) *uint32 { return &c.pages[k/chainPageLen][k%chainPageLen] }

// of returns the chain of a hash.
func (c *chains) of(hash []byte) *uint32 {
	h, mask := binary.LittleEndian.Uint64(hash), uint64(1)<<bits.Len64(c.n)-1
	if k := h & mask; k < c.n {
		return c.at(k)
	}
	return c.at(h & (mask >> 1))
}

// live reports that the entry of a link is.
func (s *Set) live(link uint32) bool { return uint64(uint32(s.next)-link-1) < s.next-s.first }

// dead returns a link that is to no entry, for as long as the set may hold the
// entry that has it.
func (s *Set) dead() uint32 { return uint32(s.next) - 1<<31 }

// find reports whether a live entry has the hash and a time after edge.
func (s *Set) find(hash *[hashBytes]byte, edge int64) bool {
	if s.chains.n == 0 {
		return false
	}
	for link := *s.chains.of(hash[:]); s.live(link); {
		e := s.at(uint64(link))
		if [hashBytes]byte(e.stored[:hashBytes]) == *hash && e.time() > edge {
			return true
		}
		link = e.older
	}
	return false
}

// link makes e, which is to get the number next, the newest of its chain.
func (s *Set) link(e *entry) {
	if s.chains.n == 0 {
		s.chains.pages = append(s.chains.pages, new([chainPageLen]uint32))
		s.chains.n = 1
		*s.chains.at(0) = s.dead()
	}
	newest := s.chains.of(e.stored[:])
	e.older = *newest
	if !s.live(e.older) {
		e.older = s.dead()
	}
	*newest = uint32(s.next)
}

// split adds a chain where there are more entries than chains, and sweeps one.
func (s *Set) split() {
	c := &s.chains
	if s.next-s.first > c.n {
		if c.n%chainPageLen == 0 {
			c.pages = append(c.pages, new([chainPageLen]uint32))
		}
		bit := uint64(1) << (bits.Len64(c.n) - 1)
		low, high := c.at(c.n-bit), c.at(c.n)
		for link := *low; s.live(link); {
			e := s.at(uint64(link))
			if binary.LittleEndian.Uint64(e.stored[:])&bit == 0 {
				*low, low = link, &e.older
			} else {
				*high, high = link, &e.older
			}
			link = e.older
		}
		*low, *high = s.dead(), s.dead()
		c.n++
	}
	if c.swept++; c.swept >= c.n {
		c.swept = 0
	}
	if link := c.at(c.swept); !s.live(*link) {
		*link = s.dead()
	}
}
