package tree

import "fmt"

// columns is a tree as the file has it: one array per property of its nodes.
type columns struct {
	left, right, input          []int32
	defaultLeft, splitType      []int32
	value                       []float32
	categories                  []int32 // of all sets, one after the other
	setNodes, setStarts         []int32 // node of each set and its index in categories
	setSizes                    []int32
	vectors                     []float32 // scores of all leaves, if a leaf has several
	nodes, deleted, vectorWidth int64
}

func (d *decoder) treeParameters() error {
	return d.record(field{"num_nodes", d.countTo(&d.tree.nodes)}, field{"num_deleted", d.countTo(&d.tree.deleted)},
		field{"size_leaf_vector", d.countTo(&d.tree.vectorWidth)})
}

// identity refuses trees that are out of order: XGBoost orders them by id.
func (d *decoder) identity() error {
	id, err := d.integer()
	if err == nil && id != int64(d.count) {
		err = d.fault("tree %d is at place %d", id, d.count)
	}
	return err
}

// oneTree reads a tree and checks its shape.
func (d *decoder) oneTree(index int) error {
	if index == treesMax {
		return d.fault("more than %d trees", treesMax)
	}
	t := &d.tree
	*t = columns{
		left: t.left[:0], right: t.right[:0], input: t.input[:0], value: t.value[:0],
		defaultLeft: t.defaultLeft[:0], splitType: t.splitType[:0], categories: t.categories[:0],
		setNodes: t.setNodes[:0], setStarts: t.setStarts[:0], setSizes: t.setSizes[:0], vectors: t.vectors[:0],
	}
	if err := d.record(d.fields...); err != nil {
		return err
	}
	nodes, err := d.assemble()
	if err != nil {
		return err
	}
	if err := d.addSets(nodes); err != nil {
		return err
	}
	d.count++
	if t.vectorWidth > 1 {
		return d.splitVectors(nodes, index)
	}
	if err := d.checkShape(nodes); err != nil {
		return err
	}
	d.parts = append(d.parts, part{nodes, 0, int32(index), 1})
	return nil
}

// assemble turns the columns of a tree into nodes.
func (d *decoder) assemble() ([]split, error) {
	t := &d.tree
	n := len(t.left)
	if n == 0 || int64(n) != t.nodes {
		return nil, within("left_children", d.fault("%d values for %d nodes", n, t.nodes))
	}
	if n > nodesMax {
		return nil, d.fault("a tree of %d nodes is not supported (at most %d)", n, nodesMax)
	}
	for _, column := range []struct {
		name   string
		length int
	}{
		{"right_children", len(t.right)}, {"split_indices", len(t.input)},
		{"split_conditions", len(t.value)}, {"default_left", len(t.defaultLeft)},
	} {
		if column.length != n {
			return nil, within(column.name, d.fault("%d values for %d nodes", column.length, n))
		}
	}
	nodes := make([]split, n)
	for i := range nodes {
		nodes[i] = split{left: t.left[i], right: t.right[i], input: t.input[i], value: float64(t.value[i]), defaultLeft: t.defaultLeft[i] != 0}
	}
	return nodes, nil
}

// addSets gives the categorical splits of a tree their sets. If pruning turned a node into a leaf,
// its set is still in the file.
func (d *decoder) addSets(nodes []split) error {
	t := &d.tree
	if len(t.splitType) == 0 && len(t.setNodes) == 0 {
		return nil
	}
	if len(t.splitType) != len(nodes) {
		return within("split_type", d.fault("%d values for %d nodes", len(t.splitType), len(nodes)))
	}
	categorical := 0
	for i, kind := range t.splitType {
		if kind != 0 && kind != 1 {
			return within(fmt.Sprintf("split_type[%d]", i), d.fault("a split of type %d is not supported", kind))
		}
		categorical += int(kind)
	}
	sets := len(t.setNodes)
	if categorical != sets || len(t.setStarts) != sets || len(t.setSizes) != sets {
		return within("categories_nodes", d.fault("%d nodes, %d segments and %d sizes for %d categorical splits", sets, len(t.setStarts), len(t.setSizes), categorical))
	}
	end := int64(0) // end of the previous set: overlapping sets could take the square of the file's size
	for i, node := range t.setNodes {
		place := func(column string, err error) error { return within(fmt.Sprintf("%s[%d]", column, i), err) }
		if node < 0 || int(node) >= len(nodes) || t.splitType[node] != 1 || i > 0 && node <= t.setNodes[i-1] {
			return place("categories_nodes", d.fault("%d is not the next categorical split", node))
		}
		from, size := int64(t.setStarts[i]), int64(t.setSizes[i])
		if from != end || size < 1 || size > int64(len(t.categories))-from {
			return place("categories_segments", d.fault("%d categories from place %d, where %d of %d are used", size, from, end, len(t.categories)))
		}
		end += size
		set := t.categories[from:end]
		previous := int32(-1)
		for _, category := range set {
			if category <= previous || category >= categoriesMax {
				return place("categories_segments", d.fault("category %d behind %d (hint: they ascend, up to %d)", category, previous, categoriesMax-1))
			}
			previous = category
		}
		if d.setWords += setWords(previous); d.setWords > setWordsMax {
			return place("categories_segments", d.fault("the sets of categories take more than %d MiB", setWordsMax>>18))
		}
		nodes[node].set = segment{int32(len(d.listed)), int32(len(d.listed) + len(set))}
		d.listed = append(d.listed, set...)
	}
	return nil
}

// splitVectors splits a tree with vector leaves into one tree for each output. The right child of a
// leaf is the index of its scores.
func (d *decoder) splitVectors(nodes []split, index int) error {
	t := &d.tree
	if len(t.vectors) == 0 {
		return d.fault("leaves that are vectors of %d scores without leaf_weights: XGBoost before 3.2 wrote them and 3.2 cannot read them; train the model again", t.vectorWidth)
	}
	if t.vectorWidth > outputsMax {
		return within("tree_param.size_leaf_vector", d.fault("leaves of %d scores are not supported (at most %d)", t.vectorWidth, outputsMax))
	}
	width := int(t.vectorWidth)
	for output := range width {
		own := make([]split, len(nodes))
		copy(own, nodes)
		for i := range own {
			if own[i].left != noChild {
				continue
			}
			at := int(own[i].right)
			if at < 0 || at >= len(t.vectors)/width {
				return within(fmt.Sprintf("right_children[%d]", i), d.fault("leaf %d of %d", at, len(t.vectors)/width))
			}
			own[i].right, own[i].value = noChild, float64(t.vectors[at*width+output])
		}
		if err := d.checkShape(own); err != nil {
			return err
		}
		d.parts = append(d.parts, part{own, int32(output), int32(index), int32(width)})
	}
	return nil
}

// checkShape refuses nodes that do not form a tree. It also refuses unreachable nodes that pruning
// did not delete.
func (d *decoder) checkShape(nodes []split) error {
	met, wrong := checkShape(nodes)
	if wrong != nil {
		name := [...]string{ofValue: "split_conditions", ofInput: "split_indices", ofLeft: "left_children", ofRight: "right_children"}[wrong.property]
		return within(fmt.Sprintf("%s[%d]", name, wrong.node), d.fault("%s", wrong.text))
	}
	if lost := len(nodes) - met; int64(lost) != d.tree.deleted {
		return d.fault("%d of %d nodes are out of the root's reach and %d are marked as deleted", lost, len(nodes), d.tree.deleted)
	}
	return nil
}
