package tree

import (
	"math"
	"math/bits"
	"slices"
)

const completeDepthMax = 8

// leavesRead is how many leaves of a complete tree may be read at any depth. Kernels load 16 at a
// time, and a byte numbers the leaves of the deepest tree.
const leavesRead = 1 << completeDepthMax

// Limits for scoring in blocks. A model beyond them is scored row by row.
const (
	chunksMax   = 1 << 13 // 65,536 categories of an input
	setBytesMax = 1 << 26 // for all inputs
)

// layout is the working state for building blocks from an ensemble.
type layout[T number] struct {
	*blocks[T]
	*ensemble
	zero       []int32        // see special
	thresholds [][2][]float32 // by view: thresholds of splits that send a missing value right, and left
	members    [][]split      // by input: the splits on distinct sets
	memberAt   map[int32]int  // index of a set in members, by its index in listed
	columnOf   []int          // index of each view in columns
	setOf      []int          // index of each input in sets
	setBytes   int
}

// layBlocks lays out a checked ensemble. It returns nil if the ensemble has too many categories.
// base has one margin for each output.
func layBlocks[T number](e *ensemble, base []T) *blocks[T] {
	_, zero := e.special()
	views := int(e.inputs) + len(zero)
	l := layout[T]{
		blocks: &blocks[T]{inputs: int(e.inputs), answers: 1, codes: e.codes}, ensemble: e, zero: zero,
		thresholds: make([][2][]float32, views), members: make([][]split, e.inputs), memberAt: map[int32]int{},
		columnOf: make([]int, views), setOf: make([]int, e.inputs),
	}
	for _, p := range e.parts {
		for _, n := range p.nodes {
			l.collect(n)
		}
	}
	for input := range int(e.inputs) {
		l.addColumn(input, column{input: input})
		if !l.addSets(input) {
			return nil
		}
	}
	for i, input := range zero {
		l.addColumn(int(e.inputs)+i, column{input: int(input), zero: true})
	}
	parts := slices.Clone(e.parts)
	slices.SortStableFunc(parts, func(a, b part) int { return int(a.output - b.output) })
	for output, margin := range base {
		of := blockOutput[T]{base: margin}
		for len(parts) > 0 && int(parts[0].output) == output {
			of.runs = l.addTree(of.runs, parts[0].nodes)
			parts = parts[1:]
		}
		l.blocks.outputs = append(l.blocks.outputs, of)
	}
	l.leaves = append(l.leaves, make([]T, leavesRead)...)
	return l.blocks
}

// collect adds the question of a split.
func (l *layout[T]) collect(n split) {
	switch {
	case n.left == noChild:
	case n.categorical():
		if _, known := l.memberAt[n.set.from]; !known { // another part of the same tree may have it
			l.memberAt[n.set.from] = len(l.members[n.input])
			l.members[n.input] = append(l.members[n.input], n)
		}
	default:
		list := &l.thresholds[l.view(n)][sideOf(n)]
		*list = append(*list, float32(n.value))
	}
}

// view returns the index of a numeric split in thresholds. Unmodified inputs come before those that
// treat zero as missing.
func (l *layout[T]) view(n split) int {
	if !n.zeroMissing {
		return int(n.input)
	}
	at, _ := slices.BinarySearch(l.zero, n.input)
	return int(l.ensemble.inputs) + at
}

// sideOf returns the index of a split in column.sides.
func sideOf(n split) int {
	if n.defaultLeft {
		return 1
	}
	return 0
}

// addColumn numbers the questions on a view of a numeric input.
func (l *layout[T]) addColumn(view int, c column) {
	sides := &l.thresholds[view]
	if len(sides[0])+len(sides[1]) == 0 {
		return
	}
	for side, list := range sides {
		slices.Sort(list)
		sides[side] = slices.Compact(list) // -0 is 0
	}
	all := slices.Concat(sides[0], sides[1])
	slices.Sort(all)
	all = slices.Compact(all)
	c.steps, c.ladder = len(all), make([]uint32, 1<<bits.Len(uint(len(all))))
	for i := 1; i < len(c.ladder); i++ {
		c.ladder[i] = math.MaxUint32 // no value is above it
		level := bits.Len(uint(i)) - 1
		if at := (2*(i-1<<level) + 1) * len(c.ladder) >> (level + 1); at <= len(all) {
			c.ladder[i] = key(all[at-1]) - 1
		}
	}
	for side, list := range sides {
		q := question{first: l.answers, thresholds: list, rungs: make([]uint32, len(list))}
		for i, threshold := range list {
			at, _ := slices.BinarySearch(all, threshold)
			q.rungs[i] = uint32(at + 1)
		}
		l.answers += len(list)
		c.sides[side] = q
	}
	l.columnOf[view] = len(l.columns)
	l.columns = append(l.columns, c)
}

