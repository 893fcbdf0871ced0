package feature

import "math"

const (
	blockLen   = 64 // entries of a full block
	groupLen   = 16 // blocks of a group
	sparePanes = 60 // panes of a window that overflowed
)

// entries describes how the exact windows of a feature keep its entries: in one list, in order of
// arrival, that all windows read.
type entries struct {
	unit
	at      int   // index of the list among those of a cell
	entry   int   // words per entry
	groupAt int   // index of the group's word, the last one of an entry; 0 if entries have no group
	longest int64 // longest of the windows
	limit   int   // most entries
	dead    bool  // an entry beyond the limit is an error
	oldest  bool  // at the limit the oldest entries are removed
	newestN int   // number of newest entries that are read; 0 for windows
}

// unbounded is the size of a window that keeps every entry.
const unbounded = 1 << 62

// valued reports whether an entry has a value.
func (e *entries) valued() bool { return e.entry > 1 && e.groupAt != 1 }

// in returns the list of a cell.
func (e *entries) in(c *Cell) *exact { return &c.exacts[e.at] }

// span is a run of entries: its times and its total.
type span struct {
	first, last int64 // the least and the greatest time
	total
}

// outside reports that no time of the span is in (lo, t]. inside reports that all are.
func (s *span) outside(lo, t int64) bool { return s.last <= lo || s.first > t }
func (s *span) inside(lo, t int64) bool  { return s.first > lo && s.last <= t }

func (s *span) cover(first, last int64) {
	s.first, s.last = min(s.first, first), max(s.last, last)
}

var noSpan = span{first: math.MaxInt64, last: math.MinInt64, total: nothing}

// exact is the list of one feature and key.
//
//		entries  | block 7 | block 8 | ... | block 34 | tail |
//		groups   |  7..15 of 0..15   | 16..31 |
//
//	 1. An item of the queue is a time and, unless only the count is needed, a
//	    value. The list keeps it at least while time > newest - the longest
//	    window, and reads it only during that time.
//	 2. Every blockLen entries appended become a block, which never changes. The
//	    first block is removed when all of it is out of the longest window.
//	    While there is no block, entries are removed from the tail in the same
//	    way, one by one. So a late entry moves nothing, a commit writes a block
//	    once, and the stored bytes are a function of the entries alone.
//	 3. Spans of blocks and groups are derived from their entries. If a span is
//	    wholly in a window, a read uses the span instead of the entries.
//	 4. A sum of floats has one order of additions, the order of the spans. It
//	    adds up the groups; the last group is the tail and the blocks that do
//	    not fill a group yet. The sum of a group adds up its blocks, and the
//	    sum of a block adds up its entries in the window. So the sum depends
//	    on the stored entries only, even if the process restarts in between.
//	 5. An entry beyond the limit is refused, or turns the list into panes of a
//	    sixtieth of each window until the longest window is empty, or removes
//	    the first block.
//	 6. A list of the newest texts has no window and no block: a new entry
//	    removes the oldest one.
type exact struct {
	queue
	newest   int64  // the greatest time of the entries
	first    uint64 // number of the first block
	index    *index // nil if there is no block
	over     bool   // over the limit: the entries are in panes of the cell
	lost     int64  // the greatest time of the entries removed from a full list; none if there were none
	texts    *texts // texts of the entries, if they have any
	saved    saved
	sketches *sketches // sketches of panes, if the feature has them
}

// index holds the spans of blocks.
type index struct {
	blocks []span
	groups []span  // of the full groups
	reach  []int64 // the greatest time in each full group and those before it
	open   span    // of the blocks after the last full group
	tail   span    // of the entries after the last block
	momentIndex
}

// momentIndex holds the moments of blocks, for features that read moments. Every read scans the
// entries after the last block.
type momentIndex struct {
	ofBlocks []moments
	ofGroups []moments // of the full groups
	ofOpen   moments
}

// saved says which blocks the state has: [from, to). The blocks below valid are the current ones of
// these numbers.
type saved struct{ from, to, valid uint64 }

// empty reports that there are no entries, neither in the list nor in panes.
func (x *exact) empty() bool { return len(x.words) == 0 && !x.over }

// reset removes every entry that is not in panes. Blocks count from 0 again.
func (x *exact) reset() {
	*x = exact{saved: saved{from: x.saved.from, to: x.saved.to}, lost: none, sketches: x.sketches}
}

// incomplete reports that an entry of the longest window was removed.
func (x *exact) incomplete(e *entries) bool { return x.lost != none && x.lost > x.newest-e.longest }

// blocks returns the number of blocks.
func (x *exact) blocks() int {
	if x.index == nil {
		return 0
	}
	return len(x.index.blocks)
}

// next returns the number of the block that fills next.
func (x *exact) next() uint64 { return x.first + uint64(x.blocks()) }

