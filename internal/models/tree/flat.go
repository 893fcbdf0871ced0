package tree

import (
	"math"
	"math/bits"
	"slices"
)

// node is one node of a flat tree. A row goes from node i to node i + step + (1 if slot[input] >
// below else 0). This adds the carry of a comparison and needs no branch.
type node struct {
	below uint32 // the greatest key that goes left
	input uint16 // index of the slot in a row
	step  uint16 // to the left child; the right one is next to it
}

// flat is an ensemble as arrays, laid out to score rows one by one: see blocks for many rows.
//
// Values and thresholds are compared as keys: integers in the order of the floats, so that -0
// equals 0, denormals count and a comparison takes one cycle. A row is scored from 2*inputs+1
// slots:
//
//	slot[i]        = the value's key, or MaxUint32 if it is missing
//	slot[inputs+i] = the value's key, or 0 if it is missing
//	slot[2*inputs] = 0
//
// So a missing value takes the default of its node without a test: a node with default right reads
// the first copy, and a node with default left the second. A leaf compares slot[2*inputs] with
// MaxUint32 and has step 0. So every row takes exactly depth steps and needs no test for a leaf.
// Scores are added in the order of the trees, in T, the type of the framework's sums. So the
// sum equals the framework's bit for bit, and depends on that row alone.
//
// If zero counts as missing for an input, it has two more slots behind these. A categorical input
// has one slot behind those: see setMargin.
type flat[T number] struct {
	nodes       []node // tree after tree, each breadth first
	leaves      []T    // score of nodes[i], if it is a leaf
	trees       []span // output after output
	outputs     []output[T]
	inputs      int
	deepest     int32    // most steps of any tree
	categorical []int32  // inputs with categorical splits
	zero        []int32  // inputs with splits that treat zero as missing
	sets        []uint32 // of the categorical splits
	codes       coding
}

// output is one margin of a row: its trees, in their order.
type output[T number] struct {
	base  T
	trees []span
}

// span is the place of one tree.
type span struct {
	first uint32 // its root in nodes
	depth int32  // steps from the root to the deepest leaf, of the trees that are walked together
}

// lanes is how many independent walks run interleaved, because each step of a walk waits for two
// loads in sequence. Eight are 1.3 times as fast as four and as many as the registers of amd64
// hold. They take as many steps as the deepest of their trees needs: a step at a leaf stays there.
const lanes = 8

// flatten lays out a checked ensemble; base has one margin for each output.
func flatten[T number](e *ensemble, base []T) *flat[T] {
	f := &flat[T]{inputs: int(e.inputs), codes: e.codes}
	f.categorical, f.zero = e.special()
	b := builder[T]{flat: f, ensemble: e, offsets: map[int32]int32{}}
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
		f.outputs = append(f.outputs, output[T]{margin, f.trees[counts[i]:counts[i+1]]})
		for group := range slices.Chunk(f.outputs[i].trees, lanes) {
			if len(group) < lanes {
				break
			}
			deepest := slices.MaxFunc(group, func(a, b span) int { return int(a.depth - b.depth) })
			for j := range group {
				group[j].depth = deepest.depth
			}
			f.deepest = max(f.deepest, deepest.depth)
		}
	}
	return f
}

// builder appends trees to a flat.
type builder[T number] struct {
	*flat[T]
	*ensemble
	offsets map[int32]int32 // index in sets, by the index in listed
}

// add appends a tree whose shape was checked.
func (b *builder[T]) add(tree []split) {
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
			f.nodes[at.to] = node{below: math.MaxUint32, input: uint16(2 * f.inputs)}
			f.leaves[at.to] = T(from.value)
			continue
		}
		left := uint32(len(f.nodes))
		f.nodes, f.leaves = append(f.nodes, node{}, node{}), append(f.leaves, 0, 0)
		below, slot := b.test(from)
		f.nodes[at.to] = node{below, uint16(slot), uint16(left - at.to)}
		queue = append(queue, visit{from.left, left, at.depth + 1}, visit{from.right, left + 1, at.depth + 1})
	}
	f.trees = append(f.trees, span{first, queue[len(queue)-1].depth})
}

// test returns the greatest key that a split sends left, and its slot.
func (b *builder[T]) test(from split) (below uint32, slot int) {
	if from.categorical() {
		at, _ := slices.BinarySearch(b.categorical, from.input)
		return b.set(from), b.codesAt() + at
	}
	slot = int(from.input)
	width := b.flat.inputs
	if from.zeroMissing {
		at, _ := slices.BinarySearch(b.zero, from.input)
		slot, width = 2*b.flat.inputs+1+at, len(b.zero)
	}
	if from.defaultLeft {
		slot += width
	}
	return key(float32(from.value)) - 1, slot
}

