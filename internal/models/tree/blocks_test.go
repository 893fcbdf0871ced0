package tree

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/model"
)

// fullTree returns a tree whose leaves all have one depth.
func fullTree(random *rand.Rand, depth, inputs int) []split {
	nodes := make([]split, 2<<depth-1)
	for i := range nodes {
		nodes[i] = split{left: noChild, right: noChild, value: float64(random.Float32())}
		if i < 1<<depth-1 {
			nodes[i] = split{
				left: int32(2*i + 1), right: int32(2*i + 2), input: int32(random.IntN(inputs)),
				value: float64(random.Float32() - 0.5), defaultLeft: random.IntN(2) == 0,
			}
		}
	}
	return nodes
}

// levelTree returns a full tree that asks one question at each depth.
func levelTree(random *rand.Rand, depth, inputs int) []split {
	nodes := fullTree(random, depth, inputs)
	for level := range depth {
		first := 1<<level - 1
		for i := first; i < 2*first+1; i++ {
			n := nodes[first]
			n.left, n.right = nodes[i].left, nodes[i].right
			nodes[i] = n
		}
	}
	return nodes
}

// chain returns a tree in which each split has a leaf as its right child.
func chain(random *rand.Rand, depth int) []split {
	leaf := func() split { return split{left: noChild, right: noChild, value: float64(random.Float32())} }
	nodes := []split{leaf()}
	for d := range depth {
		last := int32(max(0, len(nodes)-2))
		left := int32(len(nodes))
		nodes[last] = split{left: left, right: left + 1, input: int32(d % 7), value: float64(random.Float32() - 0.5)}
		nodes = append(nodes, leaf(), leaf())
	}
	return nodes
}

// Trees of each depth around what is laid out complete, of one leaf, of 256
// leaves and one more and of many, chains that are nearly empty, in runs of more
// trees than one call of a kernel takes and in between each other.
func TestTreesOfEveryShapeAreScoredAsWalked(t *testing.T) {
	const seed = 11
	random := rand.New(rand.NewPCG(seed, 0))
	shapes := map[string][][]split{"long runs": nil, "mixed": nil}
	for depth := range 11 {
		tree := fullTree(random, depth, 7)
		shapes[fmt.Sprintf("full tree of depth %d", depth)] = [][]split{tree}
		shapes[fmt.Sprintf("levels of depth %d", depth)] = [][]split{levelTree(random, depth, 7)}
		shapes[fmt.Sprintf("chain of depth %d", depth)] = [][]split{chain(random, depth)}
		for range 2*callTrees + 3 {
			if depth < 9 {
				shapes["long runs"] = append(shapes["long runs"], fullTree(random, depth, 7))
				shapes["long runs of levels"] = append(shapes["long runs of levels"], levelTree(random, depth, 7))
			}
		}
		for range 9 {
			shapes["mixed"] = append(shapes["mixed"], fullTree(random, random.IntN(10), 7), chain(random, depth), levelTree(random, random.IntN(9), 7))
		}
	}
	for _, leaves := range []int{2, 3, 100, 255, 256, 257, 511, 512, 513, 5000} {
		shapes[fmt.Sprintf("%d leaves", leaves)] = [][]split{randomTree(random, 2*leaves-1, 7)}
	}
	for range lanes + 1 {
		shapes["as deep as is walked in assembly"] = append(shapes["as deep as is walked in assembly"], chain(random, walkDepthMax))
		shapes["deeper"] = append(shapes["deeper"], chain(random, walkDepthMax+1))
	}
	for name, trees := range shapes {
		e := &ensemble{inputs: 7}
		for _, nodes := range trees {
			e.parts = append(e.parts, part{nodes: nodes})
		}
		base := []float32{0.25}
		if err := verify(e, flatten(e, base), layBlocks(e, base), kernels(), generate(e, verifyRows)); err != nil {
			t.Errorf("seed %d: %s: %v", seed, name, err)
		}
		double := []float64{1.0 / 3}
		if err := verify(e, flatten(e, double), layBlocks(e, double), kernels(), generate(e, verifyRows)); err != nil {
			t.Errorf("seed %d: %s, in float64: %v", seed, name, err)
		}
	}
}

// One input with more thresholds than a byte, two bytes and one call of a kernel
// can tell apart.
func TestEveryThresholdOfAnInputIsTold(t *testing.T) {
	random := rand.New(rand.NewPCG(12, 0))
	for _, trees := range []int{1, 3} {
		e := &ensemble{inputs: 1}
		for range trees {
			e.parts = append(e.parts, part{nodes: randomTree(random, nodesMax-1, 1)})
		}
		base := []float32{0}
		f, b := flatten(e, base), layBlocks(e, base)
		if c := b.columns[0]; c.steps < trees*30000 || len(c.sides[0].thresholds) < trees*15000 {
			t.Fatalf("only %d thresholds", c.steps)
		}
		var values []float32
		for _, n := range e.parts[trees-1].nodes[:3000] {
			if n.left != noChild {
				at := float32(n.value)
				values = append(values, at, math.Nextafter32(at, -1), math.Nextafter32(at, 1))
			}
		}
		want, got, s := make([]float32, len(values)), make([]float32, len(values)), b.scratch()
		f.score(&kernel{}, f.scratch(), values, want)
		for _, k := range kernels() {
			for from := 0; from < len(values); from += blockRows {
				end := min(from+blockRows, len(values))
				b.score(&k, s, values[from:end], got[from:end])
			}
			if !slices.Equal(got, want) {
				t.Errorf("kernel %s: margins differ", k.name)
			}
		}
	}
}

