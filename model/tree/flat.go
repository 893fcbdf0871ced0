package tree

import "math"

// node is one node of a flat tree. A row goes from node i to node
// i + step + (1 if slot[input] >= threshold else 0): a comparison, no branch.
type node struct {
	threshold int32  // a key
	input     uint16 // of the slots of a row
	step      uint16 // to the left child; the right one is next to it
}

// flat is an ensemble as arrays, laid out for speed.
//
// Values and thresholds are compared as keys: integers in the order of the
// floats, so that -0 equals 0, denormals count and a comparison takes one
// cycle. A row is scored from 2*inputs+1 slots:
//
//	slot[i]        = the value's key, or MaxInt32 where it is missing
//	slot[inputs+i] = the value's key, or MinInt32 where it is missing
//	slot[2*inputs] = 0
//
// so a missing value goes where its node sends it without a test: a node whose
// default is right reads the first copy, one whose default is left the second.
// A leaf compares slot[2*inputs] with MaxInt32 and has step 0, so that every
// row takes exactly depth steps and none asks whether it arrived. Scores are
// added in the order of the trees, in float32, which makes the sum that of
// XGBoost bit for bit and that of a row alone.
type flat struct {
	nodes  []node    // tree after tree, each breadth first
	leaves []float32 // score of nodes[i], where it is a leaf
	trees  []span
	base   float32
	inputs int
}

// span is the place of one tree.
type span struct {
	first uint32 // its root in nodes
	depth int32  // steps from the root to the deepest leaf
}

// lanes is how many independent walks run interleaved: each step of a walk
// waits for two loads, one after the other. Eight are 1.3 times as fast as four
// and as many as the registers of amd64 hold.
const lanes = 8

// Rows meet a tree in blocks, so that its nodes stay in the nearest cache; rows
// of many inputs in smaller blocks, so that their slots do.
const (
	blockRows  = 64
	blockSlots = 1 << 16
)

func flatten(e *ensemble, base float32) *flat {
	f := &flat{base: base, inputs: int(e.inputs)}
	for _, tree := range e.trees {
		f.add(tree)
	}
	return f
}

// add appends a tree whose shape was checked.
func (f *flat) add(tree []split) {
	type visit struct {
		from  int32  // in tree
		to    uint32 // in f.nodes
		depth int32
	}
	first := uint32(len(f.nodes))
	f.nodes, f.leaves = append(f.nodes, node{}), append(f.leaves, 0)
	queue := []visit{{0, first, 0}}
	for next := 0; next < len(queue); next++ {
		at := queue[next]
		from := tree[at.from]
		if from.left == noChild {
			f.nodes[at.to] = node{threshold: math.MaxInt32, input: uint16(2 * f.inputs)}
			f.leaves[at.to] = from.value
			continue
		}
		left := uint32(len(f.nodes))
		f.nodes, f.leaves = append(f.nodes, node{}, node{}), append(f.leaves, 0, 0)
		input := int(from.input)
		if from.defaultLeft {
			input += f.inputs
		}
		f.nodes[at.to] = node{key(from.value), uint16(input), uint16(left - at.to)}
		queue = append(queue, visit{from.left, left, at.depth + 1}, visit{from.right, left + 1, at.depth + 1})
	}
	f.trees = append(f.trees, span{first, queue[len(queue)-1].depth})
}

// key maps floats to integers of the same order, and -0 to 0: sign and
// magnitude to two's complement.
func key(value float32) int32 {
	bits := int32(math.Float32bits(value))
	if bits < 0 {
		bits = math.MinInt32 - bits
	}
	return bits
}

// keys returns the two slots of a value.
func keys(value float32) (high, low int32) {
	if value != value {
		return math.MaxInt32, math.MinInt32
	}
	k := key(value)
	return k, k
}

// margin scores one row, eight trees at a time.
func (f *flat) margin(slots []int32) float32 {
	sum, trees, nodes, leaves := f.base, f.trees, f.nodes, f.leaves
	for ; len(trees) >= lanes; trees = trees[lanes:] {
		t := (*[lanes]span)(trees)
		i0, i1, i2, i3 := t[0].first, t[1].first, t[2].first, t[3].first
		i4, i5, i6, i7 := t[4].first, t[5].first, t[6].first, t[7].first
		for range max(t[0].depth, t[1].depth, t[2].depth, t[3].depth, t[4].depth, t[5].depth, t[6].depth, t[7].depth) {
			i0 += nodes[i0].next(slots)
			i1 += nodes[i1].next(slots)
			i2 += nodes[i2].next(slots)
			i3 += nodes[i3].next(slots)
			i4 += nodes[i4].next(slots)
			i5 += nodes[i5].next(slots)
			i6 += nodes[i6].next(slots)
			i7 += nodes[i7].next(slots)
		}
		sum += leaves[i0]
		sum += leaves[i1]
		sum += leaves[i2]
		sum += leaves[i3]
		sum += leaves[i4]
		sum += leaves[i5]
		sum += leaves[i6]
		sum += leaves[i7]
	}
	for _, t := range trees {
		i := t.first
		for range t.depth {
			i += nodes[i].next(slots)
		}
		sum += leaves[i]
	}
	return sum
}

