package tree

import (
	"math"
	"slices"
)

// node is one node of a flat tree. A row goes from node i to node
// i + step + (1 if slot[input] >= threshold else 0): a comparison, no branch.
type node struct {
	threshold int32  // a key
	input     uint16 // of the slots of a row
	step      uint16 // to the left child; the right one is next to it
}

// flat is an ensemble as arrays, laid out to score rows one by one: see blocks
// for many.
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
//
// Categorical splits have slots behind these: see setMargin.
type flat struct {
	nodes       []node    // tree after tree, each breadth first
	leaves      []float32 // score of nodes[i], where it is a leaf
	trees       []span    // output after output
	outputs     []output
	inputs      int
	categorical []int32  // inputs that categorical splits are on
	sets        []uint32 // of the categorical splits
}

// output is one margin of a row: the trees that make it, in their order.
type output struct {
	base  float32
	trees []span
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

// flatten lays out an ensemble that was checked; base has one margin for each
// output.
func flatten(e *ensemble, base []float32) *flat {
	f := &flat{inputs: int(e.inputs)}
	b := builder{flat: f, ensemble: e, slots: map[int32]int{}, offsets: map[int32]int32{}}
	counts := make([]int, len(base)+1)
	for _, p := range e.parts {
		counts[p.output+1]++
	}
	for i := range base { // where the trees of each output begin
		counts[i+1] += counts[i]
	}
	sorted := make([]int, len(e.parts))
	next := slices.Clone(counts)
	for i, p := range e.parts {
		sorted[next[p.output]] = i
		next[p.output]++
	}
	for _, i := range sorted {
		b.add(e.parts[i].nodes)
	}
	for i, margin := range base {
		f.outputs = append(f.outputs, output{margin, f.trees[counts[i]:counts[i+1]]})
	}
	return f
}

// builder appends trees to a flat.
type builder struct {
	*flat
	*ensemble
	slots   map[int32]int   // of the categorical inputs
	offsets map[int32]int32 // in sets, by the place in listed
}

// add appends a tree whose shape was checked.
func (b *builder) add(tree []split) {
	type visit struct {
		from  int32  // in tree
		to    uint32 // in f.nodes
		depth int32
	}
	f := b.flat
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
		threshold, slot := b.test(from)
		f.nodes[at.to] = node{threshold, uint16(slot), uint16(left - at.to)}
		queue = append(queue, visit{from.left, left, at.depth + 1}, visit{from.right, left + 1, at.depth + 1})
	}
	f.trees = append(f.trees, span{first, queue[len(queue)-1].depth})
}

// test returns threshold and slot of a split.
func (b *builder) test(from split) (threshold int32, slot int) {
	switch {
	case from.categorical():
		return b.set(from), b.slot(from.input)
	case from.defaultLeft:
		return key(from.value), int(from.input) + b.flat.inputs
	}
	return key(from.value), int(from.input)
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
func (f *flat) margin(slots []int32, sum float32, trees []span) float32 {
	nodes, leaves := f.nodes, f.leaves
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

// scratch returns memory for the slots of a row.
func (f *flat) scratch() []int32 { return make([]int32, f.stride()) }

// stride is the slots of a row.
func (f *flat) stride() int { return 2*f.inputs + 1 + len(f.categorical) }

// score writes the margins of rows, which lie one behind the other.
func (f *flat) score(slots []int32, rows, out []float32) {
	width := len(f.outputs)
	for ; len(out) > 0; rows, out = rows[f.inputs:], out[width:] {
		f.fill(slots, rows[:f.inputs])
		for o, of := range f.outputs {
			if len(f.categorical) > 0 {
				out[o] = f.setMargin(slots, of.base, of.trees)
			} else {
				out[o] = f.margin(slots, of.base, of.trees)
			}
		}
	}
}

// fill writes the slots of one row.
func (f *flat) fill(slots []int32, row []float32) {
	high, low := slots[:len(row)], slots[len(row):2*len(row)]
	for i, value := range row {
		high[i], low[i] = keys(value)
	}
	slots[2*len(row)] = 0
	codes := slots[2*len(row)+1:]
	for i, input := range f.categorical {
		codes[i] = code(row[input])
	}
}
