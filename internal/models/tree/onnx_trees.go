package tree

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// onnxTrees is an ensemble of trees in a node of the graph: see TreeEnsembleClassifier,
// TreeEnsembleRegressor and TreeEnsemble in
// https://github.com/onnx/onnx/blob/main/docs/Operators-ml.md. If that leaves something open, ONNX
// Runtime decides: onnxruntime/core/providers/cpu/ml/ tree_ensemble_common.h and
// tree_ensemble_aggregator.h of its sources.
type onnxTrees struct {
	trees   []onnxTree
	targets int // outputs, or classes
	double  bool
	after   after
	link    onnxLink
}

// onnxTree is a tree. The value of a leaf is its number.
type onnxTree struct {
	nodes  []split
	leaves int
	wide   bool // compares float64
	scores []leafScore
	first  int             // index of its root in the lists of the file
	places map[int64]int32 // index of its nodes by their ids, if the ids do not count from 0
}

// leafScore is the amount that a leaf adds to a target.
type leafScore struct {
	target, leaf int32
	score        float64
}

// place returns the index of a node in its tree.
func (t *onnxTree) place(id int64) (int32, bool) {
	if t.places == nil {
		return int32(id), id >= 0 && id < int64(len(t.nodes))
	}
	at, known := t.places[id]
	return at, known
}

// onnxMode is the comparison of a node; the numbers are those of TreeEnsemble.
type onnxMode int64

const (
	onnxLessEqual onnxMode = iota
	onnxLess
	onnxGreaterEqual
	onnxGreater
	onnxLeaf onnxMode = -1
)

var onnxModes = []string{"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER"}

// ask sets the question of a node: if it holds, the row goes to yes. No question holds for a
// missing value; it goes to yes if tracked is set.
func (m onnxMode) ask(n *split, limit float64, yes, no int32, tracked bool) error {
	n.left, n.right, n.defaultLeft = yes, no, tracked
	if m >= onnxGreaterEqual {
		n.left, n.right, n.defaultLeft = no, yes, !tracked
	}
	switch m {
	case onnxLessEqual, onnxGreater:
		n.atMost(limit)
	case onnxLess, onnxGreaterEqual:
		n.value = limit
	default:
		return fmt.Errorf("mode %s is not supported (hint: split on numbers alone, with one column of 0 and 1 for each category)", onnxModes[m])
	}
	return nil
}

func (n *onnxNode) ints(name string) []int64 {
	if a := n.attributes[name]; a != nil {
		return a.ints
	}
	return nil
}

// numbers returns float32 values, or the tensor of either type that may replace them.
func (n *onnxNode) numbers(name string) (values []float64, double bool, err error) {
	if a := n.attributes[name]; a != nil && a.tensor == nil {
		for _, value := range a.floats {
			values = append(values, float64(value))
		}
	}
	for _, name := range []string{name, name + "_as_tensor"} {
		a := n.attributes[name]
		if a == nil || a.tensor == nil {
			continue
		}
		if kind := a.tensor.kind; len(values) > 0 || kind != onnxFloat && kind != onnxDouble {
			return nil, false, fmt.Errorf("%s: a tensor of type %d, or beside another one, is not supported", name, kind)
		}
		values, double = a.tensor.values, a.tensor.kind == onnxDouble
	}
	return values, double, nil
}

func (n *onnxNode) word(name, otherwise string) string {
	if a := n.attributes[name]; a != nil {
		return a.text
	}
	return otherwise
}

func (n *onnxNode) integer(name string, otherwise int64) int64 {
	if a := n.attributes[name]; a != nil {
		return a.integer
	}
	return otherwise
}

// trees reads an ensemble over the columns of its input.
func (n *onnxNode) trees(columns []int32) (*onnxTrees, error) {
	t := &onnxTrees{}
	var err error
	switch n.op {
	case "TreeEnsemble":
		err = n.readEnsemble(t)
	default:
		err = n.readNodes(t)
	}
	if err != nil {
		return nil, err
	}
	if len(t.trees) == 0 {
		return nil, errors.New("no trees")
	}
	for i := range t.trees {
		if err := t.trees[i].sortScores(); err != nil {
			return nil, fmt.Errorf("tree %d: %w", i, err)
		}
	}
	for i, tree := range t.trees {
		for _, node := range tree.nodes {
			if node.left == noChild {
				continue
			}
			if int(node.input) >= len(columns) {
				return nil, fmt.Errorf("nodes_featureids: input %d, of tree %d, of %d columns", node.input, i, len(columns))
			}
		}
		for j := range tree.nodes {
			if node := &tree.nodes[j]; node.left != noChild {
				node.input = columns[node.input]
			}
		}
	}
	if n.op == "TreeEnsembleClassifier" {
		return t, n.classes(t)
	}
	return t, n.targets(t)
}

