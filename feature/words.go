package feature

import "slices"

// The words of a cell are one array without pointers, so that a key is in few
// cache lines and the garbage collector has nothing to follow:
//
//	| front: times, and an extent of every queue | queue | queue | ... |
//
//	elapsed: the time, or none
//	last:    an extent
//	panes:   an extent and the index of the newest pane, then where the queue lies
//
// A queue is items of a few words each. It has room for some; one that needs
// more moves those behind it. That of panes is linear: items come at the end and
// leave at the front. That of the newest values is linear until it is full, and
// a ring from then on.

// place is where the extent of a queue is, and what does not change of it.
type place struct {
	at       int  // of the extent, in the front
	stride   int  // words of an item
	least    int  // items that there is always room for
	most     int  // items, at most
	windowed bool // is of panes, not of the newest values
	based    bool // has more than few panes, so a base may lie behind its items
}

// size returns the words that room for so many items takes.
func (p *place) size(items int) int {
	if p.based && items > few {
		items++
	}
	return items * p.stride
}

// extent is where the items of a queue lie: from bit 33 on the first word of its
// room, from 22 the items it has room for, from 11 the first one, from 0 their
// number.
type extent uint64

const (
	itemBits  = 11
	itemMask  = 1<<itemBits - 1
	headShift = itemBits
	roomShift = 2 * itemBits
	fromShift = 3 * itemBits
)

func extentOf(from, room int) extent {
	return extent(from)<<fromShift | extent(room)<<roomShift
}

func (e extent) from() int  { return int(e >> fromShift) }
func (e extent) room() int  { return int(e>>roomShift) & itemMask }
func (e extent) head() int  { return int(e>>headShift) & itemMask }
func (e extent) count() int { return int(e) & itemMask }

// drop returns the extent without n items at the front.
func (e extent) drop(n int) extent {
	if n == e.count() {
		return extentOf(e.from(), e.room())
	}
	return e + extent(n)<<headShift - extent(n)
}

// live returns the words of the items of a linear queue, oldest first.
func (e extent) live(words []int64, stride int) []int64 {
	from := e.from() + e.head()*stride
	return words[from : from+e.count()*stride]
}

// spareWords is how many words an empty cell may keep.
const spareWords = 64

// plan lays out the words of a key without events.
func (s *Set) plan() {
	for _, p := range s.places {
		s.blank[p.at] = int64(extentOf(len(s.blank), p.least))
		s.blank = append(s.blank, make([]int64, p.size(p.least))...)
	}
}

// clear makes the words those of a key without events.
func (s *Set) clear(c *Cell) {
	if cap(c.words) < len(s.blank) || cap(c.words) > len(s.blank)+spareWords {
		c.words = slices.Grow([]int64(nil), len(s.blank))
	}
	c.words = append(c.words[:0], s.blank...)
}

// resize gives a queue, which is no ring, room for so many items, no fewer than
// it has. They come to the front of it.
func (s *Set) resize(c *Cell, p *place, items int) {
	words, e := c.words, extent(c.words[p.at])
	live := e.live(words, p.stride)
	end := e.from() + p.size(e.room())
	tail, more := words[end:], p.size(items)-p.size(e.room())
	total := len(words) + more
	if total > cap(words) || more < 0 && cap(words) > 2*total+spareWords {
		words = slices.Grow([]int64(nil), total)
		words = append(words, c.words[:e.from()]...)
	}
	words = words[:total]
	copy(words[e.from():], live)
	copy(words[end+more:], tail)
	c.words = words
	words[p.at] = int64(extentOf(e.from(), items) + extent(e.count()))
	for k := range s.places {
		if at := s.places[k].at; at > p.at {
			words[at] += int64(more) << fromShift
		}
	}
	p.forget(words)
}

// push appends an item, whose content is left over from others, to a queue that
// is no ring, and returns it.
func (s *Set) push(c *Cell, p *place) []int64 {
	e := extent(c.words[p.at])
	if e.head()+e.count() == e.room() {
		s.widen(c, p)
		e = extent(c.words[p.at])
	}
	c.words[p.at]++
	at := e.from() + (e.head()+e.count())*p.stride
	return c.words[at : at+p.stride]
}

// widen makes room for an item more: by moving the live ones to the front where
// at least a third is free, which costs each pushed item a bounded number of
// moves; else, or where the queue was once far longer, by half as many more.
func (s *Set) widen(c *Cell, p *place) {
	e := extent(c.words[p.at])
	count, room := e.count(), e.room()
	if e.head() == 0 || e.head() < count/2 || room > 8*count+2*few {
		room = min(count+max(1, count/2), p.most)
	}
	s.resize(c, p, room)
}

// reserve makes room for so many items of an empty queue.
func (s *Set) reserve(c *Cell, p *place, items int) {
	if items > extent(c.words[p.at]).room() {
		s.resize(c, p, items)
	}
}

// empty drops every item.
func (s *Set) empty(c *Cell, p *place) {
	e := extent(c.words[p.at])
	c.words[p.at] = int64(e.drop(e.count()))
	if e.room() > p.least+1 {
		s.resize(c, p, p.least)
		return
	}
	p.forget(c.words)
}

// Warm reads a word of each part of the cell, which brings it into the
// processor's cache ahead of its use. What it returns means nothing.
func (c *Cell) Warm() int64 {
	sum := c.newest
	for k := 0; k < len(c.words) && k < warmWords; k += lineWords {
		sum += c.words[k]
	}
	for k := range c.exacts {
		x := &c.exacts[k]
		if n := len(x.words); n > 0 {
			sum += x.words[n-1]
		}
	}
	return sum
}

const (
	lineWords = 8 // of a cache line
	warmWords = 8 * lineWords
)