// tailWords returns the entries after the last block.
func (x *exact) tailWords(e *entries) []int64 {
	return x.live()[x.blocks()*blockLen*e.entry:]
}

// blockWords returns the entries of the k-th block kept.
func (x *exact) blockWords(e *entries, k int) []int64 {
	size := blockLen * e.entry
	return x.live()[k*size : (k+1)*size]
}

// refuses reports that an entry of time t is beyond the limit. A full list has at least one block,
// because the limit is at least one block. It has room if that block can be removed.
func (x *exact) refuses(e *entries, t int64) bool {
	return len(x.live()) >= e.limit*e.entry && t > x.newest-e.longest &&
		x.index.blocks[0].last > max(x.newest, t)-e.longest
}

// expire removes the entries that no window can read any more.
func (x *exact) expire(e *entries) {
	lo := x.newest - e.longest
	if x.index != nil {
		x.expireBlocks(e, lo)
	}
	if x.index != nil {
		return
	}
	live, old := x.live(), 0
	for old < len(live) && live[old] <= lo {
		old += e.entry
	}
	x.drop(old)
}

func (x *exact) expireBlocks(e *entries, lo int64) {
	in, old := x.index, 0
	for old < len(in.blocks) && in.blocks[old].last <= lo {
		old++
	}
	if old > 0 {
		x.dropBlocks(e, old)
	}
}

// dropBlocks removes the first blocks.
func (x *exact) dropBlocks(e *entries, old int) {
	in := x.index
	group := x.first / groupLen
	x.first += uint64(old)
	x.drop(old * blockLen * e.entry)
	if old == len(in.blocks) {
		x.index = nil
		return
	}
	groups := min(x.first/groupLen-group, uint64(len(in.groups)))
	in.blocks, in.groups, in.reach = in.blocks[old:], in.groups[groups:], in.reach[groups:]
	if e.squares {
		in.ofBlocks, in.ofGroups = in.ofBlocks[old:], in.ofGroups[groups:]
	}
}

// dropOldest removes the first block of a full list. Reads then go through the rest of its group
// block by block, because the span of the group still includes the removed block.
func (x *exact) dropOldest(e *entries) {
	in := x.index
	x.lost = max(x.lost, in.blocks[0].last)
	if len(in.groups) > 0 {
		in.groups[0].first = math.MinInt64
	} else {
		in.open.first = math.MinInt64
	}
	x.dropBlocks(e, 1)
}

// shorten makes room for an entry in a list of the newest entries, which is shorter than a block.
func (x *exact) shorten(e *entries) {
	if len(x.live()) == e.newestN*e.entry {
		x.drop(e.entry)
	}
}

func (x *exact) append(e *entries, t, value int64) {
	item := x.push(e.entry)
	item[0] = t
	if e.entry > 1 {
		item[1] = value
	}
	if e.groupAt > 0 {
		x.putGroup(e, item)
	}
	if tail := x.tailWords(e); len(tail) == blockLen*e.entry {
		x.full(e, tail, e.scan(tail))
	} else if x.index != nil {
		x.index.tail.cover(t, t)
		e.add(&x.index.tail.total, value)
	}
}

// full turns the tail into a block; s is the span of the tail. If the block completes a group, full
// adds the group.
func (x *exact) full(e *entries, tail []int64, s span) {
	if x.index == nil {
		x.index = &index{open: noSpan}
	}
	in := x.index
	in.tail = noSpan
	in.blocks = append(in.blocks, s)
	in.open.cover(s.first, s.last)
	e.merge(&in.open.total, &s.total)
	if e.squares {
		m := e.scanMoments(tail, math.MinInt64, math.MaxInt64)
		in.ofBlocks = append(in.ofBlocks, m)
		e.mergeMoments(&in.ofOpen, &m)
	}
	if x.next()%groupLen != 0 {
		return
	}
	if e.squares {
		in.ofGroups, in.ofOpen = append(in.ofGroups, in.ofOpen), moments{}
	}
	reach := in.open.last
	if n := len(in.groups); n > 0 {
		reach = max(reach, in.reach[n-1])
	}
	in.groups = append(in.groups, in.open)
	in.reach = append(in.reach, reach)
	in.open = noSpan
}

// read returns the total as of time t of an exact window of size microseconds.
func (e *entries) read(x *exact, size, t int64) total {
	live := x.live()
	if len(live) == 0 {
		return nothing
	}
	lo := max(t-size, x.newest-e.longest)
	in := x.index
	if in == nil {
		return e.scanIn(live, lo, t)
	}
	g := len(in.groups)
	for g > 0 && in.reach[g-1] > lo {
		g--
	}
	out := e.foldSpans(in.groups[g:], lo, t, func(k int) total {
		from, to := x.blocksOf(g + k)
		return x.readBlocks(e, from, to, lo, t)
	})
	rest := in.open.total
	switch {
	case in.open.outside(lo, t):
		rest = nothing
	case !in.open.inside(lo, t):
		from, _ := x.blocksOf(len(in.groups))
		rest = x.readBlocks(e, from, len(in.blocks), lo, t)
	}
	switch {
	case in.tail.outside(lo, t):
	case in.tail.inside(lo, t):
		e.merge(&rest, &in.tail.total)
	default:
		part := e.scanIn(x.tailWords(e), lo, t)
		e.merge(&rest, &part)
	}
	e.merge(&out, &rest)
	return out
}