// Whatever an earlier block left in the memory of a call, and however many rows
// it has.
func TestBlocksThatAreNotFullScoreAsFullOnes(t *testing.T) {
	for _, name := range []string{"small-deep.json", "kind-3.2.0-classes-categories.ubj", "kind-3.2.0-categories-partition.ubj"} {
		m := load(t, name)
		g := readGolden(t, "testdata/"+strings.TrimSuffix(name, filepath.Ext(name))+".golden.gz")
		width, outputs := m.Info().Width(), m.MarginsPerRow()
		for _, k := range kernels() {
			s := of32(m).blocks.scratch()
			for n := blockRows; n > 0; n-- {
				from := n * 3 % 100
				rows, out := rounded(g.rows.Values[from*width:(from+n)*width]), make([]float32, n*outputs)
				of32(m).blocks.score(&k, s, rows, out)
				for i, margin := range out {
					if want := g.margins[i%outputs][from+i/outputs]; margin != want {
						t.Fatalf("%s, kernel %s, %d rows: row %d has margin %g, want %g", name, k.name, n, i/outputs, margin, want)
					}
				}
			}
		}
	}
}

// No question or leaf that a row meets can change without a red test, in any
// kernel.
func TestDamageToAnyPartOfBlocksIsNoticed(t *testing.T) {
	m := load(t, "small-squared.json")
	g := readGolden(t, "testdata/small-squared.golden.gz")
	questions, leaves := reachedParts(of32(m).blocks, g.rows)
	for _, k := range kernels() {
		tried := 0
		notice := func(what string, i int, damaged blocks[float32]) {
			other := scoredBy(m, choice{k, 1})
			of32(other).blocks = &damaged
			if tried++; differenceOf(other, g) == "" {
				t.Errorf("kernel %s: damage to %s %d is not noticed", k.name, what, i)
			}
		}
		for i := range questions {
			if questions[i] && i%2 == 0 {
				damaged := *of32(m).blocks
				damaged.questions = slices.Clone(damaged.questions)
				damaged.questions[i] = 0
				notice("question", i, damaged)
			}
		}
		for i := range leaves {
			if leaves[i] && i%2 == 0 {
				damaged := *of32(m).blocks
				damaged.leaves = slices.Clone(damaged.leaves)
				damaged.leaves[i] = math.Float32frombits(math.Float32bits(damaged.leaves[i]) ^ 1<<20)
				notice("leaf", i, damaged)
			}
		}
		if tried < 100 {
			t.Errorf("only %d damages were tried", tried)
		}
	}
}

// reachedParts returns the questions of complete trees that send some row to
// the right, and the leaves that some row ends in.
func reachedParts(b *blocks[float32], rows model.Rows) (questions, leaves []bool) {
	questions, leaves = make([]bool, len(b.questions)), make([]bool, len(b.leaves))
	s := b.scratch()
	for row := range rows.Len() {
		b.ask(&kernel{}, s, rounded(rows.Values[row*rows.Width:(row+1)*rows.Width]), 1)
		for _, r := range b.outputs[0].runs {
			for tree := range r.count {
				position := 0
				for level := range r.depth {
					at := r.first + tree*(1<<r.depth-1) + place(level, position)
					right := int(s.answers[b.questions[at]] & 1)
					questions[at] = questions[at] || right == 1
					position = 2*position + right
				}
				leaves[r.leaf+tree<<r.depth+position] = true
			}
		}
	}
	return questions, leaves
}

// A file of nearly empty trees is small.
func TestNearlyEmptyTreesTakeLittleMemory(t *testing.T) {
	random := rand.New(rand.NewPCG(14, 0))
	for depth, questions := range map[int]int{0: 3, 5: 63, 6: 63, 7: 0, 8: 0, 9: 0} {
		e := &ensemble{inputs: 7, parts: []part{{nodes: chain(random, depth)}}}
		if got := len(layBlocks(e, []float32{0}).questions); got != questions {
			t.Errorf("a chain of depth %d takes %d questions, want %d", depth, got, questions)
		}
	}
	e := &ensemble{inputs: 7, parts: []part{{nodes: fullTree(random, 8, 7)}}}
	if got := len(layBlocks(e, []float32{0}).questions); got != 255 {
		t.Errorf("a full tree of depth 8 takes %d questions", got)
	}
}

func TestSetsTooLargeForBlocksAreScoredRowByRow(t *testing.T) {
	for category, inBlocks := range map[int]bool{8*chunksMax - 2: true, 8*chunksMax - 1: false, categoriesMax - 1: false} {
		m := changed(t, withSets, func(o object) { tree(o, 0)["categories"] = list{1, category, 0} })
		if of32(m).blocks != nil != inBlocks {
			t.Errorf("category %d: blocks %v", category, of32(m).blocks != nil)
		}
		out := make([]float32, 200)
		rows := rowsOf(slices.Repeat([]float32{float32(category), 0, -1}, 200)...)
		rows.Width = 3
		if m.Margins(rows, out); out[0] != 1+2.5+0.125 || slices.Min(out) != slices.Max(out) {
			t.Errorf("category %d: margins %v", category, out[:3])
		}
	}
}
