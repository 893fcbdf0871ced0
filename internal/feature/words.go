package feature

import "slices"

// The words of a cell are one array without pointers. So a key is in few cache lines, and the
// garbage collector has nothing to follow:
//
//	| front: times, and what queues there are | queue | queue | ... |
//
//	elapsed: the time, or none
//	last:    the extent of the values, and that of their room
//	panes:   the extent of the panes, that of their room, the index of the newest
//
// A queue has items of a few words each, and room for some of them. If it needs more room, it moves
// the queues behind it. The queue of panes is linear: items are added at the end and removed at the
// front. The queue of the newest values is linear until it is full, and then a ring: its extent
// begins at the oldest value.

// place says where a queue is in the front, and holds its constants.
type place struct {
	at       int  // index of its extent; the extent of its room is the next word
	stride   int  // words per item
	least    int  // items that it always has room for
	most     int  // most items
	windowed bool // holds panes, not the newest values
	based    bool // has more than few panes, so a base may be behind its items
	layout   *layout
}

// layout says where the queues of a cell are. All cells of a set have the same layout.
type layout struct {
	places []place // of the queues, in memory order
	blank  []int64 // the words of a key without events
}

// front adds words to the front, and returns the index of the first one.
func (l *layout) front(words ...int64) (at int) {
	at = len(l.blank)
	l.blank = append(l.blank, words...)
	return at
}

// queue adds a queue. The front gets its extent, the extent of its room, and more further words.
func (l *layout) queue(p place, more int) place {
	p.at, p.layout = l.front(make([]int64, 2+more)...), l
	l.places = append(l.places, p)
	return p
}

// size returns the words of room for this many items.
func (p *place) size(items int) int {
	if p.based && items > few {
		items++
	}
	return items * p.stride
}

// extent is a run of words: the index of the first word in the high 32 bits, and the index after
// the last in the low 32 bits.
type extent uint64

func extentOf(from, to int) extent { return extent(from)<<32 | extent(to) }

func (e extent) from() int { return int(e >> 32) }
func (e extent) to() int   { return int(uint32(e)) }
func (e extent) len() int  { return e.to() - e.from() }

// shifted returns the extent n words further on.
func (e extent) shifted(n int) extent { return extentOf(e.from()+n, e.to()+n) }

// live returns the words of the items of a linear queue, oldest first.
func (p *place) live(words []int64) []int64 {
	e := extent(words[p.at])
	return words[e.from():e.to()]
}

// spareWords is how many spare words an empty cell may keep.
const spareWords = 64

// plan lays out the words of a key without events.
func (l *layout) plan() {
	for _, p := range l.places {
		from := l.front(make([]int64, p.size(p.least))...)
		l.blank[p.at] = int64(extentOf(from, from))
		l.blank[p.at+1] = int64(extentOf(from, len(l.blank)))
	}
}

// clear resets the words to those of a key without events.
func (l *layout) clear(c *Cell) {
	if cap(c.words) < len(l.blank) || cap(c.words) > len(l.blank)+spareWords {
		c.words = slices.Grow([]int64(nil), len(l.blank))
	}
	c.words = append(c.words[:0], l.blank...)
}

// resize gives a queue that is not a ring room for this many items, at least as many as it has. It
// moves the items to the front of the room.
func (p *place) resize(c *Cell, items int) {
	e, room := extent(c.words[p.at]), extent(c.words[p.at+1])
	begin := room.from()
	if e.from() > begin {
		copy(c.words[begin:], c.words[e.from():e.to()])
	}
	c.words[p.at] = int64(extentOf(begin, begin+e.len()))
	if more := p.size(items) - p.size(room.len()/p.stride); more != 0 {
		p.layout.shift(c, p, more)
		c.words[p.at+1] = int64(extentOf(begin, begin+items*p.stride))
		p.forget(c.words)
	}
}

// shift moves the queues behind p.
func (l *layout) shift(c *Cell, p *place, more int) {
	room := extent(c.words[p.at+1])
	end := room.from() + p.size(room.len()/p.stride)
	words, tail := c.words, c.words[end:]
	total := len(words) + more
	if total > cap(words) || more < 0 && cap(words) > 2*total+spareWords {
		words = append(slices.Grow([]int64(nil), total), words[:end+min(more, 0)]...)
	}
	words = words[:total]
	copy(words[end+more:], tail)
	c.words = words
	for k := range l.places {
		if at := l.places[k].at; at > p.at {
			words[at] = int64(extent(words[at]).shifted(more))
			words[at+1] = int64(extent(words[at+1]).shifted(more))
		}
	}
}

// push appends an item to a queue that is not a ring, and returns it. The item keeps old content:
// the caller must set it.
func (p *place) push(c *Cell) []int64 {
	end := extent(c.words[p.at]).to()
	if end == extent(c.words[p.at+1]).to() {
		p.widen(c)
		end = extent(c.words[p.at]).to()
	}
	c.words[p.at] += int64(p.stride)
	return c.words[end : end+p.stride]
}

// drop removes n words at the front.
func (p *place) drop(words []int64, n int) {
	e := extent(words[p.at])
	if n == e.len() {
		begin := extent(words[p.at+1]).from()
		words[p.at] = int64(extentOf(begin, begin))
		return
	}
	words[p.at] = int64(extentOf(e.from()+n, e.to()))
}

// widen makes room for one more item. If at least a third is free, it moves the live items to the
// front, which costs each pushed item a bounded number of moves. Otherwise, or if the queue was
// once far longer, it adds half as many items: growing by a single item would move the whole cell
// too often.
func (p *place) widen(c *Cell) {
	e, room := extent(c.words[p.at]), extent(c.words[p.at+1])
	free, count, items := e.from()-room.from(), e.len()/p.stride, room.len()/p.stride
	if free == 0 || free < e.len()/2 || items > 8*count+2*few {
		items = min(count+max(1, min(count, 2), count/2), p.most)
	}
	p.resize(c, items)
}

// reserve makes room for this many items in an empty queue.
func (p *place) reserve(c *Cell, items int) {
	if items*p.stride > extent(c.words[p.at+1]).len() {
		p.resize(c, items)
	}
}

// empty removes every item, the base, and the room beyond a few items.
func (p *place) empty(c *Cell) {
	p.drop(c.words, extent(c.words[p.at]).len())
	if extent(c.words[p.at+1]).len() > (p.least+1)*p.stride {
		p.resize(c, p.least)
	}
}

// Warm reads a word of each part of the cell, to bring it into the processor's cache before its
// use. The result has no meaning.
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
	lineWords = 8 // words of a cache line
	warmWords = 8 * lineWords
)
