package tree

import (
	"math"
	"math/bits"
)

// blockRows is the number of rows per block: the bits of a word.
const blockRows = 64

// blocks is an ensemble laid out to score 64 rows at a time. Bit r of a word belongs to row r.
//
//  1. Each question of the ensemble ("is input 3 at least 0.5, or missing?") is
//     asked once, even if many nodes ask it. Its answer is a word: a 1 for each
//     row that goes right. Values are compared exactly, without rounding.
//  2. A tree sends its rows down from the root: of the rows that reach a node,
//     those with a 1 go right. The rows that went right at any node of one depth
//     are a word too, the plane of that depth.
//  3. The planes of a tree are the digits of the leaves that the rows end in.
//     Transposed they index the leaves. The scores of the leaves are added in
//     the order of the trees, in T: the margins equal those of flat, bit for bit.
//
// No step depends on a row. So all steps run at full width and without a branch to mispredict:
// about two operations for a node and 64 rows. If a block is not full, its missing rows are scored
// and discarded.
//
// Trees that ask one question at each depth, as CatBoost grows them, use its answers as planes.
// Other trees of depth up to 8 are stored complete, filled up with question 0: its answer is
// always left. The kernels in assembly score those. Deeper trees and some that are nearly empty are
// loose, node by node.
type blocks[T number] struct {
	inputs    int
	columns   []column
	sets      []setColumn
	answers   int      // number of questions, including question 0
	questions []uint32 // questions of the complete trees: see place
	forks     []fork   // nodes of the loose trees: parents before children
	leaves    []T
	outputs   []blockOutput[T]
	codes     coding
	forksMax  int // most forks of a loose tree
	leavesMax int // most leaves of a loose tree, a power of two
}

// blockOutput is one margin: its trees in their order.
type blockOutput[T number] struct {
	base T
	runs []run
}

// run is consecutive trees of one layout.
type run struct {
	depth int  // of complete trees: 2, 4, 6 or 8; 0 marks one loose tree
	level bool // complete trees that ask one question at each depth
	first int  // index in questions; for a loose tree in forks
	leaf  int  // index in leaves
	count int  // number of trees; for a loose tree number of forks
	width int  // for a loose tree its leaves, a power of two
}

// asked returns how many questions a complete tree has.
func (r *run) asked() int {
	if r.level {
		return r.depth
	}
	return 1<<r.depth - 1
}

// fork is a node of a loose tree. It has its question, and the indexes of the words that collect
// the rows that go left and right. The words of the forks precede those of the leaves.
type fork struct {
	question    uint32
	left, right uint16
}

// column holds the questions on one numeric input.
type column struct {
	input  int
	zero   bool        // zero counts as missing
	ladder []uint32    // the greatest keys below all thresholds, a search tree: the children of i are 2i and 2i+1; the length is a power of two
	steps  int         // entries of the ladder that are thresholds
	sides  [2]question // missing goes right; missing goes left
}

// question is a set of questions that differ only in the threshold.
type question struct {
	first      int // index in the answers
	thresholds []float32
	rungs      []uint32 // rank of each among all thresholds of the input, from 1
}

// setColumn holds the questions on one categorical input. Categories count from 1; 0 means missing:
// see code.
type setColumn struct {
	input  int
	first  int     // index in the answers
	count  int     // number of sets
	chunks int     // chunks of eight categories that some set lists
	bits   []uint8 // bits of chunk c and set s at c*count+s
}

// blockScratch is the working memory of one block.
type blockScratch[T number] struct {
	answers []uint64
	words   []uint64           // for a ladder, or for the categories of an input
	reach   []uint64           // for a tree: the rows that reach a node
	sums    [blockRows]T       // for one output
	values  [blockRows]float32 // for one input
	keys    [blockRows]uint32
	table   [256]uint64
}