// special returns, in ascending order, the inputs with categorical splits, and the inputs with
// splits that treat zero as missing.
func (e *ensemble) special() (categorical, zero []int32) {
	for _, p := range e.parts {
		for _, n := range p.nodes {
			switch {
			case n.left == noChild:
			case n.categorical():
				categorical = addSorted(categorical, n.input)
			case n.zeroMissing:
				zero = addSorted(zero, n.input)
			}
		}
	}
	return categorical, zero
}

// addSorted adds a value to an ascending list, unless the list already has it.
func addSorted(list []int32, value int32) []int32 {
	at, known := slices.BinarySearch(list, value)
	if known {
		return list
	}
	return slices.Insert(list, at, value)
}

// key maps floats to integers in the same order, above 0 and below MaxUint32, and -0 to the key of
// 0. It converts sign and magnitude to two's complement and inverts the sign bit.
func key(value float32) uint32 {
	bits := int32(math.Float32bits(value))
	if bits < 0 {
		bits = math.MinInt32 - bits
	}
	return uint32(bits) ^ 1<<31
}

// slotsOf returns the two slots of a value.
func slotsOf(value float32) (high, low uint32) {
	if value != value {
		return math.MaxUint32, 0
	}
	k := key(value)
	return k, k
}

// margin scores one row, eight trees at a time.
func (f *flat[T]) margin(walk walker[T], slots []uint32, sum T, trees []span) T {
	nodes, leaves := f.nodes, f.leaves
	if walk != nil && f.deepest <= walkDepthMax {
		for n := 0; len(trees) >= lanes; trees = trees[n:] {
			n = min(callWalks, len(trees)) &^ (lanes - 1)
			sum = walk(&nodes[0], &leaves[0], &slots[0], &trees[0], sum, n/lanes)
		}
	}
	for ; len(trees) >= lanes; trees = trees[lanes:] {
		t := (*[lanes]span)(trees)
		i0, i1, i2, i3 := uint64(t[0].first), uint64(t[1].first), uint64(t[2].first), uint64(t[3].first)
		i4, i5, i6, i7 := uint64(t[4].first), uint64(t[5].first), uint64(t[6].first), uint64(t[7].first)
		for range t[0].depth {
			i0 = nodes[i0].next(slots, i0)
			i1 = nodes[i1].next(slots, i1)
			i2 = nodes[i2].next(slots, i2)
			i3 = nodes[i3].next(slots, i3)
			i4 = nodes[i4].next(slots, i4)
			i5 = nodes[i5].next(slots, i5)
			i6 = nodes[i6].next(slots, i6)
			i7 = nodes[i7].next(slots, i7)
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
		i := uint64(t.first)
		for range t.depth {
			i = nodes[i].next(slots, i)
		}
		sum += leaves[i]
	}
	return sum
}

// next returns the child of node i that a row goes to. It compiles to a subtraction and an addition
// of its carry.
func (n *node) next(slots []uint32, i uint64) uint64 {
	_, right := bits.Sub64(uint64(n.below), uint64(slots[n.input]), 0)
	i, _ = bits.Add64(i, uint64(n.step), right)
	return i
}

// scratch returns memory for the slots of a row.
func (f *flat[T]) scratch() []uint32 { return make([]uint32, f.stride()) }

// stride returns the number of slots of a row.
func (f *flat[T]) stride() int { return f.codesAt() + len(f.categorical) }

// codesAt returns the index of the first slot of a code.
func (f *flat[T]) codesAt() int { return 2*f.inputs + 1 + 2*len(f.zero) }

// score writes the margins of consecutive rows.
func (f *flat[T]) score(k *kernel, slots []uint32, rows []float32, out []T) {
	width, walk := len(f.outputs), walkerOf[T](k)
	for ; len(out) > 0; rows, out = rows[f.inputs:], out[width:] {
		f.fill(slots, rows[:f.inputs])
		for o, of := range f.outputs {
			if len(f.categorical) > 0 {
				out[o] = f.setMargin(slots, of.base, of.trees)
			} else {
				out[o] = f.margin(walk, slots, of.base, of.trees)
			}
		}
	}
}

// fill writes the slots of one row.
func (f *flat[T]) fill(slots []uint32, row []float32) {
	high, low := slots[:len(row)], slots[len(row):2*len(row)]
	for i, value := range row {
		high[i], low[i] = slotsOf(value)
	}
	slots[2*len(row)] = 0
	zero := slots[2*len(row)+1:]
	for i, input := range f.zero {
		zero[i], zero[len(f.zero)+i] = slotsOf(withoutZero(row[input]))
	}
	codes := zero[2*len(f.zero):]
	for i, input := range f.categorical {
		codes[i] = f.codes.code(row[input])
	}
}