// next returns how far it is to the child that a row goes to.
func (n *node) next(slots []int32) uint32 {
	var right uint32 // this form compiles to a set, not to a branch
	if slots[n.input] >= n.threshold {
		right = 1
	}
	return uint32(n.step) + right
}

// nextLane is next for one of eight rows.
func (n *node) nextLane(slots [][lanes]int32, lane int) uint32 {
	var right uint32
	if slots[n.input][lane] >= n.threshold {
		right = 1
	}
	return uint32(n.step) + right
}

// margins scores a block of rows, tree by tree, eight rows at a time. len(out)
// is a multiple of lanes.
func (f *flat) margins(slots [][lanes]int32, out []float32) {
	for i := range out {
		out[i] = f.base
	}
	stride, nodes, leaves := f.stride(), f.nodes, f.leaves
	for _, t := range f.trees {
		rest := slots
		for o := out; len(o) >= lanes; o = o[lanes:] {
			s := rest[:stride]
			rest = rest[stride:]
			i0 := t.first
			i1, i2, i3, i4, i5, i6, i7 := i0, i0, i0, i0, i0, i0, i0
			for range t.depth {
				i0 += nodes[i0].nextLane(s, 0)
				i1 += nodes[i1].nextLane(s, 1)
				i2 += nodes[i2].nextLane(s, 2)
				i3 += nodes[i3].nextLane(s, 3)
				i4 += nodes[i4].nextLane(s, 4)
				i5 += nodes[i5].nextLane(s, 5)
				i6 += nodes[i6].nextLane(s, 6)
				i7 += nodes[i7].nextLane(s, 7)
			}
			eight := (*[lanes]float32)(o)
			eight[0] += leaves[i0]
			eight[1] += leaves[i1]
			eight[2] += leaves[i2]
			eight[3] += leaves[i3]
			eight[4] += leaves[i4]
			eight[5] += leaves[i5]
			eight[6] += leaves[i6]
			eight[7] += leaves[i7]
		}
	}
}

// scratch is the working memory of one call.
type scratch struct {
	row   []int32        // slots of one row
	block [][lanes]int32 // slots of a block, eight rows side by side
}

func (f *flat) scratch() *scratch {
	eights := min(blockRows/lanes, max(1, blockSlots/lanes/f.stride()))
	return &scratch{make([]int32, f.stride()), make([][lanes]int32, eights*f.stride())}
}

// stride is the slots of a row.
func (f *flat) stride() int { return 2*f.inputs + 1 }

// score writes the margins of rows, which lie one behind the other: whole
// eights in blocks, what is left over row by row.
func (f *flat) score(s *scratch, rows, out []float32) {
	for block := len(s.block) / f.stride() * lanes; len(out) >= lanes; {
		n := min(block, len(out)/lanes*lanes)
		for i := range n {
			f.fillLane(s.block[i/lanes*f.stride():], i%lanes, rows[i*f.inputs:(i+1)*f.inputs])
		}
		f.margins(s.block, out[:n])
		rows, out = rows[n*f.inputs:], out[n:]
	}
	for i := range out {
		f.fill(s.row, rows[i*f.inputs:(i+1)*f.inputs])
		out[i] = f.margin(s.row)
	}
}

// fill writes the slots of one row.
func (f *flat) fill(slots []int32, row []float32) {
	high, low := slots[:len(row)], slots[len(row):2*len(row)]
	for i, value := range row {
		high[i], low[i] = keys(value)
	}
	slots[2*len(row)] = 0
}

// fillLane writes the slots of one of eight rows.
func (f *flat) fillLane(slots [][lanes]int32, lane int, row []float32) {
	high, low := slots[:len(row)], slots[len(row):2*len(row)]
	for i, value := range row {
		high[i][lane], low[i][lane] = keys(value)
	}
	slots[2*len(row)][lane] = 0
}