// addSets numbers the questions on a categorical input.
func (l *layout[T]) addSets(input int) bool {
	members := l.members[input]
	if len(members) == 0 {
		return true
	}
	largest := int32(0)
	for _, n := range members {
		largest = max(largest, l.listed[n.set.to-1])
	}
	c := setColumn{input: input, first: l.answers, count: len(members), chunks: (int(largest)+1)/8 + 1}
	if l.setBytes += c.chunks * c.count; c.chunks > chunksMax || l.setBytes > setBytesMax {
		return false
	}
	c.bits = make([]uint8, c.chunks*c.count)
	for i, n := range members {
		if !n.defaultLeft {
			c.bits[i] |= 1
		}
		for _, category := range l.listed[n.set.from:n.set.to] {
			c.bits[int(category+1)/8*c.count+i] |= 1 << ((category + 1) % 8)
		}
	}
	l.answers += c.count
	l.setOf[input] = len(l.sets)
	l.sets = append(l.sets, c)
	return true
}

// question returns the number of a split's question.
func (l *layout[T]) question(n split) uint32 {
	if n.categorical() {
		return uint32(l.sets[l.setOf[n.input]].first + l.memberAt[n.set.from])
	}
	q := &l.columns[l.columnOf[l.view(n)]].sides[sideOf(n)]
	at, _ := slices.BinarySearch(q.thresholds, float32(n.value))
	return uint32(q.first + at)
}

// addTree lays out a tree and adds it to runs.
func (l *layout[T]) addTree(runs []run, nodes []split) []run {
	depth, leaves := shapeOf(nodes)
	// Complete trees that are almost empty are not used, because of their memory.
	if depth > completeDepthMax || depth > 6 && leaves < 16 {
		return append(runs, l.addLoose(nodes, leaves))
	}
	asked := l.levelsOf(nodes, depth, leaves)
	r := run{depth: max(2, (depth+1)/2*2), level: asked != nil, first: len(l.questions), leaf: len(l.leaves), count: 1}
	l.questions = append(l.questions, make([]uint32, r.asked())...)
	l.leaves = append(l.leaves, make([]T, 1<<r.depth)...)
	if r.level { // a surplus depth goes on top, with question 0 (always left)
		copy(l.questions[len(l.questions)-depth:], asked)
		l.fill(nodes, 0, make([]uint32, 1<<r.depth), l.leaves[r.leaf:], depth, 0, 0)
	} else {
		l.fill(nodes, 0, l.questions[r.first:], l.leaves[r.leaf:], r.depth, 0, 0)
	}
	if last := len(runs) - 1; last >= 0 && runs[last].depth == r.depth && runs[last].level == r.level {
		runs[last].count++
		return runs
	}
	return append(runs, r)
}

// levelsOf returns the question of each depth, from the root on. It returns nil unless all nodes of
// a depth ask the same question and all leaves have the same depth.
func (l *layout[T]) levelsOf(nodes []split, depth, leaves int) []uint32 {
	if depth < 2 || leaves != 1<<depth {
		return nil
	}
	var asked []uint32
	for level := []int32{0}; len(asked) < depth; {
		var next []int32
		question := l.question(nodes[level[0]])
		for _, i := range level {
			if l.question(nodes[i]) != question {
				return nil
			}
			next = append(next, nodes[i].left, nodes[i].right)
		}
		asked, level = append(asked, question), next
	}
	return asked
}

// shapeOf returns the depth of the deepest leaf, and the number of leaves.
func shapeOf(nodes []split) (depth, leaves int) {
	level, next := []int32{0}, []int32(nil)
	for ; len(level) > 0; depth++ {
		for _, i := range level {
			if nodes[i].left == noChild {
				leaves++
			} else {
				next = append(next, nodes[i].left, nodes[i].right)
			}
		}
		level, next = next, level[:0]
	}
	return depth - 1, leaves
}

// place returns where a complete tree stores the question of the node at position of a level.
// Questions are in groups of three: a node of an even level and its children. The groups of two
// levels follow those of the levels above.
func place(level, position int) int {
	above := 1<<(level&^1) - 1
	if level%2 == 0 {
		return above + 3*position
	}
	return above + 3*(position/2) + 1 + position%2
}

// fill lays out the node at and its subtree. It pads below a leaf with leaves of the same score.
func (l *layout[T]) fill(nodes []split, at int32, questions []uint32, leaves []T, depth, level, position int) {
	n := nodes[at]
	if level == depth {
		leaves[position] = T(n.value)
		return
	}
	left, right := at, at
	if n.left != noChild {
		left, right = n.left, n.right
		questions[place(level, position)] = l.question(n)
	}
	l.fill(nodes, left, questions, leaves, depth, level+1, 2*position)
	l.fill(nodes, right, questions, leaves, depth, level+1, 2*position+1)
}

// addLoose lays out a tree node by node, breadth first.
func (l *layout[T]) addLoose(nodes []split, leaves int) run {
	r := run{first: len(l.forks), leaf: len(l.leaves), count: leaves - 1, width: 1 << bits.Len(uint(leaves-1))}
	l.leaves = append(l.leaves, make([]T, r.width)...)
	l.forksMax, l.leavesMax = max(l.forksMax, r.count), max(l.leavesMax, r.width)
	queue, leaf := []int32{0}, 0
	word := func(child int32) uint16 {
		if nodes[child].left != noChild {
			queue = append(queue, child)
			return uint16(len(queue) - 1)
		}
		l.leaves[r.leaf+leaf] = T(nodes[child].value)
		leaf++
		return uint16(r.count + leaf - 1)
	}
	for next := 0; next < len(queue); next++ {
		n := nodes[queue[next]]
		l.forks = append(l.forks, fork{l.question(n), word(n.left), word(n.right)})
	}
	return r
}
