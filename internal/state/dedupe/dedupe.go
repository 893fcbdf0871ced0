// Package dedupe remembers the ids of the newest events of a partition and detects duplicates. It
// is pure, without a clock or I/O: its answers and stored data depend only on the events and their
// order.
package dedupe

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Spec limits the ids that a Set remembers.
type Spec struct {
	Window time.Duration // of event time: 1 s to 366 days in whole microseconds
	Max    int           // ids: 1 to 40,000,000, 32 bytes of memory each
}

const (
	minWindow = time.Second
	maxWindow = 366 * 24 * time.Hour
	maxIDs    = 40_000_000
	idBytes   = 32
)

// Validate returns the error in the spec, or nil. For too many ids the error has the required
// memory and the corresponding event rate.
func (s Spec) Validate() error {
	switch {
	case s.Window < minWindow || s.Window > maxWindow:
		return fmt.Errorf("window is %v: use 1s to 366 days", s.Window)
	case s.Window%time.Microsecond != 0:
		return fmt.Errorf("window is %v: event time has microseconds, so use whole ones", s.Window)
	case s.Max < 1:
		return fmt.Errorf("max is %d: use 1 to 40,000,000 ids", s.Max)
	case s.Max > maxIDs:
		ids := float64(s.Max)
		return fmt.Errorf("max is %d ids, which %.0f events a second reach in %v: with %d bytes each, %.1f GB of memory in a partition; use at most 40,000,000 (1.3 GB), and a window that fits",
			s.Max, math.Ceil(ids/s.Window.Seconds()), s.Window, idBytes, ids*idBytes/1e9)
	}
	return nil
}

// Set holds the remembered ids of one partition. It is not safe for concurrent use.
//
//  1. Remembered ids are numbered from 0 in order of arrival. An entry is the
//     first 16 bytes of the id's SHA-256 and the event's time. With 128 bits a
//     collision does not happen in practice: among 10^12 ids its probability is
//     below 10^-14.
//  2. The entries [first, next) are live. The first entry leaves if there are
//     more than the spec's Max, or if it is outside the window. An entry outside
//     the window behind one inside it stays, but makes no event a duplicate.
//  3. Entries are in pages, which are allocated and freed as a whole. So growth
//     never copies entries. A table of chains finds entries by hash: see chains.
//  4. The state has the entries in whole blocks of 64 by number, from the block
//     of the first live entry to that of the newest one. If no entry is live, the
//     newest block stays and preserves the numbers. After loading, the first block
//     may have entries that were not live. They leave at the first event by the
//     rules of 2. So neither restarts nor the times of writes affect results.
type Set struct {
	window      int64 // in microseconds
	max         uint64
	first, next uint64 // the live entries

	pages []*page // a ring: number n is in pages[n/pageLen % len(pages)]
	base  uint64  // number of the first entry in the pages, a multiple of pageLen
	spare *page

	chains chains

	savedFrom, savedNext uint64 // the state has the blocks of the entries [savedFrom, savedNext)
	scratch              []byte
}

const (
	blockLen  = 64    // entries per state entry
	pageLen   = 1_024 // entries per page, a multiple of blockLen
	hashBytes = 16
	entrySize = hashBytes + 8
)

// entry is an id. stored is its hash and its big-endian time. older is the number, modulo 2^32, of
// the next older entry of its chain.
type entry struct {
	stored [entrySize]byte
	older  uint32
}

type page [pageLen]entry

func (e *entry) time() int64 { return int64(binary.BigEndian.Uint64(e.stored[hashBytes:])) }

// New returns an empty Set. The spec must pass Validate.
func New(spec Spec) *Set {
	return &Set{window: spec.Window.Microseconds(), max: uint64(spec.Max)}
}

// Len returns the number of remembered ids. Right after loading it may include up to 63 ids outside
// the window.
func (s *Set) Len() int { return int(s.next - s.first) }

// Seen reports whether an event with this id is a duplicate: whether the id is among the newest Max
// remembered ids, with a time after newest minus the window. If it is not, Seen remembers the id,
// unless t is at or before that limit. t is the event's time. newest is the greatest event time of
// the partition so far, including t, and never decreases. Both are in microseconds.
func (s *Set) Seen(id string, t, newest int64) bool {
	edge := max(newest, math.MinInt64+s.window) - s.window
	for s.first < s.next && s.at(s.first).time() <= edge {
		s.first++
	}
	s.release()
	s.scratch = append(s.scratch[:0], id...)
	sum := sha256.Sum256(s.scratch)
	hash := [hashBytes]byte(sum[:hashBytes])
	if s.find(&hash, edge) {
		return true
	}
	if t > edge {
		var stored [entrySize]byte
		copy(stored[:], hash[:])
		binary.BigEndian.PutUint64(stored[hashBytes:], uint64(t))
		s.remember(&stored)
	}
	return false
}

// at returns the entry of a number. The low 32 bits of the number are sufficient.
func (s *Set) at(n uint64) *entry {
	return &s.pages[n/pageLen&uint64(len(s.pages)-1)][n%pageLen]
}

// remember appends an entry and removes the first one if there are too many.
func (s *Set) remember(stored *[entrySize]byte) {
	if s.next%pageLen == 0 {
		s.turn()
	}
	if s.next-s.first == s.max {
		s.first++
	}
	e := s.at(s.next)
	e.stored = *stored
	s.link(e)
	s.next++
	s.split()
}

// kept returns the number of the first entry of the first block that the state must have.
func (s *Set) kept() uint64 {
	if s.first == s.next && s.next > 0 {
		return (s.next - 1) / blockLen * blockLen
	}
	return s.first / blockLen * blockLen
}

// turn adds a page.
func (s *Set) turn() {
	if used := (s.next - s.base) / pageLen; used == uint64(len(s.pages)) {
		pages := make([]*page, max(1, 2*used))
		for n := s.base; n < s.next; n += pageLen {
			pages[n/pageLen&uint64(len(pages)-1)] = s.pages[n/pageLen&uint64(used-1)]
		}
		s.pages = pages
	}
	if s.spare == nil {
		s.spare = new(page)
	}
	s.pages[s.next/pageLen&uint64(len(s.pages)-1)], s.spare = s.spare, nil
}

// release frees pages before the kept entries, except for one spare.
func (s *Set) release() {
	for kept := s.kept(); s.base+pageLen <= kept; s.base += pageLen {
		place := &s.pages[s.base/pageLen&uint64(len(s.pages)-1)]
		s.spare, *place = *place, nil
	}
}
