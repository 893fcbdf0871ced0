package dedupe

import (
	"encoding/binary"
	"math/bits"
)

// chains finds entries by hash. All entries of a chain have the same low bits of the hash. The
// newest is first, and each links to the next older one.
//
//  1. Links are numbers modulo 2^32. Entries leave in order of their numbers. So
//     the first link to an entry that is not live ends the chain, and removal
//     takes no work. Numbers repeat after 2^32 entries. Before that, a link is
//     always replaced by a permanently dead one: the link of an entry by dead
//     when it is linked, the link of a chain by the sweep. The sweep passes one
//     chain per entry.
//  2. There are as many chains as there ever were live entries. Linear hashing
//     (W. Litwin, VLDB 1980) adds one chain at a time: chain n takes its entries
//     from chain n less its highest bit. So no event waits for a table rebuild.
type chains struct {
	pages []*[chainPageLen]uint32
	n     uint64
	swept uint64 // chain that the sweep passes next
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

// live reports whether the entry of a link is live.
func (s *Set) live(link uint32) bool { return uint64(uint32(s.next)-link-1) < s.next-s.first }

// dead returns a link that stays dead as long as the set may hold the entry with the link.
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

// link adds e, the entry with the next number, to the front of its chain.
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

// split adds a chain if there are more entries than chains, and sweeps one.
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
