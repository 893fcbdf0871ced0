// Package dedupe remembers the ids of one partition's newest events, to tell
// those that come again. It is pure: no clock and no I/O; what it answers and
// what it has to store are functions of the events in their order.
package dedupe

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Spec bounds what a Set remembers.
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

// Validate returns what is wrong with the spec. Of too many ids it says the
// memory that they need and the rate of events that they stand for.
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
		return fmt.Errorf("max is %d ids, which %.0f events a second bring in %v: x %d bytes = %.1f GB of memory a partition; use at most 40,000,000 (1.3 GB) and a window to match",
			s.Max, math.Ceil(ids/s.Window.Seconds()), s.Window, idBytes, ids*idBytes/1e9)
	}
	return nil
}

// Set is the ids that one partition remembers. It has one user at a time.
//
//  1. Remembered ids are numbered from 0 in order of arrival. An entry is the
//     first 16 bytes of the id's SHA-256 and the event's time. With 128 bits a
//     collision never happens in practice: among 10^12 ids the chance of one is
//     below 10^-14.
//  2. The entries [first, next) are live. An entry leaves at the front: when
//     there are more than the spec's Max, or when it is out of the window. One
//     out of the window behind one that is in it stays, but makes no event a
//     duplicate.
//  3. Entries are in pages, which are taken and given back whole, so nothing is
//     ever copied to grow. A table of chains, as many as there were ever live
//     entries, finds them by hash; see chains.
//  4. The state has the entries in blocks of 64 by number, each whole, from the
//     block of the first live entry to that of the newest one, which stays when
//     nothing is live and keeps the numbers going. Entries of the first block
//     that are not live any more leave again at the first event after loading,
//     by the rules of 2. So neither a restart nor the moments of writing show.
type Set struct {
	window      int64 // microseconds
	max         uint64
	first, next uint64 // the live entries

	pages []*page // a ring: number n is in pages[n/pageLen % len(pages)]
	base  uint64  // number of the first entry in the pages, a multiple of pageLen
	spare *page

	chains chains

	savedFrom, savedNext uint64 // the state has the blocks of entries [savedFrom, savedNext)
	scratch              []byte
}

const (
	blockLen  = 64    // entries of an entry of the state
	pageLen   = 1_024 // entries, a multiple of blockLen
	hashBytes = 16
	entrySize = hashBytes + 8
)

// entry is an id as it is stored, its hash and big-endian time, and the number
// modulo 2^32 of the next older entry of its chain.
type entry struct {
	stored [entrySize]byte
	older  uint32
}

type page [pageLen]entry

func (e *entry) time() int64 { return int64(binary.BigEndian.Uint64(e.stored[hashBytes:])) }

// New returns an empty Set for a spec that Validate takes.
func New(spec Spec) *Set {
	return &Set{window: spec.Window.Microseconds(), max: uint64(spec.Max)}
}

// Len returns how many ids are remembered. Just after loading it may count up
// to 63 that are out of the window.
func (s *Set) Len() int { return int(s.next - s.first) }

// Seen reports whether an event of this id is a duplicate: whether one of the
// newest Max ids remembered is the same and its time is after newest less the
// window. Where it is none it is remembered, unless its own time is not after
// that. t is the event's time and newest the greatest of the partition so far,
// t among them, which never decreases; both in microseconds.
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

// at returns the entry of a number, of which the low 32 bits are enough.
func (s *Set) at(n uint64) *entry {
	return &s.pages[n/pageLen&uint64(len(s.pages)-1)][n%pageLen]
}

// remember appends an entry and forgets the first one where there are too many.
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

// kept returns the number of the first entry of the first block that the state
// is to have.
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

// release gives back the pages of which nothing is kept, but for one.
func (s *Set) release() {
	for kept := s.kept(); s.base+pageLen <= kept; s.base += pageLen {
		place := &s.pages[s.base/pageLen&uint64(len(s.pages)-1)]
		s.spare, *place = *place, nil
	}
}