// blocksOf returns which of the kept blocks belong to the k-th group.
func (x *exact) blocksOf(k int) (from, to int) {
	gone := int(x.first % groupLen) // removed blocks of the first group
	return max(0, k*groupLen-gone), (k+1)*groupLen - gone
}

// readBlocks returns the total of the entries of blocks [from, to) in (lo, t].
func (x *exact) readBlocks(e *entries, from, to int, lo, t int64) total {
	return e.foldSpans(x.index.blocks[from:to], lo, t, func(k int) total {
		return e.scanIn(x.blockWords(e, from+k), lo, t)
	})
}

// foldSpans returns the total of the entries of the spans in (lo, t]. part returns the total of a
// span that is partly in.
func (e *entries) foldSpans(spans []span, lo, t int64, part func(k int) total) total {
	out, float := nothing, e.float
	var sum float64
	for k := range spans {
		s := &spans[k]
		if s.outside(lo, t) {
			continue
		}
		in := &s.total
		if !s.inside(lo, t) {
			p := part(k)
			in = &p
		}
		out.n += in.n
		if float {
			sum += math.Float64frombits(uint64(in.sum))
		} else {
			out.sum += in.sum
		}
		out.max, out.min = max(out.max, in.max), min(out.min, in.min)
	}
	if float {
		out.sum = int64(math.Float64bits(sum))
	}
	return out
}

// scanIn returns the total of the entries in (lo, t].
func (e *entries) scanIn(words []int64, lo, t int64) total {
	out := nothing
	switch {
	case e.entry == 1:
		for _, at := range words {
			if at > lo && at <= t {
				out.n++
			}
		}
	case e.groupAt > 0: // groups have no total
		for k := 0; k < len(words); k += e.entry {
			if at := words[k]; at > lo && at <= t {
				out.n++
			}
		}
	case e.float:
		var sum float64
		for k := 1; k < len(words); k += 2 {
			if at, v := words[k-1], words[k]; at > lo && at <= t {
				out.n++
				sum += wordFloat(v)
				out.max, out.min = max(out.max, v), min(out.min, v)
			}
		}
		out.sum = int64(math.Float64bits(sum))
	default:
		for k := 1; k < len(words); k += 2 {
			if at, v := words[k-1], words[k]; at > lo && at <= t {
				out.n++
				out.sum += v
				out.max, out.min = max(out.max, v), min(out.min, v)
			}
		}
	}
	return out
}

// scan returns the span of all entries.
func (e *entries) scan(words []int64) span {
	s := noSpan
	for k := 0; k < len(words); k += e.entry {
		s.cover(words[k], words[k])
	}
	s.total = e.scanIn(words, math.MinInt64, math.MaxInt64)
	return s
}

// readMoments is read for moments. It has the same order of additions as sums.
func (e *entries) readMoments(x *exact, size, t int64) (out moments) {
	lo, in := max(t-size, x.newest-e.longest), x.index
	if in == nil {
		return e.scanMoments(x.live(), lo, t)
	}
	for k := range in.groups {
		from, to := x.blocksOf(k)
		part := x.momentsOf(e, &in.groups[k], &in.ofGroups[k], from, to, lo, t)
		e.mergeMoments(&out, &part)
	}
	from, _ := x.blocksOf(len(in.groups))
	rest := x.momentsOf(e, &in.open, &in.ofOpen, from, len(in.blocks), lo, t)
	part := e.scanMoments(x.tailWords(e), lo, t)
	e.mergeMoments(&rest, &part)
	e.mergeMoments(&out, &rest)
	return out
}

// momentsOf returns the moments of the entries of a span in (lo, t]. whole holds the moments of the
// entire span, and [from, to) are its blocks.
func (x *exact) momentsOf(e *entries, s *span, whole *moments, from, to int, lo, t int64) (out moments) {
	switch {
	case s.outside(lo, t):
		return out
	case s.inside(lo, t):
		return *whole
	}
	for k := from; k < to; k++ {
		switch b := &x.index.blocks[k]; {
		case b.outside(lo, t):
		case b.inside(lo, t):
			e.mergeMoments(&out, &x.index.ofBlocks[k])
		default:
			part := e.scanMoments(x.blockWords(e, k), lo, t)
			e.mergeMoments(&out, &part)
		}
	}
	return out
}