// readNodes reads the trees of TreeEnsembleClassifier and TreeEnsembleRegressor. The file has one
// list for each property of the nodes. The nodes of a tree are adjacent and begin with its root.
// Further lists have the scores of leaves.
func (n *onnxNode) readNodes(t *onnxTrees) error {
	prefix := "target_"
	if n.op == "TreeEnsembleClassifier" {
		prefix = "class_"
	}
	limits, double, err := n.numbers("nodes_values")
	if err != nil {
		return err
	}
	scores, wide, err := n.numbers(prefix + "weights")
	if err != nil {
		return err
	}
	t.double = double || wide
	treeOf, nodeOf := n.ints("nodes_treeids"), n.ints("nodes_nodeids")
	modes := n.attributes["nodes_modes"]
	for name, length := range map[string]int{
		"nodes_nodeids": len(nodeOf), "nodes_featureids": len(n.ints("nodes_featureids")), "nodes_values": len(limits),
		"nodes_truenodeids": len(n.ints("nodes_truenodeids")), "nodes_falsenodeids": len(n.ints("nodes_falsenodeids")),
	} {
		if length != len(treeOf) {
			return fmt.Errorf("%s: %d values for %d nodes", name, length, len(treeOf))
		}
	}
	if modes == nil || len(modes.texts) != len(treeOf) {
		return fmt.Errorf("nodes_modes: not %d values", len(treeOf))
	}
	numbers := map[int64]int{} // index of trees by their ids
	for first := 0; first < len(treeOf); {
		end := first + 1
		for end < len(treeOf) && treeOf[end] == treeOf[first] {
			end++
		}
		if _, known := numbers[treeOf[first]]; known {
			return fmt.Errorf("nodes_treeids[%d]: the nodes of tree %d are not beside each other", first, treeOf[first])
		}
		numbers[treeOf[first]] = len(t.trees)
		if len(t.trees) == treesMax || end-first > nodesMax-1 {
			return fmt.Errorf("nodes_treeids: tree %d of %d nodes is not supported (at most %d of %d)", len(t.trees), end-first, treesMax, nodesMax-1)
		}
		tree := onnxTree{nodes: make([]split, end-first), first: first}
		if err := n.oneTree(&tree, limits, modes.texts); err != nil {
			return err
		}
		t.trees = append(t.trees, tree)
		first = end
	}
	return n.readScores(t, prefix, scores, numbers)
}

// oneTree reads the nodes of one tree.
func (n *onnxNode) oneTree(tree *onnxTree, limits []float64, modes []string) error {
	ids := n.ints("nodes_nodeids")[tree.first:][:len(tree.nodes)]
	counted := true
	for i, id := range ids {
		counted = counted && id == int64(i)
	}
	if !counted {
		tree.places = map[int64]int32{}
		for i, id := range ids {
			if _, known := tree.places[id]; known {
				return fmt.Errorf("nodes_nodeids[%d]: node %d occurs in its tree twice", tree.first+i, id)
			}
			tree.places[id] = int32(i)
		}
	}
	for i := range tree.nodes {
		if err := n.oneNode(tree, limits[tree.first+i], modes[tree.first+i], i); err != nil {
			return err
		}
	}
	met, wrong := checkShape(tree.nodes)
	if wrong != nil {
		name := [...]string{ofValue: "nodes_values", ofInput: "nodes_featureids", ofLeft: "nodes_truenodeids or nodes_falsenodeids", ofRight: "nodes_falsenodeids or nodes_truenodeids"}[wrong.property]
		return fmt.Errorf("%s[%d]: %s", name, tree.first+wrong.node, wrong.text)
	}
	if met != len(tree.nodes) {
		return fmt.Errorf("nodes_treeids[%d]: %d nodes of the tree are out of its root's reach", tree.first, len(tree.nodes)-met)
	}
	return nil
}