func (b *blocks[T]) scratch() *blockScratch[T] {
	words := 0
	for i := range b.columns {
		words = max(words, len(b.columns[i].ladder))
	}
	for i := range b.sets {
		words = max(words, 8*b.sets[i].chunks)
	}
	return &blockScratch[T]{
		answers: make([]uint64, b.answers), words: make([]uint64, words),
		reach: make([]uint64, max(blockRows, b.forksMax+b.leavesMax)),
	}
}

// score writes the margins of at most 64 rows.
func (b *blocks[T]) score(k *kernel, s *blockScratch[T], rows []float32, out []T) {
	width := len(b.outputs)
	trees, levels := addersOf[T](k)
	n := len(out) / width
	b.ask(k, s, rows, n)
	for o := range b.outputs {
		of := &b.outputs[o]
		for i := range s.sums {
			s.sums[i] = of.base
		}
		for _, r := range of.runs {
			if r.depth == 0 {
				b.loose(s, r)
				continue
			}
			add, one := trees[r.depth/2-1], b.complete
			if r.level {
				add, one = levels[r.depth/2-1], b.levels
			}
			if add != nil {
				addRun(add, b, s, r)
				continue
			}
			for range r.count {
				one(s, r)
				r.first += r.asked()
				r.leaf += 1 << r.depth
			}
		}
		for i, sum := range s.sums[:n] {
			out[i*width+o] = sum
		}
	}
}

// ask answers all questions for n rows.
func (b *blocks[T]) ask(k *kernel, s *blockScratch[T], rows []float32, n int) {
	for i := range b.columns {
		c := &b.columns[i]
		at := c.input
		for r := range n {
			s.values[r] = rows[at]
			at += b.inputs
		}
		if c.zero {
			for r, value := range s.values[:n] {
				s.values[r] = withoutZero(value)
			}
		}
		if k.ask[0] != nil {
			compare(k, s, c)
		} else {
			climb(s, c, n)
		}
	}
	for i := range b.sets {
		c := &b.sets[i]
		at := c.input
		for r := range n {
			s.keys[r] = b.codes.code(rows[at])
			at += b.inputs
		}
		askSets(s, c, s.keys[:n])
	}
}

// climb collects the rows at the last threshold that each row reaches. The rows of all rungs from a
// threshold upwards are the rows that pass it.
func climb[T number](s *blockScratch[T], c *column, n int) {
	missing := uint64(0)
	for r, value := range s.values[:n] {
		s.keys[r] = key(value)
		if value != value {
			missing |= 1 << (r % blockRows)
			s.keys[r] = 0
		}
	}
	words := s.words[:len(c.ladder)]
	clear(words[:c.steps+1])
	climbKeys(c.ladder, s.keys[:(n+3)&^3], words)
	passed := uint64(0)
	for i := c.steps; i > 0; i-- {
		passed |= words[i]
		words[i] = passed
	}
	for side := range c.sides {
		q := &c.sides[side]
		answers := s.answers[q.first : q.first+len(q.rungs)]
		for i, rung := range q.rungs {
			answers[i] = words[rung] | missing
		}
		missing = 0
	}
}

// climbKeys searches the ladder for four rows at a time, with the same steps for all: it adds the
// carry of a comparison and has no branch.
func climbKeys(ladder, keys []uint32, words []uint64) {
	for r := 0; r+4 <= len(keys); r += 4 {
		k := (*[4]uint32)(keys[r:])
		k0, k1, k2, k3 := uint64(k[0]), uint64(k[1]), uint64(k[2]), uint64(k[3])
		at0, at1, at2, at3 := uint64(1), uint64(1), uint64(1), uint64(1)
		for steps := len(ladder); steps > 1; steps /= 2 {
			_, up0 := bits.Sub64(uint64(ladder[at0]), k0, 0)
			at0, _ = bits.Add64(at0, at0, up0)
			_, up1 := bits.Sub64(uint64(ladder[at1]), k1, 0)
			at1, _ = bits.Add64(at1, at1, up1)
			_, up2 := bits.Sub64(uint64(ladder[at2]), k2, 0)
			at2, _ = bits.Add64(at2, at2, up2)
			_, up3 := bits.Sub64(uint64(ladder[at3]), k3, 0)
			at3, _ = bits.Add64(at3, at3, up3)
		}
		bit, first := uint64(1)<<(r%blockRows), uint64(len(ladder))
		words[at0-first] |= bit
		words[at1-first] |= bit << 1
		words[at2-first] |= bit << 2
		words[at3-first] |= bit << 3
	}
}

