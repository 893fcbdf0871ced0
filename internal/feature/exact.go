package feature

import "math"

const (
	blockLen   = 64 // entries of a full block
	groupLen   = 16 // blocks of a group
	sparePanes = 60 // of a window that has more
)

// entries is how the exact windows of a feature keep its entries: in one list, in
// order of arrival, that all of them read.
type entries struct {
	unit
	at      int   // of the list among those of a cell
	entry   int   // words of an entry
	groupAt int   // of them that of the group, the last one; 0 is none
	longest int64 // of the windows
	limit   int   // entries
	dead    bool  // beyond the limit an entry is an error
	oldest  bool  // beyond the limit the oldest entries leave
	newestN int   // so many newest entries are read; 0 is of windows
}

// unbounded is a window that no entry leaves.
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

// outside reports that no time of the span is in (lo, t], and inside that all
// are.
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
//	 1. An item of the queue is a time and, unless only the count is wanted, a
//	    value. It is kept at least while time > newest - the longest window, and
//	    read only while so.
//	 2. Every blockLen entries appended become a block, which never changes. It
//	    leaves when it is the first one and all of it is out of the longest
//	    window. While there is no block, entries leave the tail so, one by one.
//	    So a late entry moves nothing, a step writes a block once, and what is
//	    stored is a function of the entries alone.
//	 3. Spans of blocks and groups are derived from their entries; a span wholly
//	    in a window is read instead of its entries.
//	 4. A sum of floats has the one order of additions that spans keep: over the
//	    groups, the last one being of the blocks that fill none yet and the
//	    tail, of the sum over the group's blocks of the sum over the block's
//	    entries that are in the window. So it depends on the stored entries
//	    only, whether or not the process was restarted between them.
//	 5. An entry beyond the limit is refused, or turns the list into panes, a
//	    sixtieth of each window, until nothing of the longest window is left. Or the
//	    first block leaves.
//	 6. A list of the newest texts has no window and no block: the oldest entry leaves.
type exact struct {
	queue
	newest   int64  // the greatest time of the entries
	first    uint64 // number of the first block
	index    *index // nil where there is no block
	over     bool   // over the limit: the entries are in panes of the cell
	lost     int64  // the greatest time of the entries that left a full list; none if nothing did
	texts    *texts // of entries that have them
	saved    saved
	sketches *sketches // of panes, if the feature has them
}

// index is the spans of blocks.
type index struct {
	blocks []span
	groups []span  // the full ones
	reach  []int64 // the greatest time in each full group and those before
	open   span    // of the blocks after the last full group
	tail   span    // of the entries after the last block
	momentIndex
}

// momentIndex is the moments of blocks, where they are read. The entries after the last
// block are looked at in every read.
type momentIndex struct {
	ofBlocks []moments
	ofGroups []moments // the full ones
	ofOpen   moments
}

// saved is which blocks the state has: [from, to), of which those below valid
// are the blocks of these numbers.
type saved struct{ from, to, valid uint64 }

// empty reports that there are no entries, in panes or not.
func (x *exact) empty() bool { return len(x.words) == 0 && !x.over }

// reset drops every entry that is not in panes. Blocks count from 0 again.
func (x *exact) reset() {
	*x = exact{saved: saved{from: x.saved.from, to: x.saved.to}, lost: none, sketches: x.sketches}
}

// incomplete reports that an entry of the longest window has left.
func (x *exact) incomplete(e *entries) bool { return x.lost != none && x.lost > x.newest-e.longest }

// blocks returns the number of blocks.
func (x *exact) blocks() int {
	if x.index == nil {
		return 0
	}
	return len(x.index.blocks)
}

// next returns the number of the block to be filled.
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

// refuses reports that an entry of time t is beyond the limit. A list that is
// full has a block, as the limit is no less than one, and has room where that
// leaves.
func (x *exact) refuses(e *entries, t int64) bool {
	return len(x.live()) >= e.limit*e.entry && t > x.newest-e.longest &&
		x.index.blocks[0].last > max(x.newest, t)-e.longest
}

// expire drops what no window can read any more.
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

// dropOldest removes the first block of a full list. The rest of its group is read block by
// block, as the span of the group still has the block.
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

// shorten makes room for an entry in a list of the newest ones, which is less than a block.
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

// full makes the tail, whose span is s, a block, and a group of the blocks that
// it completes.
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

// read returns the total of an exact window of so many microseconds as of time t.
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

// blocksOf returns which of the kept blocks are of the k-th group.
func (x *exact) blocksOf(k int) (from, to int) {
	gone := int(x.first % groupLen) // of the first group's blocks
	return max(0, k*groupLen-gone), (k+1)*groupLen - gone
}

// readBlocks returns the total of the entries of blocks [from, to) in (lo, t].
func (x *exact) readBlocks(e *entries, from, to int, lo, t int64) total {
	return e.foldSpans(x.index.blocks[from:to], lo, t, func(k int) total {
		return e.scanIn(x.blockWords(e, from+k), lo, t)
	})
}

// foldSpans returns the total of the entries of the spans in (lo, t]; part
// returns that of a span that is partly in.
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
	case e.groupAt > 0: // of groups no total is read
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

// readMoments is read for moments: in the order that sums have.
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

// momentsOf returns the moments of the entries of a span in (lo, t]. whole are all of its
// moments, and [from, to) its blocks.
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