// oneNode reads the node at index at of its tree.
func (n *onnxNode) oneNode(tree *onnxTree, limit float64, mode string, at int) error {
	node, i := &tree.nodes[at], tree.first+at
	if mode == "LEAF" {
		*node = split{left: noChild, right: noChild, value: float64(tree.leaves)}
		tree.leaves++
		return nil
	}
	asked := slices.Index(onnxModes, mode)
	if asked < 0 {
		return fmt.Errorf("nodes_modes[%d]: mode %q is not known", i, clip([]byte(mode)))
	}
	var children [2]int32
	for side, name := range []string{"nodes_truenodeids", "nodes_falsenodeids"} {
		child, known := tree.place(n.ints(name)[i])
		if !known {
			return fmt.Errorf("%s[%d]: no node %d in its tree", name, i, n.ints(name)[i])
		}
		children[side] = child
	}
	err := n.ask(node, onnxMode(asked), i, limit, children)
	if err != nil {
		return fmt.Errorf("node %d: %w", i, err)
	}
	return nil
}

// ask sets the split from index i of the lists.
func (n *onnxNode) ask(node *split, mode onnxMode, i int, limit float64, children [2]int32) error {
	input, tracks := n.ints("nodes_featureids")[i], n.ints("nodes_missing_value_tracks_true")
	if input < 0 || input > inputsMax {
		return fmt.Errorf("nodes_featureids: input %d is not supported (at most %d)", input, inputsMax)
	}
	if limit != limit {
		return errors.New("the threshold is NaN")
	}
	node.input = int32(input)
	return mode.ask(node, limit, children[0], children[1], i < len(tracks) && tracks[i] == 1)
}

// readScores gives the leaves their scores. It ignores the scores of other nodes, as ONNX Runtime
// does.
func (n *onnxNode) readScores(t *onnxTrees, prefix string, scores []float64, numbers map[int64]int) error {
	targets, treeOf, nodeOf := n.ints(prefix+"ids"), n.ints(prefix+"treeids"), n.ints(prefix+"nodeids")
	if len(targets) != len(scores) || len(treeOf) != len(scores) || len(nodeOf) != len(scores) {
		return fmt.Errorf("%sweights: %d values for %d, %d and %d of %[1]sids, %[1]streeids and %[1]snodeids", prefix, len(scores), len(targets), len(treeOf), len(nodeOf))
	}
	for i, score := range scores {
		number, known := numbers[treeOf[i]]
		if !known {
			return fmt.Errorf("%streeids[%d]: no tree %d", prefix, i, treeOf[i])
		}
		tree := &t.trees[number]
		place, known := tree.place(nodeOf[i])
		if !known {
			return fmt.Errorf("%snodeids[%d]: no node %d in tree %d", prefix, i, nodeOf[i], treeOf[i])
		}
		if node := tree.nodes[place]; node.left == noChild {
			if err := tree.addScore(int(node.value), targets[i], score); err != nil {
				return fmt.Errorf("%sids[%d]: %w", prefix, i, err)
			}
		}
	}
	return nil
}

func (t *onnxTree) addScore(leaf int, target int64, score float64) error {
	if target < 0 || target >= outputsMax {
		return fmt.Errorf("output %d is not supported (at most %d)", target, outputsMax-1)
	}
	if math.IsNaN(score) || math.IsInf(score, 0) {
		return fmt.Errorf("a leaf's score is %g, not finite", score)
	}
	t.scores = append(t.scores, leafScore{int32(target), int32(leaf), score})
	return nil
}

// sortScores sorts the scores by target and leaf.
func (t *onnxTree) sortScores() error {
	slices.SortFunc(t.scores, func(a, b leafScore) int {
		if a.target != b.target {
			return int(a.target - b.target)
		}
		return int(a.leaf - b.leaf)
	})
	for i := 1; i < len(t.scores); i++ {
		if a, b := t.scores[i-1], t.scores[i]; a.target == b.target && a.leaf == b.leaf {
			return fmt.Errorf("a leaf has two scores for output %d", a.target)
		}
	}
	return nil
}