// askSets collects the rows of each category. It builds the union over the categories of a set from
// eight categories at a time, by a table of all 256 unions.
func askSets[T number](s *blockScratch[T], c *setColumn, codes []uint32) {
	words := s.words[:8*c.chunks]
	clear(words)
	for r, category := range codes {
		if int(category) < len(words) {
			words[category] |= 1 << (r % blockRows)
		}
	}
	answers := s.answers[c.first : c.first+c.count]
	clear(answers)
	for chunk := range c.chunks {
		eight := (*[8]uint64)(words[8*chunk:])
		if eight[0]|eight[1]|eight[2]|eight[3]|eight[4]|eight[5]|eight[6]|eight[7] == 0 {
			continue
		}
		for bit, word := range eight {
			known := s.table[:1<<bit]
			for i, union := range known {
				s.table[len(known)+i] = union | word
			}
		}
		for i, set := range c.bits[chunk*c.count:][:len(answers)] {
			answers[i] |= s.table[set]
		}
	}
}

// complete adds the scores of one complete tree: two depths at a time down to the
// last four.
func (b *blocks[T]) complete(s *blockScratch[T], t run) {
	questions, answers := b.questions[t.first:t.first+1<<t.depth-1], s.answers
	reach := (*[blockRows]uint64)(s.reach)
	reach[0] = math.MaxUint64
	var planes [8]uint64
	groups, depth := 1, t.depth
	for ; depth > 4; depth -= 2 {
		var upper, lower uint64
		for g := groups - 1; g >= 0; g-- { // backwards: the children of g overwrite entries that were already read
			three := (*[3]uint32)(questions[3*g:])
			all := reach[g]
			right := all & answers[three[0]]
			left := all ^ right
			leftRight, rightRight := left&answers[three[1]], right&answers[three[2]]
			upper |= right
			lower |= leftRight | rightRight
			four := (*[4]uint64)(reach[4*g:])
			four[0], four[1], four[2], four[3] = left^leftRight, leftRight, right^rightRight, rightRight
		}
		planes[(depth-1)%8], planes[(depth-2)%8] = upper, lower
		questions = questions[3*groups:]
		groups *= 4
	}
	if depth == 4 {
		lastFour(answers, questions, reach[:groups], &planes)
	} else {
		planes[1], planes[0] = lastTwo(answers, (*[3]uint32)(questions), math.MaxUint64)
	}
	b.add(s, t, &planes)
}

// levels adds the scores of one tree that asks one question at each depth.
func (b *blocks[T]) levels(s *blockScratch[T], t run) {
	var planes [8]uint64
	for i, question := range b.questions[t.first : t.first+t.depth] {
		planes[(t.depth-1-i)%8] = s.answers[question]
	}
	b.add(s, t, &planes)
}

// add adds the scores of the leaves that the planes number.
func (b *blocks[T]) add(s *blockScratch[T], t run, planes *[8]uint64) {
	transpose(planes)
	leaves, sums := (*[leavesRead]T)(b.leaves[t.leaf:]), &s.sums
	for k, ids := range planes {
		sums[k] += leaves[uint8(ids)]
		sums[k+8] += leaves[uint8(ids>>8)]
		sums[k+16] += leaves[uint8(ids>>16)]
		sums[k+24] += leaves[uint8(ids>>24)]
		sums[k+32] += leaves[uint8(ids>>32)]
		sums[k+40] += leaves[uint8(ids>>40)]
		sums[k+48] += leaves[uint8(ids>>48)]
		sums[k+56] += leaves[uint8(ids>>56)]
	}
}

// lastFour computes the planes of the four depths above the leaves. reach holds the rows that reach
// the nodes of the first of these depths.
func lastFour(answers []uint64, questions []uint32, reach []uint64, planes *[8]uint64) {
	var plane3, plane2, plane1, plane0 uint64
	last := questions[3*len(reach):]
	for g, all := range reach {
		three, twelve := (*[3]uint32)(questions[3*g:]), (*[12]uint32)(last[12*g:])
		right := all & answers[three[0]]
		left := all ^ right
		leftRight, rightRight := left&answers[three[1]], right&answers[three[2]]
		plane3 |= right
		plane2 |= leftRight | rightRight
		a1, a0 := lastTwo(answers, (*[3]uint32)(twelve[0:]), left^leftRight)
		b1, b0 := lastTwo(answers, (*[3]uint32)(twelve[3:]), leftRight)
		c1, c0 := lastTwo(answers, (*[3]uint32)(twelve[6:]), right^rightRight)
		d1, d0 := lastTwo(answers, (*[3]uint32)(twelve[9:]), rightRight)
		plane1 |= a1 | b1 | c1 | d1
		plane0 |= a0 | b0 | c0 | d0
	}
	planes[3], planes[2], planes[1], planes[0] = plane3, plane2, plane1, plane0
}

// lastTwo takes the rows that reach a node above two depths of questions. It returns the rows that
// go right at the node and those that go right below it.
func lastTwo(answers []uint64, three *[3]uint32, all uint64) (upper, lower uint64) {
	right := all & answers[three[0]]
	return right, (all^right)&answers[three[1]] | right&answers[three[2]]
}

// loose adds the scores of one loose tree. Its leaves are numbered in their order.
func (b *blocks[T]) loose(s *blockScratch[T], t run) {
	reach := s.reach[:t.count+t.width]
	clear(reach[t.count:]) // clears padding leaves
	reach[0] = math.MaxUint64
	for i, f := range b.forks[t.first : t.first+t.count] {
		right := reach[i] & s.answers[f.question]
		reach[f.right] = right
		reach[f.left] = reach[i] ^ right
	}
	var planes [2][8]uint64
	for half := reach[t.count:]; len(half) > 1; { // the rows of the upper half of the leaves have the digit
		lower, upper := half[:len(half)/2], half[len(half)/2:]
		plane := uint64(0)
		for i, rows := range upper {
			plane |= rows
			lower[i] |= rows
		}
		digit := bits.Len(uint(len(lower))) - 1
		planes[digit/8][digit%8] = plane
		half = lower
	}
	transpose(&planes[0])
	transpose(&planes[1])
	leaves := b.leaves[t.leaf : t.leaf+t.width]
	for k := range planes[0] {
		low, high := planes[0][k], planes[1][k]
		for row := k; row < blockRows; row += 8 {
			s.sums[row] += leaves[int(low%256|high%256<<8)&(len(leaves)-1)]
			low >>= 8
			high >>= 8
		}
	}
}

// transpose turns eight planes into numbers: byte i of word k is the number of row 8*i+k. The bit
// of plane p is its digit p.
func transpose(w *[8]uint64) {
	for _, i := range [4]int{0, 1, 2, 3} {
		swapped := (w[i]>>4 ^ w[i+4]) & 0x0f0f0f0f0f0f0f0f
		w[i+4] ^= swapped
		w[i] ^= swapped << 4
	}
	for _, i := range [4]int{0, 1, 4, 5} {
		swapped := (w[i]>>2 ^ w[i+2]) & 0x3333333333333333
		w[i+2] ^= swapped
		w[i] ^= swapped << 2
	}
	for _, i := range [4]int{0, 2, 4, 6} {
		swapped := (w[i]>>1 ^ w[i+1]) & 0x5555555555555555
		w[i+1] ^= swapped
		w[i] ^= swapped << 1
	}
}