// readEnsemble reads the trees of TreeEnsemble: lists of splits and of leaves.
func (n *onnxNode) readEnsemble(t *onnxTrees) error {
	limits, double, err := n.numbers("nodes_splits")
	if err != nil {
		return err
	}
	scores, _, err := n.numbers("leaf_weights")
	if err != nil {
		return err
	}
	t.double = double
	modes := n.attributes["nodes_modes"]
	splits := len(n.ints("nodes_featureids"))
	for name, length := range map[string]int{
		"nodes_splits": len(limits), "nodes_truenodeids": len(n.ints("nodes_truenodeids")), "nodes_falsenodeids": len(n.ints("nodes_falsenodeids")),
		"nodes_trueleafs": len(n.ints("nodes_trueleafs")), "nodes_falseleafs": len(n.ints("nodes_falseleafs")),
	} {
		if length != splits {
			return fmt.Errorf("%s: %d values for %d nodes", name, length, splits)
		}
	}
	if modes == nil || modes.tensor == nil || len(modes.tensor.values) != splits {
		return fmt.Errorf("nodes_modes: not %d values", splits)
	}
	targets := n.ints("leaf_targetids")
	if len(targets) != len(scores) {
		return fmt.Errorf("leaf_weights: %d values for %d leaf_targetids", len(scores), len(targets))
	}
	met := make([]bool, splits)
	for _, root := range n.ints("tree_roots") {
		if len(t.trees) == treesMax {
			return fmt.Errorf("tree_roots: more than %d trees", treesMax)
		}
		b := ensembleReader{node: n, limits: limits, modes: modes.tensor.values, targets: targets, scores: scores, met: met}
		if err := b.read(root); err != nil {
			return fmt.Errorf("tree %d: %w", len(t.trees), err)
		}
		t.trees = append(t.trees, b.tree)
	}
	return nil
}

// ensembleReader reads one tree of TreeEnsemble.
type ensembleReader struct {
	node                  *onnxNode
	limits, modes, scores []float64
	targets               []int64
	met                   []bool // over all trees
	tree                  onnxTree
	queue                 []int64 // splits and leaves that are children, in the order of the nodes
	leaf                  []bool
}

func (b *ensembleReader) read(root int64) error {
	b.queue, b.leaf = []int64{root}, []bool{false}
	for at := 0; at < len(b.queue); at++ {
		if len(b.queue) > nodesMax-1 {
			return fmt.Errorf("more than %d nodes are not supported", nodesMax-1)
		}
		place := b.queue[at]
		if b.leaf[at] {
			if place < 0 || place >= int64(len(b.scores)) {
				return fmt.Errorf("leaf %d of %d", place, len(b.scores))
			}
			b.tree.nodes = append(b.tree.nodes, split{left: noChild, right: noChild, value: float64(b.tree.leaves)})
			b.tree.leaves++
			if err := b.tree.addScore(b.tree.leaves-1, b.targets[place], b.scores[place]); err != nil {
				return fmt.Errorf("leaf_targetids[%d]: %w", place, err)
			}
			continue
		}
		if err := b.split(place); err != nil {
			return err
		}
	}
	return nil
}

func (b *ensembleReader) split(place int64) error {
	if place < 0 || place >= int64(len(b.met)) || b.met[place] {
		return fmt.Errorf("node %d of %d does not exist or has another parent", place, len(b.met))
	}
	b.met[place] = true
	var children [2]int32
	for side, name := range []string{"true", "false"} {
		children[side] = int32(len(b.queue))
		b.queue = append(b.queue, b.node.ints("nodes_" + name + "nodeids")[place])
		b.leaf = append(b.leaf, b.node.ints("nodes_" + name + "leafs")[place] != 0)
	}
	mode := onnxMode(b.modes[place])
	if mode < 0 || int(mode) >= len(onnxModes) {
		return fmt.Errorf("nodes_modes[%d]: mode %d is not known", place, mode)
	}
	var node split
	if err := b.node.ask(&node, mode, int(place), b.limits[place], children); err != nil {
		return fmt.Errorf("node %d: %w", place, err)
	}
	b.tree.nodes = append(b.tree.nodes, node)
	return nil
}
